"""The commands and the parsing of their lines.

A command is loaded when it is used: a list of them needs neither their modules nor DuckDB. An option of one
value is given once, and an unknown option gets the nearest name.
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from duckanon.cli.output import ERROR, complain
from duckanon.errors import DuckanonError
from duckanon.policy.names import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping, Sequence


BASH = ("_DUCKANON_COMPLETE", "complete_bash")
"""Variable, and its value, by which bash asks for completion."""

UNCOMPLETED_PART = "_DUCKANON_BEFORE"
"""Variable with the part of a word that bash does not complete: what stands before the last : or =."""

_NUMBERS = {"valid integer": "a whole number", "valid number": "a number"}
"""What an option takes, by the words of typer for it."""

_LONG_DASHES = ("\u2013", "\u2014")
"""Dashes that word processors write for -."""

_TEXTS = {"MARK", "TEXT"}
"""Forms of options whose value may be the empty text."""

_SURPLUS = "Got unexpected extra argument(s) "
"""How the message of typer begins for arguments beyond those of a command."""


def epilog(first: str, second: str) -> str:
    """Two examples as the end of a help text."""
    return f"\b\nExamples:\n  {first}\n  {second}"


class _Strict:
    """Parsing that both commands and their group share."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; raise for a repeated option, of which `typer` would keep the last value."""
        given = list(args)
        if not ctx.resilient_parsing:
            _check(self, ctx, args)
        try:
            read: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.BadParameter as wrong:
            if "is not readable" in wrong.message:
                raise DuckanonError(f"{wrong.message.removesuffix('.')}: permission denied") from wrong
            if isinstance(wrong.param, TyperArgument):
                raise DuckanonError(f"{_shown(wrong.param, ctx)} is missing: {_form(self, ctx)}") from wrong
            name = None if wrong.param is None else wrong.param.opts[0]
            form = next((words for known, words in _NUMBERS.items() if known in wrong.message), None)
            if name is None or form is None:
                raise
            raise DuckanonError(f"{name} takes {form}, as in {name} 5") from wrong
        except typer.TyperException as wrong:
            before, surplus, words = wrong.format_message().partition(_SURPLUS)
            if before or not surplus:
                raise
            why = _form(self, ctx)
            if any(word.startswith(",") or word.endswith(",") for word in given):
                why = "a list has no blank after a comma"
            elif any(word.startswith(_LONG_DASHES) for word in given):
                why = "an option begins with -, not with a long dash"
            raise DuckanonError(f"{words.strip('()')!r} is too much: {why}") from wrong
        except typer.Exit as left:
            # Exit code 1 means a violation, and an unknown shell is an error.
            raise typer.Exit(ERROR if left.exit_code else 0) from left
        return read


class Command(_Strict, TyperCommand):
    """A command."""


class Group(_Strict, TyperGroup):
    """The commands, with the options before them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if there are no arguments; exit with an error, since nothing was done."""
        if not args and not ctx.resilient_parsing:
            complain(ctx.get_help())
            raise typer.Exit(ERROR)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; a DuckanonError with the nearest name for an unknown one."""
        if args and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            hint = suggestion(args[0].lower(), self.commands) or f": {ctx.command_path} -h lists them"
            raise DuckanonError(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


def _check(command: Any, ctx: Any, args: list[str]) -> None:
    """Raise if an option is unknown, or is repeated and takes one value."""
    if not args:
        return
    try:
        values, _, order = command.make_parser(ctx).parse_args(list(args))
    except typer.TyperException as wrong:
        unknown = getattr(wrong, "option_name", None)
        if unknown is not None and "requires an argument" in wrong.format_message():
            raise DuckanonError(f"{unknown} has no value: {ctx.command_path} -h shows its form") from wrong
        if unknown is None or not hasattr(wrong, "possibilities"):
            raise
        if any(blank in unknown for blank in " \n"):
            raise DuckanonError("a text that begins with - is taken for an option: put -- before") from wrong
        raise DuckanonError(f"no option {unknown}{_nearest(unknown, ctx)}") from wrong
    for option, count in Counter(order).items():
        if count > 1 and isinstance(option, TyperOption) and not (option.multiple or option.is_eager):
            name = " or ".join([*option.opts, *option.secondary_opts])
            raise DuckanonError(f"{name} is given {count} times: give it once")
    for option in order:
        # An empty path would be the current folder.
        if values.get(option.name) == "" and option.metavar not in _TEXTS:
            name = _shown(option, ctx) if isinstance(option, TyperArgument) else option.opts[0]
            raise DuckanonError(f"{name} is empty: give a value; a variable of the shell may be unset")


def _form(command: Any, ctx: Any) -> str:
    """Form of a command with its arguments: ``the form is duckanon anonymize IN OUT, with options``."""
    arguments = [_shown(one, ctx) for one in command.get_params(ctx) if isinstance(one, TyperArgument)]
    written = " ".join([ctx.command_path, *arguments])
    return f"the form is {written}, with options; {ctx.command_path} -h tells more"


def _shown(argument: TyperArgument, ctx: Any) -> str:
    """Name of an argument as the help shows it, in capitals and without the braces around it."""
    return "".join(argument.get_usage_pieces(ctx)).strip("{}[]").upper()


def _nearest(unknown: str, ctx: Any) -> str:
    """Question with the nearest known option, without regard to dashes."""
    known = {name.lstrip("-"): name for name in _option_names(ctx)}
    written = unknown.lstrip("-").replace("_", "-")
    written = written if written in known else written.lower()
    near = [written] if written in known else get_close_matches(written, known, n=1)
    return f", did you mean {known[near[0]]}?" if near else f": {ctx.command_path} -h lists them"


def _option_names(ctx: Any) -> Iterable[str]:
    for parameter in ctx.command.get_params(ctx):
        if isinstance(parameter, TyperOption) and not parameter.hidden:
            yield from (*parameter.opts, *parameter.secondary_opts)


COMMANDS = {
    "demo": ("demo.demo", "Release 299,285 real persons, and audit the release."),
    "suggest": ("suggest.suggest", "Propose a role for each column, and a policy."),
    "anonymize": ("anonymize.anonymize", "Release a file or table as a new file."),
    "audit": ("audit.audit", "Audit any table or file."),
    "verify": ("verify.verify", "Run every recorded audit of a release again."),
    "run": ("sql.run", "Run a script; stop at the first error or failed audit."),
    "sql": ("sql.sql", "Run statements and print their rows."),
    "list": ("sql.list_releases", "List the anonymized views of a database."),
    "refresh": ("sql.refresh", "Release the present source of a view again."),
    "compare": ("compare.compare", "Run your queries on a table and on its release."),
    "linkage": ("compare.linkage", "Attack a release, and count who is found."),
    "compare-releases": (
        "compare_releases.compare_releases",
        "Tell what two releases of the same data say together.",
    ),
    "stream": ("stream.stream", "Anonymize a stream, in classes of k within a delay."),
    "spark": ("spark.spark", "Release or audit where Spark runs."),
    "sql-kit": ("sql_kit.sql_kit", "Write install.sql and gate.sql for the stock duckdb."),
    "methods": ("demo.methods", "List the partition methods."),
}
"""Module and function of each command, and the first line of its docstring, in the order of the list."""

# A script is interrupted in one of its statements, which the error names. A stream handles Ctrl-C by itself,
# since it reports the tuples read so far.
_SCRIPTS = {"run", "sql", "stream"}


class Named(Command):
    """A command of which only the name and the summary are loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=COMMANDS[name][1])

    @cached_property
    def whole(self) -> Any:
        """The complete command, loaded on first use."""
        from duckanon.database.interrupts import interruptible

        name = str(self.name)
        module, _, function_name = COMMANDS[name][0].partition(".")
        function = getattr(import_module(f"duckanon.cli.{module}"), function_name)
        if isinstance(function, typer.Typer):  # it has commands of its own
            return typer.main.get_command(function)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        called = function if name in _SCRIPTS else interruptible(function)
        alone.command(name, cls=Command, epilog=function.epilog)(called)
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the arguments with the complete command; typer calls this first, to run or to complete it."""
        return self.whole.make_context(info_name, args, parent=parent, **extra)


def join_words(environment: MutableMapping[str, str]) -> None:
    """Join the words that bash splits at : and =, in the variables by which it asks for completion.

    bash completes the part behind the last : or =. The variable `UNCOMPLETED_PART` keeps what stands before.
    """
    # bash joins its words by line breaks.
    blank = "\n" if "\n" in environment["COMP_WORDS"] else " "
    joined: list[str] = []
    for word in environment["COMP_WORDS"].split(blank)[: int(environment["COMP_CWORD"]) + 1]:
        if joined and (word[:1] in {":", "="} or joined[-1].endswith((":", "="))):
            joined[-1] += word
        else:
            joined.append(word)
    if joined[-1].startswith("--") and "=" in joined[-1]:
        joined[-1:] = joined[-1].split("=", 1)
    begin = max(joined[-1].rfind(":"), joined[-1].rfind("=")) + 1
    before, joined[-1] = joined[-1][:begin], joined[-1][begin:]
    environment[UNCOMPLETED_PART] = before
    environment.update(COMP_WORDS=blank.join(joined), COMP_CWORD=str(len(joined) - 1))


def every_command() -> Sequence[Named]:
    """All commands in the order of the list."""
    return [Named(name) for name in COMMANDS]
