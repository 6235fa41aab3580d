"""Evidence: the fingerprint, equal to DuckDB's fingerprint of the same records."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import engine
from duckanon.database.fingerprint import hashed, in_order, named, pieces, written_in_order
from duckanon.database.relations import columns_of
from duckanon.spark.tasks import PACKED, combined, database, in_utc, mapped, packed, set_utc, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    from pyspark.sql import DataFrame

    from duckanon.spark.tasks import StoredRecords

STAGE = "fingerprint"

PART_RECORDS, MAX_PARTS = 250_000, 40_000
"""Approximate records of a part, which the driver holds as a whole, and largest number of parts."""

RECORDS_PER_BOUND = 100
"""Approximate sampled records of a part, from which its bounds are taken."""

_ROWS, _BOUNDS = "duckanon_rows", "duckanon_bounds"

_PIECE = "place int, lengths binary, values binary"


def fingerprint(df: DataFrame, written: StoredRecords | None = None) -> str:
    """Fingerprint of the rows of a DataFrame in any order, equal to `database.fingerprint`.

    Tasks write and sort the rows by DuckDB, each part between two bounds; the driver hashes part after part.
    """
    with _fresh() as con, _holding(con, df.limit(0).toArrow()):
        columns = columns_of(con, _ROWS, STAGE)
    # Spark refuses to hand over columns with a backtick in the name.
    safe = [(f"c{number}", kind) for number, (_, kind) in enumerate(columns)]
    plain = df.toDF(*(name for name, _ in safe))
    bounds = _bounds(plain, safe, written.records if written else df.count())
    folder = written.folder if written else None
    dealt = mapped(plain, partial(_dealt, safe, bounds), PACKED, folder=folder, names=df.columns)
    parts = dealt.repartitionById(len(bounds) + 1, sf.col("part").cast("int")).select("packed")
    found = parts.mapInArrow(_in_order, _PIECE).toLocalIterator(prefetchPartitions=True)
    given = ((row["place"], row["lengths"], row["values"]) for row in found)
    return named(hashed(columns, given))


def _bounds(df: DataFrame, columns: Sequence[tuple[str, str]], count: int) -> pa.Table:
    """Return written rows in order as bounds of parts of about `PART_RECORDS` rows.

    Bounds decide which task sorts a row, and do not change the hash, so any sample will do.
    """
    parts = max(1, min(MAX_PARTS, count // PART_RECORDS))
    some = df.sample(min(1.0, RECORDS_PER_BOUND * parts / count), seed=0) if parts > 1 else df.limit(0)
    with _fresh() as con, _holding(con, some.toArrow()):
        sample = engine.table(con, in_order(_ROWS, columns), STAGE)
    return sample.take(np.arange(1, parts) * len(sample) // parts) if len(sample) else sample


def _dealt(
    columns: Sequence[tuple[str, str]], bounds: pa.Table, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give the written rows, packed by part, in a task."""
    query = in_order(_ROWS, columns, _BOUNDS)
    for table in combined(batches):
        with _holding(database(), table, bounds):
            found = engine.table(database(), query, STAGE).combine_chunks()
        bound = found.column("is_bound").to_numpy()
        rows = found.filter(pa.array(~bound)).drop_columns("is_bound")
        yield packed(rows, np.cumsum(bound)[~bound])


def _in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the hashed bytes of the rows of a part, in order, in a task."""
    parts = [value for batch in batches for value in batch.column(0)]
    if not parts:
        return
    table = unpacked(parts)
    query = written_in_order(_ROWS, table.schema.names)
    with engine.registered(con := database(), {_ROWS: table}):
        for batch in engine.batches(con, query, STAGE):
            places, lengths, values = zip(*pieces(batch), strict=True)
            yield pa.record_batch(
                {
                    "place": pa.array(places, pa.int32()),
                    "lengths": pa.array(lengths, pa.binary()),
                    "values": pa.array(map(bytes, values), pa.binary()),
                }
            )


@contextlib.contextmanager
def _fresh() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a new database for the driver, which may make two releases at a time."""
    with engine.in_memory(threads=1) as con:
        set_utc(con)
        yield con


def _holding(
    con: duckdb.DuckDBPyConnection, rows: pa.Table, bounds: pa.Table | None = None
) -> contextlib.AbstractContextManager[None]:
    """Register rows of Spark, and bounds, as tables."""
    tables = {_ROWS: in_utc(rows)} | ({} if bounds is None else {_BOUNDS: bounds})
    return engine.registered(con, tables)
