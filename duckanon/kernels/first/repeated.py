"""Records that share all coordinates with at least k - 1 others form classes, which lose nothing.

>>> repeated(np.array([[5.0], [1.0], [9.0], [5.0]]), 2).tolist()
[0, 1, 1, 0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.first.mdav import mdav

if TYPE_CHECKING:
    from numpy.typing import NDArray


def repeated(points: NDArray[np.float64], k: int) -> NDArray[np.int64] | None:
    """Return classes (n,) of equal records, and those of `mdav` for the rest, or None."""
    # None if no k records are equal, or if 1..k-1 records are left over. O(n d log n), and the cost of `mdav`
    # for the rest. Deterministic.
    group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)[1:]
    alike = counts[group.reshape(-1)] >= k
    rest = np.flatnonzero(~alike)
    if not alike.any() or 0 < len(rest) < k:
        return None
    labels = group.reshape(-1).astype(np.int64)
    if len(rest):
        labels[rest] = mdav(points[rest], k) + len(counts)
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)
