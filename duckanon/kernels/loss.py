"""Information loss of a partition: how much of the spread of the points lies inside the classes.

Source: Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure
control", IEEE TKDE 14(1), 2002. Points may be any finite numbers.

>>> information_loss([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1])
18.181818181818183
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.points import enlarged, finite_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SUMMAND_MAX = 2.0**900
"""Above this, a sum of as many numbers as fit in memory may overflow."""


def class_means(points: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """Return the mean (m, d) of each class, within its values; sums run in the order of the records."""
    matrix = finite_points(points)
    classes = _checked_labels(labels, len(matrix))
    sizes = np.bincount(classes)
    # Numbers near the largest float are divided by 2^64 before summing; the sum would overflow.
    exponent = 64 if np.abs(matrix).max(initial=0.0) > SUMMAND_MAX else 0
    means, low, high = np.empty((3, len(sizes), matrix.shape[1]))
    low[:], high[:] = np.inf, -np.inf
    for number, column in enumerate(matrix.T):
        means[:, number] = np.bincount(classes, weights=np.ldexp(column, -exponent)) / sizes
        np.minimum.at(low[:, number], classes, column)
        np.maximum.at(high[:, number], classes, column)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(np.clip(np.ldexp(means, exponent), low, high))


def deviations(points: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the squared distance (n,) of each record from the mean of its class. O(n d), deterministic."""
    total = np.zeros(len(points))
    for column, mean in zip(points.T, class_means(points, labels).T, strict=True):
        total += (column - mean[labels]) ** 2
    return total


def sse(points: ArrayLike, labels: ArrayLike) -> float:
    """Return the sum of squared distances between the records and the means of their classes. O(n d)."""
    matrix = finite_points(points)
    deviation = matrix - class_means(matrix, labels)[np.asarray(labels, dtype=np.int64)]
    return float(np.sum(deviation * deviation))


def sst(points: ArrayLike) -> float:
    """Return the sum of squared distances of the records from their mean; 0.0 exactly if all are equal."""
    matrix = finite_points(points)
    if np.array_equal(matrix.max(axis=0), matrix.min(axis=0)):
        return 0.0
    return sse(matrix, np.zeros(len(matrix), dtype=np.int64))


def information_loss(points: ArrayLike, labels: ArrayLike) -> float:
    """Return 100 SSE / SST of points on their final scale, in per cent; 0.0 if all records are equal."""
    matrix = enlarged(finite_points(points))
    total = sst(matrix)
    within = sse(matrix, labels)
    return 100.0 * within / total if total > 0.0 else 0.0


def _checked_labels(labels: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the labels as int64 if they name classes 0..m-1 of n records."""
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ValueError(f"labels must be one integer a record, of shape ({n},), not {given.shape}")
    if given.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, not {given.dtype}")
    classes = given.astype(np.int64)
    if classes.min() < 0 or classes.max() >= n or np.bincount(classes).min() == 0:
        raise ValueError("labels must be 0..m-1 with no class empty")
    return classes
