"""Stage: columns get their roles and are written to a folder, so that all jobs read the same records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DecimalType, StructType

from duckanon.errors import PolicyError, SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.kinds import NUMBERS
from duckanon.release.folders import not_yet, released_type
from duckanon.release.recoding import fields_of
from duckanon.spark.tasks import FILE_MAX_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.stage import Field

Range = tuple[float | None, float | None]
"""Lowest and highest number of a column, None without a number."""

_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP", "binary": "BLOB",
}  # fmt: skip
"""DuckDB's type for each type of Spark."""


@dataclass(frozen=True)
class BoundColumns:
    """Released columns in the order of the DataFrame, under safe names."""

    fields: tuple[Field, ...]  # named by their column: q1, o2, ...; original names in `names`
    names: tuple[str, ...]  # as the DataFrame spells them

    @property
    def quasi(self) -> tuple[Field, ...]:
        """Quasi-identifiers."""
        return tuple(field for field in self.fields if field.quasi)

    @property
    def sensitive(self) -> tuple[Field, ...]:
        """Sensitive columns."""
        return tuple(field for field in self.fields if field.attribute.role is Role.SENSITIVE)

    def name_of(self, column: str) -> str:
        """Name of a column in the DataFrame."""
        return dict(zip((field.column for field in self.fields), self.names, strict=True))[column]


def bound(frame: DataFrame, policy: Policy) -> BoundColumns:
    """Return the columns that a policy releases; a PolicyError for unsupported options and types."""
    for option in not_yet(policy):
        raise PolicyError(f"{option} is not yet for Spark: leave it out, or anonymize with DuckDB")
    attributes = bind.bind(policy, duckdb_columns(frame))
    kept = [one for one in attributes if one.role is not Role.IDENTIFIER]
    for one in kept:
        if not released_type(one.type):
            raise PolicyError(
                f"column {one.name!r} is {one.type}, which is not yet for Spark: CAST it to STRING, "
                "select its parts, or make it an identifier"
            )
    fields = fields_of(kept)
    names = tuple(field.name for field in fields)
    fields = tuple(replace(field, attribute=replace(field.attribute, name=field.column)) for field in fields)
    return BoundColumns(fields, names)


def column(name: str) -> Column:
    """Return a column by its name with any characters."""
    return sf.col(f"`{name.replace('`', '``')}`")


def number(field: Field) -> Column:
    """Number of an ordered column: days of a date, microseconds of a timestamp."""
    found = sf.col(field.column)
    if field.type == "DATE":
        return sf.unix_date(found).cast("double")
    if field.type == "TIMESTAMP WITH TIME ZONE":
        return sf.unix_micros(found).cast("double")
    if field.type == "TIMESTAMP":
        begin = sf.to_timestamp_ntz(sf.lit("1970-01-01 00:00:00"))
        return sf.timestamp_diff("MICROSECOND", begin, found).cast("double")
    return found.cast("double")


def duckdb_columns(frame: DataFrame) -> Sequence[tuple[str, str]]:
    """Names of the columns with DuckDB's types, or Spark's type if DuckDB has none."""
    found = []
    for field in frame.schema.fields:
        text = field.dataType.simpleString()
        found.append((field.name, text.upper() if text.startswith("decimal(") else _TYPES.get(text, text)))
    return found


def handed_over(frame: DataFrame) -> bool:
    """Whether DuckDB has the types of all columns and the same equality of values as Spark."""
    return all(_handed_over(field.dataType) for field in frame.schema.fields)


def _handed_over(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(field.name.isidentifier() and _handed_over(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _handed_over(kind.elementType)
    return isinstance(kind, DecimalType) or kind.simpleString() in _TYPES


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
    pairs = zip(bound.names, bound.fields, strict=True)
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
            asked.append(
                sf.count_if(sf.isnan(field.column) | (sf.abs(field.column) == float("inf"))).alias(
                    f"odd_{field.column}"
                )
            )
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
