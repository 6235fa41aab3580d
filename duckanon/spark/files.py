"""Files that Spark wrote, which tasks read themselves: Spark hands over a file for far less than its rows.

It takes a row apart and writes its values one by one for Python; a file goes as one value, as it is stored.
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
"""Bytes of a file that a task holds as a whole; of larger ones it gets the rows."""

FILE_MAX_RECORDS = 500_000
"""Records of a file of the work, at most, so that many tasks may share them and each file is one to hold."""

_ENCRYPTED = "parquet.crypto.factory.class"
"""The setting by which files are encrypted for Spark alone."""


@dataclass(frozen=True)
class StoredRecords:
    """What is known of records that Spark wrote."""

    folder: str
    records: int


def mapped(
    frame: DataFrame, task: Task, told: str, *, folder: str | None, names: Sequence[str] | None = None
) -> DataFrame:
    """Return what a task makes of the rows of a frame, which it gets in batches.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows, of types that Arrow has.
    task : callable
        Called in every task with an iterator of its batches, whose columns are those of the frame.
    told : str
        Columns that it gives, in the words of Spark.
    folder : str or None
        Where all rows of the frame, and no others, are in files of Parquet that Spark wrote. None where they
        are from elsewhere, or only some of them are asked for.
    names : sequence of str, optional
        What the columns are called there; as in the frame unless they are given.
    """
    spark = frame.sparkSession
    if folder is None or not _can_be_read(spark, folder):
        return frame.mapInArrow(task, told)
    files = spark.read.format("binaryFile").load(folder).select("content")
    schema = as_spark_has_it(frame.limit(0).toArrow(), pa.schema([])).schema
    return files.mapInArrow(partial(_of_files, task, schema, tuple(names or frame.columns)), told)


def _can_be_read(spark: SparkSession, folder: str) -> bool:
    """Whether a task can read the files of a folder by itself: none is too large, or encrypted."""
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
    """Do what a task does, with the rows that are in the files of its batches."""
    files = (value.as_buffer() for batch in batches for value in batch.column(0))
    return task(rows for file in files for rows in _rows(file, schema, names))


def _rows(file: pa.Buffer, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Give the rows of a file in batches, in the types in which Spark would have handed them over.

    But for the zone in which times are told: Spark hands over that of the session, here it is always UTC.
    """
    stored = pq.ParquetFile(pa.BufferReader(file))
    # A name with a dot is read as a path, too, and may bring others with it: they are left out by `select`.
    for batch in stored.iter_batches(BATCH_ROWS, columns=[*names], use_threads=False):
        rows = pa.Table.from_batches([batch]).select(names).rename_columns(schema.names).cast(schema)
        yield from rows.to_batches()
