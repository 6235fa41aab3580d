"""Suppress: the worst classes are left out, and the other classes keep t against the released table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from duckanon.database import arrow
from duckanon.kernels.merging.merge import class_members, merge_classes, violations_of
from duckanon.release.stages.classes import sums_of
from duckanon.release.stages.partition.leave_out import worst_classes
from duckanon.spark.embed import limited
from duckanon.spark.handed import without_key
from duckanon.spark.partition import CLASS_BITS, in_order, with_class_figures, with_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

DRIVER_MAX_CLASSES = 1_000_000
"""Largest number of violating classes on the driver, the worst first; the others are merged."""

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
    task = without_key(partial(_merged, context))
    tile = sf.shiftright("class_id", CLASS_BITS).alias("tile")
    kept.groupBy(tile).applyInArrow(task, with_classes(StructType(columns))).write.parquet(folder)
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


def _merged(context: Broadcast[Embedded], table: pa.Table) -> pa.Table:
    """Merge violating classes of a tile with other classes, in a task."""
    embedded = context.value
    records = in_order(table)
    numbers, labels = np.unique(arrow.numbers(records.column("class_id")), return_inverse=True)
    records = records.drop_columns([*_REPORTED_COLUMNS])
    points, codes = embedded.points(records), embedded.codes(records)
    if violations_of(embedded.thresholds, codes, labels).any():
        classes, (offsets, members) = sums_of(points, labels), class_members(labels, codes)
        united = merge_classes(
            classes.sums / classes.sizes[:, None], classes.sizes, members, offsets, embedded.thresholds,
            partner="efficient",
        )  # fmt: skip
        _, first = np.unique(united, return_index=True)
        numbers, labels = numbers[first], united[labels]
    above = violations_of(embedded.thresholds, codes, labels)
    return with_class_figures(records, table.schema, points, labels, numbers[labels], above)
