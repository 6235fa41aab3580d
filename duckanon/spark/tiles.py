"""Tiles: records are dealt to tiles that one task handles, each with its share of all sensitive values.

Bounds are those of a sample that is taken by a hash of the values, so that they do not depend on how the
DataFrame is parted. Inside each stratum of the sensitive order the widest quasi-identifiers are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from duckanon.database import arrow
from duckanon.kernels import compose
from duckanon.release.stages.bucket import LARGEST, Cut, cuts_of, tile_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

SAMPLE = 100_000
"""Records, about, that tell the bounds."""

Key = tuple[int, ...]


@dataclass(frozen=True)
class Bounds:
    """Where records are cut: strata of the sensitive values, and numbers inside each part."""

    strata: NDArray[np.int64]  # (m,), stratum of each value of the first sensitive field; (0,) without one
    cuts: tuple[Cut, ...]
    inner: Mapping[Key, NDArray[np.float64]]  # by stratum and the parts before: bounds between the next parts

    def of(self, codes: NDArray[np.int64] | None, columns: list[NDArray[np.float64]]) -> NDArray[np.int64]:
        """Tile of each record (n,), by its first sensitive code and the numbers along each cut."""
        size = len(columns[0])
        parts = np.zeros((size, 1 + len(self.cuts)), np.int64)
        if codes is not None and len(self.strata):
            parts[:, 0] = self.strata[codes]
        tile = np.zeros(size, np.int64)
        for level, (cut, numbers) in enumerate(zip(self.cuts, columns, strict=True), start=1):
            keys, groups = np.unique(parts[:, :level], axis=0, return_inverse=True)
            order = np.argsort(groups.ravel(), kind="stable")
            ends = np.cumsum(np.bincount(groups.ravel(), minlength=len(keys)))
            for key, begin, end in zip(keys.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
                rows, bounds = order[begin:end], self.inner.get(tuple(key))
                if bounds is not None:
                    parts[rows, level] = np.searchsorted(bounds, numbers[rows], side="right")
            tile = tile * cut.parts + parts[:, level]
        return tile


def tiled(staged: Staged, embedded: Embedded, policy: Policy, folder: str) -> DataFrame:
    """Write the records with the number of their tile to a folder, and return them.

    A tile that has fewer than 4 k records joins the one before.
    """
    spark = staged.frame.sparkSession
    bounds = _bounds(staged, embedded, policy)
    context = spark.sparkContext.broadcast((embedded, bounds))
    schema = StructType([*staged.frame.schema.fields, StructField("tile", LongType())])
    staged.frame.mapInArrow(partial(_deal, context), schema).write.parquet(folder)
    dealt = spark.read.parquet(folder)
    rows = dealt.groupBy("tile").count().orderBy("tile").collect()
    homes = _joined({row["tile"]: row["count"] for row in rows}, 4 * policy.k)
    if all(tile == home for tile, home in homes.items()):
        return dealt
    pairs = sf.create_map(*(sf.lit(number) for pair in homes.items() for number in pair))
    return dealt.withColumn("tile", pairs[sf.col("tile")])


def _bounds(staged: Staged, embedded: Embedded, policy: Policy) -> Bounds:
    """Take bounds from a sample, of as many tiles as the records fill."""
    tiles = -(-staged.size // tile_size(policy, embedded.thresholds))
    cuts = tuple(cuts_of(tuple(one.axis for one in embedded.axes), tiles)) if tiles > 1 else ()
    if not cuts:
        return Bounds(np.zeros(0, np.int64), (), {})
    strata = np.zeros(0, np.int64)
    if embedded.thresholds:
        count = compose.tile_strata(
            staged.size, policy.k, embedded.thresholds, largest=max(LARGEST, policy.k)
        )
        counts = embedded.domains[0].counts
        strata = (np.cumsum(counts) - (counts + 1) // 2) * count // staged.size
    every = max(1, staged.size // SAMPLE)
    chosen = sf.pmod(sf.xxhash64(*staged.frame.columns), sf.lit(every)) == 0
    sample = staged.frame.where(chosen).toArrow()
    codes = embedded.codes(sample)[0] if embedded.thresholds and len(sample) else None
    inner: dict[Key, NDArray[np.float64]] = {}
    _cut(
        inner,
        cuts,
        strata[codes] if codes is not None else np.zeros(len(sample), np.int64),
        _along(embedded, cuts, sample),
    )
    return Bounds(strata, cuts, inner)


def _cut(
    inner: dict[Key, NDArray[np.float64]], cuts: tuple[Cut, ...], strata: NDArray[np.int64],
    columns: list[NDArray[np.float64]],
) -> None:  # fmt: skip
    """Write the bounds between equal parts of the sample, part by part."""
    open_parts: dict[Key, NDArray[np.int64]] = {
        (int(stratum),): np.flatnonzero(strata == stratum) for stratum in np.unique(strata)
    }
    for cut, numbers in zip(cuts, columns, strict=True):
        following: dict[Key, NDArray[np.int64]] = {}
        for key, rows in open_parts.items():
            values = np.sort(numbers[rows])
            bounds = values[np.arange(1, cut.parts) * len(values) // cut.parts] if len(values) else values
            inner[key] = bounds
            parts = np.searchsorted(bounds, numbers[rows], side="right")
            following |= {(*key, int(part)): rows[parts == part] for part in np.unique(parts)}
        open_parts = following


def _along(embedded: Embedded, cuts: tuple[Cut, ...], table: pa.Table) -> list[NDArray[np.float64]]:
    """Return the numbers along each cut."""
    axes = {one.axis.column: one for one in embedded.axes}
    return [axes[cut.column].cuts(table.column(axes[cut.column].field.column)) for cut in cuts]


def _deal(
    context: Broadcast[tuple[Embedded, Bounds]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the number of its tile to every record: the work of a task."""
    embedded, bounds = context.value
    for batch in batches:
        table = pa.Table.from_batches([batch])
        tiles = np.zeros(len(table), np.int64)
        if bounds.cuts and len(table):
            codes = embedded.codes(table)[0] if len(bounds.strata) else None
            tiles = bounds.of(codes, _along(embedded, bounds.cuts, table))
        yield from table.append_column("tile", arrow.arrow(tiles)).to_batches()


def _joined(sizes: dict[int, int], least: int) -> dict[int, int]:
    """Return which tile each joins: a small one the one before, or else the one after."""
    homes: dict[int, int] = {}
    held: dict[int, int] = {}
    for tile, size in sizes.items():
        last = next(reversed(held), None)
        if last is not None and (size < least or held[last] < least):
            homes[tile] = last
            held[last] += size
        else:
            homes[tile] = tile
            held[tile] = size
    return homes
