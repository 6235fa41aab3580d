"""The commands that run statements: ``run`` a script, ``sql`` what stands in the arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import typer

from duckanon.api.connection import connect
from duckanon.api.execute import Outcome
from duckanon.cli.documents import show
from duckanon.cli.flags import read_text
from duckanon.cli.options import Option, command
from duckanon.cli.output import ERROR, PASSED, VIOLATION, complain, tell
from duckanon.database import engine
from duckanon.database.interrupts import DONE_NOTE
from duckanon.database.paths import check_local, check_opened, database_of
from duckanon.errors import DuckanonError, SourceError
from duckanon.release.frontier import picture as drawn

if TYPE_CHECKING:
    import pyarrow as pa


@command(
    "database", "effect", "form",
    examples=(
        "duckanon run nightly.sql --database hospital.duckdb",
        "duckanon suggest patients.csv --sql | duckanon run -",
    ),
)  # fmt: skip
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SQL script; - for stdin")],
    *,
    database: Path | None,
    effect: bool,
    form: str,
) -> int:
    """Run a script; stop at the first error or failed audit."""
    if database_of(file):
        raise SourceError(
            f"{str(file)!r} is a database, not a script: give a script, as in "
            f"duckanon run FILE.sql --database {file}"
        )
    name = "stdin" if str(file) == "-" else file.name
    try:
        script = read_text(file, "script", error=SourceError)
        return _run_text(script, database, name=name, effect=effect, form=form)
    except duckdb.Error as cause:
        failure = DuckanonError(engine.first_line(cause))
        place = engine.place(cause)
        raise (failure if place is None else failure.at(*place, name)) from cause


@command(
    "database", "effect", "form",
    picture=Option(
        "a new .svg file for the rows of EXPLAIN ... FRONTIER", (), "none", "--picture frontier.svg",
        "FILE", Path,
    ),
    examples=(
        'duckanon sql "SHOW ANONYMIZED VIEWS" --database hospital.duckdb',
        """duckanon sql "AUDIT TABLE 'p.parquet' WITH (quasi_identifiers = (age, zip), k = 5)" """.rstrip(),
    ),
)  # fmt: skip
def sql(
    text: Annotated[str, typer.Argument(help="one or several statements")],
    *,
    database: Path | None,
    picture: Path | None,
    effect: bool,
    form: str,
) -> int:
    """Run statements and print their rows."""
    if database_of(Path(text)):
        raise SourceError(f'{text!r} is a database, not a statement: duckanon sql "..." --database {text}')
    return _run_text(text, database, picture, effect=effect, form=form)


def _run_text(
    text: str,
    database: Path | None,
    picture: Path | None = None,
    *,
    name: str | None = None,
    effect: bool,
    form: str,
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
        with connect(database or ":memory:") as con:
            for outcome in con.outcomes(text, name=name, effect=effect):
                show(outcome, form)
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
