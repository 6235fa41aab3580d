"""The commands, each loaded when it is asked for: neither they nor the database are needed to list them."""

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
"""By command, in the order in which they are listed: what its function says of itself."""

# A script is interrupted statement by statement, so that it can tell which.
# A stream tells itself how far it came, so it takes Ctrl-C before it comes here.
_SCRIPTS = {"run", "sql", "stream"}


class Named(Command):
    """A command of which only the name and what it does are known."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=SUMMARIES[name])

    @cached_property
    def whole(self) -> Any:
        """The command itself, loaded at the first question."""
        from duckanon.database.interrupts import interruptible

        name = str(self.name).replace("-", "_")
        function = getattr(import_module(f"duckanon.cli.{name}"), name)
        if isinstance(function, typer.Typer):  # it has commands of its own
            return typer.main.get_command(function)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cls=Command)(function if self.name in _SCRIPTS else interruptible(function))
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the arguments of the command; typer does this first, to run it and to complete its options."""
        return self.whole.make_context(info_name, args, parent=parent, **extra)


def every_command() -> Sequence[Named]:
    """All commands, in the order in which they are listed."""
    return [Named(name) for name in SUMMARIES]
