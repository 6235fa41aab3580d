"""Refinement: exchanges and rebuilt neighbourhoods that lower the loss and keep every threshold."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.exchange import Bounds, sweep
from duckanon.kernels.form import pool_of
from duckanon.kernels.groups import Groups, Room, groups_of, room_of
from duckanon.kernels.near import centroids_of, near_records, neighbours
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.kernels.rebuild import rebuild
from duckanon.kernels.rules import Rules, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.threshold import Threshold

Effort = Literal["fast", "balanced", "best"]

STRICT = 1e9
"""SSE, in units of the mean squared distance to the centre, that one record beyond a threshold counts as."""

ROUNDING = 1e-11
"""Share of the whole spread below which a gain may be rounding."""

SPARE = 64
"""Free classes, so that a neighbourhood can be rebuilt with one class more."""

LIGHT, FLAT = 3, 13
"""Class size and coordinates that the number of rebuilt neighbourhoods speaks of: where there is more of
either, each costs more, and there are fewer."""

DEAR = 64
"""A neighbourhood with thresholds to keep costs about so many times as much to rebuild."""


DEAR_POOL = 5
"""Most classes of a neighbourhood with thresholds to keep."""


FIRST_PRICE, LAST_PRICE = 2.0, 400.0
"""Of one record beyond a threshold, in units of the mean squared distance to the centre."""

SWEEPS_A_LEVEL = 2
"""Passes at each price."""


@dataclass(frozen=True)
class Work:
    """How much is tried.

    Attributes
    ----------
    neighbours : int
        Nearest classes with which a class exchanges records.
    sweeps : int
        Passes over all classes and their neighbours.
    enough : float
        Share of the remaining SSE below which the gain of a pass ends the passes.
    levels : int
        Steps in which the price of a violation grows.
    rebuilds : int
        Neighbourhoods that are taken apart and formed anew, in all; those of a tile are its share.
    pool : int
        Most classes of such a neighbourhood.
    rounds : int
        Times that the neighbours are searched anew meanwhile.
    """

    neighbours: int
    sweeps: int
    enough: float
    levels: int
    rebuilds: int
    pool: int
    rounds: int


WORK: dict[Effort, Work] = {
    "fast": Work(6, 2, 0.01, 6, 0, 0, 0),
    "balanced": Work(6, 5, 0.002, 9, 60_000, 8, 8),
    "best": Work(14, 12, 0.0005, 14, 400_000, 14, 20),
}
"""What each effort means; counted in work, so that a result does not depend on the machine."""


def refine(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    codes: NDArray[np.int64] | Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    effort: Effort = "balanced",
    share: float = 1.0,
    seed: int = 0,
    until: float | None = None,
) -> NDArray[np.int64]:
    """Return classes with at most the SSE of the given ones, which keep k and miss no threshold more.

    Records are exchanged between neighbouring classes, and moved where sizes allow, as long as the exact SSE
    falls; then neighbourhoods of classes are taken apart, formed anew around random or far seeds, refined in
    the same way, and kept if their SSE is less.

    Parameters
    ----------
    points : array_like of shape (n, d), float
        Finite numbers on their final scale, at most 1e150.
    labels : array_like of shape (n,), int
        Class of each record, 0..m-1, each of at least k.
    k : int
        Smallest class size.
    codes : sequence of S array_like of shape (n,), int
        Value code of each record in each sensitive attribute.
    thresholds : sequence of S Threshold
        What a class satisfies or at least misses no more than before, over all classes.
    effort : {'fast', 'balanced', 'best'}
        See `WORK`.
    share : float
        Share of the work that this table gets, 0 to 1: its share of the records where it is a tile.
    seed : int
        Of the random choices.
    until : float, optional
        Value of `time.monotonic` at which the search ends.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m'-1. A class that satisfies every threshold is never replaced by one that
        does not, unless what all classes miss becomes less.

    Raises
    ------
    ValueError
        If labels, points, codes or thresholds do not fit together.

    Notes
    -----
    Deterministic without `until`. O(n (k + log n) d) a pass, and constant work for
    each rebuilt neighbourhood.
    """
    if effort not in WORK or not 0.0 <= share <= 1.0:
        raise ValueError(f"effort must be one of {', '.join(WORK)}, share within 0..1, not {effort}, {share}")
    search = _search(points, labels, k, codes, thresholds, WORK[effort], STRICT)
    _passes(search, search.work.sweeps, until)
    size = max(k, len(search.groups.points) / len(np.unique(search.groups.label)))
    wide = max(1.0, search.groups.points.shape[1] / FLAT)
    rebuilds = int(search.work.rebuilds * share * LIGHT / size / wide) // (DEAR if len(thresholds) else 1)
    _rebuild(search, rebuilds, seed, until)
    return _labels(search.groups)


def approach(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    codes: NDArray[np.int64] | Sequence[ArrayLike],
    thresholds: Sequence[Threshold],
    effort: Effort = "balanced",
    until: float | None = None,
) -> NDArray[np.int64]:
    """Return classes that miss the thresholds less, at a price of violations that grows from pass to pass.

    Parameters
    ----------
    points, labels, k, codes, thresholds, effort, until
        As in `refine`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record; some may still miss a threshold and want merging.

    Raises
    ------
    ValueError
        As `refine`.

    Notes
    -----
    The price begins at twice the mean squared distance to the centre for one record beyond a threshold and
    grows to two hundred times that. Deterministic without `until`.
    """
    work = WORK[effort]
    search = _search(points, labels, k, codes, thresholds, work, 0.0)
    unit = search.bounds.gain / ROUNDING / len(search.groups.points)
    for price in np.geomspace(FIRST_PRICE, LAST_PRICE, work.levels):
        if not (search.groups.missed > 0.0).any():
            break
        _passes(search._replace_weight(price * unit), SWEEPS_A_LEVEL, until)
    return _labels(search.groups)


@dataclass(frozen=True, eq=False)
class _Search:
    """A search under way."""

    groups: Groups
    rules: Rules
    bounds: Bounds
    room: Room
    work: Work

    def _replace_weight(self, weight: float) -> _Search:
        bounds = self.bounds._replace(weight=weight)
        return _Search(self.groups, self.rules, bounds, self.room, self.work)


def _search(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    codes: NDArray[np.int64] | Sequence[ArrayLike],
    thresholds: Sequence[Threshold],
    work: Work,
    price: float,
) -> _Search:
    matrix = distance_points(points)
    owner = np.asarray(labels)
    check_class_size(len(matrix), k)
    if owner.shape != (len(matrix),) or owner.dtype.kind not in "iu" or owner.min() < 0:
        raise ValueError(f"labels must be one integer a record, of shape ({len(matrix)},)")
    sizes = np.bincount(owner)
    if sizes.min() < k:
        raise ValueError(f"class {int(sizes.argmin())} has {sizes.min()} records, k is {k}")
    if len(codes) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(codes)} attributes")
    coded = np.zeros((len(codes), len(matrix)), dtype=np.int64)
    for row, (threshold, own) in enumerate(zip(thresholds, codes, strict=True)):
        if np.shape(own) != (len(matrix),):
            raise ValueError(
                f"codes must be one integer a record, of shape ({len(matrix)},), not {np.shape(own)}"
            )
        coded[row] = threshold.reference.positions(own)
    rules = rules_of(thresholds)
    # Gains are differences of sums: far from zero they would drown in rounding.
    matrix = np.ascontiguousarray(matrix - matrix.mean(axis=0))
    if len(thresholds) and price > 0.0:
        # The least violation is one unit of an edge sum; no gain may outweigh it.
        price = max(price, 2.0 * len(matrix) * float(rules.table["whole"].max()))
    # Under thresholds a class may have to grow beyond 2k - 1 before its neighbours can do without it.
    most = int(max(2 * k - 1, sizes.max(), 4 * np.median(sizes) if thresholds else 0))
    groups = groups_of(matrix, coded, owner.astype(np.int64), rules, classes=len(sizes) + SPARE, most=most)
    spread = float(np.sum(np.square(matrix)))
    bounds = Bounds(k, most, price * spread / len(matrix), ROUNDING * spread)
    return _Search(groups, rules, bounds, room_of(rules, matrix.shape[1], most), work)


def _passes(search: _Search, most: int, until: float | None) -> None:
    """Exchange between neighbours until a pass gains little."""
    groups = search.groups
    seen = np.full(len(groups.size), -1)
    for _ in range(most):
        if until is not None and time.monotonic() > until:
            return
        near = neighbours(groups, search.work.neighbours)
        gain = sweep(groups, search.rules, near, seen, search.bounds, search.room)
        if gain <= search.work.enough * _sse(groups):
            return


def _rebuild(search: _Search, rebuilds: int, seed: int, until: float | None) -> None:
    groups, work = search.groups, search.work
    # The neighbours are searched anew after some work for every class; for less the search does not pay.
    rounds = min(work.rounds, 4 * rebuilds // (int(np.count_nonzero(groups.size)) + 1))
    if not rounds:
        return
    around = max(work.neighbours, work.pool)
    # Classes that merging has made very large stay out of the neighbourhoods: they are for the sweeps.
    typical = int(3 * np.median(groups.size[groups.size > 0]))
    classes = 1 + (min(work.pool, DEAR_POOL) if len(groups.codes) else work.pool)
    pool = pool_of(classes, classes * min(search.bounds.most, typical))
    state = np.array([seed + 1], dtype=np.uint64)
    for _ in range(rounds):
        if until is not None and time.monotonic() > until:
            return
        near = neighbours(groups, around)
        records = near_records(groups, around)
        free = np.full(len(groups.size), -1)
        empty = np.flatnonzero(groups.size == 0)
        free[: len(empty)] = empty
        gain = rebuild(
            groups, search.rules, near, records, free, rebuilds // rounds, search.bounds,
            search.room, pool, state,
        )  # fmt: skip
        if gain <= 0.0:
            return


def _sse(groups: Groups) -> float:
    """Return the SSE of all classes."""
    squares = float(np.sum(np.square(groups.points)))
    alive, centroids = centroids_of(groups)
    return squares - float(np.sum(np.square(centroids) * groups.size[alive, None]))


def _labels(groups: Groups) -> NDArray[np.int64]:
    """Return the classes, numbered in the order of their first records."""
    _, first, inverse = np.unique(groups.label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
