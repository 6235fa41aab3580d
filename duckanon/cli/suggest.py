"""The command ``suggest``: propose roles for the columns of a table or file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.api import files
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.options import DOCUMENT, SHARED, Option, Table, command
from duckanon.cli.output import PASSED, note
from duckanon.database import paths, templates
from duckanon.database.csv_files import Csv, Reading
from duckanon.errors import DuckanonError, SourceError
from duckanon.statements.grammar import Create
from duckanon.statements.options import options_to_policy
from duckanon.statements.parse import parse
from duckanon.statements.tokens import split
from duckanon.suggestion import query_of, suggest_query
from duckanon.suggestion.model import advice_of, printable

if TYPE_CHECKING:
    from duckanon.suggestion.model import Suggestion


@command(
    *DOCUMENT,
    form=SHARED["form"]._replace(
        meaning="format of the result; toml is the policy alone", choices=("text", "json", "toml")
    ),
    sql=Option("the statement alone; warnings go to stderr", kind=bool),
    examples=(
        "duckanon suggest patients.csv --format toml -o release.toml",
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
    """Propose a role for each column, and a policy.

    Columns are ranked by uniqueness; the proposal is a CREATE ANONYMIZED VIEW, or a policy file.
    """
    if sql and form != "text":
        raise DuckanonError(
            f"--sql is the statement alone, --format {form} is something else: give one of both"
        )
    check_output(output, table)
    with files.opened(table, trust=trust) as con:
        read = files.source(con, table, trust=trust, reading=reading)
        relation = read.relation if isinstance(read, Csv) else read
        parts = files.parts(con, table)
        suggestion = suggest_query(
            con,
            _rows(relation),
            name=table,
            view=f"{files.stem(table) if parts is None else parts[-1]}_anon",
            source=_rows(files.read_by_anyone(table, read)) if parts is None else query_of(parts),
            database=None if parts is None else str(paths.split(table)[0]),
        )
    if sql or form == "toml":
        if output is None and not printable(suggestion):
            raise SourceError("names have characters that no terminal shows: write to -o FILE")
        statement = _statement(suggestion)
        deliver(statement if sql else _policy(statement), output)
    else:
        deliver(suggestion.to_json() if form == "json" else suggestion.to_text(), output)
    return PASSED


def _statement(suggestion: Suggestion) -> str:
    """Return the statement; print the rest of the text, warnings and limits, to stderr."""
    for advice in advice_of(suggestion):
        note(advice)
    if suggestion.statement is None:
        raise SourceError(f"{suggestion.name}: there is no statement to propose")
    return suggestion.statement


def _policy(statement: str) -> str:
    """Return the policy of the statement, as `anonymize --policy` reads it."""
    (piece,) = split(statement)
    create = parse(piece)
    assert isinstance(create, Create)
    if create.query.startswith("SELECT * REPLACE"):
        note("the statement of --sql also changes columns that no policy accepts as they are")
    return options_to_policy(create.options).to_toml().rstrip()


def _rows(relation: str) -> str:
    return templates.render("relation.sql.j2:rows", relation=relation).strip()
