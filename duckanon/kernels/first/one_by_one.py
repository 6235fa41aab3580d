"""Classes formed one after the other, each of a seed and the records nearest to it, from the records left.

The fixed-size heuristics (MD, MDAV and its variants, CBFS, V-MDAV, TFRP) differ in the seeds and in the last
records. The parts that they share are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.boxtree import BoxTree, box_tree_of, nearest, take
from duckanon.kernels.neighbours.heap import ascend
from duckanon.kernels.neighbours.outermost import (
    Outermost,
    discard,
    empty_outermost,
    farthest_from_centre,
)
from duckanon.kernels.points import check_class_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    sums: NDArray[np.float64]  # (classes, d), sum of the records of each class
    formed: NDArray[np.int64]  # (1,), number of classes so far


def formation_of(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> Formation:
    """Return the state in which no record of the `distance_points` has a class yet; n // k classes fit."""
    # `leaf_size` of the search tree is chosen by n and d if left out; n or more gives a plain scan, with the
    # same result. ValueError if k < 1 or k > n. O(n log n) time, O(n d) memory.
    n, d = points.shape
    check_class_size(n, k)
    # For another memory layout numba would compile everything again.
    points = np.ascontiguousarray(points)
    if leaf_size is None:
        leaf_size = LEAF_SIZE if n >= TREE_RECORDS * 2**d else n
    tree, outermost = box_tree_of(points, leaf_size), empty_outermost(n, d)
    rest = np.zeros(d)
    _add(points, rest)
    sums, formed = np.zeros((n // k, d)), np.zeros(1, np.int64)
    return Formation(tree, outermost, points, rest, np.full(n, -1), sums, formed)


@compiled
def _add(points: NDArray[np.float64], total: NDArray[np.float64]) -> None:
    """Add all records by number: the order of numpy's own sums depends on the shape."""
    for i in range(len(points)):
        for j in range(len(total)):
            total[j] += points[i, j]


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
            state.sums[label, j] += state.points[record, j]


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
def join_nearest(state: Formation) -> None:
    """Let each record left join the class whose centroid, as formed, is nearest; ties to the first class."""
    classes = state.formed[0]
    sizes = np.zeros(classes)
    for label in state.labels:
        if label >= 0:
            sizes[label] += 1
    for record in range(len(state.labels)):
        if state.labels[record] >= 0:
            continue
        best = np.inf
        for label in range(classes):
            distance = 0.0
            for j in range(len(state.rest)):
                difference = state.points[record, j] - state.sums[label, j] / sizes[label]
                distance += difference * difference
            if distance < best:
                best = distance
                state.labels[record] = label
