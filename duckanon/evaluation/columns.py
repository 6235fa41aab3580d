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

from duckanon.database import arrow, engine, templates
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


class Alternatives(NamedTuple):
    """Cells of one column: cell i is ``least[start[i]:start[i + 1]]`` to ``most[...]``; NaN is NULL."""

    start: npt.NDArray[np.int64]
    least: Pairs
    most: Pairs
    key: npt.NDArray[np.int64]
    """(cells,) number of each cell; equal cells have equal numbers."""


class Known(NamedTuple):
    """A quasi-identifier: released cells of every class, and the values of the sample (r, 2)."""

    cells: Alternatives
    values: Pairs
    axis: Axis | None  # meaning of the coordinates; None for a nominal column, whose coordinates are codes


class Counted(NamedTuple):
    """Released values of a column: class, value (NaN for NULL) and number of records."""

    classes: npt.NDArray[np.int64]
    value: Floats
    records: npt.NDArray[np.int64]


class Disclosed(NamedTuple):
    """A column to be disclosed, as numbers above the least of the original."""

    guess: Counted  # released values
    true: Floats  # true values of the sample
    axis: Axis | None  # meaning of the numbers; None for the codes of a nominal column


def cells(
    table: pa.Table, column: SharedColumn, number: int, drawn: pa.ChunkedArray, wide: Spread | None
) -> Known:
    """Return the released cells of column `number` (from 1), and the values of the sample in the same units.

    A nominal column has no spread: its cells are codes, NULL with its own code. SourceError if a cell is no
    number or no range, or its distance cannot be computed.
    """
    key = arrow.numbers(table.column(f"key{number}")).astype(np.int64)
    start, *ends = _alternatives(table, column, number)
    if wide is None:
        codes, known = coded(ends[0], drawn)
        return Known(Alternatives(start, alone(codes), alone(codes), key), alone(known), None)
    low, high = (pairs(end, column.name, "release") for end in (ends[0], ends[-1]))
    _check_ranges(low, high, column.name)
    values = pairs(drawn, column.name, "original")
    axis = axis_of(wide, np.concatenate([low, high]), column.name)
    check_near(np.concatenate([low, high, values]), axis, column.name)
    return Known(Alternatives(start, axis.placed(low), axis.placed(high), key), axis.placed(values), axis)


def _alternatives(table: pa.Table, column: SharedColumn, number: int) -> tuple[Any, ...]:
    """Return where the alternatives of each cell begin, and their values; of ranges both ends."""
    start = np.arange(table.num_rows + 1)
    if column.form == "range":
        return start, table.column(f"low{number}"), table.column(f"high{number}")
    if column.form == "value":
        return start, table.column(f"value{number}")
    lists = table.column(f"list{number}").combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], lists.flatten()


def _check_ranges(low: Pairs, high: Pairs, name: str) -> None:
    if (np.isnan(low[:, 0]) != np.isnan(high[:, 0])).any():
        raise SourceError(f"column {name!r} of the release holds ranges with one end: give both, or NULL")
    if (above(low, high) > 0).any():
        raise SourceError(f"column {name!r} of the release holds ranges whose low end is above the high one")


def coded(first: Any, second: Any) -> tuple[Floats, Floats]:
    """Return codes 0, 1, ... of the texts in two arrays, equal for equal texts; NULL has its own code."""
    chunks = [chunk for part in (first, second) for chunk in getattr(part, "chunks", [part])]
    joined = pa.chunked_array(chunks, pa.string()).combine_chunks()
    whole = joined.dictionary_encode()
    # Codes in the order of the texts, NULL last: texts with near codes stand together in the search tree.
    count = len(whole.dictionary)
    rank = np.full(count + 1, float(count))
    # Imported here: slow to load, and every command imports this module.
    import pyarrow.compute as pc

    rank[pc.sort_indices(whole.dictionary).to_numpy().astype(np.int64)] = np.arange(count)
    codes = rank[whole.indices.fill_null(count).to_numpy()]
    return codes[: len(first)], codes[len(first) :]


def counted(
    con: duckdb.DuckDBPyConnection,
    query: str,
    column: SharedColumn,
    drawn: pa.ChunkedArray,
    wide: Spread | None,
) -> Disclosed:
    """Return the released values of a column that is no quasi-identifier, by class, and the sample's values.

    `query` is the text of ``values.sql.j2``.
    """
    if column.form != "value":
        raise PolicyError(
            f"column {column.name!r} is a {column.form} in the release: name it as quasi-identifier"
        )
    table = engine.table(con, query, STAGE)
    classes, records = (arrow.numbers(table.column(at)).astype(np.int64) for at in (0, 2))
    if wide is None:
        codes, known = coded(table.column(1), drawn)
        return Disclosed(Counted(classes, codes, records), known, None)
    released = pairs(table.column(1), column.name, "release")
    axis = axis_of(wide, released, column.name)
    true = axis.placed(pairs(drawn, column.name, "original"))
    return Disclosed(Counted(classes, axis.above(axis.placed(released)), records), axis.above(true), axis)


def suggested(known: Known, records: npt.NDArray[np.int64]) -> Disclosed:
    """Return what the cells of a quasi-identifier suggest: the middle of a range, the mean of a set."""
    cell, axis = known.cells, known.axis
    lengths = np.diff(cell.start)
    classes = np.arange(len(lengths))
    if axis is None:
        # A set of several texts suggests no text.
        codes = np.where(lengths > 1, -2.0, cell.least[cell.start[:-1], 0])
        return Disclosed(Counted(classes, codes, records), known.values[:, 0], None)
    of, half = np.repeat(classes, lengths), axis.above(cell.least) / 2 + axis.above(cell.most) / 2
    present = ~np.isnan(half)
    number = np.bincount(of[present], minlength=len(lengths))
    middle = np.where(number == 0, np.nan, 0.0)
    np.add.at(middle, of[present], half[present] / number[of[present]])
    return Disclosed(Counted(classes, middle, records), axis.above(known.values), axis)


def deviation(guess: Counted) -> float:
    """Return the sample standard deviation of the released values of a column; 0.0 for a single value."""
    present = ~np.isnan(guess.value)
    value, records = guess.value[present], guess.records[present]
    largest = float(np.abs(value).max(initial=0.0))
    if largest == 0 or records.sum() < 2:
        return 0.0
    value = value / largest
    squares = records * (value - np.average(value, weights=records)) ** 2
    return float(np.sqrt(squares.sum() / (records.sum() - 1)) * largest)


def ranked(
    distribution: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]],
    guess: Counted,
    true: npt.NDArray[np.float64],
) -> tuple[Counted, npt.NDArray[np.float64]]:
    """Return released and true values as ranks among the original values; ties have the middle rank."""
    values, before = distribution

    def rank(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        below, above = (before[np.searchsorted(values, numbers, side)] for side in ("left", "right"))
        return np.where(np.isnan(numbers), np.nan, (below + above) / 2)

    return guess._replace(value=rank(guess.value)), rank(true)


def own_value_inside(
    guess: Counted, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], truth: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Tell for each record whether the value that was released for it is in its interval."""
    value = guess.value[truth]
    inside = (low <= value) & (value <= high) | (np.isnan(low) & np.isnan(value))
    return inside & (truth >= 0)
