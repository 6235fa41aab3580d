"""Conversion of Arrow tables between Spark and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH_ROWS, BATCH_BYTES = 100_000, 1 << 26
"""Approximate rows and bytes of the batches that a task handles at a time."""


def without_key(task: Callable[[pa.Table], pa.Table]) -> Callable[..., pa.Table]:
    """Return a function of one argument; with two arguments Spark would also pass the key of a group."""

    def handed(table: pa.Table) -> pa.Table:
        return task(table)

    return handed


def with_key(task: Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]) -> Callable[..., pa.Table]:
    """Return a function of two arguments, the key of a group and its rows; see `without_key`."""

    def handed(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        return task(key, table)

    return handed


def combined(batches: Iterator[pa.RecordBatch], rows: int = 0) -> Iterator[pa.Table]:
    """Join batches up to `BATCH_ROWS` or more rows: a step costs as much for few rows as for many."""
    waiting: list[pa.RecordBatch] = []
    found, size = 0, 0
    for batch in batches:
        waiting += [batch] if len(batch) else []
        found, size = found + len(batch), size + batch.nbytes
        if found >= max(rows, BATCH_ROWS) or size >= BATCH_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, found, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def as_spark_has_it(table: pa.Table, given: pa.Schema) -> pa.Table:
    """Return the table with the `given` columns in their types, and times with a zone in UTC."""
    fields = []
    for field in table.schema:
        kind = given.field(field.name).type if field.name in given.names else field.type
        fields.append(pa.field(field.name, _utc(kind)))
    return table.cast(pa.schema(fields))


def _utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with every time zone as UTC, also within lists and structs."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _utc(field.type)) for field in kind])
    return kind
