"""Classes between others are dissolved, so that the others grow from k to 2k-1 records where it pays.

Own variant of the second stage of DBA-2 and MDAV-2 (Lin, Wen, Hsieh and Chang, Expert Systems with
Applications 37(4), 2010; see `duckanon.literature.dissolve`): only near classes are looked at, no class grows
to 2k, and gains are exact.

A class whose records are on average nearer to other centroids than to its own is tried, by descending SSE.
Each of its records joins the nearest of its `NEAREST_CLASSES` classes that has room. The class is dissolved
if that loses less. O((m + n) log m) on average, and O(k NEAREST_CLASSES d) for a trial. Plain numpy: trials
are few, and compiling would take longer than the trials on all but the largest tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.loss import class_means
from duckanon.kernels.neighbours.centroids import nearest, principal

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAREST_CLASSES = 8
"""Nearest classes that a record may join."""


def dissolve(points: NDArray[np.float64], labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return classes (n,), 0..m'-1, of at least k records with at most the SSE of the given ones."""
    # Every given class has at least k records; no record joins a class of 2k-1 or more.
    means, sizes = class_means(points, labels), np.bincount(labels)
    m = len(sizes)
    if m < 2:
        return labels
    features = principal(np.vstack([means, points]), np.arange(m))
    near = nearest(features[:m], features[m:], np.arange(1, min(NEAREST_CLASSES, m) + 1))
    errors = np.bincount(labels, weights=_squared(points, means[labels]))
    away = np.where(near[:, 0] == labels, near[:, 1], near[:, 0])
    costs = np.bincount(labels, weights=_squared(points, means[away]) * sizes[away] / (sizes[away] + 1))
    doubtful = np.flatnonzero(errors > costs)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    classes = {number: own.tolist() for number, own in enumerate(members)}
    sums = means * sizes[:, None]
    for number in doubtful[np.argsort(-errors[doubtful], kind="stable")].tolist():
        _try(points, near, number, k, classes, sums)
    left = np.empty(len(points), dtype=np.int64)
    for number, own in enumerate(own for own in classes.values() if own):
        left[own] = number
    return left


def _try(
    points: NDArray[np.float64], near: NDArray[np.int64], number: int, k: int,
    classes: dict[int, list[int]], sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Dissolve a class if its records lose less in the nearest classes that have room."""
    own = classes[number]
    error = float(_squared(points[own], sums[number] / len(own)).sum())
    joined: list[int] = []
    for record in own:
        options = [c for c in near[record].tolist() if c != number and 0 < len(classes[c]) < 2 * k - 1]
        if not options:
            break
        counts = np.array([len(classes[c]) for c in options])
        distances = _squared(points[record], sums[options] / counts[:, None])
        best = int(np.argmin(distances))
        error -= float(distances[best] * counts[best] / (counts[best] + 1))
        if error <= 0.0:
            break
        joined.append(options[best])
        classes[options[best]].append(record)
        sums[options[best]] += points[record]
    if len(joined) == len(own):
        classes[number] = []
        return
    for record, c in zip(own, joined, strict=False):
        classes[c].remove(record)
        sums[c] -= points[record]


def _squared(points: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squared distances between rows, added column by column: the order of numpy's sums may change."""
    total: NDArray[np.float64] = np.zeros(np.broadcast_shapes(points.shape, others.shape)[0])
    for one, other in zip(points.T, others.T, strict=True):
        total += (one - other) ** 2
    return total
