"""Advice: what the owner of a valid release on Spark should know, in the words of every release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.policy.bind import Role
from duckanon.release.stages.advice import (
    NEARLY_UNIQUE,
    collapse,
    one_value,
    reveals,
    singles_out,
    without_nulls,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.columns import Bound
    from duckanon.spark.stage import Staged

NEAR = 0.2
"""What an approximate count of values may be short of the true one, by far."""


def advice(
    released: DataFrame, staged: Staged, policy: Policy, *, records: int, classes: int, loss: float
) -> tuple[str, ...]:
    """Warnings about columns of a release, and of what its thresholds cost."""
    found = [*_revealed(released, staged.bound), *_unique(staged)]
    if staged.left_out:
        found.append(without_nulls(staged.left_out))
    cost = collapse(classes, records, loss, policy.k)
    return (*found, *([cost] if cost else []))


def _revealed(released: DataFrame, bound: Bound) -> Iterator[str]:
    """Tell which sensitive columns without a threshold have classes of one value; NULL is a value."""
    free = [field for field in bound.sensitive if field.attribute.t is None and field.attribute.l is None]
    if not free:
        return
    named = released.toDF(*(field.column for field in bound.fields))
    values = [sf.count_distinct(sf.struct(field.column)).alias(field.column) for field in free]
    classes = named.groupBy(*(field.column for field in bound.quasi)).agg(
        sf.count(sf.lit(1)).alias("members"), *values
    )
    of_one = [sf.col(field.column) == 1 for field in free]
    [row] = classes.agg(
        sf.count(sf.lit(1)), sf.sum("members"), *map(sf.count_if, of_one),
        *(sf.sum(sf.when(one, sf.col("members")).otherwise(0)) for one in of_one),
    ).collect()  # fmt: skip
    count, records, counts = row[0], row[1], row[2:]
    for field, alike, members in zip(free, counts[: len(free)], counts[len(free) :], strict=True):
        name = bound.name_of(field.column)
        if members == records and named.select(field.column).distinct().limit(2).count() == 1:
            yield one_value(name, records)
        elif alike:
            yield reveals(name, alike, count, members, records)


def _unique(staged: Staged) -> Iterator[str]:
    """Tell the insensitive columns with nearly as many values as records."""
    others = [field for field in staged.bound.fields if field.attribute.role is Role.INSENSITIVE]
    if not others:
        return
    [row] = staged.frame.agg(*(sf.approx_count_distinct(field.column) for field in others)).collect()
    for field, about in zip(others, row, strict=True):
        if about < (NEARLY_UNIQUE - NEAR) * staged.size:
            continue
        [[different]] = staged.frame.agg(sf.count_distinct(field.column)).collect()
        if different > NEARLY_UNIQUE * staged.size:
            yield singles_out(staged.bound.name_of(field.column), different, staged.size)
