"""An exact search tree over records that leave: bounding boxes that shrink, leaves of few records.

The tree is perfect and balanced: node v has the children 2v + 1 and 2v + 2, and the last level are the
leaves. Each leaf is a bin of `Slots`. Every node knows the bounding box and the lowest number of the records
left below it. A tree of one leaf is a brute-force scan.

Pruning never changes a result. The bound of a box is computed by the same operations in the same order as a
distance, on coordinates that are at least as near (or as far). Rounding is monotone, so the bound holds for
the rounded distances as well as for the true ones. A node whose bound equals the distance to beat is skipped
only if all its record numbers would lose the tie.

`farthest_from_centre` finds the record farthest from a centre that moves slowly, seldom over all records. The
outermost records are those that were farthest from an earlier centre, the anchor. Every other record lies
within a radius of the anchor, and so, by the triangle inequality, within radius + |centre - anchor| of the
centre. If some outermost record is farther than that, the farthest outermost record is the farthest of all.
Otherwise the search tree answers. Now and then the outermost records are searched anew. The nearer the centre
is to the centres of the last queries, the faster a query is.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.kd import kd_order
from duckanon.kernels.neighbours.slots import (
    CHUNK_SLOTS,
    NO_RECORD,
    Slots,
    farthest_in,
    fill,
    in_order,
    measure,
    offer,
    remove,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

STACK_NODES = 128


class BoxTree(NamedTuple):
    """A search tree."""

    slots: Slots  # the records; bin b is leaf b, node number `len(low) // 2 + b`
    # (nodes, d), bounding box of the records left below a node; undefined if none is left
    low: NDArray[np.float64]
    high: NDArray[np.float64]  # (nodes, d)
    left: NDArray[np.int64]  # (nodes,), records left below a node
    # (nodes,), lowest number of the records left below a node; undefined if none is left
    lowest: NDArray[np.int64]


def box_tree_of(points: NDArray[np.float64], leaf_size: int) -> BoxTree:
    """Return the tree over points (n, d), split at medians of the widest coordinate. O(n log n) time."""
    # `leaf_size`, at least 1, is the most records in a leaf; n or more makes a brute-force scan.
    depth = 0
    while -(-len(points) >> depth) > leaf_size:
        depth += 1
    order, sizes = kd_order(points, depth)
    slots = fill(points, order, sizes)
    nodes = 2 * len(sizes) - 1
    box = np.zeros((nodes, points.shape[1]))
    tree = BoxTree(slots, box, box.copy(), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64))
    _fit_all(tree)
    return tree


@compiled
def _fit_all(tree: BoxTree) -> None:
    """Compute the boxes of all nodes, leaves first."""
    leaves = len(tree.slots.start)
    for leaf in range(leaves):
        tree.left[leaves - 1 + leaf] = tree.slots.left[leaf]
        _fit_leaf(tree, leaf)
    for node in range(leaves - 2, -1, -1):
        tree.left[node] = tree.left[2 * node + 1] + tree.left[2 * node + 2]
        _fit_inner(tree, node)


@compiled
def _fit_leaf(tree: BoxTree, leaf: int) -> None:
    """Fit box and lowest number of a leaf to the records left in it."""
    slots, node = tree.slots, len(tree.slots.start) - 1 + leaf
    start = slots.start[leaf]
    stop = start + slots.left[leaf]
    if start == stop:
        return
    for j in range(len(slots.columns)):
        low = high = slots.columns[j, start]
        for at in range(start + 1, stop):
            low = min(low, slots.columns[j, at])
            high = max(high, slots.columns[j, at])
        tree.low[node, j], tree.high[node, j] = low, high
    lowest = slots.record[start]
    for at in range(start + 1, stop):
        lowest = min(lowest, slots.record[at])
    tree.lowest[node] = lowest


@compiled
def _fit_inner(tree: BoxTree, node: int) -> bool:
    """Fit box and lowest number of an inner node to its children; tell whether they changed."""
    left, right = 2 * node + 1, 2 * node + 2
    if tree.left[left] == 0:
        left = right
    elif tree.left[right] == 0:
        right = left
    lowest = min(tree.lowest[left], tree.lowest[right])
    changed = bool(lowest != tree.lowest[node])
    tree.lowest[node] = lowest
    for j in range(tree.low.shape[1]):
        low = min(tree.low[left, j], tree.low[right, j])
        high = max(tree.high[left, j], tree.high[right, j])
        if low != tree.low[node, j] or high != tree.high[node, j]:
            changed = True
        tree.low[node, j], tree.high[node, j] = low, high
    return changed


@compiled
def take(tree: BoxTree, records: NDArray[np.int64]) -> None:
    """Remove different records, each still in the tree, and shrink the boxes above them."""
    leaves = len(tree.slots.start)
    for record in records:
        leaf = tree.slots.bin[tree.slots.slot[record]]
        remove(tree.slots, record)
        node = leaves - 1 + leaf
        tree.left[node] -= 1
        changed = leaves > 1
        if changed:
            _fit_leaf(tree, leaf)
        while node > 0:
            node = (node - 1) // 2
            tree.left[node] -= 1
            if changed and tree.left[node] > 0:
                changed = _fit_inner(tree, node)


@compiled
def farthest(tree: BoxTree, query: NDArray[np.float64]) -> int:
    """Return the farthest record left from the query (d,), the lowest among equals; one must be left."""
    first_leaf = len(tree.slots.start) - 1
    nodes, bounds = np.empty(STACK_NODES, np.int64), np.empty(STACK_NODES)
    nodes[0], bounds[0], height = 0, np.inf, 1
    best_distance, best_record = -1.0, -1
    while height > 0:
        height -= 1
        node, bound = nodes[height], bounds[height]
        if bound < best_distance or (bound == best_distance and tree.lowest[node] > best_record):
            continue
        if node >= first_leaf:
            start = tree.slots.start[node - first_leaf]
            distance, record = farthest_in(tree.slots, start, start + tree.left[node], query)
            if distance > best_distance or (distance == best_distance and record < best_record):
                best_distance, best_record = distance, record
            continue
        first, later = 2 * node + 1, 2 * node + 2
        reach, other = _outer_bound(tree, first, query), _outer_bound(tree, later, query)
        if other > reach:
            first, later, reach, other = later, first, other, reach
        for child, bound in ((later, other), (first, reach)):
            if bound >= best_distance:
                nodes[height], bounds[height] = child, bound
                height += 1
    return best_record


@compiled
def nearest(
    tree: BoxTree, query: NDArray[np.float64], distances: NDArray[np.float64], records: NDArray[np.int64]
) -> None:
    """Write the nearest records left into `records` (k,), ties to the lowest; at least k must be left."""
    # `distances` (k,) gets the squared distances. The two arrays are a heap with the worst pair on top.
    if len(records) == 0:
        return
    for i in range(len(records)):
        distances[i], records[i] = np.inf, NO_RECORD
    first_leaf = len(tree.slots.start) - 1
    nodes, bounds = np.empty(STACK_NODES, np.int64), np.empty(STACK_NODES)
    nodes[0], bounds[0], height = 0, 0.0, 1
    while height > 0:
        height -= 1
        node, bound = nodes[height], bounds[height]
        if bound > distances[0] or (bound == distances[0] and tree.lowest[node] > records[0]):
            continue
        if node >= first_leaf:
            _offer_leaf(tree, node, query, distances, records)
            continue
        first, later = 2 * node + 1, 2 * node + 2
        reach, other = _inner_bound(tree, first, query), _inner_bound(tree, later, query)
        if other < reach:
            first, later, reach, other = later, first, other, reach
        for child, bound in ((later, other), (first, reach)):
            if bound <= distances[0]:
                nodes[height], bounds[height] = child, bound
                height += 1


@compiled
def nearest_in_order(tree: BoxTree, queries: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the nearest records left of each query (n, count), nearest first, ties to the lowest."""
    found, distances = np.empty((len(queries), count), np.int64), np.empty(count)
    for i in range(len(queries)):
        nearest(tree, queries[i], distances, found[i])
        in_order(distances, found[i])
    return found


@compiled
def _offer_leaf(
    tree: BoxTree,
    node: int,
    query: NDArray[np.float64],
    distances: NDArray[np.float64],
    records: NDArray[np.int64],
) -> None:
    """Offer all records of a leaf to the heap of the nearest."""
    buffer = np.empty(CHUNK_SLOTS)
    start = tree.slots.start[node - len(tree.slots.start) + 1]
    stop = start + tree.left[node]
    for first in range(start, stop, CHUNK_SLOTS):
        last = min(first + CHUNK_SLOTS, stop)
        measure(tree.slots, first, last, query, buffer)
        for i in range(last - first):
            if buffer[i] <= distances[0]:
                offer(distances, records, buffer[i], tree.slots.record[first + i])


@compiled
def _inner_bound(tree: BoxTree, node: int, query: NDArray[np.float64]) -> float:
    """Return a lower bound of the squared distances of the records below the node; inf if none is left."""
    if tree.left[node] == 0:
        return np.inf
    total = 0.0
    for j in range(len(query)):
        gap = max(0.0, max(tree.low[node, j] - query[j], query[j] - tree.high[node, j]))
        total += gap * gap
    return total


@compiled
def _outer_bound(tree: BoxTree, node: int, query: NDArray[np.float64]) -> float:
    """Return an upper bound of the squared distances of the records below the node; -inf if none is left."""
    if tree.left[node] == 0:
        return -np.inf
    total = 0.0
    for j in range(len(query)):
        gap = max(query[j] - tree.low[node, j], tree.high[node, j] - query[j])
        total += gap * gap
    return total


BOUND_SAFETY_FACTOR = 1.0 + 1e-9
"""Factor on the bound: far above the rounding of a distance, and too small to cost time."""
QUERIES_A_RENEWAL = 8
"""Queries between two renewals: this many searches of the tree cost about as much as a renewal."""


class Outermost(NamedTuple):
    """The records that were farthest from the anchor."""

    slots: Slots  # these records in one bin; `slots.slot` is -1 for the others
    anchor: NDArray[np.float64]  # (d,), the centre from which they were farthest
    # (1,), no other record is farther from the anchor; negative if there is no other
    radius: NDArray[np.float64]
    age: NDArray[np.int64]  # (1,), queries since they were searched


def empty_outermost(n: int, d: int) -> Outermost:
    """Return memory for about 4 sqrt(n) records in d columns; the first query searches the records."""
    most = min(n, 4 * isqrt(n) + CHUNK_SLOTS)
    one = np.zeros(1, np.int64)
    places = np.zeros(most, np.int64)
    slots = Slots(np.zeros((d, most)), places, np.full(n, -1), places.copy(), one, one.copy())
    return Outermost(slots, np.zeros(d), np.full(1, np.inf), np.full(1, QUERIES_A_RENEWAL))


@compiled
def discard(outermost: Outermost, records: NDArray[np.int64]) -> None:
    """Remove records that leave the tree, if they are among the outermost. O(d) each."""
    for record in records:
        if outermost.slots.slot[record] >= 0:
            remove(outermost.slots, record)
            outermost.slots.slot[record] = -1


@compiled
def farthest_from_centre(outermost: Outermost, tree: BoxTree, centre: NDArray[np.float64]) -> int:
    """Return the record left in the tree that is farthest from the centre (d,): `farthest(tree, centre)`."""
    outermost.age[0] += 1
    start = outermost.slots.start[0]
    best_distance, best_record = farthest_in(outermost.slots, start, start + outermost.slots.left[0], centre)
    moved = 0.0
    for j in range(len(centre)):
        difference = centre[j] - outermost.anchor[j]
        moved += difference * difference
    bound = (outermost.radius[0] + np.sqrt(moved)) * BOUND_SAFETY_FACTOR
    if outermost.radius[0] < 0.0 or best_distance > bound * bound:
        return best_record
    if outermost.age[0] > QUERIES_A_RENEWAL:
        _renew(outermost, tree, centre)
    return farthest(tree, centre)


@compiled
def _renew(outermost: Outermost, tree: BoxTree, centre: NDArray[np.float64]) -> None:
    """Search the records of the tree that are farthest from the centre."""
    for at in range(outermost.slots.left[0]):
        outermost.slots.slot[outermost.slots.record[at]] = -1
    size = min(len(outermost.slots.record), tree.left[0])
    radius = _farthest_records(tree.slots, centre, outermost.slots.record[:size])
    for at in range(size):
        record = outermost.slots.record[at]
        outermost.slots.slot[record] = at
        for j in range(len(centre)):
            outermost.slots.columns[j, at] = tree.slots.columns[j, tree.slots.slot[record]]
    outermost.slots.left[0] = size
    for j in range(len(centre)):
        outermost.anchor[j] = centre[j]
    outermost.radius[0] = -1.0 if size == tree.left[0] else radius
    outermost.age[0] = 0


@compiled
def _farthest_records(slots: Slots, centre: NDArray[np.float64], records: NDArray[np.int64]) -> float:
    """Fill `records` with the farthest records; return the least of their distances."""
    nearness, distances = np.empty(len(records)), np.empty(CHUNK_SLOTS)
    for i in range(len(records)):
        nearness[i], records[i] = np.inf, NO_RECORD
    for number in range(len(slots.start)):
        start = slots.start[number]
        stop = start + slots.left[number]
        for first in range(start, stop, CHUNK_SLOTS):
            last = min(first + CHUNK_SLOTS, stop)
            measure(slots, first, last, centre, distances)
            for i in range(last - first):
                if -distances[i] < nearness[0]:
                    offer(nearness, records, -distances[i], slots.record[first + i])
    return float(np.sqrt(-nearness[0]))
