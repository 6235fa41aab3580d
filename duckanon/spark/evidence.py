"""Evidence: the fingerprint that DuckDB gives for the same records."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import engine, templates
from duckanon.database.fingerprint import carries_its_type
from duckanon.database.relations import columns_of
from duckanon.spark.handed import as_spark_has_it

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

STAGE = "fingerprint"

DIGESTS, PARTS = 1_000_000, 10_000
"""Digests of a partition, about, and how many partitions there may be."""


def fingerprint(df: DataFrame) -> str:
    """SHA-256, in hex, of the rows of a DataFrame, whatever their order: that of `database.fingerprint`.

    Digests are made in the tasks by the same text and engine, and sorted there: each partition has those that
    begin alike, which are equally many. They come to the driver one partition after the other.
    """
    parts = max(1, min(PARTS, df.count() // DIGESTS))
    empty = as_spark_has_it(df.limit(0).toArrow(), pa.schema([]))
    with engine.in_memory(threads=1) as con, engine.registered(con, {"duckanon_rows": empty}):
        columns = columns_of(con, "duckanon_rows", STAGE)
    # Spark hands over no column whose name has a backtick.
    safe = [(f"c{number}", kind) for number, (_, kind) in enumerate(columns)]
    digests = df.toDF(*(name for name, _ in safe)).mapInArrow(partial(_digests, safe), "digest string")
    state = hashlib.sha256(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    # Spark would make all digests twice to sort them: it takes a sample for the bounds.
    begin = sf.conv(sf.substring("digest", 1, 4), 16, 10).cast("int")
    dealt = digests.repartitionById(parts, sf.shiftright(begin * parts, 16)).sortWithinPartitions("digest")
    joined = dealt.mapInArrow(_joined, "digests string")
    for row in joined.toLocalIterator(prefetchPartitions=True):
        state.update(row["digests"].encode())
    return state.hexdigest()


def _digests(
    columns: Sequence[tuple[str, str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give the digest of every row: the work of a task."""
    values = [(name, carries_its_type(kind)) for name, kind in columns]
    query = templates.render("evidence/rows.sql.j2", relation="duckanon_rows", columns=values, ordered=False)
    zone = templates.render("session/set.sql.j2", name="TimeZone", value="UTC", session=False)
    with engine.in_memory(threads=1) as con:
        engine.run(con, zone, STAGE)
        for batch in batches:
            table = as_spark_has_it(pa.Table.from_batches([batch]), pa.schema([]))
            with engine.registered(con, {"duckanon_rows": table}):
                found = engine.table(con, query, STAGE)
            yield from found.cast(pa.schema([("digest", pa.string())])).to_batches()


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the digests of each batch as one text: so they come to the driver fast."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"digests": ["".join(batch.column(0).to_pylist())]})
