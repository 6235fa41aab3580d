"""Stage: the columns that are released are written aside, so that every job reads the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.errors import PolicyError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.columns import Bound


@dataclass(frozen=True)
class Staged:
    """Records that wait for their classes."""

    bound: Bound
    frame: DataFrame  # columns q1, o2, ..., as they were written aside
    size: int


def stage(frame: DataFrame, bound: Bound, policy: Policy, folder: str) -> Staged:
    """Write the records to a folder; a SourceError where they cannot be anonymized.

    A DataFrame may give other rows each time it is asked: it is asked once.
    """
    pairs = zip(bound.sources, bound.fields, strict=True)
    frame.select([_column(name).alias(field.column) for name, field in pairs]).write.parquet(folder)
    staged = frame.sparkSession.read.parquet(folder)
    odd = [
        sf.count_if(sf.isnan(field.column) | (sf.abs(field.column) == float("inf"))).alias(
            f"odd_{field.column}"
        )
        for field in bound.quasi
        if field.kind == "float"
    ]
    nulls = [sf.count_if(sf.isnull(field.column)).alias(f"null_{field.column}") for field in bound.quasi]
    [found] = staged.agg(sf.count(sf.lit(1)).alias("size"), *odd, *nulls).collect()
    for field in bound.quasi:
        name = bound.name_of(field.column)
        if field.kind == "float" and found[f"odd_{field.column}"]:
            raise SourceError(
                f"quasi-identifier {name!r} is NaN or infinite in {found[f'odd_{field.column}']} records: "
                "leave them out, or make it NULL"
            )
        if policy.nulls == "error" and found[f"null_{field.column}"]:
            raise SourceError(
                f"quasi-identifier {name!r} is NULL in {found[f'null_{field.column}']} records, and "
                "nulls = 'error'"
            )
    size = int(found["size"])
    if size < 2:
        raise SourceError(f"the DataFrame has {size} records: nobody can hide in a release of one")
    if policy.k > size:
        raise PolicyError(f"k = {policy.k} is more than the {size} records: use k <= {size}")
    return Staged(bound, staged, size)


def _is_odd(column: str) -> Column:
    """Tell whether a number is NaN or infinite."""
    return sf.isnan(column) | (sf.abs(column) == float("inf"))


def _column(name: str) -> Column:
    """Return a column by its name, whatever is in it."""
    return sf.col(f"`{name.replace('`', '``')}`")
