"""How many records of a class can be kept if each released part of it meets t.

The class has C_B records with a value of a set B, the table n_B of n records. A part of m records has at most
C_B of them, so it lacks at least max(0, m n_B - n C_B) records (times n) in B.

- In a tree of height H, take a set B for each node below the root: the lacks sum up to at most m n H EMD.
- On a path, take a set B on either side of each edge: the lacks sum up to at most m n (values - 1) EMD.

The sum is convex in m, and 0 for m = 0. So the sum is within the bound of t exactly for the m up to some
greatest m, which bisection finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.closeness.emd import crossing, edge_sum
from duckanon.kernels.closeness.threshold import Rules, rule_edges, t_violation
from duckanon.kernels.compiled import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.reference import Edges


@compiled
def most_kept(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, rules: Rules, which: int
) -> int:
    """Return a number of records, 0 to size, above which no part of a class meets t of a rule."""
    # The class of `size` records has `weights` at the ascending positions `values`. O(s log s), on a path O(s
    # log m log s).
    edges, rule = rule_edges(rules, which), rules.table[which]
    if t_violation(lack(values, weights, size, size, edges), size, rule) == 0.0:
        return size
    kept, refused = 0, size
    while refused - kept > 1:
        middle = (kept + refused) // 2
        if t_violation(lack(values, weights, size, middle, edges), middle, rule) > 0.0:
            refused = middle
        else:
            kept = middle
    return kept


@compiled
def lack(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, kept: int, edges: Edges
) -> tuple[int, float]:
    """Return what every part of `kept` records lacks at least, in units of `edge_sum`: see above."""
    # In a tree twice that lack, because `edge_sum` counts the surplus as well. The sum is returned modulo
    # 2^64 and rounded, as by `edge_sum`.
    if len(edges.nodes) == 0:
        return _path_lack(values, weights, size, kept, edges)
    # |x| = 2 max(0, x) - x, and the x of a level sum up to n (m - s).
    height = len(edges.nodes) // len(edges.cumulative)
    spare = edges.total * (size - kept)
    low, high = edge_sum(values, weights, kept, edges)
    return low - height * spare, high - float(height) * float(spare)


@compiled
def _path_lack(
    values: NDArray[np.int64], weights: NDArray[np.int64], size: int, kept: int, edges: Edges
) -> tuple[int, float]:
    """Return `lack` of a path: before each edge between two of its values the class has the same records."""
    prefix, m, spare = edges.prefix, len(edges.cumulative), edges.total * (size - kept)
    low, high = 0, 0.0
    below, start = 0, 0
    for j in range(len(values) + 1):
        end = int(values[j]) if j < len(values) else m
        if end > start:
            # Before an edge a part has at most what the class has, and at least that less all others.
            most = edges.total * below
            least = most - spare
            few = crossing(edges.cumulative, start, end, most, kept)
            many = crossing(edges.cumulative, start, few, least, kept)
            mass = int(prefix[end] - prefix[few] - prefix[many] + prefix[start])
            low += kept * mass - most * (end - few) + least * (many - start)
            high += float(kept) * float(mass) - float(most) * float(end - few)
            high += float(least) * float(many - start)
        if j < len(values):
            below += int(weights[j])
        start = end
    return low, high
