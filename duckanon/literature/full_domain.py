"""Full-domain generalization: each quasi-identifier shows one level of its hierarchy, for all records.

Samarati, "Protecting Respondents' Identities in Microdata Release", IEEE TKDE 13(6), 2001; LeFevre, DeWitt
and Ramakrishnan, "Incognito: Efficient Full-Domain k-Anonymity", SIGMOD 2005, which Li et al. 2007 use.

Objectives of a node, and of a suppressed record:

- 'loss': for each quasi-identifier (leaves - 1) / (all leaves - 1), the leaves being those below the released
  node, averaged over the records; 1 for a suppressed record. Over the columns the geometric mean of 1 + x,
  minus 1.
- 'precision': level over height, averaged over all cells; 1 for each cell of a suppressed record.
- 'discernibility': the sum of the squared class sizes; n for each suppressed record.
- 'c_avg': n over k and the number of classes.

The search is exact for every criterion and objective:

1. Without suppression k, l and t are monotone: a node that fails rules out all nodes below it. With
   suppression only k and distinct l are monotone: the set of records that they suppress shrinks on the way
   up. By t a node rules out the nodes below where it loses too many records however its classes are split
   (`lattice.loosest`, `kernels.rollup.most_kept`). All other nodes are checked. Li et al. 2007,
   section 4, has no suppression.
2. The loss and the precision of a node are at least those without suppression, which depend on its levels
   alone. No node is checked whose bound is above the best cost.
3. Discernibility and C_avg of all classes, suppressed classes included, are bounds for all generalizations of
   a node.
4. Of the nodes left, the next is a node that rules out many others, whether or not it keeps the criteria.

At worst one roll-up a node, each O(r d) on average for r distinct rows, and O(entries log entries) with
thresholds. Costs are compared as fractions where rounding could decide. Deterministic: of equal costs the
lowest levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from duckanon.kernels.rollup import DistinctRows, classes_at
from duckanon.literature.lattice import Lattice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from duckanon.literature.lattice import Checked, Criteria, Levels

Objective = Literal["loss", "discernibility", "c_avg", "precision"]

CLOSE_COST_SHARE = 1e-12
"""Costs whose relative difference is smaller are compared as fractions."""

SCORED_MAX_NODES = 50_000
"""In a lattice of fewer nodes scores are computed for each next node, in a larger one for several."""


@dataclass(frozen=True, eq=False)
class Found:
    """The optimum, and how many nodes the search checked."""

    levels: Levels  # of each quasi-identifier
    cost: float  # by the objective
    # (r,) class of each distinct row, 0..m-1 by first row; -1 where it is suppressed
    of_row: NDArray[np.int64] = field(repr=False)
    suppressed: int  # records
    nodes: int  # of the lattice
    checked: int  # nodes


def search(rows: DistinctRows, criteria: Criteria, objective: Objective = "loss") -> Found | None:
    """Return the keeping node of least cost, the lowest levels of several; None if no node keeps."""
    # `rows` holds the values of a sensitive column for each threshold of the criteria.
    lattice = Lattice(rows, criteria)
    prices = _Prices(rows, criteria, objective)
    open_nodes = _Open(lattice.shape, prices.bounds(lattice.shape))
    best: tuple[Fraction, int] | None = None
    optimum: Checked | None = None
    while (node := open_nodes.next(best)) is not None:
        if best is not None and prices.hopeless(node, best):
            open_nodes.close(node.levels)
            continue
        checked = lattice.check(node.levels)
        if checked.keeps:
            price = prices.of(checked), node.place
            if best is None or price < best:
                best, optimum = price, checked
        base = prices.base(checked)
        above = checked.keeps and criteria.allowed == 0
        above |= best is not None and base is not None and (base, node.place) >= best
        open_nodes.close(node.levels, below=checked.never, above=above)
    if optimum is None or best is None:
        return None
    classes = classes_at(rows, optimum.levels)
    number = np.where(optimum.gone, -1, np.cumsum(~optimum.gone) - 1)
    return Found(
        optimum.levels,
        prices.shown(best[0]),
        number[classes.of_row],
        optimum.suppressed,
        math.prod(lattice.shape),
        lattice.checked,
    )


def minimal_nodes(rows: DistinctRows, criteria: Criteria, most: int | None = None) -> list[Levels] | None:
    """Return the nodes that keep the criteria while no specialization does, ascending, as Incognito does."""
    # None where that takes more than `most` checks: without monotone criteria every node is checked that no
    # other node rules out.
    keeping = keeping_nodes(rows, criteria, most)
    return None if keeping is None else minimal_of(keeping)


def minimal_of(keeping: NDArray[np.bool_]) -> list[Levels]:
    """Return the nodes of a set that are above no other node of the set, ascending; one axis a column."""
    minimal = keeping & ~_above(keeping)
    return [tuple(int(level) for level in levels) for levels in np.argwhere(minimal)]


def keeping_nodes(
    rows: DistinctRows, criteria: Criteria, most: int | None = None
) -> NDArray[np.bool_] | None:
    """Tell for each node, one axis a quasi-identifier, whether it keeps; None beyond `most` checks."""
    lattice = Lattice(rows, criteria)
    open_nodes, keeping = _Open(lattice.shape, None), np.zeros(lattice.shape, dtype=bool)
    while (node := open_nodes.next(None)) is not None:
        if lattice.checked == most:
            return None
        checked = lattice.check(node.levels)
        every = checked.keeps and criteria.monotone
        keeping[_upwards(node.levels) if every else node.levels] |= checked.keeps
        open_nodes.close(node.levels, below=checked.never, above=every)
    return keeping


class _Node(NamedTuple):
    """A node: its levels, and its place in the order of the levels."""

    levels: Levels
    place: int


class _Prices:
    """Costs of nodes under an objective, as fractions; for 'loss' the product of 1 + x over the columns."""

    def __init__(self, rows: DistinctRows, criteria: Criteria, objective: Objective) -> None:
        self._quasi, self._objective, self._k = rows.quasi, objective, criteria.k
        self._n = int(rows.records.sum())
        # A column whose hierarchy has one leaf loses by suppression only.
        self._whole = [max(one.total - 1, 1) for one in rows.quasi]
        self._unsuppressed = [
            [self._lost(rows, column, level) for level in range(one.height + 1)]
            for column, one in enumerate(rows.quasi)
        ]

    def bounds(self, shape: Levels) -> NDArray[np.float64] | None:
        """Return the rounded cost of each node without suppression; None if more than levels counts."""
        if self._objective not in ("loss", "precision"):
            return None
        bounds = np.ones(shape) if self._objective == "loss" else np.zeros(shape)
        for column, levels in enumerate(shape):
            along = [1] * len(shape)
            along[column] = levels
            parts = np.array([float(self._part(column, level)) for level in range(levels)]).reshape(along)
            bounds = bounds * (1 + parts) if self._objective == "loss" else bounds + parts / len(shape)
        return bounds

    def of(self, checked: Checked) -> Fraction:
        """Return the cost of a node with its suppressed classes."""
        rows, gone, suppressed = checked.rows, checked.gone, checked.suppressed
        if self._objective == "discernibility":
            return Fraction(int((rows.records[~gone] ** 2).sum()) + suppressed * self._n)
        if self._objective == "c_avg":
            return Fraction(self._n, int((~gone).sum()) * self._k)
        if self._objective == "precision":
            released = self._n - suppressed
            return (self._bound(checked.levels) * released + suppressed) / self._n
        kept = DistinctRows(rows.codes[~gone], rows.records[~gone], rows.quasi)
        return _product(
            Fraction(self._lost(kept, column, level) + suppressed * whole, self._n * whole)
            for column, (level, whole) in enumerate(zip(checked.levels, self._whole, strict=True))
        )

    def base(self, checked: Checked) -> Fraction | None:
        """Return a lower bound on the cost of all generalizations of a node; None where `bounds` has it."""
        records = checked.rows.records
        if self._objective == "discernibility":
            return Fraction(int((records**2).sum()))
        return Fraction(self._n, len(records) * self._k) if self._objective == "c_avg" else None

    def hopeless(self, node: _Node, best: tuple[Fraction, int]) -> bool:
        """Tell whether a node cannot beat the best cost and place."""
        return self._objective in ("loss", "precision") and (self._bound(node.levels), node.place) >= best

    def shown(self, cost: Fraction) -> float:
        """Return a cost as users read it."""
        return float(cost) ** (1 / len(self._quasi)) - 1 if self._objective == "loss" else float(cost)

    def _bound(self, levels: Levels) -> Fraction:
        """Return the cost of a node without suppression."""
        parts = [self._part(column, level) for column, level in enumerate(levels)]
        if self._objective == "loss":
            return _product(parts)
        return sum(parts, Fraction(0)) / len(parts)

    def _part(self, column: int, level: int) -> Fraction:
        """Return the mean cost of a level of a column."""
        if self._objective == "precision":
            return Fraction(level, max(self._quasi[column].height, 1))
        return Fraction(self._unsuppressed[column][level], self._n * self._whole[column])

    def _lost(self, rows: DistinctRows, column: int, level: int) -> int:
        """Return the sum, over the records, of the leaves below the released node but one."""
        leaves = self._quasi[column].leaves[level]
        return int((rows.records * (leaves[rows.codes[:, column]] - 1)).sum())


class _Open:
    """The nodes that are neither checked nor ruled out, and the order in which they are checked."""

    def __init__(self, shape: Levels, bounds: NDArray[np.float64] | None) -> None:
        self._open = np.ones(shape, dtype=bool)
        self._bounds = bounds
        self._by_bound = None if bounds is None else np.argsort(bounds, axis=None, kind="stable")
        self._waiting: list[int] = []
        self._misses = 0

    def next(self, best: tuple[Fraction, int] | None) -> _Node | None:
        """Return the node to check next; None if no node is open."""
        if best is not None and self._bounds is not None:
            self._open &= self._bounds <= float(best[0]) * (1 + CLOSE_COST_SHARE)
        if not self._open.any():
            return None
        while not (self._waiting and self._open.flat[self._waiting[-1]]):
            self._waiting = self._waiting[:-1] or self._chosen()
        place = self._waiting.pop()
        return _Node(tuple(int(level) for level in np.unravel_index(place, self._open.shape)), place)

    def close(self, levels: Levels, *, below: bool = False, above: bool = False) -> None:
        """Take a node out; with `below` also its specializations, with `above` its generalizations."""
        self._misses = 0 if above else self._misses + 1
        self._open[levels] = False
        if below:
            self._open[tuple(slice(level + 1) for level in levels)] = False
        if above:
            self._open[_upwards(levels)] = False

    def _chosen(self) -> list[int]:
        """Return open nodes, the best last: a node that rules out many others, whatever its check gives."""
        below = self._counted(down=True)
        above = self._counted(down=False) if self._bounds is None else self._dearer()
        # The longer no node has kept the criteria, the less counts what a keeping node would rule out.
        scores = np.where(self._open, np.minimum(below, above * (1.0 + self._misses)), 0).ravel()
        wanted = 1 + len(scores) // SCORED_MAX_NODES
        if wanted == 1:
            return [int(scores.argmax())]
        chosen = np.argsort(scores, kind="stable")[-wanted:]
        return [int(place) for place in chosen if scores[place] > 0]

    def _counted(self, *, down: bool) -> NDArray[np.int32]:
        """Return how many open nodes are specializations, or generalizations, of each, itself included."""
        counts = self._open.astype(np.int32)
        # An axis has a few levels: to add whole levels takes a sixth of the time of a cumsum along it.
        for axis, levels in enumerate(counts.shape):
            along = np.moveaxis(counts, axis, 0)[:: 1 if down else -1]
            for level in range(1, levels):
                along[level] += along[level - 1]
        return counts

    def _dearer(self) -> NDArray[np.int32]:
        """Return how many open nodes cost at least as much as each, itself included."""
        counts = np.empty(self._open.size, dtype=np.int32)
        in_order = self._open.ravel()[self._by_bound]
        counts[self._by_bound] = np.cumsum(in_order[::-1])[::-1]
        return counts.reshape(self._open.shape)


def _product(parts: Iterable[Fraction]) -> Fraction:
    """Return the product of 1 + x."""
    return math.prod((1 + part for part in parts), start=Fraction(1))


def _upwards(levels: Levels) -> tuple[slice, ...]:
    """Return the nodes from one upwards."""
    return tuple(slice(level, None) for level in levels)


def _above(keeping: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell of each node whether a specialization of it is in a set."""
    reached = keeping.copy()
    for axis in range(keeping.ndim):
        np.logical_or.accumulate(reached, axis=axis, out=reached)
    # What is reached in one level less of any column is above another one.
    above = np.zeros_like(keeping)
    for axis in range(keeping.ndim):
        upper = [slice(None)] * keeping.ndim
        lower = [slice(None)] * keeping.ndim
        upper[axis], lower[axis] = slice(1, None), slice(None, -1)
        above[tuple(upper)] |= reached[tuple(lower)]
    return above
