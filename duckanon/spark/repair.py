"""Repair: classes that a tile could not bring within t and l alone are merged with others, across tiles.

Only what is needed of them goes to the driver: the violating classes, and the middles of classes near them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import arrow
from duckanon.errors import PolicyError
from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.merging.merge import class_members, merge_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.spark.embed import Embedded

NEAREST = 256
"""Candidates around each violating class to begin with; eight times as many each time they do not do."""

LARGEST = 2_000_000
"""Records whose values the driver takes at a time; more are an error, and not its end."""


def repair(labelled: DataFrame, embedded: Embedded) -> tuple[DataFrame, bool]:
    """Return the records with the number of their final class, and whether some were merged.

    It ends: each turn either every class looked at keeps its thresholds, or more are looked at, and all
    records together keep t.
    """
    violating = np.sort(
        arrow.numbers(labelled.where("violation > 0").select("class_id").distinct().toArrow().column(0))
    )
    if not len(violating):
        return labelled, False
    middles = _middles(labelled, embedded)
    count = NEAREST
    while True:
        numbers = _near(middles, violating, count)
        united = _united(labelled, embedded, middles, numbers)
        if united is not None:
            break
        if len(numbers) == middles.count():
            raise PolicyError("no merging of classes keeps t and l: the thresholds are out of reach")
        count *= 8
    pairs = pa.table({"class_id": arrow.arrow(numbers), "home": arrow.arrow(numbers[united])})
    homes = sf.broadcast(labelled.sparkSession.createDataFrame(pairs))
    joined = labelled.join(homes, "class_id", "left")
    return joined.withColumn("class_id", sf.coalesce("home", "class_id")).drop("home"), True


def _middles(labelled: DataFrame, embedded: Embedded) -> DataFrame:
    """Return number, size and middle of every class; the sums do not depend on the order of records."""
    context = labelled.sparkSession.sparkContext.broadcast(embedded)
    columns = [one.field.column for one in embedded.axes]
    points = labelled.select("class_id", *columns).mapInArrow(
        partial(_placed, context), "class_id bigint, point array<double>"
    )
    # Whole numbers of 2^-32: an addend more or less does not change the digits of the others.
    exact = sf.transform("point", lambda x: sf.round(x * 4294967296).cast("bigint"))
    spread = points.select("class_id", sf.posexplode_outer(exact).alias("axis", "value"))
    summed = spread.groupBy("class_id", "axis").agg(
        sf.sum("value").alias("total"), sf.count(sf.lit(1)).alias("size")
    )
    rows = sf.sort_array(sf.collect_list(sf.struct("axis", "total")))
    return (
        summed.groupBy("class_id")
        .agg(sf.max("size").alias("size"), rows.alias("sums"))
        .select("class_id", "size", sf.transform("sums", lambda x: x["total"] / 4294967296).alias("sums"))
        .cache()
    )


def _placed(context: Broadcast[Embedded], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the coordinates of records: the work of a task."""
    for batch in batches:
        points = context.value.points(pa.Table.from_batches([batch]))
        ends = np.arange(len(points) + 1, dtype=np.int32) * points.shape[1]
        point = pa.ListArray.from_arrays(pa.array(ends), pa.array(points.ravel()))
        yield pa.RecordBatch.from_arrays([batch.column(0), point], ["class_id", "point"])


def _near(middles: DataFrame, violating: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the violating classes and those nearest to one of them, by number."""
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
    """Return for each class which of them, by place, it becomes; None where they cannot keep t and l."""
    chosen = sf.col("class_id").isin(numbers.tolist())
    rows = middles.where(chosen).orderBy("class_id").toArrow()
    sizes = arrow.numbers(rows.column("size")).astype(np.int64)
    if int(sizes.sum()) > LARGEST:
        raise PolicyError(
            f"{len(numbers)} classes of {int(sizes.sum()):,} records would have to be looked at together to "
            "keep t and l: ask for a larger t, or fewer tiles"
        )
    sums = np.array(rows.column("sums").to_pylist(), np.float64).reshape(len(numbers), -1)
    columns = [field.column for field in embedded.fields]
    members = labelled.where(chosen).select("class_id", *columns).orderBy("class_id", *columns).toArrow()
    owner = np.searchsorted(numbers, arrow.numbers(members.column("class_id")))
    offsets, codes = class_members(owner, embedded.codes(members))
    united = merge_classes(
        sums / sizes[:, None], sizes, codes, offsets, embedded.thresholds, partner="efficient"
    )
    ends, whole = class_members(united[owner], embedded.codes(members))
    if violations_per_class(embedded.thresholds, whole, ends).any():
        return None
    first = np.full(int(united.max()) + 1, len(numbers))
    np.minimum.at(first, united, np.arange(len(numbers)))
    return np.asarray(first[united])
