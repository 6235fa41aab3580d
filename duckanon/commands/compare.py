"""``duckanon compare``: the user's own aggregate queries on the original and on its release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from duckanon import engine, progress, sqlfiles
from duckanon.commands.options import PASSED
from duckanon.connection import connect
from duckanon.errors import DuckanonError, SourceError
from duckanon.interrupts import stopping
from duckanon.output import line
from duckanon.pairs import pair
from duckanon.workload import compared, read_queries


def compare(
    original: Annotated[str, typer.Argument(help="file.csv, file.parquet or file.duckdb:table")],
    release: Annotated[str, typer.Argument(help="file.csv, file.parquet or file.duckdb:table")],
    queries: Annotated[
        Path | None, typer.Option(help="SELECT statements over a relation called data")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text or json")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of stdout")] = None,
) -> int:
    """Run your aggregate queries on a table and its release, and report the error of each."""
    if form not in {"text", "json"}:
        raise DuckanonError(f"unknown format {form!r}: use text or json")
    if queries is None:
        raise SourceError(
            "--queries is missing: give a file of SELECT statements over a relation called data"
        )
    try:
        script = queries.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unread:
        raise SourceError(
            f"cannot read the queries {str(queries)!r}: {engine.first_line(unread)}"
        ) from unread
    wanted = read_queries(script)
    with progress.shown(sys.stderr), connect() as con:
        tables = pair(con.duckdb, original, release)
        lock = sqlfiles.render("workload/lock.sql.j2", paths=[str(path) for path in tables.paths])
        engine.run(con.duckdb, lock, "compare")
        found = compared(con.duckdb, tables[:2], (original, release), wanted, guard=stopping)
    text = found.to_json() if form == "json" else found.to_text()
    if output is None:
        line(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
    return PASSED
