"""Parsing of command lines: an option of one value is given once; an unknown option gets the nearest name."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from duckanon.cli.codes import ERROR
from duckanon.cli.output import complain
from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Strict:
    """Parsing that both commands and their group share."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; raise for a repeated option, of which `typer` would keep the last value."""
        if not ctx.resilient_parsing:
            _check(self, ctx, args)
        try:
            read: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
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


def _check(command: Any, ctx: Any, args: list[str]) -> None:
    """Raise if an option is unknown, or is repeated and takes one value."""
    if not args:
        return
    try:
        _, _, order = command.make_parser(ctx).parse_args(list(args))
    except typer.TyperException as wrong:
        unknown = getattr(wrong, "option_name", None)
        if unknown is None or not hasattr(wrong, "possibilities"):
            raise
        if any(blank in unknown for blank in " \n"):
            raise DuckanonError("a text that begins with - is taken for an option: put -- before") from wrong
        raise DuckanonError(f"no option {unknown}{_nearest(unknown, ctx)}") from wrong
    for option, count in Counter(order).items():
        if count > 1 and isinstance(option, TyperOption) and not (option.multiple or option.is_eager):
            name = " or ".join([*option.opts, *option.secondary_opts])
            raise DuckanonError(f"{name} is given {count} times: give it once")


def _nearest(unknown: str, ctx: Any) -> str:
    """Question with the nearest known option, without regard to dashes."""
    known = {name.lstrip("-"): name for name in _option_names(ctx)}
    written = unknown.lstrip("-").replace("_", "-")
    near = [written] if written in known else get_close_matches(written, known, n=1)
    return f", did you mean {known[near[0]]}?" if near else f": {ctx.command_path} -h lists them"


def _option_names(ctx: Any) -> Iterable[str]:
    for parameter in ctx.command.get_params(ctx):
        if isinstance(parameter, TyperOption) and not parameter.hidden:
            yield from (*parameter.opts, *parameter.secondary_opts)
