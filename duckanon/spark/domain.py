"""Domains: codes of the values of a sensitive column, the same in every task, and records of each code.

Up to a million values have a code each. With more values, neighbours share a code, or rare values share a
code by hash. The kernels then use a lower t on codes, which implies t on values. l on codes implies l on
values: a class has at least as many values as codes, and shared codes only lower the entropy and raise the
largest counts.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from duckanon.database import arrow
from duckanon.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.kernels.closeness.threshold import Threshold

DRIVER_MAX_VALUES = 1_000_000
"""Different values that the driver and each task hold, at most."""

COARSE_CODES = 100_000
"""Approximate number of codes of a column with more values than `DRIVER_MAX_VALUES`."""

_PLACE_BITS = 33
"""Bits of `monotonically_increasing_id` for the place within a partition."""


@dataclass(frozen=True)
class Domain:
    """Map from values to codes 0..m-1: the code is the place in `values`.

    With `ranges` it is the place of the last value not greater; with `rest`, other values are hashed.
    """

    values: pa.Array  # ascending, NaN and NULL last; with `rest`, the most frequent values
    counts: NDArray[np.int64]  # records of each code
    distinct: int  # number of distinct values
    ranges: int = 1  # values that share a code
    rest: NDArray[np.int64] | None = None  # code by hash, -1 if no value has the hash

    def codes(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Code of each value (n,)."""
        # A session with another time zone gives equal times another type.
        values = arrow.sortable(column).cast(self.values.type)
        if self.ranges > 1:
            return self._by_range(values)
        places = arrow.places_among(values, self.values)
        if self.rest is None:
            return arrow.numbers(places).astype(np.int64)
        codes = arrow.numbers(pc.fill_null(places, -1)).astype(np.int64)
        rare = codes < 0
        others = values.filter(pa.array(rare))
        texts = others if pa.types.is_binary(others.type) else pc.cast(others, pa.string())
        codes[rare] = self.rest[[digest(value) % len(self.rest) for value in texts.to_pylist()]]
        return codes

    def _by_range(self, values: pa.Array) -> NDArray[np.int64]:
        here = arrow.distinct(values)
        # The sort is stable: a value equal to the begin of a range is placed after that begin.
        order = np.asarray(pc.array_sort_indices(pa.concat_arrays([self.values, here])), np.int64)
        begins = order < len(self.values)
        codes = np.empty(len(here), np.int64)
        codes[order[~begins] - len(self.values)] = np.cumsum(begins)[~begins] - 1
        return np.asarray(codes[arrow.numbers(arrow.places_among(values, here))])

    def strict(self, threshold: Threshold, name: str) -> Threshold:
        """Threshold in codes that implies `threshold` in values."""
        # m values in c ranges of w values: moving each value to the middle of its range changes a
        # distribution by at most (w - 1) / 2 ranks. So EMD <= (w (c - 1) EMD of codes + w - 1) / (m - 1).
        # With `rest`: EMD is 1 minus the common share of both distributions; codes overstate this share by at
        # most the share of the rest.
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
            kept = math.ceil(least * 10**6) / 10**6
            raise PolicyError(
                f"t = {threshold.t} is too small for {name!r}, of whose {self.distinct:,} values Spark tells "
                f"{len(self.counts):,} groups apart: ask for t >= {kept:g}, or round its values"
            )
        return replace(threshold, t=min(t, Fraction(1)))


def digest(value: str | bytes | None) -> int:
    """Hash of a value, 64 bits, identical on every machine; 0 for NULL."""
    if value is None:
        return 0
    raw = value if isinstance(value, bytes) else value.encode()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


def domain_of(frame: DataFrame, column: str, distance: str, folder: str) -> Domain:
    """Domain of a column; values that exceed the memory of the driver are written to the folder."""
    values = frame.select(sf.col(column).alias("value"))
    counted = values.groupBy("value").agg(sf.count(sf.lit(1)).alias("records"))
    rows = counted.limit(DRIVER_MAX_VALUES + 1).toArrow()
    if len(rows) <= DRIVER_MAX_VALUES:
        domain = arrow.distinct(arrow.sortable(rows.column("value")))
        return Domain(domain, _added(domain, rows.column("value"), rows.column("records")), len(domain))
    return _in_ranges(counted, folder) if distance == "ordered" else _with_rest(counted, folder)


def _added(domain: pa.Array, values: pa.ChunkedArray, records: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the records of each value of a domain."""
    counts = np.zeros(len(domain), np.int64)
    places = arrow.numbers(arrow.places_among(arrow.sortable(values), domain))
    np.add.at(counts, places, arrow.numbers(records))
    return counts


def _in_ranges(counted: DataFrame, folder: str) -> Domain:
    """Domain of ranges with equally many values; the ranks come from files that Spark sorted."""
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
    return Domain(arrow.sortable(rows.column("value")), counts, distinct, ranges=width)


def _with_rest(counted: DataFrame, folder: str) -> Domain:
    """Domain of the most frequent values; all other values have codes by hash."""
    counted.write.parquet(folder)
    spark = counted.sparkSession
    stored = spark.read.parquet(folder)
    often = stored.orderBy(sf.desc("records"), sf.asc_nulls_last("value")).limit(COARSE_CODES // 2).toArrow()
    values = arrow.distinct(arrow.sortable(often.column("value")))
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
    """Give the codes of values, in a task."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        codes = arrow.arrow(context.value.codes(table.column("value")))
        yield pa.RecordBatch.from_arrays([codes, batch.column("records")], ["code", "records"])
