"""M-d: microaggregation by a minimum spanning tree, whose large clusters are divided by diameters.

Laszlo and Mukherjee, "Minimum spanning tree partitioning algorithm for microaggregation", IEEE TKDE 17(7),
2005; named in Kabir et al., section IV, who quote its information losses in Tables VI and VII. The original
was not at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.kernels.first.one_by_one import Formation, farthest_from_centroid, form, formation_of
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.neighbours.slots import CHUNK, Slots, fill, measure, remove
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.literature.dissolve import partitioned
from duckanon.literature.maximum_distance import Reach, most_distant, reach_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class SpanningTree(NamedTuple):
    """A minimum spanning tree, rooted in record 0.

    Attributes
    ----------
    parent : ndarray of shape (n,), int64
        The other end of the edge from each record towards the root; -1 for the root.
    length : ndarray of shape (n,), float64
        Squared length of that edge; 0 for the root.
    order : ndarray of shape (n,), int64
        The records, each after its parent.
    """

    parent: NDArray[np.int64]
    length: NDArray[np.float64]
    order: NDArray[np.int64]


def m_d(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of at least k records by M-d.

    The edges of a minimum spanning tree are tried from the longest to the shortest; one is cut if at least k
    records remain on either side of it. The trees left are clusters. One of 2k or more records is divided:
    while 3k or more of its records remain, r and s are the two most distant of them, and each forms a class
    with its k-1 nearest; of 2k..3k-1 records, the first of the most distant two forms one more class; the
    rest is the last class.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1: the clusters by their lowest records (of a divided one its first class),
        then the further classes of the divided ones; every size in [k, 2k-1].

    Notes
    -----
    Exact and deterministic. Of equally long edges, the one with the lowest record is in the tree, and is
    tried for a cut, first; if that is the same, the one whose other end is lower. Equal distances in a
    cluster are decided as in `duckanon.literature.maximum_distance`. O(n^2) distances for the tree (each pair
    once, no matrix) and O(n) steps a cut at worst, as a rule far fewer; dividing costs what maximum distance
    costs in the clusters. O(n d) memory.

    Left open by the description at hand: how the division of a large cluster ends. Of eight ends that were
    compared (from 2k or 3k records on; four ways to seed the last class, four to let the last records join)
    this one comes nearest to the eight published figures: four of them to two digits (Tarragona at k = 3 and
    4, Census at 5 and 10), all within 0.32 %.

    Examples
    --------
    >>> m_d([[0.0], [9.0], [1.0], [8.0], [2.0]], 2).tolist()
    [0, 1, 0, 1, 0]
    """
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    return partitioned(matrix, clusters(spanning_tree(matrix), k), k, _diameter)


def spanning_tree(points: NDArray[np.float64]) -> SpanningTree:
    """Return the minimum spanning tree of all records. O(n^2 d) time, O(n d) memory.

    Of equally long edges, those with the lowest records are preferred (first by the lower, then by the higher
    end), so that there is but one.
    """
    n = len(points)
    slots = fill(points, np.arange(n), np.array([n]))
    tree = SpanningTree(np.full(n, -1), np.full(n, np.inf), np.zeros(n, np.int64))
    tree.length[0] = 0.0
    _grow(slots, points, tree)
    return tree


def clusters(tree: SpanningTree, k: int) -> NDArray[np.int64]:
    """Return the trees, by their lowest records, that are left when the longest edges are cut.

    An edge is cut if k records or more are on either side.
    """
    records = np.arange(1, len(tree.parent))
    ends = tree.parent[1:]
    longest = np.lexsort((np.maximum(records, ends), np.minimum(records, ends), -tree.length[1:])) + 1
    return _cut(tree, tree.parent.copy(), longest, k)


@compiled
def _grow(slots: Slots, points: NDArray[np.float64], tree: SpanningTree) -> None:
    """Add, again and again, the record outside the tree that has the shortest edge to it (Prim)."""
    distances = np.empty(CHUNK)
    newest = 0
    for joined in range(len(points)):
        tree.order[joined] = newest
        remove(slots, newest)
        best = -1
        for first in range(0, slots.left[0], CHUNK):
            last = min(first + CHUNK, slots.left[0])
            measure(slots, first, last, points[newest], distances)
            for i in range(last - first):
                record = slots.record[first + i]
                held = tree.length[record]
                if distances[i] < held or (distances[i] == held and newest < tree.parent[record]):
                    tree.length[record], tree.parent[record] = distances[i], newest
                if best < 0 or _before(tree, record, best):
                    best = record
        newest = best


@inner
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


@inner
def _named(parent: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the tree of each record, trees in the order of their lowest records."""
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


def _diameter(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of a cluster."""
    state = formation_of(points, k, leaf_size)
    _divide(state, reach_of(state), k)
    return state.labels


@compiled
def _divide(state: Formation, reach: Reach, k: int) -> None:
    """Form all classes of a cluster of 2k or more records."""
    left = state.tree.left
    while left[0] >= 3 * k:
        r = most_distant(state, reach)
        form(state, r, k)
        # As in maximum distance: as far as the partner of r, even if its class takes that.
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= 2 * k:
        form(state, most_distant(state, reach), k)
    form(state, farthest_from_centroid(state), left[0])
