"""Partition: one kernel call for each tile, in a task; classes keep t and l if their tile can."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from duckanon.database import arrow, engine, templates
from duckanon.kernels import compose
from duckanon.kernels.loss import sse
from duckanon.kernels.merge import violations_of
from duckanon.kernels.recipes import MDAV_MAX_RECORDS
from duckanon.release.stages.bucket import tile_size
from duckanon.release.stages.classes import sums_of
from duckanon.release.stages.partition.plan import candidates
from duckanon.spark.tasks import database, in_utc, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.kernels.recipes import Recipe
    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

SPLIT_FROM_TILE_SIZES = 4
"""Tile size, in usual tile sizes, above which a tile is split to fit into the memory of its task."""

TASK_TILES = 12
"""Approximate tiles of a task in a large table: fewer tiles are not worth the start of a task."""

CLASS_BITS = 31
"""Low bits of a class number, for the class within its tile; the high bits are the tile number."""


@dataclass(frozen=True)
class TileWork:
    """Input of every task that labels tiles."""

    embedded: Embedded
    k: int
    size: int  # records of the whole table
    recipes: tuple[Recipe, ...]
    tile: int
    seed: int
    merging: bool  # False if violating classes may be suppressed instead


def partition(dealt: DataFrame, staged: Staged, embedded: Embedded, policy: Policy, folder: str) -> DataFrame:
    """Write the records of packed tiles to a folder, each with number and violation of its class.

    `within` and `whole` sum squared distances from class means, and from the mean of the table.
    """
    spark, work = dealt.sparkSession, work_of(embedded, policy, staged.size)
    context, schema = spark.sparkContext.broadcast(work), with_classes(staged.frame.schema)
    tiles = -(-staged.size // work.tile)
    tasks = max(min(spark.sparkContext.defaultParallelism, tiles), tiles // TASK_TILES)
    # A hash would give some tasks far more tiles than other tasks.
    share = sf.pmod(sf.col("tile"), sf.lit(tasks)).cast("int")
    shared = dealt.withColumn("share", share).repartitionById(tasks, "share")
    shared.groupBy("tile", "share").applyInArrow(
        lambda key, table: labelled(context, key, table), schema
    ).write.parquet(folder)
    return spark.read.parquet(folder)


def work_of(embedded: Embedded, policy: Policy, size: int) -> TileWork:
    """Return the input of every task, for a table of so many records."""
    tile, merging = tile_size(policy, embedded.thresholds), policy.suppression_limit == 0
    # With t the recipe `k_alone` needs many merges, and each tile would try it, too.
    alone = merging and (
        size <= MDAV_MAX_RECORDS or all(threshold.t is None for threshold in embedded.thresholds)
    )
    recipes = candidates(size, policy, embedded.thresholds, columns=embedded.dimensions)
    recipes = _worth_a_tile([recipe for recipe in recipes if alone or recipe.start != "k_alone"])
    return TileWork(embedded, policy.k, size, recipes, tile, policy.seed, merging)


def _worth_a_tile(recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """Return the recipes that every tile tries; DuckDB tries more recipes, on a sample.

    Unrefined MDAV in blocks is tried with one size, and not at all beside refined recipes.
    """
    blocks = [recipe for recipe in recipes if recipe.start == "blocks" and not recipe.effort]
    others = [recipe for recipe in recipes if recipe not in blocks]
    return tuple(others) if any(recipe.effort for recipe in others) else (*others, *(blocks[1:2] or blocks))


def with_classes(schema: StructType) -> StructType:
    """Return columns extended by the columns of `with_class_figures`."""
    added = {"class_id": LongType(), "violation": DoubleType(), "within": DoubleType(), "whole": DoubleType()}
    return StructType([*schema.fields, *(StructField(name, kind) for name, kind in added.items())])


def labelled(context: Broadcast[TileWork], key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
    """Label the packed records of a tile, in a task. Equal tiles get equal classes."""
    work = context.value
    records = in_order(unpacked(table.column("packed")))
    points, codes = work.embedded.points(records), work.embedded.codes(records)
    labels, count = np.empty(len(records), np.int64), 0
    for rows in _split(np.arange(len(records)), points, SPLIT_FROM_TILE_SIZES * work.tile, work.tile):
        local = _classes(work, np.ascontiguousarray(points[rows]), np.ascontiguousarray(codes[:, rows]))
        labels[rows] = local + count
        count += int(local.max()) + 1
    violations = violations_of(work.embedded.thresholds, codes, labels)
    numbers = labels + (int(key[0].as_py()) << CLASS_BITS)
    return with_class_figures(records, points, labels, numbers, violations)


def with_class_figures(
    records: pa.Table, points: NDArray[np.float64], labels: NDArray[np.int64], numbers: NDArray[np.int64],
    violations: NDArray[np.float64],
) -> pa.Table:  # fmt: skip
    """Return the records with number and violation of their class; `labels` number the classes of the tile.

    Only the first record has the sums `within` and `whole` of the tile; NULL in the others costs nothing.
    """
    classes = sums_of(points, labels)
    middles = classes.sums / classes.sizes[:, None]
    within, whole = np.full((2, len(records)), np.nan)
    within[0], whole[0] = ((points - middles[labels]) ** 2).sum(), (points**2).sum()
    added = {"class_id": numbers, "violation": violations[labels], "within": within, "whole": whole}
    for name, column in added.items():
        records = records.append_column(name, arrow.arrow(column))
    return in_utc(records)


def in_order(table: pa.Table) -> pa.Table:
    """Rows in the order of all their values."""
    query = templates.render("spark.sql.j2:in_order", relation="duckanon_tile")
    with engine.registered(database(), {"duckanon_tile": table}):
        return engine.table(database(), query, "partition").cast(table.schema)


def _classes(work: TileWork, points: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes 0..m-1 of some records, by the recipe with the least loss."""
    if len(points) < work.k:
        return np.zeros(len(points), np.int64)
    thresholds = work.embedded.thresholds
    made = partial(
        compose.compose, points, codes, work.k, thresholds, share=len(points) / work.size, seed=work.seed,
        merging=work.merging,
    )  # fmt: skip
    found = [made(recipe=recipe) for recipe in work.recipes]
    return min(found, key=partial(sse, points))


def _split(
    rows: NDArray[np.int64], points: NDArray[np.float64], most: int, least: int
) -> Sequence[NDArray[np.int64]]:
    """Return parts of at most `most` rows, by repeated halving along the widest coordinate."""
    if len(rows) <= most or len(rows) < 2 * least:
        return [rows]
    here = points[rows]
    spread = np.ptp(here, axis=0) if here.shape[1] else np.zeros(1)
    order = rows[np.argsort(here[:, int(np.argmax(spread))], kind="stable")] if here.shape[1] else rows
    middle = len(order) // 2
    return [
        part
        for half in (np.sort(order[:middle]), np.sort(order[middle:]))
        for part in _split(half, points, most, least)
    ]
