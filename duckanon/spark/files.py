"""Tasks themselves read files that Spark wrote.

Spark hands rows to Python value by value. A file is handed over as one value, which costs far less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from duckanon.spark.handed import BATCH_ROWS, as_spark_has_it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

WHOLE_FILE_MAX_BYTES = 1 << 26
"""Largest file, in bytes, that a task holds as a whole; a larger file is handed over as rows."""

FILE_MAX_RECORDS = 500_000
"""Largest number of records in a file of the work: many tasks share the files, and a task can hold one."""

_ENCRYPTED = "parquet.crypto.factory.class"
"""The setting by which files are encrypted for Spark alone."""


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
    read = as_spark_has_it(frame.limit(0).toArrow(), pa.schema([])).schema
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
