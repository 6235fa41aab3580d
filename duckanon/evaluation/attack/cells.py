"""Released cells as coordinates: values, ranges and sets, in the units of the values of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine
from duckanon.errors import PolicyError, SourceError
from duckanon.evaluation.attack.columns import STAGE, above, alone, axis_of, check_near, pairs

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.evaluation.attack.columns import Axis, Floats, Pairs, SharedColumn, Spread


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
