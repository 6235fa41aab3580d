"""How many records of a class can be kept if each part of it that is released meets t."""

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
    """Return a number of records, 0 to size, above which no part of a class meets t of a rule.

    The class of `size` records has `weights` at the ascending positions `values`; n records of the table
    have a value of a set B, C_B of the class. A part of m records has at most C_B of them, so that
    max(0, m n_B - n C_B) is what it lacks in B at least. In a tree of height H with a B for each node
    below the root, these sum up to m n H EMD at most; on a path, with a B on either side of each edge,
    to m n (values - 1) EMD. The sum is convex in m, and 0 for m = 0: the m for which it is within t are
    those up to a greatest one, found by bisection. O(s log s), on a path O(s log m log s).
    """
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
    """Return what every part of `kept` records of a class lacks, in units of `edge_sum`: see `most_kept`.

    On a path as described there; in a tree twice as much, as `edge_sum` counts what is too much as well. The
    sum comes modulo 2^64 and rounded, as that does.
    """
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
    """Return `lack` of a path: the class has the same records before each edge between two of its values."""
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
