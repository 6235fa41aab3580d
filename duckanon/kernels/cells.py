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
    least, most : ndarray of shape (alternatives,), float64
        From where to where an alternative reaches; both the value itself for a value, NaN for NULL. A nominal
        value is its code, NULL among them.
    nominal : ndarray of shape (a,), bool
        Whether two different values of a column are at squared distance 1, whatever they are.
    """

    start: NDArray[np.int64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    nominal: NDArray[np.bool_]


@inner
def distance(cells: Cells, group: int, point: NDArray[np.float64]) -> float:
    """Squared distance from a point to the nearest alternative of each cell of a group.

    Parameters
    ----------
    cells : Cells
        Cells of all groups.
    group : int
        Which of them.
    point : ndarray of shape (a,), float64
        What is known of a record: coordinates, codes of nominal values, NaN for NULL.

    Returns
    -------
    float
        Zero or more, in the unit of the coordinates; O(alternatives of the group).
    """
    total = 0.0
    for j in range(len(point)):
        best = np.inf
        for one in range(cells.start[j, group], cells.start[j, group + 1]):
            best = min(best, _apart(point[j], cells.least[one], cells.most[one], cells.nominal[j]))
        total += best
    return total


@inner
def _apart(value: float, least: float, most: float, nominal: bool) -> float:
    """Return the squared distance between a value and an alternative; NULL is a coordinate of its own."""
    if nominal:
        return 0.0 if value == least else 1.0
    if np.isnan(value) and np.isnan(least):
        return 0.0
    extra = 0.0
    if np.isnan(value):
        value, extra = 0.0, 1.0
    elif np.isnan(least):
        least, most, extra = 0.0, 0.0, 1.0
    gap = max(0.0, max(least - value, value - most))
    return gap * gap + extra
