"""Tasks of Spark: the rows that they get and give, and their database.

Spark moves rows from task to task, and hands rows to Python, value by value. Two ways cost far less: packed
rows are many rows as one value, and a file that Spark wrote is handed over as one value.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from duckanon.database import arrow, engine, templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import duckdb
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BATCH_ROWS, BATCH_BYTES = 100_000, 1 << 26
"""Approximate rows and bytes of the batches that a task handles at a time."""

PACKED = "part long, records long, packed binary"
"""Columns of packed rows: number of their part, count of the rows, and the rows as Arrow writes them."""

WHOLE_FILE_MAX_BYTES = 1 << 26
"""Largest file, in bytes, that a task holds as a whole; a larger file is handed over as rows."""

FILE_MAX_RECORDS = 500_000
"""Largest number of records in a file of the work: many tasks share the files, and a task can hold one."""

_ENCRYPTED = "parquet.crypto.factory.class"
"""The setting by which files are encrypted for Spark alone."""


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


def in_utc(table: pa.Table) -> pa.Table:
    """Return the table with times in microseconds, and in UTC whatever the zone of the session."""
    return table.cast(pa.schema([pa.field(field.name, _utc(field.type)) for field in table.schema]))


def _utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with every time zone as UTC, also within lists and structs."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _utc(field.type)) for field in kind])
    return kind


def packed(rows: pa.Table, parts: NDArray[np.int64]) -> pa.RecordBatch:
    """Pack rows (n,) by part number (n,) into columns `PACKED`; the order within a part stays."""
    order = np.argsort(parts, kind="stable")
    numbers, begins, counts = np.unique(parts[order], return_index=True, return_counts=True)
    # Most tables have one part, or are already in the order of the parts.
    dealt = rows if (np.diff(order) == 1).all() else rows.take(arrow.arrow(order))
    dealt = dealt.combine_chunks()
    values = [written(dealt.slice(begin, count)) for begin, count in zip(begins, counts, strict=True)]
    return pa.record_batch(
        {
            "part": arrow.arrow(numbers.astype(np.int64)),
            "records": arrow.arrow(counts.astype(np.int64)),
            "packed": pa.array(values, pa.binary()),
        }
    )


def written(rows: pa.Table) -> bytes:
    """Rows as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(values: Iterable[pa.BinaryScalar]) -> pa.Table:
    """All rows of one or more packed values, in the order of the values."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in values])


@dataclass(frozen=True)
class StoredRecords:
    """Records that Spark wrote to a folder."""

    folder: str
    records: int


def mapped(
    frame: DataFrame, task: Task, schema: str, *, folder: str | None, names: Sequence[str] | None = None
) -> DataFrame:
    """Return the result of a task on the batches of a frame, with columns `schema` in Spark's notation.

    `folder`, if any, has exactly the rows of the frame in files of Spark; `names` are its columns.
    """
    spark = frame.sparkSession
    if folder is None or not _can_be_read(spark, folder):
        return frame.mapInArrow(task, schema)
    files = spark.read.format("binaryFile").load(folder).select("content")
    read = in_utc(frame.limit(0).toArrow()).schema
    return files.mapInArrow(partial(_of_files, task, read, tuple(names or frame.columns)), schema)


def _can_be_read(spark: SparkSession, folder: str) -> bool:
    """Whether tasks can read the files of a folder: no file is too large or encrypted."""
    context = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    if configuration.get(_ENCRYPTED):
        return False
    path = context._jvm.org.apache.hadoop.fs.Path(folder)
    return all(
        one.getLen() <= WHOLE_FILE_MAX_BYTES for one in path.getFileSystem(configuration).listStatus(path)
    )


def _of_files(
    task: Task, schema: pa.Schema, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a task on the rows of the files in its batches."""
    files = (value.as_buffer() for batch in batches for value in batch.column(0))
    return task(rows for file in files for rows in _rows(file, schema, names))


def _rows(file: pa.Buffer, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Give the rows of a file in batches, in the types that Spark hands over.

    Times are in UTC; Spark would use the time zone of the session.
    """
    stored = pq.ParquetFile(pa.BufferReader(file))
    # A name with a dot is also read as a path and may add columns; `select` removes them.
    for batch in stored.iter_batches(BATCH_ROWS, columns=[*names], use_threads=False):
        rows = pa.Table.from_batches([batch]).select(names).rename_columns(schema.names).cast(schema)
        yield from rows.to_batches()


def database() -> duckdb.DuckDBPyConnection:
    """Database in memory for all tasks of this process, one after the other, with times in UTC.

    Tasks leave nothing in it and change no setting. Opening a database takes some 10 ms.
    """
    # Spark would read the contents of each archive that was searched for modules before every task, a tenth
    # of a second in all. An import opens a forgotten archive again.
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimport.zipimporter)]:
        del known[path]
    return _opened()


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    con = engine.in_memory(threads=1)
    set_utc(con)
    # Spark collects garbage after every task. Frozen modules are not searched again.
    gc.freeze()
    return con


def set_utc(con: duckdb.DuckDBPyConnection) -> None:
    """Let a database read and write times with a zone in UTC."""
    zone = templates.render("session.sql.j2:set", name="TimeZone", value="UTC", session=False)
    engine.run(con, zone, "open")
