"""Released cells as an attacker sees them (a value, a range, a set of values), and the distance to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Cells(NamedTuple):
    """The released cells of some groups in some columns (a named tuple, because numba takes it apart).

    Attributes
    ----------
    start : ndarray of shape (a, groups + 1), int64
        Cell j of group g is ``least[start[j, g]:start[j, g + 1]]``, its alternatives, at least one.
    least, most : ndarray of shape (alternatives, 2), float64
        From where to where an alternative reaches; both the value itself for a value, NaN for NULL. A nominal
        value is its code, NULL among them. A number is the sum of two, the second smaller than the last digit
        of the first.
    nominal : ndarray of shape (a,), bool
        Whether two different values of a column are at squared distance 1, whatever they are.
    center : ndarray of shape (a, 2), float64
        The number of a column that stands for NULL.
    factor : ndarray of shape (a,), float64
        What a difference of 1 in a column counts in a distance.
    """

    start: NDArray[np.int64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    nominal: NDArray[np.bool_]
    center: NDArray[np.float64]
    factor: NDArray[np.float64]


@inner
def distance(cells: Cells, group: int, point: NDArray[np.float64]) -> float:
    """Squared distance from a point to the nearest alternative of each cell of a group.

    Parameters
    ----------
    cells : Cells
        Cells of all groups.
    group : int
        Which of them.
    point : ndarray of shape (a, 2), float64
        What is known of a record: numbers, codes of nominal values, NaN for NULL.

    Returns
    -------
    float
        Zero or more; O(alternatives of the group).
    """
    total = 0.0
    for j in range(len(point)):
        best = np.inf
        for one in range(cells.start[j, group], cells.start[j, group + 1]):
            best = min(best, _apart(cells, j, one, point[j]))
        total += best
    return total


@inner
def beyond(value: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """How far a number is above another.

    Parameters
    ----------
    value, other : ndarray of shape (2,), float64
        Two numbers; only what is left after subtraction is rounded.

    Returns
    -------
    float
        Zero exactly if they are equal.
    """
    return float((value[0] - other[0]) + (value[1] - other[1]))


@inner
def _apart(cells: Cells, j: int, one: int, value: NDArray[np.float64]) -> float:
    """Return the squared distance between a value and an alternative; NULL is a coordinate of its own."""
    least, most, extra = cells.least[one], cells.most[one], 0.0
    if cells.nominal[j]:
        return 0.0 if value[0] == least[0] else 1.0
    if np.isnan(value[0]) and np.isnan(least[0]):
        return 0.0
    if np.isnan(value[0]):
        value, extra = cells.center[j], 1.0
    elif np.isnan(least[0]):
        least, most, extra = cells.center[j], cells.center[j], 1.0
    gap = max(0.0, max(beyond(least, value), beyond(value, most))) * cells.factor[j]
    return float(gap * gap + extra)
