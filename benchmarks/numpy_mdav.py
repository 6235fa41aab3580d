"""MDAV in straightforward numpy, as reference for the speed of the compiled kernel.

The code is what one writes without a compiler: vectorised distances from all remaining records,
`argpartition` for the nearest, and arrays that are compacted after every class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numpy_mdav(points: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the class (n,) of each of n points (n, d) by MDAV, k in 1..n; `argpartition` breaks ties."""
    labels = np.full(len(points), -1)
    left, records = points, np.arange(len(points))
    label = 0
    while len(records) >= 2 * k:
        seed = left[np.argmax(_distances(left, left.mean(axis=0)))]
        for _ in range(2):
            distances = _distances(left, seed)
            members = np.argpartition(distances, k - 1)[:k]
            labels[records[members]] = label
            label += 1
            keep = np.ones(len(records), dtype=bool)
            keep[members] = False
            left, records = left[keep], records[keep]
            seed = left[np.argmax(distances[keep])] if len(left) else seed
    if len(records) >= k:
        labels[records] = label
        return labels
    if len(records):
        centroids = np.stack([points[labels == c].mean(axis=0) for c in range(label)])
        for record in records:
            labels[record] = np.argmin(_distances(centroids, points[record]))
    return labels


def _distances(points: NDArray[np.float64], query: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances from the query to the points."""
    difference = points - query
    return np.asarray(np.einsum("ij,ij->i", difference, difference))
