"""An exact search tree over records that leave: bounding boxes that shrink, leaves of few records.

The tree is perfect and balanced: node v has the children 2v + 1 and 2v + 2, and the last level are the
leaves. Each leaf is a bin of `Slots`. Every node knows the bounding box and the lowest number of the records
left below it. A tree of one leaf is a brute-force scan.

Pruning never changes a result. The bound of a box is computed by the same operations in the same order as a
distance, on coordinates that are at least as near (or as far). Rounding is monotone, so the bound holds for
the rounded distances as well as for the true ones. A node whose bound equals the distance to beat is skipped
only if all its record numbers would lose the tie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.neighbours.heap import NO_RECORD, in_order, offer
from duckanon.kernels.neighbours.kd import kd_order
from duckanon.kernels.neighbours.slots import CHUNK_SLOTS, Slots, farthest_in, fill, measure, remove

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
