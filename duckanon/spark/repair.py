"""Suppress and repair: no class is left that violates t or l.

`suppress` leaves the worst classes out, and merges other violating classes within tiles. `repair` merges
classes across tiles: the driver gets the violating classes, and the means of the classes near them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from duckanon.database import arrow
from duckanon.errors import PolicyError
from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.merge import class_members, merge_classes, violations_of
from duckanon.policy.reported import reported_figure
from duckanon.release.stages.classes import sums_of
from duckanon.release.stages.partition.leave_out import worst_classes
from duckanon.spark.embed import limited
from duckanon.spark.partition import CLASS_BITS, in_order, with_class_figures, with_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

DRIVER_MAX_CLASSES = 1_000_000
"""Largest number of violating classes on the driver, the worst first; the others are merged."""

FIRST_CANDIDATES = 256
"""First number of candidates around each violating class; eight times as many after each failure."""

DRIVER_MAX_RECORDS = 2_000_000
"""Largest number of records whose values the driver takes; above it, an error comes before memory ends."""

_REPORTED_COLUMNS = ("class_id", "violation", "within", "whole")


def suppress(
    labelled: DataFrame, staged: Staged, embedded: Embedded, policy: Policy, folder: str
) -> tuple[DataFrame, Embedded, int]:
    """Write the released records with their classes; return them, their domains, and the count left out.

    t is from the released table, so thresholds and domains change. Violating classes merge within tiles.
    """
    if not embedded.thresholds or policy.suppression_limit == 0:
        return labelled, embedded, 0
    spark = labelled.sparkSession
    gone = _worst(labelled, int(policy.suppression_limit * staged.size), staged.size)
    names = spark.createDataFrame(pa.table({"class_id": arrow.arrow(gone)}))
    kept = labelled.join(sf.broadcast(names), "class_id", "left_anti") if len(gone) else labelled
    size = kept.count()
    new = limited(embedded, replace(staged, frame=kept, folder=None, size=size), policy, f"{folder}_values")
    context = spark.sparkContext.broadcast(new)
    columns = [field for field in labelled.schema.fields if field.name not in _REPORTED_COLUMNS]
    tile = sf.shiftright("class_id", CLASS_BITS).alias("tile")
    merged = kept.groupBy(tile).applyInArrow(
        lambda table: _merged_in_tile(context, table), with_classes(StructType(columns))
    )
    merged.write.parquet(folder)
    return spark.read.parquet(folder), new, staged.size - size


def _worst(labelled: DataFrame, most: int, size: int) -> NDArray[np.int64]:
    """Return the classes to leave out: at most `most` records, and never all classes."""
    each = labelled.where("violation > 0").groupBy("class_id")
    classes = each.agg(sf.count(sf.lit(1)).alias("size"), sf.max("violation").alias("violation"))
    a_record = sf.desc(sf.col("violation") / sf.col("size"))
    worst = classes.orderBy(a_record, "class_id").limit(DRIVER_MAX_CLASSES).toArrow()
    numbers, sizes = arrow.numbers(worst.column("class_id")), arrow.numbers(worst.column("size"))
    gone = worst_classes(arrow.numbers(worst.column("violation")), sizes, most)
    return np.asarray(numbers[gone] if int(sizes[gone].sum()) < size else numbers[:0], np.int64)


def _merged_in_tile(context: Broadcast[Embedded], table: pa.Table) -> pa.Table:
    """Merge violating classes of a tile with other classes, in a task."""
    embedded = context.value
    records = in_order(table)
    numbers, labels = np.unique(arrow.numbers(records.column("class_id")), return_inverse=True)
    records = records.drop_columns([*_REPORTED_COLUMNS])
    points, codes = embedded.points(records), embedded.codes(records)
    if violations_of(embedded.thresholds, codes, labels).any():
        classes, (offsets, members) = sums_of(points, labels), class_members(labels, codes)
        united = merge_classes(classes.sums / classes.sizes[:, None], members, offsets, embedded.thresholds)
        _, first = np.unique(united, return_index=True)
        numbers, labels = numbers[first], united[labels]
    above = violations_of(embedded.thresholds, codes, labels)
    return with_class_figures(records, points, labels, numbers[labels], above)


def repair(labelled: DataFrame, embedded: Embedded) -> tuple[DataFrame, bool]:
    """Return the records with the number of their final class, and whether classes were merged.

    Each turn considers more classes until every class keeps the thresholds; one class of all records keeps t.
    """
    violating = np.sort(
        arrow.numbers(labelled.where("violation > 0").select("class_id").distinct().toArrow().column(0))
    )
    if not len(violating):
        return labelled, False
    middles = class_sums(labelled, embedded).cache()
    try:
        numbers, united = _merged(labelled, embedded, middles, violating)
    finally:
        middles.unpersist()
    pairs = pa.table({"class_id": arrow.arrow(numbers), "home": arrow.arrow(numbers[united])})
    homes = sf.broadcast(labelled.sparkSession.createDataFrame(pairs))
    joined = labelled.join(homes, "class_id", "left")
    return joined.withColumn("class_id", sf.coalesce("home", "class_id")).drop("home"), True


def _merged(
    labelled: DataFrame, embedded: Embedded, middles: DataFrame, violating: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return class numbers, and for each class the place of the class that it is merged into."""
    count = FIRST_CANDIDATES
    while True:
        numbers = _near(middles, violating, count)
        united = _united(labelled, embedded, middles, numbers)
        if united is not None:
            return numbers, united
        if len(numbers) == middles.count():
            raise PolicyError("no merging of classes keeps t and l: the thresholds are out of reach")
        count *= 8


def _near(middles: DataFrame, violating: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the numbers of the violating classes and of the classes nearest to each of them."""
    found = set(violating.tolist())
    rows = middles.where(sf.col("class_id").isin(violating.tolist())).orderBy("class_id").collect()
    for row in rows:
        center = [total / row["size"] for total in row["sums"]]
        distance = sf.lit(0.0)
        for axis, value in enumerate(center):
            away = sf.col("sums")[axis] / sf.col("size") - sf.lit(value)
            distance = distance + away * away
        near = middles.select("class_id", distance.alias("far")).orderBy("far", "class_id").limit(count)
        found |= {int(one["class_id"]) for one in near.collect()}
    return np.array(sorted(found), np.int64)


def _united(
    labelled: DataFrame, embedded: Embedded, middles: DataFrame, numbers: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return for each class the place of its merged class; None if the merged classes cannot keep t and l."""
    chosen = sf.col("class_id").isin(numbers.tolist())
    rows = middles.where(chosen).orderBy("class_id").toArrow()
    sizes = arrow.numbers(rows.column("size")).astype(np.int64)
    if int(sizes.sum()) > DRIVER_MAX_RECORDS:
        raise PolicyError(
            f"{len(numbers)} classes of {int(sizes.sum()):,} records would have to be looked at together to "
            "keep t and l: ask for a larger t, or fewer tiles"
        )
    sums = np.array(rows.column("sums").to_pylist(), np.float64).reshape(len(numbers), -1)
    columns = [field.column for field in embedded.fields]
    members = labelled.where(chosen).select("class_id", *columns).orderBy("class_id", *columns).toArrow()
    owner = np.searchsorted(numbers, arrow.numbers(members.column("class_id")))
    offsets, codes = class_members(owner, embedded.codes(members))
    united = merge_classes(sums / sizes[:, None], codes, offsets, embedded.thresholds)
    ends, whole = class_members(united[owner], embedded.codes(members))
    if violations_per_class(embedded.thresholds, whole, ends).any():
        return None
    first = np.full(int(united.max()) + 1, len(numbers))
    np.minimum.at(first, united, np.arange(len(numbers)))
    return np.asarray(first[united])


def class_sums(labelled: DataFrame, embedded: Embedded) -> DataFrame:
    """Return number, size and sums of every class, independent of the order of records."""
    context = labelled.sparkSession.sparkContext.broadcast(embedded)
    columns = [one.field.column for one in embedded.axes]
    points = labelled.select("class_id", *columns).mapInArrow(
        partial(_placed, context), "class_id bigint, point array<double>"
    )
    # Sums of integers, in units of 2^-32, do not depend on the order.
    exact = sf.transform("point", lambda x: sf.rint(x * 4294967296).cast("bigint"))
    spread = points.select("class_id", sf.posexplode_outer(exact).alias("axis", "value"))
    summed = spread.groupBy("class_id", "axis").agg(
        sf.sum("value").alias("total"), sf.count(sf.lit(1)).alias("size")
    )
    rows = sf.sort_array(sf.collect_list(sf.struct("axis", "total")))
    return (
        summed.groupBy("class_id")
        .agg(sf.max("size").alias("size"), rows.alias("sums"))
        .select("class_id", "size", sf.transform("sums", lambda x: x["total"] / 4294967296).alias("sums"))
    )


def _placed(context: Broadcast[Embedded], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the coordinates of records, in a task."""
    for batch in batches:
        points = context.value.points(pa.Table.from_batches([batch]))
        ends = np.arange(len(points) + 1, dtype=np.int32) * points.shape[1]
        point = pa.ListArray.from_arrays(pa.array(ends), pa.array(points.ravel()))
        yield pa.RecordBatch.from_arrays([batch.column(0), point], ["class_id", "point"])


def information_loss(labelled: DataFrame, embedded: Embedded) -> float:
    """Information loss in per cent, rounded as in every report, because the order of additions varies."""
    [[squares]] = labelled.agg(sf.sum("whole")).collect()
    if not squares:
        return 0.0
    square = sf.aggregate("sums", sf.lit(0.0), lambda total, x: total + x * x)
    of_axes = [sf.sum(sf.col("sums")[axis]) for axis in range(embedded.dimensions)]
    classes = class_sums(labelled, embedded)
    [row] = classes.agg(sf.sum("size"), sf.sum(square / sf.col("size")), *of_axes).collect()
    within, whole = squares - row[1], squares - sum(total * total for total in row[2:]) / row[0]
    return reported_figure(100 * within / whole) if whole > 0 else 0.0
