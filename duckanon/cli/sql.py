"""The command ``sql``: run statements and print their results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon import progress
from duckanon.api.connection import connect
from duckanon.api.execute import Outcome
from duckanon.cli.codes import ERROR, PASSED, VIOLATION
from duckanon.cli.options import Database, ShowEffect
from duckanon.cli.outcomes import show
from duckanon.cli.output import complain, tell
from duckanon.database.interrupts import DONE_NOTE
from duckanon.database.paths import check_local, check_opened, database_of
from duckanon.errors import SourceError
from duckanon.release.frontier import picture as drawn

if TYPE_CHECKING:
    import pyarrow as pa


def sql(
    text: Annotated[str, typer.Argument(help="one or several statements")],
    database: Database = None,
    picture: Annotated[
        Path | None, typer.Option(help="a new .svg file for the rows of EXPLAIN ... FRONTIER")
    ] = None,
    effect: ShowEffect = False,
) -> int:
    """Run statements and print their rows."""
    if database_of(Path(text)):
        raise SourceError(f'{text!r} is a database, not a statement: duckanon sql "..." --database {text}')
    return run_text(text, database, picture, effect=effect)


def run_text(
    text: str,
    database: Path | None,
    picture: Path | None = None,
    *,
    name: str | None = None,
    effect: bool = False,
) -> int:
    """Run a script, print the result of every statement, and return the exit code."""
    # Exit code 1: an audit found a violation, and no later statement runs. 2: Ctrl-C. `picture` is a new SVG
    # file for the rows of EXPLAIN ... FRONTIER. Errors name the file `name` of the script beside the line.
    done = 0
    if database is not None:
        check_local(database)
        check_opened(database)
    if picture is not None and picture.exists():
        raise SourceError(f"{str(picture)!r} exists: a picture never overwrites, give a new name")
    try:
        with progress.shown(sys.stderr), connect(database or ":memory:") as con:
            for outcome in con.outcomes(text, name=name, effect=effect):
                show(outcome)
                if isinstance(outcome, Outcome) and outcome.violated:
                    where = "" if outcome.place is None else f" ({outcome.place})"
                    why = f"{outcome.title}: the audit found a violation; the rest was not run{where}"
                    tell("error", why)
                    return VIOLATION
                if picture is not None and (rows := _frontier_rows(outcome)) is not None:
                    picture.write_text(drawn(rows), encoding="utf-8")
                    picture = None
                done += 1
    except KeyboardInterrupt as interrupt:
        late = DONE_NOTE in getattr(interrupt, "__notes__", ())
        if not (done or late):
            raise
        what = "it is done" if late else "it released nothing"
        complain(f"interrupted in statement {done + 1}: {what}; those before it have run")
        return ERROR
    if picture is not None:
        raise SourceError("--picture draws the rows of EXPLAIN ... FRONTIER, and no such statement was run")
    return PASSED


def _frontier_rows(outcome: object) -> pa.Table | None:
    return outcome.table if isinstance(outcome, Outcome) and outcome.title == "frontier" else None
