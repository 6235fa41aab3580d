"""The distribution of a sensitive attribute in the whole table, prepared for exact EMD, and in each class.

The ground distances are |i - j| / (m - 1) ('ordered'), 1 for different values ('equal'), and the level of the
lowest common ancestor divided by the height H ('hierarchical'). All three are tree metrics: EMD(P, Q) is the
sum over edges e of length(e) * |P(below e) - Q(below e)|. 'ordered' is a path, 'equal' the tree of height 1.
Source: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 5.

>>> reference([3, 1, 2], "ordered").scale
2
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Distance = Literal["ordered", "equal", "hierarchical"]

LARGEST_TOTAL = 2**31
"""Tables have fewer records than this, so that a product of two record counts fits in 62 bits."""

LISTED_CLASS_MAX_RECORDS = 128
"""Class sizes up to this one find the crossings of a path in a list, greater ones by bisection."""


class Edges(NamedTuple):
    """A reference as the compiled functions take it: the edges of its tree metric, by position."""

    total: int  # records of the table
    cumulative: NDArray[np.int64]  # (m,), on a path an edge follows every position but the last
    prefix: NDArray[np.int64]
    # a tree has H edges above every leaf: at h * m + position the node of level h above it
    nodes: NDArray[np.int64]
    below: NDArray[np.int64]  # records below that node
    # on a path at s (s + 1) / 2 - 1 + p the first position whose cumulative count exceeds the share p / s of
    # the table, for class sizes s up to `LISTED_CLASS_MAX_RECORDS`; empty in a tree
    quantiles: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reference:
    """Distribution of one sensitive attribute in the released table; made by `reference`."""

    distance: Distance
    # (m,), records of each value code; codes are dense ranks in the attribute's order, NULL last
    counts: NDArray[np.int64]
    # (m,), place of each value code on the path, or among the leaves of the tree from left to right
    position: NDArray[np.int64]
    scale: int  # ground distances are multiples of 1 / scale: m - 1 on a path, 2H in a tree, at least 1
    edges: Edges

    @property
    def total(self) -> int:
        """Number of records of the table."""
        return self.edges.total

    @cached_property
    def most_frequent(self) -> NDArray[np.int64]:
        """Records of the most frequent value, of the two most frequent, and so on: (m,), int64."""
        return np.asarray(np.cumsum(np.sort(self.counts)[::-1]))

    def positions(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Return the `position` of each value code 0..m-1, any shape; ValueError for any other code."""
        given = np.asarray(codes)
        if given.dtype.kind not in "iu" and given.size:
            raise ValueError(f"value codes must be integers, not {given.dtype}")
        if given.size and (given.min() < 0 or given.max() >= len(self.counts)):
            raise ValueError(f"value codes must be within 0..{len(self.counts) - 1}, the values of the table")
        return np.ascontiguousarray(self.position[given.astype(np.int64)])


def reference(
    counts: ArrayLike, distance: Distance, paths: ArrayLike | None = None, *, part: bool = False
) -> Reference:
    """Return a distribution prepared for exact EMD. O(m H + m log m) time and memory."""
    # `counts` (m,) are the records of each value code, at least 1 each and at most 2^31 - 1 in all. In a
    # `part` of a table, whose values are those of the table, some counts may be 0. `paths`
    # (m, H + 1), for 'hierarchical' only: the node of each value on level 0 (the value itself) to H (the
    # root); node numbers are compared within a level. ValueError if they do not form one tree with a leaf for
    # each value.
    checked = _checked_counts(counts, part=part)
    if distance not in get_args(Distance):
        raise ValueError(f"unknown distance '{distance}': use 'ordered', 'equal' or 'hierarchical'")
    if (paths is not None) != (distance == "hierarchical"):
        raise ValueError(f"distance '{distance}' {'takes no paths' if paths is not None else 'needs paths'}")
    m = len(checked)
    if distance == "ordered":
        empty = np.zeros(0, dtype=np.int64)
        return _assembled(distance, checked, np.arange(m), nodes=empty.reshape(0, m))
    if distance == "equal":
        tree = np.stack([np.arange(m), np.zeros(m, dtype=np.int64)], axis=1)
    else:
        tree = _checked_paths(cast("ArrayLike", paths), m)
    order = np.lexsort(tree.T)
    return _assembled(distance, checked, order, nodes=tree[order, :-1].T)


def _checked_counts(counts: ArrayLike, *, part: bool) -> NDArray[np.int64]:
    """Return the counts as int64 if they are those of a table's values."""
    given = np.asarray(counts)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise ValueError(f"counts must be one integer a value, not {given.dtype} of shape {given.shape}")
    if given.min() < (0 if part else 1) or given.max() < 1:
        code = int(np.argmin(given))
        raise ValueError(f"value code {code} has count {given[code]}: codes must be dense ranks")
    if int(given.max()) >= LARGEST_TOTAL or int(given.sum(dtype=np.uint64)) >= LARGEST_TOTAL:
        raise ValueError("the counts sum to 2^31 records or more")
    return given.astype(np.int64)


def _checked_paths(paths: ArrayLike, m: int) -> NDArray[np.int64]:
    """Return the paths as int64 if they form one tree with a leaf for each of m values."""
    tree = np.asarray(paths)
    if tree.ndim != 2 or tree.shape[0] != m or tree.shape[1] == 0 or tree.dtype.kind not in "iu":
        raise ValueError(f"paths must be integers with a row for each of the {m} values, not {tree.shape}")
    if len(np.unique(tree[:, 0])) < m:
        raise ValueError("two values share a leaf of the hierarchy")
    if len(np.unique(tree[:, -1])) > 1:
        raise ValueError("the hierarchy has more than one root")
    for level in range(tree.shape[1] - 1):
        edges = np.unique(tree[:, level : level + 2], axis=0)
        if len(edges) > len(np.unique(edges[:, 0])):
            raise ValueError(f"a node of level {level} has two parents in the hierarchy")
    return tree.astype(np.int64)


def _assembled(
    distance: Distance, counts: NDArray[np.int64], order: NDArray[np.intp], nodes: NDArray[np.int64]
) -> Reference:
    """Return the reference of codes in this order; row h of nodes (height, m) is an inner level."""
    m = len(counts)
    position = np.empty(m, dtype=np.int64)
    position[order] = np.arange(m)
    cumulative = np.cumsum(counts[order])
    prefix = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(cumulative)])
    inner = np.zeros(nodes.shape, dtype=np.int64)
    below = np.zeros(nodes.shape, dtype=np.int64)
    for level, row in enumerate(nodes):
        inner[level] = np.unique(row, return_inverse=True)[1]
        below[level] = np.bincount(inner[level], weights=counts[order]).astype(np.int64)[inner[level]]
    quantiles = _quantiles(cumulative) if distance == "ordered" else np.zeros(0, dtype=np.int64)
    edges = Edges(int(cumulative[-1]), cumulative, prefix, inner.ravel(), below.ravel(), quantiles)
    scale = m - 1 if distance == "ordered" else 2 * len(nodes)
    return Reference(distance, counts, position, max(scale, 1), edges)


def _quantiles(cumulative: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, size after size, the first position beyond each share p / s, p = 0..s, of the records."""
    sizes = np.repeat(np.arange(1, LISTED_CLASS_MAX_RECORDS + 1), np.arange(2, LISTED_CLASS_MAX_RECORDS + 2))
    first = sizes * (sizes + 1) // 2 - 1
    part = np.arange(len(sizes)) - first
    return np.asarray(
        np.searchsorted(cumulative, cumulative[-1] * part // sizes, side="right"), dtype=np.int64
    )


class Histograms(NamedTuple):
    """The values of each class with their counts: class c holds ``values[starts[c]:starts[c + 1]]``."""

    starts: NDArray[np.int64]
    values: NDArray[np.int64]  # ascending positions in each class
    weights: NDArray[np.int64]  # records at each position


def checked_offsets(offsets: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the offsets (m + 1,) as int64; ValueError unless they cut n records into classes, none empty."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu":
        raise ValueError(f"offsets must be at least two integers, not {given.dtype} of shape {given.shape}")
    checked = given.astype(np.int64)
    if checked[0] != 0 or checked[-1] != n or (np.diff(checked) < 1).any():
        raise ValueError(f"offsets must ascend from 0 to the {n} records, with no class empty")
    return checked


def class_histograms(positions: NDArray[np.int64], offsets: NDArray[np.int64]) -> Histograms:
    """Return the counted values of each class c, the records offsets[c]:offsets[c + 1] of n. O(n log n)."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    span = int(positions.max()) + 1
    key, weights = np.unique(owner * span + positions, return_counts=True)
    starts = np.searchsorted(key, np.arange(len(offsets)) * span)
    return Histograms(starts.astype(np.int64), key % span, weights.astype(np.int64))
