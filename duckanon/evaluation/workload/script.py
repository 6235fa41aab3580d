"""The queries of a workload: read from a script, and refused where they do not read the compared table."""

from __future__ import annotations

import re

import duckdb

from duckanon.database import engine, templates
from duckanon.database.relations import columns_of, subquery
from duckanon.errors import DuckanonError, SourceError, StatementError
from duckanon.evaluation.workload.match import Query
from duckanon.statements.tokens import place_of, split, tokenize, unquoted

_DIRECTIVE = re.compile(
    r"^[ \t]*--[ \t]*(name|keys?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_BEGINS = frozenset({"SELECT", "FROM", "WITH", "VALUES", "("})


def read_queries(script: str) -> tuple[Query, ...]:
    """Return the queries of a script; StatementError for a statement that is no SELECT, or no statement."""
    queries = []
    for number, piece in enumerate(split(script), start=1):
        first = next(tokenize(piece.text))
        comment = piece.text[: first.start]
        said = {word.lower().rstrip("s"): rest for word, rest in _DIRECTIVE.findall(comment)}
        keys = [unquoted(token) for token in tokenize(said.get("key", "")) if token.kind in {"word", "name"}]
        line, column = place_of(piece.text, first.start, piece.line, piece.column)
        query = Query(said.get("name", f"query {number}"), piece.text, line, tuple(keys), column)
        if first.text.upper() not in _BEGINS:
            raise refused(query, f"is no SELECT: it begins with {first.text[:20]!r}")
        queries.append(query)
    if not queries:
        raise StatementError("there is no query to compare", 1, 1)
    return tuple(queries)


def refused(query: Query, why: str) -> StatementError:
    """Return an error that names a query, gives the reason, and points at the first word of the query."""
    return StatementError(f"{query.name} {why}", query.line, query.column)


def check_reads_data(con: duckdb.DuckDBPyConnection, queries: tuple[Query, ...]) -> None:
    """Raise unless every query is one SELECT that reads ``data``. Nothing is run, and nothing is left behind.

    DuckDB binds each query where ``data`` is a view that cannot be read. So an alias or a CTE called ``data``
    does not count, and a macro that reads ``data`` does.
    """
    with con.cursor() as cursor:
        engine.run(cursor, templates.render("workload.sql.j2:unreadable"), "compare")
        for query in queries:
            try:
                statements = cursor.extract_statements(query.text)
            except duckdb.Error as cause:
                raise engine.wrapped(cause, query.text, query.title, error=SourceError) from cause
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise refused(query, "is no SELECT")
            if _unbound(cursor, query) is None:
                raise refused(query, "does not read the relation 'data', so there is no error")


def check_reads_nothing_else(con: duckdb.DuckDBPyConnection, queries: tuple[Query, ...], name: str) -> None:
    """Raise if a query reads a table or a file beside ``data``, such as the original.

    Each query is bound in a database that holds only an empty ``data`` and reaches no file.
    """
    columns = columns_of(con, "data", name)
    with engine.in_memory() as bare:
        engine.run(bare, templates.render("workload.sql.j2:bare", columns=columns), "compare")
        for query in queries:
            unbound = _unbound(bare, query)
            if unbound is not None:
                described(con, query.text, f"{query.title} on {name}")
                raise refused(query, f"reads something beside the relation 'data': {unbound}")


def described(con: duckdb.DuckDBPyConnection, query: str, stage: str) -> list[tuple[str, str]]:
    """Return name and type of the columns of a query, which is bound but not run."""
    return columns_of(con, subquery(query), stage)


def _unbound(con: duckdb.DuckDBPyConnection, query: Query) -> str | None:
    """Return the error of DuckDB for a query that it cannot bind; None if it can."""
    try:
        described(con, query.text, query.title)
    except DuckanonError as failure:
        return engine.first_line(failure.__cause__ or failure)
    return None
