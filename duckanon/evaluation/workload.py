"""Workload check: the user's own aggregate queries on the original and on its release."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from duckanon import progress
from duckanon.api.arguments import check_names, plain
from duckanon.database import engine, templates
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import columns_of, lookup, named, relation_of, resolve, subquery
from duckanon.errors import DuckanonError, SourceError, StatementError
from duckanon.evaluation.workload_report import QueryError, Workload, cell, summary
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import fold, suggestion
from duckanon.statements.tokens import parse_name, place_of, split, tokenize, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckanon.api.connection import Connection


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
    duck = plain(con)
    check_names({"original": original, "release": release, "queries": queries})
    relations = _qualified(duck, original), _qualified(duck, release)
    return compared(duck, relations, (original, release), read_queries(queries))


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


ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"})
"""Types of moments, read as text: DuckDB hands them to Python only where the package pytz is installed."""

_NUMBER = "number"


@dataclass(frozen=True)
class Query:
    """A query of a workload."""

    name: str  # of ``-- name:``, or its number
    text: str  # with its comments
    line: int  # of its first word, from 1
    keys: tuple[str, ...] = ()  # numeric columns of ``-- keys:``
    column: int = 1  # of its first word, from 1

    @property
    def title(self) -> str:
        """Name of the query in errors."""
        return f"{self.name} (line {self.line})"


class Result(NamedTuple):
    """Name and DuckDB type of each column, and the rows."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]


def query_error(query: Query, original: Result, release: Result) -> QueryError:
    """Match the rows of two results of one query, and measure the error of every number. O(rows x columns).

    SourceError if the results differ in their columns, hold no number, or have several rows with equal keys.
    """
    names = [name for name, _ in original.columns]
    if names != [name for name, _ in release.columns]:
        raise SourceError(f"{query.title} gives other columns on the release than on the original")
    if not original.rows and not release.rows:
        raise SourceError(f"{query.title} gives no row on either table: there is nothing to compare")
    keys, values = _parts(query, original, release)
    groups, left = (
        {tuple(_comparable(row[at]) for at in keys): row for row in result.rows}
        for result in (original, release)
    )
    for result, rows in ((original, groups), (release, left)):
        if len(rows) < len(result.rows):
            by = ", ".join(names[at] for at in keys) or "no column"
            raise SourceError(
                f"{query.title} gives several rows with equal keys ({by}): group by them, or name numeric "
                "keys in a comment before the query, as in -- keys: year"
            )
    shared = [key for key in groups if key in left]

    def described(row: tuple[Any, ...]) -> dict[str, Any]:
        return {names[at]: row[at] for at in keys}

    cells = tuple(
        cell(described(groups[key]), names[at], groups[key][at], left[key][at])
        for key in shared
        for at in values
    )
    return QueryError(
        query.name,
        query.line,
        query.text,
        tuple(names[at] for at in keys),
        len(shared),
        tuple(described(row) for key, row in groups.items() if key not in left),
        tuple(described(row) for key, row in left.items() if key not in groups),
        {names[at]: summary(one for one in cells if one.column == names[at]) for at in values},
        summary(cells),
        cells,
    )


def _parts(query: Query, original: Result, release: Result) -> tuple[list[int], list[int]]:
    """Return the numbers of the key columns, and of the columns that are compared."""
    names = [name for name, _ in original.columns]
    for name in query.keys:
        if fold(name) not in map(fold, names):
            hint = suggestion(name, names)
            raise SourceError(f"{query.title}: -- keys names {name!r}, which the query does not give{hint}")
    named = {fold(name) for name in query.keys}
    keys: list[int] = []
    values: list[int] = []
    for at, ((name, before), (_, after)) in enumerate(zip(original.columns, release.columns, strict=True)):
        kinds = {_comparable_type(before), _comparable_type(after)}
        if len(kinds) > 1:
            raise SourceError(
                f"{query.title}: column {name!r} is {before[:40]} on the original and {after[:40]} on the "
                "release: CAST it in the query"
            )
        (values if kinds == {_NUMBER} and fold(name) not in named else keys).append(at)
    if not values:
        raise SourceError(f"{query.title} gives no number to compare: add an aggregate, as in count(*)")
    return keys, values


def _comparable_type(type_text: str) -> str:
    """Return one text for all types whose values can be equal: numbers, texts, times without a zone."""
    kind = kind_of(type_text)
    if kind in {"integer", "decimal", "float"}:
        return _NUMBER
    if type_text == "JSON" or type_text.startswith("ENUM("):
        return "VARCHAR"
    return "TIMESTAMP" if kind == "timestamp" and type_text not in ZONED else type_text


def _comparable(value: Any) -> Any:
    """Return the value of a key such that NULL equals NULL, and NaN equals NaN."""
    if isinstance(value, float) and value != value:
        return "NaN", float
    return repr(value) if isinstance(value, dict | list) else value


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
