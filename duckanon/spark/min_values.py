"""The number of values behind each class mean, counted again beside the released records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.audits.report import Measure
from duckanon.errors import ReleaseError
from duckanon.policy.reported import MIN_VALUES
from duckanon.release.stages.recode import too_few
from duckanon.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.stage import Staged


def min_values(
    final: DataFrame, released: DataFrame, staged: Staged, policy: Policy, *, classes: int
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """The measure `min_values` of each column that may lack values, and warnings.

    A ReleaseError if more released records have a value than `final` has in classes with enough values.
    """
    least, bound = policy.least_values, staged.bound
    fields = [
        field
        for field in bound.quasi
        if field.rule.of_values and (least > policy.k or staged.values[field.column] < staged.size)
    ]
    if not fields:
        return (), ()
    held = [sf.count(field.column).alias(field.column) for field in fields]
    counted = final.groupBy("class_id").agg(sf.count(sf.lit(1)).alias("records"), *held)
    sums = []
    for field in fields:
        values = sf.col(field.column)
        few = (values > 0) & (values < least)
        sums += [sf.sum(sf.when(values >= least, sf.col("records")).otherwise(0))]
        sums += [sf.count_if(few), sf.sum(sf.when(few, values).otherwise(0))]
    [found] = counted.agg(*sums).collect()
    names = [bound.name_of(field.column) for field in fields]
    [shown] = released.agg(*(sf.count(column(name)) for name in names)).collect()
    measures, warnings = [], []
    for place, name in enumerate(names):
        with_value, empty, lost = found[3 * place : 3 * place + 3]
        if shown[place] > with_value:
            raise ReleaseError(
                f"{shown[place] - with_value} released records have a value of {name!r} that fewer than "
                f"min_values = {least} records of their class have: nothing was released; please report this"
            )
        measures.append(Measure(MIN_VALUES, name, least, float(least), classes, 0, 0, True))
        if empty:
            warnings.append(too_few(name, empty, lost, policy))
    return tuple(measures), tuple(warnings)
