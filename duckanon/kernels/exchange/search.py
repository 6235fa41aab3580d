"""A search over the partitions of some records: its state, its start and its result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of
from duckanon.kernels.exchange.state import PRICE_MARGIN_SHARE, Bounds, ExchangeState, exchange_state_of
from duckanon.kernels.exchange.windows import PATH_MAX_POSITIONS
from duckanon.kernels.neighbours.centroids import nearest, principal
from duckanon.kernels.points import ENLARGED_BELOW, check_class_size, distance_points, enlarged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.state import ExchangeState

GAIN_ROUNDING_SHARE = 1e-11
"""Gains below this share of the whole spread may be rounding."""

SPARE_CLASSES = 64
"""Free classes, so that a neighbourhood can be rebuilt with one class more."""

LARGE_CLASS_RECORDS = 256
"""Classes above this size, and above four times the median, stay as merging made them: every class gets as
much memory as the largest one that takes part needs.
"""


@dataclass(frozen=True, eq=False)
class Search:
    """A search under way; made by `search_of`."""

    state: ExchangeState  # the classes between which records move
    labels: NDArray[np.int64]  # (n,), class of each record before the search
    moving: NDArray[np.bool_]  # (n,), records that take part
    unit: float  # mean squared distance to the centre: the unit of prices

    def at_price(self, price: float) -> Search:
        """Return the same search in which a record beyond a threshold counts as `price` units."""
        weight, table = price * self.unit, self.state.rules.table
        # The least violation is one unit of an edge sum, where all attributes are paths with t alone.
        paths = self.state.ledger.quick & (table["height"] == 0) & (table["values"] <= PATH_MAX_POSITIONS)
        sure = (
            (1.0 - PRICE_MARGIN_SHARE) * weight / float(table["whole"].max())
            if len(table) and paths.all()
            else 0.0
        )
        bounds = self.state.bounds._replace(weight=weight, sure=sure)
        return replace(self, state=self.state._replace(bounds=bounds))


def search_of(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    codes: NDArray[np.int64] | Sequence[ArrayLike],
    thresholds: Sequence[Threshold],
) -> Search:
    """Return a search that starts from a partition, with violations at no price; arguments as in `refine`."""
    # O(n d + m most) memory for m classes of at most `most` records.
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    owner = _checked(labels, len(matrix), k)
    coded = _positions(codes, thresholds, len(matrix))
    sizes = np.bincount(owner)
    # Under thresholds a class may grow beyond 2k - 1 for a while, before it gives records to neighbours.
    most = int(max(2 * k - 1, 4 * np.median(sizes) if len(thresholds) else 0))
    most = max(most, min(LARGE_CLASS_RECORDS, int(sizes.max())))
    moving = sizes[owner] <= most
    # Gains are differences of sums, which rounding would hide if the points were far from zero.
    # Enlarged: the squares of tiny numbers would vanish, and so would the least gain that ends the search.
    matrix = matrix[moving]
    matrix = np.ascontiguousarray(
        enlarged(matrix - matrix.mean(axis=0), ENLARGED_BELOW) if len(matrix) else matrix
    )
    moving_labels = np.unique(owner[moving], return_inverse=True)[1].astype(np.int64)
    classes = int(moving_labels.max(initial=-1)) + 1 + SPARE_CLASSES
    spread = float(np.sum(np.square(matrix)))
    bounds = Bounds(k, most, 0.0, GAIN_ROUNDING_SHARE * spread, 0.0)
    rules = rules_of(thresholds)
    state = exchange_state_of(matrix, coded[:, moving], moving_labels, rules, bounds, classes=classes)
    return Search(state, owner, moving, spread / max(len(matrix), 1))


def _checked(labels: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
    """Return the labels (n,) if every class has at least k records; else raise ValueError."""
    owner = np.asarray(labels)
    if owner.shape != (n,) or owner.dtype.kind not in "iu" or owner.min() < 0:
        raise ValueError(f"labels must be one integer a record, of shape ({n},)")
    sizes = np.bincount(owner)
    if sizes.min() < k:
        raise ValueError(f"class {int(sizes.argmin())} has {sizes.min()} records, k is {k}")
    return owner.astype(np.int64)


def _positions(
    codes: NDArray[np.int64] | Sequence[ArrayLike], thresholds: Sequence[Threshold], n: int
) -> NDArray[np.int64]:
    """Return the positions of the value codes (S, n)."""
    if len(codes) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    coded = np.zeros((len(codes), n), dtype=np.int64)
    for row, (threshold, column) in enumerate(zip(thresholds, codes, strict=True)):
        if np.shape(column) != (n,):
            raise ValueError(f"codes must be one integer a record, of shape ({n},), not {np.shape(column)}")
        coded[row] = threshold.reference.positions(column)
    return coded


def labels_of(search: Search) -> NDArray[np.int64]:
    """Return the classes of all records (n,), numbered in the order of their first records."""
    # Classes that took no part keep their numbers, and the other classes follow.
    whole = search.labels.copy()
    whole[search.moving] = search.state.label[search.state.record] + search.labels.max() + 1
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def centroids_of(state: ExchangeState) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the classes that have records, ascending (m,), and their means (m, d)."""
    nonempty = np.flatnonzero(state.size)
    return nonempty, state.sums[nonempty] / state.size[nonempty, None]


def sse_left(state: ExchangeState, squares: float) -> float:
    """Return the SSE of all classes that take part, up to rounding; `squares` is that of their points."""
    nonempty, centroids = centroids_of(state)
    return squares - float(np.sum(np.square(centroids) * state.size[nonempty, None]))


def neighbours(state: ExchangeState, count: int) -> NDArray[np.int64]:
    """Return the nearest other classes of each class (classes, count), nearest first, then -1."""
    # O((m + n) log m) on average. Points in many columns are searched along their widest directions.
    nonempty, centroids = centroids_of(state)
    near = np.full((len(state.size), count), -1)
    ranks = np.arange(2, min(count + 1, len(nonempty)) + 1)
    if len(ranks):
        features = principal(centroids, np.arange(len(nonempty)))
        near[nonempty, : len(ranks)] = nonempty[nearest(features, features, ranks)]
    return near


def near_records(state: ExchangeState, count: int) -> NDArray[np.int64]:
    """Return the classes nearest to each record (n, count), nearest first, its own class among them."""
    # Fewer columns if there are fewer classes. Cost as that of `neighbours`.
    nonempty, centroids = centroids_of(state)
    ranks = np.arange(1, min(count, len(nonempty)) + 1)
    both = np.vstack([centroids, state.points])
    features = principal(both, np.arange(len(nonempty)))
    indices = nearest(features[: len(nonempty)], features[len(nonempty) :], ranks)
    return np.ascontiguousarray(nonempty[indices])
