"""The command that proposes roles for the columns of a table or file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from duckanon import files, progress, sqlfiles
from duckanon.commands.options import PASSED, Form, Output, deliver, known_form
from duckanon.connection import connect
from duckanon.interrupts import stopping
from duckanon.suggestion.find import query_of, suggest_query


def suggest(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="file.csv, file.parquet or file.duckdb:table")
    ],
    form: Form = "text",
    output: Output = None,
) -> int:
    """Rank columns by uniqueness, propose a role for each, print a CREATE ANONYMIZED VIEW."""
    known_form(form)
    path, within = files.split(table)
    own = None if within is None else query_of(_parts(within))
    with progress.shown(sys.stderr), connect() as con, stopping(con.duckdb):
        query = sqlfiles.render("files/query.sql.j2", relation=files.relation(con.duckdb, table)).strip()
        found = suggest_query(
            con.duckdb,
            query,
            name=table,
            view=f"{path.stem if within is None else _parts(within)[-1]}_anon",
            source=own,
            database=None if within is None else str(path),
        )
    deliver(found.to_json() if form == "json" else found.to_text(), output)
    return PASSED


def _parts(table: str) -> list[str]:
    schema, _, name = table.rpartition(".")
    return [schema, name] if schema else [name]
