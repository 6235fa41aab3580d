"""The cheapest assignment of rows to columns of a cost matrix.

Each row is assigned along the shortest augmenting path. D. F. Crouse, "On implementing 2D rectangular
assignment algorithms", IEEE Transactions on Aerospace and Electronic Systems 52(4), 2016, section III.

>>> rows, columns = assignment(np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0]]))
>>> rows.tolist(), columns.tolist()
([0, 1], [1, 0])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_ASSIGNED = -1
"""Marks a column without a row, or a row without a column."""


def assignment(costs: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and their columns, min(n, m) pairs without repetition, whose costs have the least sum."""
    # Costs (n, m) are finite. O(n^2 m) for n <= m. Deterministic.
    n, m = costs.shape
    if n > m:
        return _columns_of_rows(np.ascontiguousarray(costs.T)), np.arange(m)
    return np.arange(n), _columns_of_rows(np.ascontiguousarray(costs))


@compiled
def _columns_of_rows(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column of each row (n,) of costs (n, m), n <= m."""
    n, m = costs.shape
    of_rows, of_columns = np.zeros(n), np.zeros(m)
    column, row = np.full(n, NOT_ASSIGNED), np.full(m, NOT_ASSIGNED)
    lengths, before = np.empty(m), np.empty(m, np.int64)
    rows_seen, columns_seen = np.empty(n, np.bool_), np.empty(m, np.bool_)
    for first in range(n):
        rows_seen[:], columns_seen[:], lengths[:] = False, False, np.inf
        end = _shortest_path(costs, of_rows, of_columns, row, lengths, before, rows_seen, columns_seen, first)
        of_rows[first] += lengths[end]
        for i in range(n):
            if rows_seen[i] and i != first:
                of_rows[i] += lengths[end] - lengths[column[i]]
        for j in range(m):
            if columns_seen[j]:
                of_columns[j] -= lengths[end] - lengths[j]
        i = NOT_ASSIGNED
        while i != first:
            i = before[end]
            row[end] = i
            column[i], end = end, column[i]
    return column


@compiled
def _shortest_path(
    costs: NDArray[np.float64],
    of_rows: NDArray[np.float64],
    of_columns: NDArray[np.float64],
    row: NDArray[np.int64],
    lengths: NDArray[np.float64],
    before: NDArray[np.int64],
    rows_seen: NDArray[np.bool_],
    columns_seen: NDArray[np.bool_],
    i: int,
) -> int:
    """Return the free column nearest to row i by reduced costs; write the path to the other arrays."""
    m = len(lengths)
    # The last column comes first, so that equal costs give the identity.
    open_columns = np.arange(m - 1, -1, -1)
    least = 0.0
    for left in range(m, 0, -1):
        rows_seen[i] = True
        lowest, place = np.inf, 0
        for at in range(left):
            j = open_columns[at]
            length = least + costs[i, j] - of_rows[i] - of_columns[j]
            if length < lengths[j]:
                lengths[j], before[j] = length, i
            # Among columns at the same distance, a free column ends the path.
            if lengths[j] < lowest or (lengths[j] == lowest and row[j] == NOT_ASSIGNED):
                lowest, place = lengths[j], at
        least, j = lowest, open_columns[place]
        columns_seen[j] = True
        open_columns[place] = open_columns[left - 1]
        if row[j] == NOT_ASSIGNED:
            return int(j)
        i = row[j]
    return NOT_ASSIGNED
