"""Columns of a DataFrame with their roles, for policies that Spark supports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DecimalType, StructType

from duckanon.errors import PolicyError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.release.folders import not_yet, released_type
from duckanon.release.recoding import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    sources: tuple[str, ...]

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
    _check_options(policy)
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
    return BoundColumns(fields, names, names)


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


def _check_options(policy: Policy) -> None:
    """Raise a PolicyError for an option that Spark does not support."""
    for option in not_yet(policy):
        raise PolicyError(f"{option} is not yet for Spark: leave it out, or anonymize with DuckDB")
