"""A stream of a query goes to a table of the same database, class by class."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.database import engine, templates
from duckanon.database.relations import lookup, relation_of, resolve
from duckanon.errors import ReleaseError
from duckanon.statements.names import parse_name
from duckanon.streams.stream import AnonymizedStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.database.relations import Target
    from duckanon.streams.policy import StreamPolicy
    from duckanon.streams.report import StreamReport

STAGE = "stream"

_CLASSES = "duckanon_classes"


def stream_to_table(
    con: duckdb.DuckDBPyConnection, query: str, into: str, policy: StreamPolicy
) -> StreamReport:
    """Report of a stream whose classes stand in a new table, each batch of them in a transaction of its own.

    The connection reads, in a transaction of its own for the whole query, and a cursor of it writes: so they
    do not wait for each other.
    """
    if engine.in_transaction(con):
        raise ReleaseError(
            "a stream commits its classes as they leave, which an open transaction does not let it do: "
            "COMMIT or ROLLBACK first"
        )
    target = resolve(con, parse_name(into))
    if lookup(con, target) is not None:
        raise ReleaseError(f"{target} exists and a stream never overwrites: drop it or choose another name")
    with _cursor(con) as writer, engine.reader(con, query, STAGE) as reader:
        made = AnonymizedStream(_batches(reader), policy)
        with made:
            _create(writer, target, made.schema)
            append = templates.render("stream/append.sql.j2", target=relation_of(target), relation=_CLASSES)
            for batch in made:
                tuples = {_CLASSES: pa.Table.from_batches([batch])}
                with engine.transaction(writer, last=False), engine.registered(writer, tuples):
                    engine.run(writer, append, STAGE, error=ReleaseError)
        return made.report


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Batches of a query, an empty one first: it tells the columns of a query without rows, too."""
    yield pa.RecordBatch.from_pylist([], reader.schema)
    yield from reader


@contextlib.contextmanager
def _cursor(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Another connection to the database."""
    with con.cursor() as cursor:
        engine.quiet(cursor)
        yield cursor


def _create(writer: duckdb.DuckDBPyConnection, target: Target, schema: pa.Schema) -> None:
    with engine.transaction(writer, last=False), engine.registered(writer, {_CLASSES: schema.empty_table()}):
        statement = templates.render("stream/create.sql.j2", target=relation_of(target), relation=_CLASSES)
        engine.run(writer, statement, STAGE, error=ReleaseError)
