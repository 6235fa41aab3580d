"""The command ``suggest``: propose roles for the columns of a table or file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.codes import PASSED
from duckanon.cli.options import DocumentOptions, check_output, deliver, documenting
from duckanon.cli.output import complain
from duckanon.database import paths, templates
from duckanon.errors import DuckanonError, SourceError
from duckanon.suggestion import query_of, suggest_query
from duckanon.suggestion.model import advice_of, printable

if TYPE_CHECKING:
    from duckanon.suggestion.model import Suggestion


@documenting
def suggest(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="file.csv, file.parquet or file.duckdb:table")
    ],
    sql: Annotated[bool, typer.Option("--sql", help="the statement alone; warnings go to stderr")] = False,
    *,
    asked: DocumentOptions,
) -> int:
    """Rank columns by uniqueness, propose a role for each, print a CREATE ANONYMIZED VIEW."""
    if sql and asked.form != "text":
        raise DuckanonError(
            "--sql is the statement alone, --format json all that was found: give one of both"
        )
    check_output(asked.output, table)
    path, _ = paths.split(table)
    with progress.shown(sys.stderr), files.opened(table, trust=asked.trust) as con:
        relation = files.relation(con, table, trust=asked.trust, reading=asked.reading)
        parts = files.parts(con, table)
        suggestion = suggest_query(
            con,
            _rows(relation),
            name=table,
            view=f"{path.stem if parts is None else parts[-1]}_anon",
            source=_rows(files.read_by_anyone(table, relation)) if parts is None else query_of(parts),
            database=None if parts is None else str(path),
        )
    if sql:
        if asked.output is None and not printable(suggestion):
            raise SourceError("names have characters that no terminal shows: write the statement to -o FILE")
        deliver(_statement(suggestion), asked.output)
    else:
        deliver(suggestion.to_json() if asked.form == "json" else suggestion.to_text(), asked.output)
    return PASSED


def _statement(suggestion: Suggestion) -> str:
    """Return the statement; print the rest of the text, warnings and limits, to stderr."""
    for advice in advice_of(suggestion):
        complain(advice)
    if suggestion.statement is None:
        raise SourceError(f"{suggestion.name}: there is no statement to propose")
    return suggestion.statement


def _rows(relation: str) -> str:
    return templates.render("relation.sql.j2:rows", relation=relation).strip()
