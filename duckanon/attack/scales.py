"""Scales of an attack: z-scores for distances, and values or ranks for intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.attack.cells import Alternatives, Counted

if TYPE_CHECKING:
    import numpy.typing as npt

    from duckanon.attack.columns import Spread


def scaled(
    wide: Spread | None, cell: Alternatives, values: npt.NDArray[np.float64]
) -> tuple[Alternatives, npt.NDArray[np.float64]]:
    """Return z-scores of the cells and values of a number; codes stay as they are."""
    if wide is None:
        return cell, values
    center, spread = wide.center, wide.spread
    if not spread:
        # A constant original: what the release makes of it is measured by itself.
        ends = np.concatenate([cell.least, cell.most])
        ends = ends[~np.isnan(ends)]
        largest = float(np.abs(ends).max(initial=0.0)) or 1.0
        spread = float(np.std(ends / largest)) * largest if len(ends) else 0.0
    spread = spread or 1.0

    def score(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        # Halved, so that the difference of two very large numbers does not overflow.
        return (numbers / 2 - center / 2) / (spread / 2)

    return cell._replace(least=score(cell.least), most=score(cell.most)), score(values)


def middles(cell: Alternatives, records: npt.NDArray[np.int64], *, nominal: bool) -> Counted:
    """Return the one value that each class suggests: of a range its middle, of a set its mean."""
    lengths = np.diff(cell.start)
    of = np.repeat(np.arange(len(lengths)), lengths)
    middle = np.zeros(len(lengths))
    if nominal:
        # A set of several texts suggests none of them.
        middle[:] = cell.least[cell.start[:-1]]
        middle[lengths > 1] = -2.0
    else:
        half = cell.least / 2 + cell.most / 2
        present = ~np.isnan(half)
        number = np.bincount(of[present], minlength=len(lengths))
        np.add.at(middle, of[present], half[present] / number[of[present]])
        middle[number == 0] = np.nan
    return Counted(np.arange(len(lengths)), middle, records)


def deviation(guess: Counted) -> float:
    """Return the sample standard deviation of the released values of a column; 0.0 for a single one."""
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
    """Return released and true values as ranks among the original ones, the middle rank of equal values."""
    values, before = distribution

    def rank(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        below, above = (before[np.searchsorted(values, numbers, side)] for side in ("left", "right"))
        return np.where(np.isnan(numbers), np.nan, (below + above) / 2)

    return guess._replace(value=rank(guess.value)), rank(true)


def own_value_inside(
    guess: Counted, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], truth: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return whether the value that was released for each record itself is in the interval."""
    value = guess.value[truth]
    inside = (low <= value) & (value <= high) | (np.isnan(low) & np.isnan(value))
    return inside & (truth >= 0)
