"""Handover: an audited relation leaves DuckDB as an Arrow table with the same types and values.

Some types of DuckDB have no Arrow type. By default a TIMETZ would leave as a TIME, and a UHUGEINT as a
negative number. The reader would then get other rows than the audit saw.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.database import engine, interrupts, templates
from duckanon.database.fingerprint import row_digests, session_fingerprint
from duckanon.database.relations import columns_of, named, subquery
from duckanon.errors import DuckanonError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

STAGE = "handover"

_LOSSLESS = "arrow_lossless_conversion"
_LOCKED = "lock_configuration"


@dataclass(frozen=True)
class HandoverColumn:
    """A column: its name, its type in the audit, and the type that DuckDB reads from Arrow."""

    name: str
    type: str
    read_as: str


@dataclass(frozen=True)
class Handover:
    """An Arrow table and how DuckDB reads it: a column with `read_as` other than `type` needs a cast."""

    table: pa.Table
    columns: tuple[HandoverColumn, ...]


@contextlib.contextmanager
def lossless(con: duckdb.DuckDBPyConnection) -> Iterator[bool]:
    """Let this connection write every type of DuckDB to Arrow until the end of the block.

    Gives False if the configuration is locked: then types without an Arrow type are lost.
    """
    on, locked = _state(con)
    if on or locked:
        # A refused setting would abort the caller's transaction.
        yield on
        return
    with interrupts.cleanup(con, lambda: _restore(con)):
        _set(con, on=True)
        yield True


def _restore(con: duckdb.DuckDBPyConnection) -> None:
    engine.run(con, templates.render("session.sql.j2:reset", name=_LOSSLESS), STAGE)
    if _state(con)[0]:
        # The session had its own value, different from the value of the database.
        _set(con, on=False)


def _set(con: duckdb.DuckDBPyConnection, *, on: bool) -> None:
    statement = templates.render("session.sql.j2:set", name=_LOSSLESS, value=on, session=True)
    engine.run(con, statement, STAGE)


def _state(con: duckdb.DuckDBPyConnection) -> tuple[bool, bool]:
    """Whether the session writes every type to Arrow, and whether its settings are locked."""
    queries = [templates.render("session.sql.j2:setting", name=name) for name in (_LOSSLESS, _LOCKED)]
    on, locked = (bool(engine.rows(con, query, STAGE)[0][0]) for query in queries)
    return on, locked


def handed_over(con: duckdb.DuckDBPyConnection, relation: str, *, plain: bool = False) -> Handover:
    """Rows of an audited relation as an Arrow table that DuckDB reads back unchanged. O(n log n).

    `plain` prefers types that Arrow users know, such as bool, if these hold every column. A ReleaseError if a
    type or a value would be lost.
    """
    types = columns_of(con, relation, STAGE)
    if not (plain and _read_types(con, _table(con, relation, empty=True)) == types):
        with lossless(con):
            table = _table(con, relation)
    else:
        table = _table(con, relation)
    read = _read_types(con, table)
    columns = tuple(
        HandoverColumn(name, type_text, read_as)
        for (name, type_text), (_, read_as) in zip(types, read, strict=True)
    )
    require_same(con, relation, table, columns)
    return Handover(table, columns)


def require_same(
    con: duckdb.DuckDBPyConnection, relation: str, table: pa.Table, columns: Sequence[HandoverColumn]
) -> None:
    """Raise unless an Arrow table, read as `columns` say, has the types and values of a relation."""
    with registered(con, table) as name:
        reading = subquery(templates.render("handover/reading.sql.j2", columns=columns, relation=name))
        try:
            read = columns_of(con, reading, STAGE)
            audited = [(column.name, column.type) for column in columns]
            if read == audited and _same_rows(con, relation, reading, audited):
                return
        except DuckanonError as failure:
            raise ReleaseError(
                f"the rows cannot leave as an Arrow table, so nothing was returned: {failure}"
            ) from failure
        for column, as_read in zip(columns, read, strict=True):
            single = [(column.name, column.type)]
            ours, theirs = (
                subquery(
                    templates.render("relation.sql.j2:select", columns=[column.name], relation=rows, order=())
                )
                for rows in (relation, reading)
            )
            if as_read != single[0] or not _same_rows(con, ours, theirs, single):
                raise ReleaseError(
                    f"column {column.name!r} of type {column.type} would not leave as it was audited: "
                    f"Arrow makes {column.read_as} of it, so nothing was returned; CAST it to VARCHAR in the "
                    "source query"
                )
        raise ReleaseError("the rows would not leave as they were audited, so nothing was returned")


def _same_rows(
    con: duckdb.DuckDBPyConnection, ours: str, theirs: str, columns: Sequence[tuple[str, str]]
) -> bool:
    return session_fingerprint(con, ours, columns) == session_fingerprint(con, theirs, columns)


def same_column(con: duckdb.DuckDBPyConnection, one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether DuckDB can read two Arrow columns and finds the same type, values and order."""
    digests = []
    for column in (one, other):
        with registered(con, pa.table({"value": column})) as name:
            try:
                digests.append(row_digests(con, name, columns_of(con, name, STAGE)))
            except DuckanonError:
                return False
    return digests[0] == digests[1]


@contextlib.contextmanager
def registered(con: duckdb.DuckDBPyConnection, table: pa.Table) -> Iterator[str]:
    """Let a connection read an Arrow table; give the SQL text after FROM."""
    name = f"{engine.workspace()}_handover"
    with engine.registered(con, {name: table}):
        yield named("temp", name)


def _read_types(con: duckdb.DuckDBPyConnection, table: pa.Table) -> list[tuple[str, str]]:
    """Name and type of each column of an Arrow table as DuckDB reads it."""
    with registered(con, table) as name:
        return columns_of(con, name, STAGE)


def _table(con: duckdb.DuckDBPyConnection, relation: str, *, empty: bool = False) -> pa.Table:
    limit = {"limit": 0} if empty else {}
    return engine.table(con, templates.render("relation.sql.j2:rows", relation=relation, **limit), STAGE)
