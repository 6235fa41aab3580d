"""mu-Approx: microaggregation with a proven bound, by a forest of near neighbours whose trees are cut up.

Domingo-Ferrer, Sebé and Solanas, "A polynomial-time approximation to optimal multivariate microaggregation",
Computers and Mathematics with Applications 55(4), 2008, after Aggarwal, Feder, Kenthapadi, Motwani,
Panigrahy, Thomas and Zhu, "Approximation algorithms for k-anonymity", Journal of Privacy Technology, 2005.

1. Forest: each record in turn, if its tree has fewer than k records, is joined to the nearest record outside
   its tree.
2. Decomposition, while a tree has s > max(2k-1, 3k-5) records: take a vertex u of the tree as root. Let v be
   the child of u with the heaviest subtree, of h records. While s-h < k-1, go on with v as u. Then, if h and
   s-h are at least k, cut the edge from u to v. Else, if s-h = k-1, part v from its children. Else, if h =
   k-1, part u and v from the other children of u. Else gather subtrees of u until these have k-1 records or
   more, and part the gathered subtrees from the others. u goes with the side that needs it to reach k, else
   with the gathered subtrees. Where a vertex is parted from neighbours that stay together, a Steiner vertex
   in its place connects these neighbours.
3. Split: a tree left with more than 2k-1 records becomes two classes: the record farthest from its centroid
   with the k-1 nearest to that record, and the rest.

The papers leave these points open. They are read so that the published losses come out best:

- Trees of the forest grow in the order of the records.
- A tree is rooted in its record of highest number. After a plain cut the parts are rooted in the ends of the
  cut edge.
- Of equally heavy subtrees the subtree at the nearest child counts, then the subtree at the lowest vertex.
- Subtrees are gathered by ascending vertex, Steiner vertices after the records.
- A Steiner vertex as u has no record to give, so subtrees are gathered until they have k records. If fewer
  than k are left, the Steiner vertex is dissolved: its neighbours are joined to the nearest of them, and the
  tree is taken up anew. A Steiner vertex as v becomes u in its turn.

O(n^2) distances for the forest. The decomposition is about linear on real data; at worst, for a tree that is
a star, it takes O(k n^2) steps without distances. The paper bounds the loss in terms of the least possible
loss, for sums of distances and of squares. The bound does not cover the dissolving of Steiner vertices, which
is rare. MDAV has no such bound, and loses less on two of the three usual data sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.heap import NO_RECORD, ascend, offer
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.literature.mu_trees import (
    NO_NUMBER,
    Forest,
    beyond,
    copied,
    cut,
    forest_of,
    length,
    shift,
    survey,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Pending(NamedTuple):
    """A stack of trees that are to be cut up."""

    vertex: NDArray[np.int64]  # a vertex of each tree
    root: NDArray[np.int64]  # root to begin with; NO_NUMBER for the record of highest number
    height: NDArray[np.int64]  # (1,) trees on the stack


def mu_approx(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by mu-Approx.

    Source: Domingo-Ferrer, Sebé and Solanas 2008. Steps, readings, cost and bound: top of the module.
    """
    matrix = distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    most = n // k + 1
    pending = Pending(np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(1, np.int64))
    labels, formed = np.full(n, NO_NUMBER), np.zeros(1, np.int64)
    _cut_up(forest_of(matrix, k), pending, k, labels, formed)
    return labels


@compiled
def _cut_up(
    forest: Forest, pending: Pending, k: int, labels: NDArray[np.int64], formed: NDArray[np.int64]
) -> None:
    """Cut up all trees, in the order of their lowest records, and label their pieces."""
    n = len(labels)
    for record in range(n):
        if labels[record] != NO_NUMBER:
            continue
        _push(pending, record, NO_NUMBER)
        while pending.height[0] > 0:
            pending.height[0] -= 1
            tree, root = pending.vertex[pending.height[0]], pending.root[pending.height[0]]
            members = _records(forest, survey(forest, tree))
            if len(members) <= max(2 * k - 1, 3 * k - 5):
                _label(forest.points, members, k, labels, formed)
                continue
            if root == NO_NUMBER:
                root = members[-1]
                survey(forest, root)
            _part(forest, pending, root, k)


@compiled
def _records(forest: Forest, count: int) -> NDArray[np.int64]:
    """Return the records of the tree last surveyed, ascending."""
    records, size = np.empty(count, np.int64), 0
    for vertex in forest.order[:count]:
        if vertex < len(forest.points):
            records[size] = vertex
            size += 1
    ascend(records[:size])
    return records[:size]


@compiled
def _push(pending: Pending, vertex: int, root: int) -> None:
    """Put a tree on the stack."""
    at = pending.height[0]
    pending.vertex[at], pending.root[at] = vertex, root
    pending.height[0] += 1


@compiled
def _part(forest: Forest, pending: Pending, root: int, k: int) -> None:
    """Part the tree last surveyed in two, or dissolve one of its Steiner vertices."""
    n, s, u = len(forest.points), forest.size[root], root
    while True:
        edge = _heaviest(forest, root, u)
        v, h = forest.to[edge], beyond(forest, root, edge)
        if s - h >= k - 1 and (h < k or s - h >= k or v < n):
            break
        u = v
    if h >= k and s - h >= k:
        cut(forest, edge)
        _push(pending, u, u)
        _push(pending, v, v)
    elif h >= k:
        _push(pending, u, NO_NUMBER)
        _push(pending, _moved(forest, v, edge ^ 1), NO_NUMBER)
    elif h == k - 1 and u < n:
        _push(pending, _moved(forest, u, edge), NO_NUMBER)
        _push(pending, u, NO_NUMBER)
    else:
        _gather(forest, pending, root, u, k)


@compiled
def _heaviest(forest: Forest, root: int, u: int) -> int:
    """Return the half-edge from u to most records; of several the shortest, then to the lowest vertex."""
    best = forest.head[u]
    edge = forest.after[best]
    while edge != NO_NUMBER:
        lead = beyond(forest, root, edge) - beyond(forest, root, best)
        if lead == 0:
            ours, theirs = length(forest, edge), length(forest, best)
            if ours < theirs or (ours == theirs and forest.to[edge] < forest.to[best]):
                lead = 1
        if lead > 0:
            best = edge
        edge = forest.after[edge]
    return int(best)


@compiled
def _moved(forest: Forest, vertex: int, kept: int) -> int:
    """Move all edges of a vertex except `kept` to a new Steiner vertex at its place, which is returned."""
    copy = copied(forest, vertex)
    edge = forest.head[vertex]
    while edge != NO_NUMBER:
        following = forest.after[edge]
        if edge != kept:
            shift(forest, edge, copy)
        edge = following
    return copy


@compiled
def _gather(forest: Forest, pending: Pending, root: int, u: int, k: int) -> None:
    """Part some subtrees of u from the others; no subtree has k records or more."""
    weight = 1 if u < len(forest.points) else 0
    gathered, last = 0, NO_NUMBER
    while gathered < k - weight:
        lowest = NO_NUMBER
        edge = forest.head[u]
        while edge != NO_NUMBER:
            vertex = forest.to[edge]
            if vertex > last and (lowest == NO_NUMBER or vertex < forest.to[lowest]):
                lowest = edge
            edge = forest.after[edge]
        gathered += beyond(forest, root, lowest)
        last = forest.to[lowest]
    others = forest.size[root] - weight - gathered
    if weight == 0 and others < k:
        _dissolve(forest, pending, u)
        return
    with_gathered = weight == 1 and (gathered == k - 1 or others != k - 1)
    copy = copied(forest, u)
    edge = forest.head[u]
    while edge != NO_NUMBER:
        following = forest.after[edge]
        if (forest.to[edge] <= last) != with_gathered:
            shift(forest, edge, copy)
        edge = following
    _push(pending, copy if with_gathered else u, NO_NUMBER)
    _push(pending, u if with_gathered else copy, NO_NUMBER)


@compiled
def _dissolve(forest: Forest, pending: Pending, u: int) -> None:
    """Remove a Steiner vertex, and join its neighbours to the nearest of them."""
    hub = forest.head[u]
    edge = forest.after[hub]
    while edge != NO_NUMBER:
        ours, theirs = length(forest, edge), length(forest, hub)
        if ours < theirs or (ours == theirs and forest.to[edge] < forest.to[hub]):
            hub = edge
        edge = forest.after[edge]
    vertex = forest.to[hub]
    cut(forest, hub)
    edge = forest.head[u]
    while edge != NO_NUMBER:
        following = forest.after[edge]
        shift(forest, edge, vertex)
        edge = following
    _push(pending, vertex, NO_NUMBER)


@compiled
def _label(
    points: NDArray[np.float64],
    members: NDArray[np.int64],
    k: int,
    labels: NDArray[np.int64],
    formed: NDArray[np.int64],
) -> None:
    """Make one class of the records, or two classes of more than 2k-1 records."""
    if len(members) > 2 * k - 1:
        centre = np.zeros(points.shape[1])
        for record in members:
            for j in range(len(centre)):
                centre[j] += points[record, j]
        centre /= len(members)
        worst, far = -1.0, 0
        for record in members:
            distance = _squared(points[record], centre)
            if distance > worst:
                worst, far = distance, record
        distances, near = np.full(k - 1, np.inf), np.full(k - 1, NO_RECORD)
        for record in members:
            if record != far:
                offer(distances, near, _squared(points[record], points[far]), record)
        labels[far] = formed[0]
        for record in near:
            labels[record] = formed[0]
        formed[0] += 1
    for record in members:
        if labels[record] == NO_NUMBER:
            labels[record] = formed[0]
    formed[0] += 1


@compiled
def _squared(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the squared distance of two points, summed column by column."""
    total = 0.0
    for j in range(len(a)):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total
