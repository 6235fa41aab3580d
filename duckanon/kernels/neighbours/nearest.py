"""Nearest points, by the k-d tree of SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def nearest(
    points: NDArray[np.float64],
    queries: NDArray[np.float64],
    ranks: NDArray[np.int64],
    *,
    workers: int = 1,
) -> NDArray[np.int64]:
    """Return the points nearest to each query.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Where to look.
    queries : ndarray of shape (n, d)
        From where.
    ranks : ndarray of shape (r,)
        Which of the nearest: 1 is the nearest one, and none exceeds m.
    workers : int, default 1
        Threads; -1 for one a core. They do not change the result.

    Returns
    -------
    ndarray of shape (n, r), int64
        Indices into the points.

    Notes
    -----
    O((m + n) log m) on average, in few dimensions.
    """
    # A fifth of the start of every command would be the loading of this module, which few of them need.
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(points).query(queries, ranks, workers=workers)[1], dtype=np.int64)
