"""Workload check: the user's own aggregate queries on the original and on its release."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

import duckdb

from duckanon import catalog, engine, progress, sqlfiles
from duckanon.connection import Connection
from duckanon.errors import DuckanonError, SourceError, StatementError
from duckanon.names import fold
from duckanon.qualified import parse_name
from duckanon.tokens import split, tokenize, unquoted
from duckanon.workload_match import Query, Result, query_error
from duckanon.workload_report import Cell, QueryError, Summary, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = [
    "Cell",
    "Query",
    "QueryError",
    "Summary",
    "Workload",
    "compare",
    "compared",
    "read_queries",
]

DATA = "data"
"""What the queries call the table."""

ROWS = 1_000_000
"""Most rows that the result of a query may have."""

_DIRECTIVE = re.compile(
    r"^[ \t]*--[ \t]*(name|keys?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_BEGINS = frozenset({"SELECT", "FROM", "WITH", "VALUES", "("})


def compare(
    con: Connection | duckdb.DuckDBPyConnection, original: str, release: str, queries: str
) -> Workload:
    """Run aggregate queries on a table and on its release, and measure the error of each.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection; only committed relations that are not temporary are seen, and nothing is written.
    original, release : str
        Names of tables or views, as in SQL, or files in single quotes.
    queries : str
        SELECT statements over a relation called ``data``, separated by semicolons. A comment ``-- name: ...``
        before a query names it; ``-- keys: year`` makes a numeric column a key.

    Returns
    -------
    Workload
        For each query the error of every number. Rows are matched by the columns that are not numbers, and
        by the numeric columns named as keys.

    Raises
    ------
    SourceError
        A table cannot be read or is empty, or a query fails, or its rows cannot be matched.
    StatementError
        A statement is not a SELECT, does not read ``data``, or there is none.
    """
    plain = con.duckdb if isinstance(con, Connection) else con
    relations = _qualified(plain, original), _qualified(plain, release)
    return compared(plain, relations, (original, release), read_queries(queries))


def compared(
    con: duckdb.DuckDBPyConnection,
    relations: tuple[str, str],
    names: tuple[str, str],
    queries: tuple[Query, ...],
    *,
    guard: Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[None]] | None = None,
) -> Workload:
    """Run queries on two relations that are given as SQL text.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Its cursors see both relations.
    relations, names : tuple of str
        Original and release: what stands after FROM, and how the result calls them.
    queries : tuple of Query
        The workload.
    guard : callable, optional
        Entered with the cursor of each table while its queries run.

    Returns
    -------
    Workload
        As `compare` gives it.
    """
    watch = guard or (lambda _: nullcontext())
    with ExitStack() as stack, progress.step("compare", 2 * len(queries), "queries") as step:
        results: list[list[Result]] = []
        for relation, name in zip(relations, names, strict=True):
            cursor = stack.enter_context(_sandbox(con, relation, name))
            with watch(cursor):
                found = []
                for query in queries:
                    found.append(_result(cursor, query, name))
                    step.advance()
                results.append(found)
    pairs = zip(queries, *results, strict=True)
    return Workload(*names, tuple(query_error(query, before, after) for query, before, after in pairs))


def read_queries(script: str) -> tuple[Query, ...]:
    r"""Queries of a script.

    Parameters
    ----------
    script : str
        SELECT statements over ``data``.

    Returns
    -------
    tuple of Query
        In order.

    Raises
    ------
    StatementError
        A statement is not a SELECT or does not read ``data``, or there is none.

    Examples
    --------
    >>> read_queries("-- name: all\nSELECT count(*) AS n FROM data")[0].title
    'all (line 2)'
    """
    queries = []
    for number, piece in enumerate(split(script), start=1):
        tokens = list(tokenize(piece.text))
        comment = piece.text[: tokens[0].start]
        line = piece.line + comment.count("\n")
        said = {word.lower().rstrip("s"): rest for word, rest in _DIRECTIVE.findall(comment)}
        name = said.get("name", f"query {number}")
        if tokens[0].text.upper() not in _BEGINS:
            raise StatementError(f"{name} is no SELECT: it begins with {tokens[0].text[:20]!r}", line, 1)
        named = {fold(unquoted(token)) for token in tokens if token.kind in {"word", "name"}}
        if DATA not in named:
            raise StatementError(f"{name} does not read the relation {DATA!r}, so there is no error", line, 1)
        keys = [unquoted(token) for token in tokenize(said.get("key", "")) if token.kind in {"word", "name"}]
        queries.append(Query(name, piece.text, line, tuple(keys)))
    if not queries:
        raise StatementError("there is no query to compare", 1, 1)
    return tuple(queries)


@contextmanager
def _sandbox(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that reads and never writes, on which `data` is the relation."""
    with con.cursor() as cursor:
        view = sqlfiles.render("workload/data.sql.j2", relation=relation)
        try:
            engine.run(cursor, view, f"compare: {name}", error=SourceError)
        except SourceError as unseen:
            seen = "only committed relations that are not temporary are seen here"
            raise SourceError(f"{unseen} ({seen})") from unseen.__cause__
        engine.run(cursor, sqlfiles.read("workload/begin.sql"), "compare")
        if not engine.rows(cursor, sqlfiles.read("workload/count.sql"), f"compare: {name}")[0][0]:
            raise SourceError(f"{name} is empty: there is nothing to compare")
        yield cursor
        engine.run(cursor, sqlfiles.read("workload/end.sql"), "compare")


def _result(cursor: duckdb.DuckDBPyConnection, query: Query, name: str) -> Result:
    stage = f"{query.title} on {name}"
    try:
        statements = cursor.extract_statements(query.text)
    except duckdb.Error as cause:
        raise engine.wrapped(cause, query.text, stage, error=SourceError) from cause
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise StatementError(f"{query.name} is no SELECT", query.line, 1)
    described = sqlfiles.render("workload/columns.sql.j2", query=query.text)
    columns = [(row[0], row[1]) for row in engine.rows(cursor, described, stage, error=SourceError)]
    rows = engine.run(cursor, query.text, stage, error=SourceError).fetchmany(ROWS + 1)
    if len(rows) > ROWS:
        raise SourceError(f"{stage}: more than {ROWS} rows; a workload is aggregate queries")
    return Result(columns, rows)


def _qualified(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """Return the full name of a relation, since a cursor has another search path; of a file what it is."""
    name = parse_name(text)
    try:
        target = catalog.resolve(con, name)
    except DuckanonError:
        target = None
    if target is not None:
        query = sqlfiles.render(
            "catalog/relation.sql.j2", catalog=target.catalog, schema=target.schema, name=target.name
        )
        if engine.rows(con, query, "compare"):
            return sqlfiles.render(
                "export/relation.sql.j2", catalog=target.catalog, schema=target.schema, name=target.name
            )
    parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
    return sqlfiles.render("audit_bind/named.sql.j2", parts=parts)
