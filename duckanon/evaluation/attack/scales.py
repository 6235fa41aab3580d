"""Scales of the intervals around true values: how far released values spread, and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from duckanon.evaluation.attack.cells import Counted


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
