"""Classes as sums of coordinates, for merging and for the loss of a release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.policy.reported import reported_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.spark.embed import Embedded


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
