"""The commands, each loaded only when it is used: a list of them needs neither their modules nor DuckDB."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from duckanon.cli.parsing import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARIES = {
    "run": "Run a script; stop at the first error or failed audit.",
    "sql": "Run statements and print their rows.",
    "stream": "Anonymize a stream: classes of k leave as soon as a tuple has waited for its delay.",
    "demo": "Release 299,285 real persons, with k alone and with t-closeness, and audit both.",
    "anonymize": "Release a file or table as a new file.",
    "audit": "Audit any table or file; exit code 1 when it violates a threshold.",
    "verify": "Run every recorded audit again; exit code 1 when anything differs or is violated.",
    "compare": "Run your aggregate queries on a table and its release, and report the error of each.",
    "compare-releases": (
        "Tell what two releases of the same data say together; exit code 1 when it is about fewer than k."
    ),
    "linkage": "Attack a release: link the records of its original to it, and count who is found.",
    "suggest": "Rank columns by uniqueness, propose a role for each, print a CREATE ANONYMIZED VIEW.",
    "spark": "Release or audit where Spark runs, for data that outgrow one machine.",
    "methods": "List the partition methods with guarantees, cost and source.",
}
"""First line of the docstring of each command, in the order of the list."""

# A script is interrupted in one of its statements, which the error names. A stream handles Ctrl-C by itself,
# since it reports the tuples read so far.
_SCRIPTS = {"run", "sql", "stream"}


class Named(Command):
    """A command of which only the name and the summary are loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=SUMMARIES[name])

    @cached_property
    def whole(self) -> Any:
        """The complete command, loaded on first use."""
        from duckanon.database.interrupts import interruptible

        name = str(self.name).replace("-", "_")
        function = getattr(import_module(f"duckanon.cli.{name}"), name)
        if isinstance(function, typer.Typer):  # it has commands of its own
            return typer.main.get_command(function)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cls=Command)(function if self.name in _SCRIPTS else interruptible(function))
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the arguments with the complete command; typer calls this first, to run or to complete it."""
        return self.whole.make_context(info_name, args, parent=parent, **extra)


def every_command() -> Sequence[Named]:
    """All commands in the order of the list."""
    return [Named(name) for name in SUMMARIES]
