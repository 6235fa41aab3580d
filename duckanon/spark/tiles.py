"""Tiles: parts of the table with their share of all sensitive values, each handled by one task.

A hash of the values samples the records for the bounds, so the bounds do not depend on partitions. The widest
quasi-identifiers are cut inside each stratum of the sensitive order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf

from duckanon.kernels import recipes
from duckanon.release.stages.bucket import FIRST_CLASS_MAX_RECORDS, Cut, cuts_of, tile_size
from duckanon.spark.tasks import PACKED, combined, mapped, packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

BOUNDS_SAMPLE_RECORDS = 100_000
"""Records, about, of the sample for the bounds."""

PACKED_RECORDS_PER_TILE, PACKED_MAX_RECORDS = 500, 1_000_000
"""Approximate records of a tile that a task packs together, and largest number for all tiles."""


@dataclass(frozen=True)
class Level:
    """Bounds along one cut, for each part of the earlier cuts."""

    parts: NDArray[np.int64]  # (m,) numbers of the parts with sampled records, ascending
    bounds: NDArray[np.float64]  # (m + 1, 2^b - 1), ascending, then NaN; the last row is all NaN

    def of(self, parts: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """For each number (n,) count the bounds of its part that are not above it, by binary search."""
        place = np.searchsorted(self.parts, parts)
        known = np.append(self.parts, -1)[place] == parts
        place = np.where(known, place, len(self.parts))
        width = self.bounds.shape[1]
        bounds, first = self.bounds.ravel(), place * width - 1
        count, step = np.zeros(len(numbers), np.int64), (width + 1) // 2
        while step:
            count += step * (bounds[first + count + step] <= numbers)
            step //= 2
        return count


@dataclass(frozen=True)
class Bounds:
    """Bounds of the tiles: strata of the sensitive values, and cuts inside each stratum."""

    strata: NDArray[
        np.int64
    ]  # (m,), stratum of each value of the first sensitive field; (0,) without a field
    cuts: tuple[Cut, ...]
    levels: tuple[Level, ...]  # one for each cut

    def of(self, codes: NDArray[np.int64] | None, columns: list[NDArray[np.float64]]) -> NDArray[np.int64]:
        """Tile of each record (n,), by its first sensitive code and its number along each cut."""
        size = len(columns[0])
        part = self.strata[codes] if codes is not None and len(self.strata) else np.zeros(size, np.int64)
        tile = np.zeros(size, np.int64)
        for cut, level, numbers in zip(self.cuts, self.levels, columns, strict=True):
            here = level.of(part, numbers)
            part, tile = part * cut.parts + here, tile * cut.parts + here
        return tile


def tiled(staged: Staged, embedded: Embedded, policy: Policy, folder: str) -> DataFrame:
    """Write the records to a folder, packed by tile number; return the columns tile and packed.

    A tile of fewer than 4 k records joins the tile before it.
    """
    spark = staged.frame.sparkSession
    bounds = _bounds(staged, embedded, policy)
    context = spark.sparkContext.broadcast((embedded, bounds))
    tiles = mapped(staged.frame, partial(_deal, context), PACKED, folder=staged.folder)
    tiles.write.parquet(folder)
    dealt = spark.read.parquet(folder).withColumnRenamed("part", "tile")
    rows = dealt.groupBy("tile").agg(sf.sum("records").alias("records")).orderBy("tile").collect()
    homes = _joined({row["tile"]: row["records"] for row in rows}, 4 * policy.k)
    if all(tile == home for tile, home in homes.items()):
        return dealt
    pairs = sf.create_map(*(sf.lit(number) for pair in homes.items() for number in pair))
    return dealt.withColumn("tile", pairs[sf.col("tile")])


def _bounds(staged: Staged, embedded: Embedded, policy: Policy) -> Bounds:
    """Take the bounds from a sample, for as many tiles as the records fill."""
    tiles = -(-staged.size // tile_size(policy, embedded.thresholds))
    cuts = tuple(cuts_of(tuple(one.axis for one in embedded.axes), tiles)) if tiles > 1 else ()
    if not cuts:
        return Bounds(np.zeros(0, np.int64), (), ())
    strata = np.zeros(0, np.int64)
    if embedded.thresholds:
        count = recipes.tile_strata(
            staged.size, policy.k, embedded.thresholds, largest=max(FIRST_CLASS_MAX_RECORDS, policy.k)
        )
        counts = embedded.domains[0].counts
        strata = (np.cumsum(counts) - (counts + 1) // 2) * count // staged.size
    every = max(1, staged.size // BOUNDS_SAMPLE_RECORDS)
    chosen = sf.pmod(sf.xxhash64(*staged.frame.columns), sf.lit(every)) == 0
    sample = staged.frame.where(chosen).toArrow()
    codes = embedded.codes(sample)[0] if embedded.thresholds and len(sample) else None
    part = strata[codes] if codes is not None else np.zeros(len(sample), np.int64)
    levels = []
    for cut, numbers in zip(cuts, _along(embedded, cuts, sample), strict=True):
        levels.append(_level(part, numbers, cut.parts))
        part = part * cut.parts + levels[-1].of(part, numbers)
    return Bounds(strata, cuts, tuple(levels))


def _level(part: NDArray[np.int64], numbers: NDArray[np.float64], parts: int) -> Level:
    """Return the bounds between equal shares of the sample, in each part."""
    order = np.lexsort((numbers, part))
    present, begins, sizes = np.unique(part[order], return_index=True, return_counts=True)
    bounds = np.full((len(present) + 1, (1 << (parts - 1).bit_length()) - 1), np.nan)
    for row, (begin, size) in enumerate(zip(begins.tolist(), sizes.tolist(), strict=True)):
        bounds[row, : parts - 1] = numbers[order[begin + np.arange(1, parts) * size // parts]]
    return Level(present, bounds)


def _along(embedded: Embedded, cuts: tuple[Cut, ...], table: pa.Table) -> list[NDArray[np.float64]]:
    """Return the numbers along each cut."""
    axes = {one.axis.column: one for one in embedded.axes}
    return [axes[cut.column].cuts(table.column(axes[cut.column].field.column)) for cut in cuts]


def _deal(
    context: Broadcast[tuple[Embedded, Bounds]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pack the records of each tile, in a task; with more tiles, more records at a time."""
    embedded, bounds = context.value
    count = math.prod(cut.parts for cut in bounds.cuts)
    for table in combined(batches, rows=min(PACKED_MAX_RECORDS, PACKED_RECORDS_PER_TILE * count)):
        tiles = np.zeros(len(table), np.int64)
        if bounds.cuts:
            codes = embedded.codes(table)[0] if len(bounds.strata) else None
            tiles = bounds.of(codes, _along(embedded, bounds.cuts, table))
        yield packed(table, tiles)


def _joined(sizes: dict[int, int], least: int) -> dict[int, int]:
    """Return the tile that each tile joins; a small tile joins the tile before it, else the tile after it."""
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
