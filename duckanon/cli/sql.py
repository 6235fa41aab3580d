"""The commands that run statements on a database: ``run``, ``sql``, ``list`` and ``refresh``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import duckdb
import typer

from duckanon.api.connection import connect
from duckanon.api.execute import Outcome, anonymized_views, refreshed
from duckanon.audits.html.frontier import frontier_page
from duckanon.cli.completion import of_file
from duckanon.cli.documents import show, show_rows
from duckanon.cli.flags import read_text
from duckanon.cli.options import Option, command
from duckanon.cli.output import ERROR, PASSED, VIOLATION, complain, note, tell
from duckanon.database import engine
from duckanon.database.interrupts import DONE_NOTE
from duckanon.database.paths import check_local, check_opened, check_readable, database_of, split
from duckanon.database.relations import Target, resolve
from duckanon.errors import DuckanonError, SourceError
from duckanon.policy.checks import Mode, checked
from duckanon.release.frontier import picture as drawn
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    import pyarrow as pa

    from duckanon.api.connection import Connection


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
        "a new .svg or .html file for the rows of EXPLAIN ... FRONTIER", (), "none",
        "--picture frontier.html",
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


@command("form", examples=("duckanon list hospital.duckdb", "duckanon list hospital.duckdb --format json"))
def list_releases(
    database: Annotated[Path, typer.Argument(metavar="DATABASE", help="a .duckdb file of yours")],
    *,
    form: str,
) -> int:
    """List the anonymized views of a database."""
    with _opened(database, read_only=True) as con:
        shown = anonymized_views(con.duckdb)
    show_rows(shown.column_names, list(zip(*shown.to_pydict().values(), strict=True)), form)
    return PASSED


@command(
    "effect", "form", "timeout",
    mode=Option(
        "make all classes again, or add classes of new subjects", get_args(Mode), "full", value="full"
    ),
    examples=(
        "duckanon refresh hospital.duckdb:patients_anon",
        "duckanon refresh hospital.duckdb --mode append --quiet",
    ),
)  # fmt: skip
def refresh(
    release: Annotated[
        str,
        typer.Argument(
            metavar="RELEASE",
            help="file.duckdb:view, or file.duckdb for all its releases",
            autocompletion=of_file,
        ),
    ],
    *,
    mode: str,
    effect: bool,
    form: str,
) -> int:
    """Release the present source of a view again.

    The view keeps its policy.
    """
    path, view = split(release)
    with _opened(path) as con:
        rows = anonymized_views(con.duckdb).select(["database_name", "schema_name", "view_name"]).to_pylist()
        targets = [Target(*row.values()) for row in rows]
        if not targets:
            raise SourceError(
                f"{str(path)!r} has no view to refresh: CREATE ANONYMIZED VIEW makes one; an exported file "
                "keeps no source"
            )
        if view:
            target = resolve(con.duckdb, parse_name(view))
            if target not in targets:
                raise SourceError(f"{release!r} is no release: duckanon list {path} shows them")
            targets = [target]
        for target in targets:
            show(refreshed(con.duckdb, target, effect=effect, mode=checked("mode", mode)), form)
    return PASSED


def _opened(database: Path, *, read_only: bool = False) -> Connection:
    """Connection to a database of the user, which exists."""
    check_local(database)
    check_readable(database)
    if not database_of(database):
        raise SourceError(f"{str(database)!r} is no DuckDB database: give a .duckdb file")
    check_opened(database)
    return connect(database, read_only=read_only, python_enable_replacements=False)


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
    # or HTML file for the rows of EXPLAIN ... FRONTIER. Errors name the file `name` of the script beside the
    # line.
    done = 0
    existed = database is not None and database.exists()
    if database is not None:
        check_local(database)
        check_opened(database)
        if database.is_file() and database.stat().st_size and not database_of(database):
            # DuckDB would open a CSV as views of a database in memory, where a release is lost at the end.
            raise SourceError(
                f"-d {str(database)!r} is no DuckDB database: name a file in SQL, FROM '{database}'"
            )
    if picture is not None and picture.exists():
        raise SourceError(f"{str(picture)!r} exists: a picture never overwrites, give a new name")
    try:
        # A file that cannot be written is opened for reading, so that its views can be audited.
        read_only = database is not None and existed and not os.access(database, os.W_OK)
        with connect(database or ":memory:", read_only=read_only, python_enable_replacements=False) as con:
            for outcome in con.outcomes(text, name=name, effect=effect):
                show(outcome, form)
                if isinstance(outcome, Outcome) and outcome.violated:
                    where = "" if outcome.place is None else f" ({outcome.place})"
                    why = f"{outcome.title}: the audit found a violation; the rest was not run{where}"
                    tell("error", why)
                    return VIOLATION
                if picture is not None and (rows := _frontier_rows(outcome)) is not None:
                    draw = frontier_page if picture.suffix == ".html" else drawn
                    picture.write_text(draw(rows), encoding="utf-8")
                    picture = None
                done += 1
    except (DuckanonError, duckdb.Error) as wrong:
        if not existed and engine.MISSING_TABLE.search(str(wrong)):
            where = "no --database is given" if database is None else f"{str(database)!r} is new"
            note(f"note: {where}, so there are no tables but those of this script")
        raise
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
