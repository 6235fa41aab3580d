"""mu-Approx: microaggregation with a proven bound, by a forest of near neighbours whose trees are cut up.

Domingo-Ferrer, Sebé and Solanas, "A polynomial-time approximation to optimal multivariate microaggregation",
Computers and Mathematics with Applications 55(4), 2008, after Aggarwal, Feder, Kenthapadi, Motwani,
Panigrahy, Thomas and Zhu, "Approximation algorithms for k-anonymity", Journal of Privacy Technology, 2005.

1. Forest: each record in turn, if its tree has fewer than k records, is joined to the nearest record outside
   its tree. So no record starts more than one edge, and each edge leads to one of the k-1 records nearest to
   its start. Equal distances go to the lowest record.
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

A vertex below n is a record. The other vertices are Steiner vertices: they connect records and count as no
record. Edge e consists of the half-edges 2e and 2e + 1, one in the list of either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import LEAF_SIZE, TREE_RECORDS
from duckanon.kernels.neighbours.boxtree import BoxTree, box_tree_of, nearest
from duckanon.kernels.neighbours.slots import NO_RECORD, ascend, offer
from duckanon.kernels.points import check_class_size, distance_points

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


NO_NUMBER = -1


class Forest(NamedTuple):
    """Trees over records and Steiner vertices."""

    points: NDArray[np.float64]  # (n, d) all records
    head: NDArray[np.int64]  # (vertices,) first half-edge of the list of a vertex, or NO_NUMBER
    after: NDArray[np.int64]  # (2n,) next half-edge of the list
    to: NDArray[np.int64]  # (2n,) vertex that a half-edge leads to
    place: NDArray[np.int64]  # (vertices,) record at whose point the vertex lies
    order: NDArray[np.int64]  # (vertices,) the tree last surveyed, from its root on
    up: NDArray[np.int64]  # (vertices,) neighbour towards the root
    size: NDArray[np.int64]  # (vertices,) records below a vertex
    used: NDArray[np.int64]  # (2,) number of vertices and of half-edges so far


def forest_of(points: NDArray[np.float64], k: int) -> Forest:
    """Return a forest of trees of k records or more, with room for n // k Steiner vertices. O(n^2 d)."""
    n, d = points.shape
    vertices = n + n // k
    lists, vertex_arrays = np.full((2, 2 * n), NO_NUMBER), np.zeros((3, vertices), np.int64)
    head, place, used = np.full(vertices, NO_NUMBER), np.arange(vertices), np.array([n, 0])
    forest = Forest(
        points, head, lists[0], lists[1], place, vertex_arrays[0], vertex_arrays[1], vertex_arrays[2], used
    )
    _grow(forest, box_tree_of(points, LEAF_SIZE if n >= TREE_RECORDS * 2**d else n), k)
    return forest


@compiled
def _grow(forest: Forest, tree: BoxTree, k: int) -> None:
    """Join each tree below k records to another tree, by an edge from its only record that started none."""
    n = len(forest.points)
    name, size = np.arange(n), np.ones(n, np.int64)
    last, following = (
        np.arange(n),
        np.full(n, NO_NUMBER),
    )  # the records of a tree, as a chain that begins at record `name`
    distances, records = np.empty(k), np.empty(k, np.int64)
    for u in range(n):
        if size[name[u]] >= k:
            continue
        # The tree has fewer than k records, so at least one of the k nearest records (with u) is outside.
        nearest(tree, forest.points[u], distances, records)
        best, v = np.inf, NO_RECORD
        for i in range(k):
            record = records[i]
            if name[record] != name[u] and (distances[i], record) < (best, v):
                best, v = distances[i], record
        _add_edge(forest, u, v)
        ours, theirs = name[u], name[v]
        following[last[theirs]] = ours
        last[theirs] = last[ours]
        size[theirs] += size[ours]
        record = ours
        while record != NO_NUMBER:
            name[record] = theirs
            record = following[record]


@compiled
def _add_edge(forest: Forest, a: int, b: int) -> None:
    """Add an edge between two vertices."""
    edge = forest.used[1]
    forest.used[1] += 2
    forest.to[edge], forest.to[edge + 1] = b, a
    _link(forest, edge, a)
    _link(forest, edge + 1, b)


@compiled
def _link(forest: Forest, edge: int, vertex: int) -> None:
    """Put a half-edge into the list of a vertex."""
    forest.after[edge] = forest.head[vertex]
    forest.head[vertex] = edge


@compiled
def _unlink(forest: Forest, edge: int) -> None:
    """Take a half-edge out of its list."""
    vertex = forest.to[edge ^ 1]
    at = forest.head[vertex]
    if at == edge:
        forest.head[vertex] = forest.after[edge]
        return
    while forest.after[at] != edge:
        at = forest.after[at]
    forest.after[at] = forest.after[edge]


@compiled
def cut(forest: Forest, edge: int) -> None:
    """Remove an edge, given by either of its half-edges."""
    _unlink(forest, edge)
    _unlink(forest, edge ^ 1)


@compiled
def shift(forest: Forest, edge: int, vertex: int) -> None:
    """Let the edge of a half-edge start at another vertex."""
    _unlink(forest, edge)
    forest.to[edge ^ 1] = vertex
    _link(forest, edge, vertex)


@compiled
def copied(forest: Forest, vertex: int) -> int:
    """Return a new Steiner vertex without edges at the place of a vertex."""
    copy = forest.used[0]
    forest.used[0] += 1
    forest.place[copy] = forest.place[vertex]
    return int(copy)


@compiled
def survey(forest: Forest, root: int) -> int:
    """Write order, neighbours towards the root and sizes of a tree; return the number of its vertices."""
    forest.order[0], forest.up[root] = root, NO_NUMBER
    count, done = 1, 0
    while done < count:
        vertex = forest.order[done]
        done += 1
        forest.size[vertex] = 1 if vertex < len(forest.points) else 0
        edge = forest.head[vertex]
        while edge != NO_NUMBER:
            below = forest.to[edge]
            if below != forest.up[vertex]:
                forest.order[count], forest.up[below] = below, vertex
                count += 1
            edge = forest.after[edge]
    for at in range(count - 1, 0, -1):
        vertex = forest.order[at]
        forest.size[forest.up[vertex]] += forest.size[vertex]
    return count


@compiled
def beyond(forest: Forest, root: int, edge: int) -> int:
    """Return the number of records that a half-edge leads to, in the tree last surveyed from the root."""
    near, far = forest.to[edge ^ 1], forest.to[edge]
    return int(forest.size[root] - forest.size[near] if forest.up[near] == far else forest.size[far])


@compiled
def length(forest: Forest, edge: int) -> float:
    """Return the squared length of the edge of a half-edge, summed column by column."""
    a, b = forest.place[forest.to[edge]], forest.place[forest.to[edge ^ 1]]
    total = 0.0
    for j in range(forest.points.shape[1]):
        difference = forest.points[a, j] - forest.points[b, j]
        total += difference * difference
    return total
