"""The command ``suggest``: propose roles for the columns of a table or file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.api import files
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.options import DOCUMENT, Option, Table, command
from duckanon.cli.output import PASSED, complain
from duckanon.database import paths, templates
from duckanon.database.csv_files import Reading
from duckanon.errors import DuckanonError, SourceError
from duckanon.suggestion.find import query_of, suggest_query
from duckanon.suggestion.model import advice_of, printable

if TYPE_CHECKING:
    from duckanon.suggestion.model import Suggestion


@command(
    *DOCUMENT,
    sql=Option("the statement alone; warnings go to stderr", kind=bool),
    examples=(
        "duckanon suggest patients.csv",
        "duckanon suggest hospital.duckdb:patients --sql -o release.sql",
    ),
)
def suggest(
    table: Table,
    *,
    sql: bool,
    form: str,
    output: Path | None,
    reading: Reading,
    trust: bool,
) -> int:
    """Rank columns by uniqueness, propose a role for each, print a CREATE ANONYMIZED VIEW."""
    if sql and form != "text":
        raise DuckanonError(
            "--sql is the statement alone, --format json all that was found: give one of both"
        )
    check_output(output, table)
    path, _ = paths.split(table)
    with files.opened(table, trust=trust) as con:
        relation = files.relation(con, table, trust=trust, reading=reading)
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
        if output is None and not printable(suggestion):
            raise SourceError("names have characters that no terminal shows: write the statement to -o FILE")
        deliver(_statement(suggestion), output)
    else:
        deliver(suggestion.to_json() if form == "json" else suggestion.to_text(), output)
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
