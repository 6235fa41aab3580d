"""Stage: the released columns are written to a folder, so that all jobs read the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.errors import PolicyError, SourceError
from duckanon.policy.kinds import NUMBERS
from duckanon.spark.columns import column, number
from duckanon.spark.files import FILE_MAX_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.columns import BoundColumns, Range


@dataclass(frozen=True)
class Staged:
    """The staged records."""

    bound: BoundColumns
    frame: DataFrame  # columns q1, o2, ..., read from the folder
    folder: str | None  # folder with exactly the rows of the frame
    size: int
    left_out: int  # records dropped by nulls = 'suppress'
    values: Mapping[str, int]  # records with a value, by column of a quasi-identifier
    ranges: Mapping[str, Range]  # by column of a numeric quasi-identifier


def stage(frame: DataFrame, bound: BoundColumns, policy: Policy, folder: str) -> Staged:
    """Write the records to a folder; a SourceError if they cannot be anonymized.

    The DataFrame is computed once, because a second computation may give other rows.
    """
    pairs = zip(bound.sources, bound.fields, strict=True)
    named = frame.select([column(name).alias(field.column) for name, field in pairs])
    named.write.option("maxRecordsPerFile", FILE_MAX_RECORDS).parquet(folder)
    staged = stored = frame.sparkSession.read.parquet(folder)
    if policy.nulls == "suppress":
        # `dropna` would also drop NaN, which must be an error.
        for field in bound.quasi:
            staged = staged.where(sf.isnotnull(field.column))
    size, values, ranges = _counted(staged, bound)
    _check(size, values, bound, policy)
    left_out = stored.count() - size if policy.nulls == "suppress" else 0
    return Staged(bound, staged, None if left_out else folder, size, left_out, values, ranges)


def _counted(staged: DataFrame, bound: BoundColumns) -> tuple[int, dict[str, int], dict[str, Range]]:
    """Count records and values of each quasi-identifier, and find the ranges of numbers, in one pass.

    A SourceError if a number is NaN or infinite and so cannot be ordered.
    """
    asked = [sf.count(sf.lit(1)).alias("records")]
    for field in bound.quasi:
        asked.append(sf.count(field.column).alias(f"values_{field.column}"))
        if field.kind in NUMBERS:
            asked.append(sf.min(number(field)).alias(f"low_{field.column}"))
            asked.append(sf.max(number(field)).alias(f"high_{field.column}"))
        if field.kind == "float":
            asked.append(sf.count_if(_is_odd(field.column)).alias(f"odd_{field.column}"))
    [found] = staged.agg(*asked).collect()
    values, ranges = {}, {}
    for field in bound.quasi:
        values[field.column] = int(found[f"values_{field.column}"])
        if field.kind in NUMBERS:
            ranges[field.column] = found[f"low_{field.column}"], found[f"high_{field.column}"]
        if field.kind == "float" and found[f"odd_{field.column}"]:
            raise SourceError(
                f"quasi-identifier {bound.name_of(field.column)!r} is NaN or infinite in "
                f"{found[f'odd_{field.column}']} records: leave them out, or make it NULL"
            )
    return int(found["records"]), values, ranges


def _check(size: int, values: Mapping[str, int], bound: BoundColumns, policy: Policy) -> None:
    """Raise if there are too few records, or a NULL with nulls = 'error'."""
    for field in bound.quasi:
        name, missing = bound.name_of(field.column), size - values[field.column]
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


def _is_odd(column: str) -> Column:
    """Whether a number is NaN or infinite."""
    return sf.isnan(column) | (sf.abs(column) == float("inf"))
