"""Evidence: the fingerprint that DuckDB gives for the same records."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.database.fingerprint import bytes_of, carries_its_type
from duckanon.database.relations import columns_of
from duckanon.spark.handed import ROWS, as_spark_has_it, many

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

STAGE = "fingerprint"

DIGESTS, PARTS = 1_000_000, 10_000
"""Digests of a part, about, and how many parts there may be."""

WIDTH = 32
"""Bytes of a digest."""


def fingerprint(df: DataFrame) -> str:
    """SHA-256, in hex, of the rows of a DataFrame, whatever their order: that of `database.fingerprint`.

    Digests are made in the tasks by the same text and engine, and sorted there: each part has those that
    begin alike, which are about equally many. They come to the driver one part after the other.
    """
    parts = max(1, min(PARTS, df.count() // DIGESTS))
    empty = as_spark_has_it(df.limit(0).toArrow(), pa.schema([]))
    with engine.in_memory(threads=1) as con, engine.registered(con, {"duckanon_rows": empty}):
        columns = columns_of(con, "duckanon_rows", STAGE)
    # Spark hands over no column whose name has a backtick.
    safe = [(f"c{number}", kind) for number, (_, kind) in enumerate(columns)]
    named = df.toDF(*(name for name, _ in safe))
    digests = named.mapInArrow(partial(_digests, safe, parts), "part int, digests binary")
    # Spark would make all digests twice to sort them: it takes a sample for the bounds.
    dealt = digests.repartitionById(parts, "part").select("digests").mapInArrow(_in_order, "digests binary")
    state = hashlib.sha256(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    for row in dealt.toLocalIterator(prefetchPartitions=True):
        state.update(row["digests"].hex().encode())
    return state.hexdigest()


def _digests(
    columns: Sequence[tuple[str, str]], parts: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give the digests of rows that belong to one of the parts, one after the other: the work of a task.

    Few long rows are dealt to the parts for much less than many short ones.
    """
    values = [(name, carries_its_type(kind)) for name, kind in columns]
    query = templates.render("evidence/rows.sql.j2", relation="duckanon_rows", columns=values, ordered=False)
    zone = templates.render("session/set.sql.j2", name="TimeZone", value="UTC", session=False)
    with engine.in_memory(threads=1) as con:
        engine.run(con, zone, STAGE)
        for table in many(batches):
            with engine.registered(con, {"duckanon_rows": as_spark_has_it(table, pa.schema([]))}):
                found = engine.table(con, query, STAGE).column("digest").combine_chunks()
            raw = np.frombuffer(bytes.fromhex(str(bytes_of(found), "ascii")), np.uint8).reshape(-1, WIDTH)
            part = (raw[:, 0].astype(np.int64) << 8 | raw[:, 1]) * parts >> 16
            numbers, sizes = np.unique(part, return_counts=True)
            together = _binary(raw[np.argsort(part, kind="stable")], sizes)
            yield pa.record_batch({"part": arrow.arrow(numbers.astype(np.int32)), "digests": together})


def _in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the digests of a part in order, one after the other: so they come to the driver fast."""
    columns = [batch.column(0) for batch in batches]
    raw = np.concatenate([np.zeros((0, WIDTH), np.uint8), *map(_raw, columns)])
    words = raw.view(">u8").astype(np.uint64)
    ordered = raw[np.lexsort(words.T[::-1])]
    for start in range(0, len(ordered), ROWS):
        yield pa.record_batch({"digests": pa.array([ordered[start : start + ROWS].tobytes()], pa.binary())})


def _binary(raw: NDArray[np.uint8], sizes: NDArray[np.int64]) -> pa.Array:
    """Digests (n, `WIDTH`) as an Arrow array, of which each value has so many of them."""
    ends = np.concatenate([[0], np.cumsum(sizes) * WIDTH]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(raw)])


def _raw(digests: pa.Array) -> NDArray[np.uint8]:
    """Bytes (n, `WIDTH`) of digests."""
    return np.frombuffer(bytes_of(digests), np.uint8).reshape(-1, WIDTH)
