"""Run SQL on a DuckDB connection: log each statement, name its stage, and raise our errors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.database import arrow, interrupts, templates
from duckanon.database.objects_given import instead
from duckanon.errors import SOURCE_QUERY, DuckanonError, Place, ReleaseError, SourceError, user_frame
from duckanon.statements.tokens import split, tokenize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

Item = TypeVar("Item")

logger = logging.getLogger("duckanon")

LINE = re.compile(r"^LINE (\d+): ", re.MULTILINE)
"""Begin of the part of a DuckDB message that shows the line of the error."""

_OF_A_CSV = re.compile(r"CSV Error on Line: \d+$|Error when sniffing file ")
_OF_OURS = re.compile(r"\AInvalid Input Error: (?:Python exception occurred while executing the UDF: \w+: )?")
"""What DuckDB puts before a message of error(...) in an audit, and of our functions."""
_NOT_OF_ITS_TYPE = re.compile(r'Could not convert string "(.*)" to \'')
MISSING_TABLE = re.compile(r"Table with name \"?(\w+)\"? does not exist")
"""Message of DuckDB for a table that is not there."""
_STATEMENT_CHARACTERS_SHOWN = 40
"""Characters of a statement that an error shows."""

_serial = itertools.count(1)
_FRUGAL_SETTINGS = {
    "allocator_flush_threshold": "32MB",
    "allocator_bulk_deallocation_flush_threshold": "64MB",
}


def run(
    con: duckdb.DuckDBPyConnection, sql: str, stage: str, *, error: type[DuckanonError] = DuckanonError
) -> duckdb.DuckDBPyConnection:
    """Run one statement; the connection then has the result. An engine error is the cause of our error.

    Log and errors name `stage`.
    """
    logger.debug("%s\n%s", stage, sql)
    with _translated(sql, stage, error), interrupts.running(con):
        return con.execute(sql)


@contextlib.contextmanager
def _translated(sql: str, stage: str, error: type[DuckanonError] = DuckanonError) -> Iterator[None]:
    """Turn an exception of DuckDB, also during a fetch, into our errors; Arrow raises OSError."""
    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException) as cause:
        raise wrapped(cause, sql, stage, error=error) from cause


def wrapped(
    cause: Exception, sql: str, stage: str, *, error: type[DuckanonError] = DuckanonError
) -> DuckanonError:
    """Our error for an exception of DuckDB or Arrow: its first line, the statement and the stage."""
    raised = error(f"{stage}: {first_line(cause)}{variable_hint(cause)}")
    raised.sql, raised.stage = sql, stage
    return raised


def variable_hint(cause: BaseException) -> str:
    """Hint for a DuckDB error about a table whose name is a variable of the caller; else empty."""
    match = MISSING_TABLE.search(str(cause))
    if match is None:
        return ""
    name, frame = match[1], user_frame(sys._getframe(1))
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    how = None if isinstance(value, str | Path) else instead(value)
    if how is not None:
        return f" {name!r} is a variable of Python, a {type(value).__name__}: {how}"
    if not hasattr(value, "__arrow_c_stream__"):
        return ""
    return (
        f" {name!r} is a variable of Python and no table: register it on the DuckDB connection, as by "
        f"con.duckdb.register({name!r}, {name})"
    )


def first_line(cause: BaseException) -> str:
    """First line of an engine message with content, without trailing blanks."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if lines and _OF_A_CSV.search(lines[0]):
        return _of_a_csv(lines)
    return _OF_OURS.sub("", lines[0]) if lines else type(cause).__name__


def _of_a_csv(lines: list[str]) -> str:
    """Join the first lines of DuckDB's message about a CSV: the place and the cause, without the advice."""
    cause = next((line for line in lines[1:] if not line.startswith("Original Line:")), "")
    words = f"{lines[0].rstrip('.')}: {cause}".rstrip(": .")
    if "utf-8" in cause:
        return f"{words}. Convert it, or read it in SQL by read_csv(..., encoding = 'latin-1')"
    if cause.startswith("Expected Number of Columns"):
        return f"{words}. Mend that line, or read it in SQL by read_csv(..., null_padding = true)"
    text = _NOT_OF_ITS_TYPE.search(cause)
    if text is not None:
        return (
            f"{words}. If it means that a value is missing, give --null {shlex.quote(text[1])} (nullstr of "
            "read_csv in SQL); to keep it, make a table by read_csv(..., all_varchar = true)"
        )
    return words


def described(failure: BaseException) -> str:
    """One or two lines for a user: our message, or the engine's first line and place."""
    if isinstance(failure, DuckanonError):
        return str(failure)
    if isinstance(failure, OSError) and failure.filename is not None and failure.strerror:
        return f"{str(failure.filename)!r}: {failure.strerror}"
    at = place(failure)
    return first_line(failure) + ("" if at is None else f" ({Place(*at)})")


def place(cause: BaseException) -> tuple[int, int | None] | None:
    """Line and column, from 1, at which an engine message points by ``LINE n: ...`` and a caret; else None.

    The column is None if the message shows only a part of the line.
    """
    text = str(cause)
    match = LINE.search(text)
    if match is None:
        return None
    shown, _, rest = text[match.start() :].partition("\n")
    caret = rest.partition("\n")[0].find("^")
    prefix = len(match.group(0))
    whole = caret >= prefix and not shown.startswith(match.group(0) + "...")
    return int(match.group(1)), caret - prefix + 1 if whole else None


def rows(
    con: duckdb.DuckDBPyConnection, sql: str, stage: str, *, error: type[DuckanonError] = DuckanonError
) -> list[tuple[Any, ...]]:
    """All rows of a query with a small result, as tuples."""
    logger.debug("%s\n%s", stage, sql)
    with _translated(sql, stage, error), interrupts.running(con):
        return con.execute(sql).fetchall()


def table(con: duckdb.DuckDBPyConnection, sql: str, stage: str) -> pa.Table:
    """All rows of a query as an Arrow table."""
    with reader(con, sql, stage) as rows_of_it:
        return rows_of_it.read_all()


def batches(con: duckdb.DuckDBPyConnection, sql: str, stage: str) -> Iterator[pa.RecordBatch]:
    """Rows of a query as consecutive Arrow record batches of at most `interrupts.BATCH_ROWS` rows.

    Nothing else may use the connection before the last batch.
    """
    with reader(con, sql, stage) as rows_of_it:
        yield from rows_of_it


def one_query(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The one statement of a user's query without a semicolon; lines and columns stay.

    A SourceError with the place if the text has no statement, several, or no query. The caller runs the query
    in parentheses, inside which DuckDB refuses a WITH that writes.
    """
    pieces = split(sql)
    if not pieces:
        raise SourceError("the query is empty: give one that has rows, as in FROM visits")
    if len(pieces) > 1:
        second = SourceError(
            f"the query has a second statement, {_begin(pieces[1].text)}: give one query and nothing else"
        )
        raise second.at(pieces[1].line, pieces[1].column, SOURCE_QUERY)
    (piece,) = pieces
    text = "\n" * (piece.line - 1) + " " * (piece.column - 1) + piece.text
    try:
        kinds = [statement.type for statement in con.extract_statements(text)]
    except duckdb.Error as cause:
        raise failed_query(cause, sql, 0) from cause
    # MULTI is a PIVOT whose columns DuckDB looks up; any other MULTI fails inside parentheses.
    if len(kinds) != 1 or kinds[0] not in {duckdb.StatementType.SELECT, duckdb.StatementType.MULTI}:
        raise SourceError(f"{_begin(piece.text)} is no query: give SELECT, FROM, VALUES, PIVOT or WITH")
    return text


def _begin(statement: str) -> str:
    """First words of a statement, for an error."""
    first = next(tokenize(statement)).start
    words = " ".join(statement[first:].split())
    return repr(
        words if len(words) <= _STATEMENT_CHARACTERS_SHOWN else f"{words[:_STATEMENT_CHARACTERS_SHOWN]}..."
    )


def failed_query(cause: duckdb.Error, sql: str, before: int) -> SourceError:
    """Our error for DuckDB's error in a user's query that followed `before` lines."""
    raised = SourceError(f"the source query fails: {first_line(cause)}{variable_hint(cause)}")
    at = place(cause)
    if at is not None:
        raised.at(max(at[0] - before, 1), at[1], SOURCE_QUERY)
    raised.sql, raised.stage = sql, "stage"
    return raised


@contextlib.contextmanager
def reader(con: duckdb.DuckDBPyConnection, sql: str, stage: str) -> Iterator[pa.RecordBatchReader]:
    """Give the rows of a query as an Arrow reader with batches of at most `interrupts.BATCH_ROWS` rows.

    Nothing else may use the connection before the end of the block, which closes the reader.
    """
    logger.debug("%s\n%s", stage, sql)
    with _translated(sql, stage), interrupts.reading(con, sql) as rows_of_it:
        yield rows_of_it


def in_parts(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Give items in their order, in parts of at most `most`, one part a statement.

    DuckDB's planning time grows with the square of a statement's columns, and planning cannot be stopped.

    >>> list(in_parts("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[start : start + most] for start in range(0, len(items), most))


def column(con: duckdb.DuckDBPyConnection, sql: str, stage: str, size: int) -> npt.NDArray[np.float64]:
    """Numbers (size,) of all records in the order of record_id; NaN for NULL. O(n), without a sort.

    The query has two columns: record_id, each of 1..size once, and a DOUBLE. In memory: the result and one
    batch.
    """
    values = np.full(size, np.nan)
    for batch in batches(con, sql, stage):
        values[arrow.numbers(batch.column(0)) - 1] = arrow.numbers(batch.column(1))
    return values


@contextlib.contextmanager
def registered(
    con: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table | pa.RecordBatchReader]
) -> Iterator[None]:
    """Let queries see tables in memory under the given names."""
    with contextlib.ExitStack() as stack:
        for name, rows_of_it in tables.items():
            stack.enter_context(interrupts.cleanup(con, functools.partial(con.unregister, name)))
            with interrupts.running(con):
                con.register(name, rows_of_it)
        yield


def in_transaction(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the caller has an open transaction on this connection.

    In autocommit two statements see two transaction numbers. (BEGIN is no test: it would abort a
    transaction.)
    """
    query = templates.render("session.sql.j2:transaction")
    return rows(con, query, "transaction") == rows(con, query, "transaction")


def in_memory(**config: str | bool | int | float | list[str]) -> duckdb.DuckDBPyConnection:
    """A new database in memory, without the progress bar that DuckDB prints to stdout; WITH closes it."""
    con = duckdb.connect(config=config)
    quiet(con)
    return con


def quiet(con: duckdb.DuckDBPyConnection) -> None:
    """Keep DuckDB from printing a progress bar to stdout."""
    _comfort(con, "enable_progress_bar", value=False)


def _comfort(con: duckdb.DuckDBPyConnection, name: str, *, value: object) -> None:
    """Change a setting of a new connection if DuckDB permits; no result depends on it.

    In a Jupyter kernel without ipywidgets DuckDB 2.0.1 refuses any value of ``enable_progress_bar``.
    """
    statement = templates.render("session.sql.j2:set", name=name, value=value, session=False)
    with contextlib.suppress(DuckanonError):
        run(con, statement, "open")


def frugal(con: duckdb.DuckDBPyConnection, given: Collection[str] = ()) -> None:
    """Let DuckDB return freed memory to the system soon, except where the user has set the options.

    `memory_limit` does not count memory kept by the allocator: a twentieth of the memory of a spilling
    release.
    """
    for name, value in _FRUGAL_SETTINGS.items():
        if name not in given:
            _comfort(con, name, value=value)


def workspace() -> str:
    """Prefix of temporary relations that no other call uses, as ``duckanon_7``."""
    return f"duckanon_{next(_serial)}"


@contextlib.contextmanager
def temporary(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Give a prefix for temporary relations, and drop these relations at the end of the block."""
    prefix = workspace()
    with interrupts.cleanup(con, lambda: _drop(con, prefix)):
        yield prefix


def _drop(con: duckdb.DuckDBPyConnection, prefix: str) -> None:
    """Remove every temporary relation of a run."""
    leftovers = templates.render("catalog/databases.sql.j2:leftovers", prefix=f"{prefix}_")
    for relation, view in rows(con, leftovers, "clean-up"):
        run(con, templates.render("relation.sql.j2:drop", parts=("temp", relation), view=view), "clean-up")


@contextlib.contextmanager
def transaction(con: duckdb.DuckDBPyConnection, *, last: bool = True, whole: bool = True) -> Iterator[None]:
    """Join the caller's transaction, or make one that commits at the end and rolls back on any error.

    `last`: this commit completes the statement, so Ctrl-C waits for it. `whole`: half of the block must never
    be seen, so an error or Ctrl-C makes a commit of the caller's transaction impossible.
    """
    joined = in_transaction(con)

    def stop() -> None:
        if not joined:
            _roll_back(con)
        elif whole:
            interrupts.abort(con)

    with interrupts.undo(con, stop), _alone():
        if not joined:
            with interrupts.running(con):
                con.begin()
        yield
        if last:
            interrupts.settle()
        if not joined:
            with interrupts.running(con):
                con.commit()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Explain a conflict of transactions, and turn a failed COMMIT into our error."""
    try:
        yield
    except (duckdb.Error, DuckanonError) as failure:
        cause = failure if isinstance(failure, duckdb.Error) else failure.__cause__
        if isinstance(cause, duckdb.TransactionException) and "conflict" in str(cause).lower():
            raise ReleaseError(
                "conflict: another connection writes releases to this database at the same time, so nothing "
                "was written: run the statement again when it is done"
            ) from failure
        if isinstance(failure, duckdb.Error):
            raise wrapped(failure, "COMMIT", "publish", error=ReleaseError) from failure
        raise


def _roll_back(con: duckdb.DuckDBPyConnection) -> None:
    """End the transaction, unless a failed COMMIT has ended it or BEGIN has not run."""
    with contextlib.suppress(duckdb.TransactionException):
        con.rollback()
