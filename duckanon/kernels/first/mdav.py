"""MDAV: microaggregation by maximum distance to the average vector.

While 2k or more records remain: let r be the record farthest from the centroid of the remaining records. A
class is r and its k-1 nearest. Let s be the remaining record farthest from r. Another class is s and its k-1
nearest. Classic end game (MDAV): if k..2k-1 records are left, they form the last class; if fewer are left,
each joins the class whose centroid is nearest. MDAV-1: if k..2k-1 records are left, the one farthest from
their centroid and its k-1 nearest form one more class, and every other record joins the class whose centroid
is nearest. MDAV-1 gives the published figures for Census, Tarragona and EIA.

Exact and deterministic: equal distances go to the lowest record number. The centroid of the remaining records
is a running sum divided by their count: all records are added by number, then the records of each class are
subtracted by number. O(n^2 / k) distances at worst, far fewer in few columns, where a search tree is used;
O(n d) memory.

Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation", Data
Mining and Knowledge Discovery 11(2), 2005; MDAV-1: Lin, Wen, Hsieh and Chang, Expert Systems with
Applications 37(4), 2010.

>>> mdav([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
[0, 1, 0, 1]

`Formation` and what follows serve the other fixed-size heuristics as well (MD, the variants of MDAV, CBFS,
V-MDAV, TFRP). All form classes one after the other, each of a seed and the records nearest to it, from the
records left. They differ in the seeds and in the last records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.boxtree import (
    BoxTree,
    Outermost,
    box_tree_of,
    discard,
    empty_outermost,
    farthest,
    farthest_from_centre,
    nearest,
    take,
)
from duckanon.kernels.neighbours.slots import ascend
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray


def mdav(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records by MDAV, 0..m-1 in the order of formation."""
    state = formation_of(distance_points(points), k)
    _run(state, k, True)
    return state.labels


def mdav1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records by MDAV-1, 0..m-1 in the order of formation."""
    state = formation_of(distance_points(points), k)
    _run(state, k, False)
    return state.labels


@compiled
def _run(state: Formation, k: int, remainder_is_class: bool) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] >= 2 * k:
        r = farthest_from_centroid(state)
        form(state, r, k)
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= k:
        form(state, farthest_from_centroid(state), left[0] if remainder_is_class else k)
    if left[0] > 0:
        join_nearest(state.points, state.labels, state.formed[0])


LEAF_SIZE = 32
TREE_RECORDS = 8
"""In d columns a tree pays from this many times 2**d records on; below, a plain scan is faster."""


class Formation(NamedTuple):
    """What changes while classes are formed."""

    tree: BoxTree  # the records without a class, for searching
    outermost: Outermost  # the farthest of these records
    points: NDArray[np.float64]  # (n, d), all records
    rest: NDArray[np.float64]  # (d,), sum of the records without a class
    labels: NDArray[np.int64]  # (n,), class of each record, -1 for none yet
    formed: NDArray[np.int64]  # (1,), number of classes so far


def formation_of(points: NDArray[np.float64], k: int) -> Formation:
    """Return the state in which no record of the `distance_points` has a class yet. O(n log n)."""
    # ValueError if k < 1 or k > n.
    n, d = points.shape
    check_class_size(n, k)
    # For another memory layout numba would compile everything again.
    points = np.ascontiguousarray(points)
    tree = box_tree_of(points, LEAF_SIZE if n >= TREE_RECORDS * 2**d else n)
    rest, labels, formed = total_of(points), np.full(n, -1), np.zeros(1, np.int64)
    return Formation(tree, empty_outermost(n, d), points, rest, labels, formed)


@compiled
def total_of(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of all records, added by number: the order of numpy's own sums depends on the shape."""
    total = np.zeros(points.shape[1])
    for i in range(len(points)):
        for j in range(len(total)):
            total[j] += points[i, j]
    return total


def outermost_first(
    points: NDArray[np.float64], centre: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the records by descending distance from a centre, equal ones by number, and the squares."""
    # O(n log n).
    distances = np.zeros(len(points))
    for column, value in zip(points.T, centre, strict=True):
        distances += (column - value) ** 2
    order = np.argsort(-distances, kind="stable")
    return order, distances[order]


@compiled
def farthest_from_centroid(state: Formation) -> int:
    """Return the record without a class that is farthest from their centroid, the lowest among equals."""
    return farthest_from_centre(state.outermost, state.tree, state.rest / state.tree.left[0])


@compiled
def form(state: Formation, seed: int, size: int) -> None:
    """Make a class of the seed and the size-1 records nearest to it; all are without a class before."""
    members = np.empty(size, np.int64)
    members[0] = seed
    take(state.tree, members[:1])
    nearest(state.tree, state.points[seed], np.empty(size - 1), members[1:])
    take(state.tree, members[1:])
    make_class(state, members)


@compiled
def make_class(state: Formation, members: NDArray[np.int64]) -> None:
    """Make a class of records that were taken from the tree; sorts them, as sums are added by number."""
    discard(state.outermost, members)
    ascend(members)
    label = state.formed[0]
    state.formed[0] += 1
    for record in members:
        state.labels[record] = label
        for j in range(len(state.rest)):
            state.rest[j] -= state.points[record, j]


@compiled
def k_neighbourhood(state: Formation, record: int, members: NDArray[np.int64]) -> None:
    """Write a record and the nearest ones without a class into `members`, by number; none is taken out."""
    nearest(state.tree, state.points[record], np.empty(len(members)), members)
    inside = False
    for other in members:
        if other == record:
            inside = True
    if not inside:
        # All members are duplicates of the record with lower numbers. It replaces the worst, the heap's top.
        members[0] = record
    ascend(members)


@compiled
def join_nearest(points: NDArray[np.float64], labels: NDArray[np.int64], classes: int) -> None:
    """Let each record left join the class whose centroid, as formed, is nearest; ties to the first class."""
    n, d = points.shape
    sums, sizes, late = np.zeros((classes, d)), np.zeros(classes), np.flatnonzero(labels < 0)
    for i in range(n):
        if labels[i] >= 0:
            sizes[labels[i]] += 1.0
            for j in range(d):
                sums[labels[i], j] += points[i, j]
    for record in late:
        best = np.inf
        for label in range(classes):
            distance = 0.0
            for j in range(d):
                difference = points[record, j] - sums[label, j] / sizes[label]
                distance += difference * difference
            if distance < best:
                best, labels[record] = distance, label


def partitioned(
    points: NDArray[np.float64],
    labels: NDArray[np.int64],
    k: int,
    method: Callable[[NDArray[np.float64], int], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return the classes, where a method has partitioned each class of 2k or more records."""
    # The first part keeps the number of its class. The other parts follow after all classes, ordered by
    # class.
    parts, total = labels.copy(), int(labels.max()) + 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    for records in members:
        if len(records) >= 2 * k:
            within = method(points[records], k)
            parts[records] = np.where(within == 0, parts[records], total - 1 + within)
            total += int(within.max())
    return parts


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
