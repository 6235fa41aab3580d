"""What a record adds to the edge sum of a class: on a path by its rank, in a tree by the counts of its nodes.

The functions here depend on the table and on their arguments only. What depends on the classes is in
`ledger`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.kernels.closeness.reference import LISTED_CLASS_MAX_RECORDS
from duckanon.kernels.closeness.threshold import LISTED_QUANTILES
from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules


class Path(NamedTuple):
    """Where a path stands in `Rules.arrays`: cumulative counts, prefix sums, quantiles and turns."""

    total: int
    values: int
    cumulative: int
    prefix: int
    quantiles: int
    turns: int


@inner
def path_of(rules: Rules, a: int) -> Path:
    """Return the places of a path."""
    rule = rules.table[a]
    m, start = rule["values"], rule["start"]
    quantiles = start + 2 * m + 1
    return Path(rule["total"], m, start, start + m, quantiles, quantiles + LISTED_QUANTILES)


@inner
def cost(arrays: NDArray[np.int64], path: Path, size: int, rank: int, x: int) -> int:
    """Return what the record of a rank 1..size at position x adds to the edge sum, C_size(rank, x)."""
    return before(arrays, path, size, rank - 1, x) - before(arrays, path, size, rank, x)


@inner
def before(arrays: NDArray[np.int64], path: Path, size: int, p: int, x: int) -> int:
    """Return the edge sum before position x of a distribution function that stays at p of size records."""
    level = path.total * p
    if size <= LISTED_CLASS_MAX_RECORDS:
        place = size * (size + 1) // 2 - 1 + p
        q, turn = arrays[path.quantiles + place], arrays[path.turns + place]
    else:
        q = _crossing(arrays, path, size, level)
        turn = 2 * (level * q - size * arrays[path.prefix + q])
    # Both values are computed before the comparison. Half of all records pass it, so a branch would be slow.
    value = level * x - size * arrays[path.prefix + x]
    return int(turn - value if x > q else value)


@inner
def _crossing(arrays: NDArray[np.int64], path: Path, size: int, level: int) -> int:
    """Return the first position whose cumulative count of the table exceeds a level."""
    # A function of its own, so that `before` is short enough to be inlined in the loops around it.
    q, end = 0, path.values
    while q < end:
        middle = (q + end) // 2
        if arrays[path.cumulative + middle] * size > level:
            end = middle
        else:
            q = middle + 1
    return q


class TreeArrays(NamedTuple):
    """Where the arrays of one tree stand in `Rules.arrays`: nodes above positions, records below them."""

    total: int
    values: int
    height: int
    nodes: int
    below: int


@inner
def tree_of(rules: Rules, a: int) -> TreeArrays:
    """Return the places of a tree."""
    rule = rules.table[a]
    m, height = rule["values"], rule["height"]
    nodes = rule["start"] + 2 * m + 1
    return TreeArrays(rule["total"], m, height, nodes, nodes + m * height)


@inner
def edge(tree: TreeArrays, count: int, size: int, below: int) -> int:
    """Return |n P - s Q| of the edge above a node with `count` members and `below` records of the table."""
    difference: int = abs(tree.total * count - size * below)
    return difference
