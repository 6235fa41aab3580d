"""Classes as sums of coordinates: what merging and losses need, without the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Classes:
    """Classes as sums, so that merging and losses need no record again."""

    sums: npt.NDArray[np.float64]  # (m, d), of the coordinates
    squares: npt.NDArray[np.float64]  # (m,), of the squared coordinates
    sizes: npt.NDArray[np.int64]  # (m,), records


def sums_of(points: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> Classes:
    """Sums of the classes 0..m-1 of some records, summed in the order of the records. O(n d)."""
    sizes = np.bincount(labels).astype(np.int64) if len(labels) else np.zeros(0, dtype=np.int64)
    sums = np.zeros((len(sizes), points.shape[1]))
    for axis in range(points.shape[1] if len(labels) else 0):
        sums[:, axis] = np.bincount(labels, weights=points[:, axis], minlength=len(sizes))
    norms = (points**2).sum(axis=1)
    squares = np.zeros(len(sizes))
    np.add.at(squares, labels, norms)
    return Classes(sums, squares, sizes)


def without_empty(labels: npt.NDArray[np.int64], classes: Classes) -> tuple[npt.NDArray[np.int64], Classes]:
    """Labels and classes without the classes that lost all their records, renumbered in the same order.

    Labels of suppressed records are negative.
    """
    left = np.bincount(labels[labels >= 0], minlength=len(classes.sizes)) > 0
    number = np.cumsum(left) - 1
    kept = Classes(classes.sums[left], classes.squares[left], classes.sizes[left])
    return np.where(labels >= 0, number[labels], -1), kept


def joined(classes: Classes, merged: npt.NDArray[np.int64]) -> Classes:
    """Sums of merged classes, from the new class (m,) of each."""
    count = int(merged.max()) + 1 if len(merged) else 0
    sums = np.zeros((count, classes.sums.shape[1]))
    squares, sizes = np.zeros(count), np.zeros(count, dtype=np.int64)
    np.add.at(sums, merged, classes.sums)
    np.add.at(squares, merged, classes.squares)
    np.add.at(sizes, merged, classes.sizes)
    return Classes(sums, squares, sizes)


def information_loss(classes: Classes) -> float:
    """IL = 100 SSE / SST of some classes, in per cent; 0 when all records are equal."""
    total = classes.squares.sum() - (classes.sums.sum(axis=0) ** 2).sum() / max(classes.sizes.sum(), 1)
    within = (classes.squares - (classes.sums**2).sum(axis=1) / np.maximum(classes.sizes, 1)).sum()
    return float(min(max(100 * within / total, 0.0), 100.0)) if total > 1e-12 * classes.squares.sum() else 0.0
