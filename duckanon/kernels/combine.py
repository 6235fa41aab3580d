"""The better parts of two partitions of the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.loss import deviations

if TYPE_CHECKING:
    from numpy.typing import NDArray


def combine(
    points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a partition with at most the SSE of either, each class of which is a class of one of them.

    Classes of the two that share records hang together; where such a group ends, both partitions end a class.
    So each group is taken from the partition that loses less in it, of equal ones from the first. What each
    class satisfies in both, each class of the result satisfies.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        All records.
    one, other : ndarray of shape (n,), int64
        Classes 0..m-1 of each record.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m'-1.

    Notes
    -----
    O(n d) and O(n) for each step from a class to those that it shares records with, a few where groups are
    small. Deterministic.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [0.0], [1.0], [8.0], [8.0], [9.0], [9.0]])
    >>> combine(points, np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3])).tolist()
    [2, 3, 2, 3, 0, 0, 1, 1]
    """
    group = groups(one, other)[one]
    gain = np.bincount(group, weights=deviations(points, one) - deviations(points, other))
    chosen = np.where(gain[group] > 0.0, other + int(one.max()) + 1, one)
    return np.asarray(np.unique(chosen, return_inverse=True)[1], dtype=np.int64)


def groups(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each class of the first partition the lowest class of it that it hangs together with."""
    m = int(one.max()) + 1
    lowest = np.arange(m)
    while True:
        across = np.full(int(other.max()) + 1, m)
        np.minimum.at(across, other, lowest[one])
        lower = np.full(m, m)
        np.minimum.at(lower, one, across[other])
        lower = lower[lower]
        if np.array_equal(lower, lowest):
            return lowest
        lowest = lower
