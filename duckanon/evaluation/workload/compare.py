"""Workload check: the user's own aggregate queries on the original and on its release."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.api.connection import Connection
from duckanon.database import engine, templates
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import lookup, named, relation_of, resolve
from duckanon.errors import DuckanonError, SourceError
from duckanon.evaluation.workload.match import ZONED, Query, Result, query_error
from duckanon.evaluation.workload.report import Cell, QueryError, Summary, Workload
from duckanon.evaluation.workload.script import (
    check_reads_data,
    check_reads_nothing_else,
    described,
    read_queries,
)
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

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

ROWS = 1_000_000
"""Most rows of the result of a query."""


@interruptible
def compare(
    con: Connection | duckdb.DuckDBPyConnection, original: str, release: str, queries: str
) -> Workload:
    """Run aggregate queries on a table and on its release, and measure the error of each query.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection. Temporary and uncommitted relations are not seen, and nothing is written.
    original, release : str
        Names of tables or views, as in SQL, or files in single quotes.
    queries : str
        SELECT statements over a relation called ``data``, separated by semicolons. A comment ``-- name: ...``
        before a query names it; ``-- keys: year`` makes a numeric column a key.

    Returns
    -------
    Workload
        The error of every number of each query. Rows are matched by the columns that are not numbers, and by
        the numeric columns named as keys.

    Raises
    ------
    SourceError
        A table cannot be read or is empty, a query fails, or its rows cannot be matched.
    StatementError
        A statement is not a SELECT or does not read ``data``, or there is no statement.
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
    alone: bool = False,
) -> Workload:
    """Run queries on two relations (SQL text) that cursors see; `alone` refuses any relation but ``data``."""
    check_reads_data(con, queries)
    with ExitStack() as stack, progress.step("compare", 2 * len(queries), "queries") as step:
        results: list[list[Result]] = []
        for relation, name in zip(relations, names, strict=True):
            cursor = stack.enter_context(_sandbox(con, relation, name))
            if alone:
                check_reads_nothing_else(cursor, queries, name)
            answers = []
            for query in queries:
                answers.append(_result(cursor, query, name))
                step.advance()
            results.append(answers)
    pairs = zip(queries, *results, strict=True)
    return Workload(*names, tuple(query_error(query, before, after) for query, before, after in pairs))


@contextmanager
def _sandbox(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that never writes, on which `data` is the relation."""
    with con.cursor() as cursor:
        view = templates.render("workload.sql.j2:data", relation=relation)
        try:
            engine.run(cursor, view, f"compare: {name}", error=SourceError)
        except SourceError as unseen:
            seen = "only committed relations that are not temporary are seen here"
            raise SourceError(f"{unseen} ({seen})") from unseen.__cause__
        engine.run(cursor, templates.render("workload.sql.j2:begin"), "compare")
        query = templates.render("relation.sql.j2:any_record", relation="data")
        if not engine.rows(cursor, query, f"compare: {name}"):
            raise SourceError(f"{name} is empty: there is nothing to compare")
        yield cursor
        cursor.rollback()


def _result(cursor: duckdb.DuckDBPyConnection, query: Query, name: str) -> Result:
    stage = f"{query.title} on {name}"
    columns = described(cursor, query.text, stage)
    moments = [column for column, type_text in columns if type_text in ZONED]
    text = templates.render("workload.sql.j2:rows", query=query.text, moments=moments)
    rows = engine.run(cursor, text, stage, error=SourceError).fetchmany(ROWS + 1)
    if len(rows) > ROWS:
        raise SourceError(f"{stage}: more than {ROWS} rows; a workload is aggregate queries")
    return Result(columns, rows)


def _qualified(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """Return the full name of a relation, since a cursor has another search path; a file as SQL text."""
    name = parse_name(text)
    try:
        target = resolve(con, name)
    except DuckanonError:
        target = None
    if target is not None and lookup(con, target) is not None:
        return relation_of(target)
    return named(name.catalog, name.schema, name.name)
