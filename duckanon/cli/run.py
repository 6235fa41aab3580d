"""The command ``run``: run a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import duckdb
import typer

from duckanon.cli.flags import read_text
from duckanon.cli.options import Database, ShowEffect
from duckanon.cli.sql import run_text
from duckanon.database import engine
from duckanon.database.paths import database_of
from duckanon.errors import DuckanonError, SourceError


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SQL script; - for stdin")],
    database: Database = None,
    effect: ShowEffect = False,
) -> int:
    """Run a script; stop at the first error or failed audit."""
    if database_of(file):
        raise SourceError(
            f"{str(file)!r} is a database, not a script: give a script, as in "
            f"duckanon run FILE.sql --database {file}"
        )
    name = "stdin" if str(file) == "-" else file.name
    try:
        return run_text(read_text(file, "script", error=SourceError), database, name=name, effect=effect)
    except duckdb.Error as cause:
        failure = DuckanonError(engine.first_line(cause))
        place = engine.place(cause)
        raise (failure if place is None else failure.at(*place, name)) from cause
