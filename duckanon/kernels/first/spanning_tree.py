"""A minimum spanning tree of the records, and the clusters that are left when its longest edges are cut.

Laszlo and Mukherjee, "Minimum spanning tree partitioning algorithm for microaggregation", IEEE TKDE 17(7),
2005. `forest` is our own composition: their clusters, in blocks if there are many records, and MDAV-1 in
clusters of 2k or more. It finds what M-d (see `duckanon.literature.maximum_distance`) finds between clusters,
without the search of M-d for diameters within clusters. Exact and deterministic in each block.

>>> forest([[0.0], [9.0], [1.0], [8.0], [2.0]], 2, largest=99).tolist()
[0, 1, 0, 1, 0]
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import mdav1, partitioned
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.neighbours.slots import CHUNK_SLOTS, Slots, fill, measure, remove
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class SpanningTree(NamedTuple):
    """A minimum spanning tree, rooted in record 0."""

    # (n,), other end of the edge from each record towards the root; -1 for the root
    parent: NDArray[np.int64]
    length: NDArray[np.float64]  # (n,), squared length of that edge; 0 for the root
    order: NDArray[np.int64]  # (n,), the records, each after its parent


def forest(points: ArrayLike, k: int, *, largest: int) -> NDArray[np.int64]:
    """Return classes (n,) of k..2k-1 records that follow the gaps between the records, block after block."""
    # More than `largest` records, at least 4k, are cut into blocks of neighbours first: a tree costs the
    # square of its records. O(n largest) distances, O(n d) memory.
    matrix = distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    if n <= max(largest, 4 * k):
        return partitioned(matrix, clusters(spanning_tree(matrix), k), k, mdav1)
    order, offsets = kd_blocks(matrix, k, max(largest, 4 * k))
    labels, made = np.empty(n, np.int64), 0
    for first, last in pairwise(offsets):
        block = np.sort(order[first:last])
        labels[block] = made + forest(matrix[block], k, largest=len(block))
        made = int(labels[block].max()) + 1
    return labels


def spanning_tree(points: NDArray[np.float64]) -> SpanningTree:
    """Return the minimum spanning tree of all records. O(n^2 d) time, O(n d) memory."""
    # Of equally long edges, the one with the lowest records is preferred, first by the lower end, then by the
    # higher end. So the tree is unique.
    n = len(points)
    slots = fill(points, np.arange(n), np.array([n]))
    tree = SpanningTree(np.full(n, -1), np.full(n, np.inf), np.zeros(n, np.int64))
    tree.length[0] = 0.0
    _grow(slots, points, tree)
    return tree


def clusters(tree: SpanningTree, k: int) -> NDArray[np.int64]:
    """Return the trees, by their lowest records, that are left when the longest edges are cut."""
    # An edge is cut if k records or more are on either side.
    records = np.arange(1, len(tree.parent))
    ends = tree.parent[1:]
    longest = np.lexsort((np.maximum(records, ends), np.minimum(records, ends), -tree.length[1:])) + 1
    return _cut(tree, tree.parent.copy(), longest, k)


@compiled
def _grow(slots: Slots, points: NDArray[np.float64], tree: SpanningTree) -> None:
    """Add the record outside the tree with the shortest edge to it, again and again (Prim)."""
    distances = np.empty(CHUNK_SLOTS)
    newest = 0
    for joined in range(len(points)):
        tree.order[joined] = newest
        remove(slots, newest)
        best = -1
        for first in range(0, slots.left[0], CHUNK_SLOTS):
            last = min(first + CHUNK_SLOTS, slots.left[0])
            measure(slots, first, last, points[newest], distances)
            for i in range(last - first):
                record = slots.record[first + i]
                held = tree.length[record]
                if distances[i] < held or (distances[i] == held and newest < tree.parent[record]):
                    tree.length[record], tree.parent[record] = distances[i], newest
                if best < 0 or _before(tree, record, best):
                    best = record
        newest = best


@compiled
def _before(tree: SpanningTree, a: int, b: int) -> bool:
    """Tell whether the edge of record a is shorter than that of b, or as long with lower ends."""
    if tree.length[a] != tree.length[b]:
        return bool(tree.length[a] < tree.length[b])
    lower_a, lower_b = min(a, tree.parent[a]), min(b, tree.parent[b])
    if lower_a != lower_b:
        return bool(lower_a < lower_b)
    return bool(max(a, tree.parent[a]) < max(b, tree.parent[b]))


@compiled
def _cut(
    tree: SpanningTree, parent: NDArray[np.int64], edges: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Cut edges, each named by its end away from the root, in the given order; return the trees."""
    below = np.ones(len(parent), np.int64)
    for at in range(len(parent) - 1, 0, -1):
        record = tree.order[at]
        below[parent[record]] += below[record]
    for record in edges:
        if below[record] < k:
            continue
        root = parent[record]
        while parent[root] >= 0:
            root = parent[root]
        if below[root] - below[record] < k:
            continue
        above = parent[record]
        while above >= 0:
            below[above] -= below[record]
            above = parent[above]
        parent[record] = -1
    return _named(parent, tree.order)


@compiled
def _named(parent: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tree of each record; trees are numbered in the order of their lowest records."""
    root, number = np.empty(len(parent), np.int64), np.full(len(parent), -1)
    for record in order:
        root[record] = record if parent[record] < 0 else root[parent[record]]
    trees = 0
    for record in range(len(parent)):
        if number[root[record]] < 0:
            number[root[record]] = trees
            trees += 1
        root[record] = number[root[record]]
    return root
