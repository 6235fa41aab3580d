"""The better parts of two partitions of the same records.

Classes of the two partitions that share records are linked. At the border of a group of linked classes, a
class ends in both partitions. So each group can be taken from the partition that loses less in it, from the
first if equal. A requirement that each class satisfies in both partitions holds for each class of the result.

>>> points = np.array([[0.0], [1.0], [0.0], [1.0], [8.0], [8.0], [9.0], [9.0]])
>>> combine(points, np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3])).tolist()
[2, 3, 2, 3, 0, 0, 1, 1]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.loss import deviations

if TYPE_CHECKING:
    from numpy.typing import NDArray


def combine(
    points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a partition (n,) of classes of either partition, with at most the SSE of each of the two."""
    # O(n d), and O(n) for each step from a class to the classes linked with it; a few steps if groups are
    # small. Deterministic.
    group = groups(one, other)[one]
    gain = np.bincount(group, weights=deviations(points, one) - deviations(points, other))
    chosen = np.where(gain[group] > 0.0, other + int(one.max()) + 1, one)
    return np.asarray(np.unique(chosen, return_inverse=True)[1], dtype=np.int64)


def groups(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each class of the first partition the lowest class of that partition in its group."""
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
