"""The columns that the original and the release have in common, and their numbers.

A number is a pair of DOUBLEs, the nearest DOUBLE and the rest, so that near numbers stay different.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckanon.database import engine, templates
from duckanon.database.relations import columns_of as described
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import columns_listed, fold, suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Pairs = npt.NDArray[np.float64]

MIN_DIFFERENCE, MAX_DIFFERENCE = 1e-150, 1e150
"""Differences, in standard deviations, whose squares neither underflow nor overflow."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Location of the numbers of an original column; mean and deviation are shares of the range, 0 to 1."""

    least: Pairs  # (2,) least number
    half: float  # half of the range
    mean: float  # above the least number
    deviation: float  # standard deviation of the population


class Axis(NamedTuple):
    """How the numbers of a column become coordinates, in units of 2^exponent."""

    exponent: int  # 2^exponent is about a standard deviation; division by it loses nothing
    factor: float  # the unit in standard deviations
    start: Pairs  # (2,) coordinate of the least number of the original
    center: Pairs  # (2,) coordinate of the mean of the original
    reach: float  # greatest less least coordinate of the original

    def placed(self, numbers: Pairs) -> Pairs:
        """Return the coordinates of numbers, as pairs."""
        return _divided(numbers, self.exponent)

    def above(self, coordinates: Pairs) -> Floats:
        """Return coordinates less the least coordinate of the original."""
        return above(coordinates, self.start)


def pairs(values: Any, name: str, table: str) -> Pairs:
    """Return the numbers from ``number.sql.j2`` as pairs (n, 2): nearest DOUBLE and rest; NaN for NULL.

    SourceError if a value is NaN or infinite, or has more digits than can be compared.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    near, rest = whole.flatten()
    numbers = np.column_stack([part.to_numpy(zero_copy_only=False) for part in (near, rest)]).astype(float)
    present = near.is_valid().to_numpy(zero_copy_only=False)
    if np.isnan(numbers[present, 0]).any():
        raise SourceError(
            f"column {name!r} of the {table} holds NaN or infinity: make them NULL, or leave the records out"
        )
    if np.isinf(numbers[present, 0]).any():
        raise SourceError(
            f"column {name!r} of the {table} holds numbers of more digits than can be compared (31; 15 if "
            "the other\ntable has FLOAT or DOUBLE): CAST it to one type with fewer digits in both tables"
        )
    return numbers


def alone(codes: Floats) -> Pairs:
    """Return codes as pairs whose rest is 0."""
    return np.column_stack([codes, np.zeros(len(codes))])


def above(values: Pairs, other: Pairs) -> Floats:
    """Return values less others: the nearest DOUBLE to the true difference, NaN for NULL."""
    difference: Floats = (values[..., 0] - other[..., 0]) + (values[..., 1] - other[..., 1])
    return difference


def axis_of(wide: Spread, released: Pairs, name: str) -> Axis:
    """Return the axis of a column, whose unit is about the standard deviation of the original. O(n).

    For a constant original the released numbers give the unit. SourceError if a released number is too far
    away to square.
    """
    half = wide.deviation * wide.half
    if not half:
        half = _width(above(_divided(released, 1), _divided(wide.least, 1))) or 0.5
    # `half` is half the standard deviation, which cannot overflow. The unit is twice `half`.
    share, exponent = math.frexp(half)[0], math.frexp(half)[1] + 1
    start, reach = _divided(wide.least, exponent), float(_divided(np.array(wide.half), exponent - 1))
    center = np.array([start[0], start[1] + reach * wide.mean])
    axis = Axis(exponent, 1 / share, start, center, reach)
    far = np.abs(axis.above(axis.placed(released)))
    if not (far[~np.isnan(released[:, 0])] <= MAX_DIFFERENCE).all():
        raise SourceError(
            f"column {name!r} of the release holds numbers that are too far from those of the original to be "
            "compared: make them NULL"
        )
    return axis


def check_near(values: Pairs, axis: Axis, name: str) -> None:
    """Raise SourceError if the squared distance of two different numbers would be zero."""
    apart = np.unique(values[~np.isnan(values[:, 0]), 0])
    gaps = np.diff(_divided(apart, axis.exponent))
    if (gaps < MIN_DIFFERENCE).any():
        raise SourceError(
            f"column {name!r} holds numbers that are too near to each other, beside the largest ones, to be "
            "compared: ROUND it, take its logarithm, or make the largest NULL, in both tables"
        )


def _width(numbers: Floats) -> float:
    """Return the standard deviation of numbers; if all are equal, their magnitude."""
    present = np.abs(numbers[~np.isnan(numbers)])
    largest = float(present.max(initial=0.0))
    if not largest:
        return 0.0
    return (float(np.std(numbers[~np.isnan(numbers)] / largest)) or 1.0) * largest


def _divided(numbers: Floats, exponent: int) -> Floats:
    """Return numbers over a power of two."""
    with np.errstate(over="ignore", under="ignore"):
        divided: Floats = np.ldexp(numbers, -exponent)
    return divided


STAGE = "linkage"
_RANGE = re.compile(r'STRUCT\("?low"? (?P<low>.+), "?high"? (?P<high>.+)\)', re.IGNORECASE)
_FAMILY = {
    **dict.fromkeys(("integer", "decimal", "float"), "number"),
    **dict.fromkeys(("date", "timestamp"), "date or timestamp"),
    **dict.fromkeys(("text", "boolean"), "text"),
}
_NUMBER = pa.struct([("near", pa.float64()), ("rest", pa.float64())])
_ZONED = "TIMESTAMP WITH TIME ZONE"


class Measure(NamedTuple):
    """How values of a type become numbers, in the units that both tables share."""

    # whole, float, rounded (a DECIMAL beside a DOUBLE of the other table), date, coarse (units larger than
    # microseconds), micro, nano, or text
    rule: str
    scale: int = 0  # digits after the point

    @property
    def finite(self) -> bool:
        """Whether the type has neither NaN nor infinity."""
        return self.rule in {"whole", "rounded"}


class SharedColumn(NamedTuple):
    """A column of both tables, spelled as in the original; both measures have the same units."""

    name: str
    form: str  # value, range (a struct of low and high), set (a list) or label of a hierarchy
    original: Measure
    released: Measure
    below: str | None = None  # relation (label, leaf) of the hierarchy

    @property
    def nominal(self) -> bool:
        """Whether two values of the column are only equal or different."""
        return self.original.rule == "text"


def columns_of(
    con: duckdb.DuckDBPyConnection,
    relations: tuple[str, str],
    names: Sequence[str],
    option: str,
    *,
    below: Mapping[str, str],
) -> tuple[SharedColumn, ...]:
    """Return columns by name, in any case, as the original and the release (SQL text) have them.

    `below` has the relation (label, leaf) of each column with a hierarchy, by folded name. PolicyError, which
    names the option, if a table lacks a column, or a type has no distances or differs in the release.
    """
    original, release = (_types(con, relation) for relation in relations)
    columns = []
    for name in names:
        for types, table in ((original, "original"), (release, "release")):
            if fold(name) not in types:
                known = [spelled for spelled, _ in types.values()]
                hint = suggestion(name, known) or f": {columns_listed(known)}"
                raise PolicyError(f"{option} names {name!r}, which the {table} does not have{hint}")
        spelled, text = original[fold(name)]
        columns.append(_column(spelled, text, release[fold(name)][1], below.get(fold(name))))
    return tuple(columns)


def has_column(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> bool:
    """Tell whether a relation has a column, in any case."""
    return fold(name) in _types(con, relation)


def _types(con: duckdb.DuckDBPyConnection, relation: str) -> dict[str, tuple[str, str]]:
    return {fold(name): (name, type_text) for name, type_text in described(con, relation, STAGE)}


def _column(name: str, original: str, released: str, below: str | None) -> SharedColumn:
    form, inner = "value", released
    if below is not None and released == "VARCHAR":
        form, inner = "label", original
    elif (struct := _RANGE.fullmatch(released)) is not None:
        form, inner = "range", struct["low"] if struct["low"] == struct["high"] else released
    elif released.endswith("[]"):
        form, inner = "set", released[:-2]
    family = _family(original)
    if family is None:
        raise PolicyError(
            f"column {name!r} has type {original[:40]}, whose values have no distance: CAST it to VARCHAR in "
            "both tables, to compare whether they are equal"
        )
    if _family(inner) != family or (form == "range" and family == "text"):
        zoned = _ZONED in (original, inner) and _FAMILY["date"] in (family, _family(inner))
        raise PolicyError(
            f"column {name!r} is {original[:40]} in the original and {released[:40]} in the release: CAST "
            + (
                "both to the same type, since it depends on the time zone which values are the same"
                if zoned
                else "one; read the release from parquet or DuckDB, for a CSV turns ranges and sets into "
                "text; or give the hierarchies of its labels"
            )
        )
    kinds = {kind_of(original), kind_of(inner)}
    digits = 0 if "float" in kinds else max(_scale(original), _scale(inner))
    first, second = (_measure(type_text, digits, real="float" in kinds) for type_text in (original, inner))
    return SharedColumn(name, form, first, second, below if form == "label" else None)


def _family(type_text: str) -> str | None:
    """Return the kind of values that values of a type are compared with; None if they have no distance."""
    if type_text in {_ZONED, "TIMESTAMPTZ_NS"}:
        return type_text if type_text == _ZONED else None
    return _FAMILY.get(kind_of(type_text))


def _scale(type_text: str) -> int:
    """Return the digits after the point."""
    return int(type_text[:-1].rpartition(",")[2]) if kind_of(type_text) == "decimal" else 0


def _measure(type_text: str, digits: int, *, real: bool) -> Measure:
    kind = kind_of(type_text)
    if kind == "decimal" and real:
        return Measure("rounded", _scale(type_text))
    if kind == "timestamp":
        coarse = dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS"), "coarse")
        return Measure({"TIMESTAMP_NS": "nano", **coarse}.get(type_text, "micro"))
    rules = {"integer": "whole", "decimal": "whole", "boolean": "text"}
    return Measure(rules.get(kind, kind), digits)


def spreads(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[SharedColumn]
) -> tuple[int, dict[str, Spread]]:
    """Return the records of the original, and the spread of its numeric columns by name. O(n) in SQL.

    A column of NULLs has zeros. SourceError if the table is empty or unreadable, or a column holds NaN or
    infinity.
    """
    numbers = [column for column in columns if not column.nominal]
    query = templates.render("linkage/original.sql.j2:moments", relation=relation, columns=numbers)
    records, *row = engine.rows(con, query, f"{STAGE}: original", error=SourceError)[0]
    if not records:
        raise SourceError("the original is empty: there is nothing to link")
    parts = (row[at : at + 6] for at in range(0, len(row), 6))
    return int(records), {
        column.name: _spread(column.name, *part) for column, part in zip(numbers, parts, strict=True)
    }


def _spread(name: str, unusable: int, least: object, greatest: object, *moments: float | None) -> Spread:
    if unusable:
        raise SourceError(
            f"column {name!r} of the original holds NaN or infinity in {unusable} records: make them NULL, "
            "or leave the records out"
        )
    ends = pairs(pa.array([least, greatest], _NUMBER), name, "original")
    return Spread(np.nan_to_num(ends[0]), *(moment or 0.0 for moment in moments))


def distribution(
    con: duckdb.DuckDBPyConnection, relation: str, column: SharedColumn
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the sorted values (v, 2) of a numeric column, and the records before each (v + 1). O(n log n).

    The last count is that of all records with a value.
    """
    query = templates.render("linkage/original.sql.j2:distribution", relation=relation, column=column)
    table = engine.table(con, query, STAGE)
    values, records = pairs(table.column(0), column.name, "original"), table.column(1).to_numpy()
    return values, np.concatenate([np.zeros(1, np.int64), np.cumsum(records)])
