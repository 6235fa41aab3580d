"""Stage: the columns that are released are written aside, so that every job reads the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.errors import PolicyError, SourceError
from duckanon.spark.columns import column

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
    left_out: int  # records that nulls = 'suppress' leaves out


def stage(frame: DataFrame, bound: Bound, policy: Policy, folder: str) -> Staged:
    """Write the records to a folder; a SourceError where they cannot be anonymized.

    A DataFrame may give other rows each time it is asked: it is asked once.
    """
    pairs = zip(bound.sources, bound.fields, strict=True)
    frame.select([column(name).alias(field.column) for name, field in pairs]).write.parquet(folder)
    staged, left_out = frame.sparkSession.read.parquet(folder), 0
    if policy.nulls == "suppress":
        every = staged.count()
        # `dropna` would leave out NaN, too, which is an error.
        for field in bound.quasi:
            staged = staged.where(sf.isnotnull(field.column))
        left_out = every - staged.count()
    size = _checked(staged, bound, policy)
    return Staged(bound, staged, size, left_out)


def _checked(staged: DataFrame, bound: Bound, policy: Policy) -> int:
    """Return how many records there are; an error where these, or one of their values, cannot be released."""
    fields = bound.quasi
    odd = [sf.count_if(_is_odd(field.column)) for field in fields if field.kind == "float"]
    nulls = [sf.count_if(sf.isnull(field.column)) for field in fields]
    [found] = staged.agg(sf.count(sf.lit(1)), *nulls, *odd).collect()
    size, counts = int(found[0]), iter(found[1 + len(fields) :])
    for number, field in enumerate(fields, 1):
        name, missing = bound.name_of(field.column), found[number]
        unusable = next(counts) if field.kind == "float" else 0
        if unusable:
            raise SourceError(
                f"quasi-identifier {name!r} is NaN or infinite in {unusable} records: "
                "leave them out, or make it NULL"
            )
        if policy.nulls == "error" and missing:
            raise SourceError(
                f"quasi-identifier {name!r} is NULL in {missing} records, and nulls = 'error': "
                "leave them out, or use nulls = 'category' or 'suppress'"
            )
    rule = " without a NULL in a quasi-identifier" if policy.nulls == "suppress" else ""
    if size < 2:
        raise SourceError(f"the DataFrame has {size} records{rule}: nobody can hide in a release of one")
    if policy.k > size:
        raise PolicyError(f"k = {policy.k} is more than the {size} records{rule}: use k <= {size}")
    return size


def _is_odd(column: str) -> Column:
    """Tell whether a number is NaN or infinite."""
    return sf.isnan(column) | (sf.abs(column) == float("inf"))
