"""A forest of near neighbours whose trees can be cut up: the data structure of mu-Approx.

Aggarwal, Feder, Kenthapadi, Motwani, Panigrahy, Thomas and Zhu, "Approximation algorithms for k-anonymity",
Journal of Privacy Technology, 2005, algorithm Forest: each record in turn, if its tree has fewer than k
records, is joined to the nearest record outside. So no record starts more than one edge, and each edge leads
to one of the k-1 records nearest to its start. Equal distances go to the lowest record.

A vertex below n is a record. The other vertices are Steiner vertices: they connect records and count as no
record. Edge e consists of the half-edges 2e and 2e + 1, one in the list of either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import LEAF_SIZE, TREE_RECORDS
from duckanon.kernels.neighbours.boxtree import BoxTree, box_tree_of, nearest
from duckanon.kernels.neighbours.heap import NO_RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
