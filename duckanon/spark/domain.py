"""Domains: codes of the values of a sensitive column, the same in every task, and how many records have each.

Up to a million values, each has a code of its own. Beyond, neighbours share one, or the rare ones by a hash;
then a class is held to less than t, so that it keeps t whatever its values are. l is kept anyway: a class has
no fewer values than codes, and merging values lowers entropy and raises the largest counts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from duckanon.database import arrow, ordered
from duckanon.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.kernels.closeness.threshold import Threshold

DRIVER_MAX_VALUES = 1_000_000
"""Different values that the driver, and each task, holds."""

COARSE_CODES = 100_000
"""Codes, about, of a column with more."""

_PLACE_BITS = 33
"""Bits of `monotonically_increasing_id` that count inside a partition."""


@dataclass(frozen=True)
class Domain:
    """How values become codes 0..m-1.

    Each of `values` has its place as code. In `ranges` a value has the code of the last of them that is not
    above it; else a value that is none of them has one of `rest`, by its hash.
    """

    values: pa.Array  # ascending, NaN and NULL last; where there is a rest, the most frequent ones
    counts: NDArray[np.int64]  # records of each code
    distinct: int  # values that there are
    ranges: int = 1  # values that share a code
    rest: NDArray[np.int64] | None = None  # code by hash, -1 of one that no value has

    def codes(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Code of each value (n,)."""
        # A session in another zone has times of another type, which are the same.
        values = ordered.plain(column).cast(self.values.type)
        if self.ranges > 1:
            return self._by_range(values)
        places = ordered.places(values, self.values)
        if self.rest is None:
            return arrow.numbers(places).astype(np.int64)
        codes = arrow.numbers(pc.fill_null(places, -1)).astype(np.int64)
        rare = codes < 0
        others = values.filter(pa.array(rare))
        told = others if pa.types.is_binary(others.type) else pc.cast(others, pa.string())
        codes[rare] = self.rest[[digest(value) % len(self.rest) for value in told.to_pylist()]]
        return codes

    def _by_range(self, values: pa.Array) -> NDArray[np.int64]:
        here = ordered.distinct(values)
        # The sort keeps the order of equals: a value that begins a range comes after its begin.
        order = np.asarray(pc.array_sort_indices(pa.concat_arrays([self.values, here])), np.int64)
        begins = order < len(self.values)
        codes = np.empty(len(here), np.int64)
        codes[order[~begins] - len(self.values)] = np.cumsum(begins)[~begins] - 1
        return np.asarray(codes[arrow.numbers(ordered.places(values, here))])

    def strict(self, threshold: Threshold, name: str) -> Threshold:
        """Threshold that a class has to keep in codes, so that it keeps `threshold` in values.

        Ranges of w of m values, c of them: moving values to the middle of their ranges moves each of two
        distributions by at most (w - 1) / 2 ranks, so EMD <= (w (c - 1) EMD of codes + w - 1) / (m - 1).
        With a rest: EMD is 1 less what both have in common, which is at most the rest's share too large.
        """
        t = None if threshold.t is None else Fraction(threshold.t)
        if t is None or t >= 1:
            return threshold
        if self.ranges > 1:
            width = self.ranges
            least = Fraction(width - 1, self.distinct - 1)
            t = (t - least) * (self.distinct - 1) / (width * (len(self.counts) - 1))
        elif self.rest is not None:
            least = Fraction(int(self.counts[len(self.values) :].sum()), int(self.counts.sum()))
            t -= least
        if t < 0:
            raise PolicyError(
                f"t = {threshold.t} is too small for {name!r}, of whose {self.distinct:,} values Spark tells "
                f"{len(self.counts):,} groups apart: ask for t >= {float(least):.6g}, or round its values"
            )
        return replace(threshold, t=min(t, Fraction(1)))


def digest(value: str | bytes | None) -> int:
    """Return a number of 64 bits that stands for a value, the same on every machine; 0 for NULL."""
    if value is None:
        return 0
    raw = value if isinstance(value, bytes) else value.encode()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


def domain_of(frame: DataFrame, column: str, distance: str, folder: str) -> Domain:
    """Domain of a column; in the folder wait the values of a column that has too many for memory."""
    values = frame.select(sf.col(column).alias("value"))
    counted = values.groupBy("value").agg(sf.count(sf.lit(1)).alias("records"))
    rows = counted.limit(DRIVER_MAX_VALUES + 1).toArrow()
    if len(rows) <= DRIVER_MAX_VALUES:
        domain = ordered.distinct(ordered.plain(rows.column("value")))
        return Domain(domain, _added(domain, rows.column("value"), rows.column("records")), len(domain))
    return _in_ranges(counted, folder) if distance == "ordered" else _with_rest(counted, folder)


def _added(domain: pa.Array, values: pa.ChunkedArray, records: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the records of each value of a domain."""
    counts = np.zeros(len(domain), np.int64)
    places = arrow.numbers(ordered.places(ordered.plain(values), domain))
    np.add.at(counts, places, arrow.numbers(records))
    return counts


def _in_ranges(counted: DataFrame, folder: str) -> Domain:
    """Domain of ranges of equally many values: ranks are those in files that Spark has sorted."""
    spark = counted.sparkSession
    counted.orderBy(sf.asc_nulls_last("value")).withColumn(
        "id", sf.monotonically_increasing_id()
    ).write.parquet(folder)
    part, place = sf.shiftright("id", _PLACE_BITS), sf.col("id").bitwiseAND(sf.lit((1 << _PLACE_BITS) - 1))
    placed = spark.read.parquet(folder).select("value", "records", part.alias("part"), place.alias("place"))
    sizes = placed.groupBy("part").count().orderBy("part").collect()
    ends = np.cumsum([row["count"] for row in sizes])
    distinct, pairs = int(ends[-1]), []
    for row, end in zip(sizes, ends.tolist(), strict=True):
        pairs += [sf.lit(row["part"]), sf.lit(end - row["count"])]
    width = -(-distinct // COARSE_CODES)
    rank = sf.create_map(*pairs)[sf.col("part")] + sf.col("place")
    grouped = placed.groupBy(sf.floor(rank / width).alias("code")).agg(
        sf.min("value").alias("value"), sf.sum("records").alias("records")
    )
    rows = grouped.orderBy("code").toArrow()
    counts = arrow.numbers(rows.column("records")).astype(np.int64)
    return Domain(ordered.plain(rows.column("value")), counts, distinct, ranges=width)


def _with_rest(counted: DataFrame, folder: str) -> Domain:
    """Domain of the most frequent values, and codes by hash for all others."""
    counted.write.parquet(folder)
    spark = counted.sparkSession
    stored = spark.read.parquet(folder)
    often = stored.orderBy(sf.desc("records"), sf.asc_nulls_last("value")).limit(COARSE_CODES // 2).toArrow()
    values = ordered.distinct(ordered.plain(often.column("value")))
    codes = np.arange(len(values), len(values) + COARSE_CODES // 2)
    whole = Domain(values, np.zeros(0, np.int64), stored.count(), rest=codes)
    context = spark.sparkContext.broadcast(whole)
    coded = stored.mapInArrow(partial(_coded, context), "code bigint, records bigint")
    rows = coded.groupBy("code").agg(sf.sum("records").alias("records")).orderBy("code").toArrow()
    present = arrow.numbers(rows.column("code")).astype(np.int64)
    dense = np.full(len(codes), -1)
    rare = present[present >= len(values)]
    dense[rare - len(values)] = len(values) + np.arange(len(rare))
    counts = arrow.numbers(rows.column("records")).astype(np.int64)
    return replace(whole, counts=counts, rest=dense)


def _coded(context: Broadcast[Domain], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the codes of values: the work of a task."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        codes = arrow.arrow(context.value.codes(table.column("value")))
        yield pa.RecordBatch.from_arrays([codes, batch.column("records")], ["code", "records"])
