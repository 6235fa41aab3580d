"""Repair: classes that still violate t or l are merged with other classes, across tiles.

The driver gets the violating classes, and the means of the classes near them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import arrow
from duckanon.errors import PolicyError
from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.merging.merge import class_members, merge_classes
from duckanon.spark.class_sums import class_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from duckanon.spark.embed import Embedded

FIRST_CANDIDATES = 256
"""First number of candidates around each violating class; eight times as many after each failure."""

DRIVER_MAX_RECORDS = 2_000_000
"""Largest number of records whose values the driver takes; above it, an error comes before memory ends."""


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
    united = merge_classes(
        sums / sizes[:, None], sizes, codes, offsets, embedded.thresholds, partner="efficient"
    )
    ends, whole = class_members(united[owner], embedded.codes(members))
    if violations_per_class(embedded.thresholds, whole, ends).any():
        return None
    first = np.full(int(united.max()) + 1, len(numbers))
    np.minimum.at(first, united, np.arange(len(numbers)))
    return np.asarray(first[united])
