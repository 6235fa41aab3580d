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

Weights of the columns make weighted means of the means over the columns, 'loss' and 'precision'. A weighted
loss is a real power, so losses that agree in `LOSS_DECIMALS` decimals count as equal.

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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from duckanon.kernels.rollup import DistinctRows, classes_at
from duckanon.literature.lattice import Lattice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from duckanon.literature.lattice import Checked, Criteria, Levels

    Within = Sequence[tuple[int, int]]  # lowest and highest level of each quasi-identifier
    Weights = Sequence[Fraction]  # of each quasi-identifier, above 0

Objective = Literal["loss", "discernibility", "c_avg", "precision"]

CLOSE_COST_SHARE = 1e-12
"""Costs whose relative difference is smaller are compared as fractions."""

SCORED_MAX_NODES = 50_000
"""In a lattice of fewer nodes scores are computed for each next node, in a larger one for several."""

LOSS_DECIMALS = 12
"""Decimals by which two weighted losses are compared."""


@dataclass(frozen=True, eq=False)
class Released:
    """A node that keeps the criteria, and what it releases."""

    levels: Levels  # of each quasi-identifier
    cost: float  # by the objective
    # (r,) class of each distinct row, 0..m-1 by first row; -1 where it is suppressed
    of_row: NDArray[np.int64] = field(repr=False)
    suppressed: int  # records


@dataclass(frozen=True, eq=False)
class Found(Released):
    """The optimum, and how many nodes the search checked."""

    nodes: int  # of the searched levels
    checked: int  # nodes


def search(
    rows: DistinctRows,
    criteria: Criteria,
    objective: Objective = "loss",
    *,
    within: Within | None = None,
    weights: Weights | None = None,
) -> Found | None:
    """Return the keeping node of least cost, the lowest levels of several; None if no node keeps."""
    # `rows` holds the values of a sensitive column for each threshold of the criteria. Without `within` all
    # levels are searched; `weights` count in 'loss' and 'precision'.
    lattice = Lattice(rows, criteria)
    prices = _Prices(rows, criteria, objective, weights)
    levels = within or every_level(rows)
    open_nodes = _Open(levels, prices.bounds(levels))
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
    cost = prices.shown(best[0])
    nodes = math.prod(open_nodes.shape)
    return Found(optimum.levels, cost, _numbered(rows, optimum), optimum.suppressed, nodes, lattice.checked)


def released_at(
    rows: DistinctRows,
    criteria: Criteria,
    nodes: Iterable[Levels],
    objective: Objective = "loss",
    *,
    weights: Weights | None = None,
) -> list[Released]:
    """Return what each of some nodes that keep the criteria releases."""
    lattice, prices = Lattice(rows, criteria), _Prices(rows, criteria, objective, weights)
    return [
        Released(one.levels, prices.shown(prices.of(one)), _numbered(rows, one), one.suppressed)
        for one in map(lattice.check, nodes)
    ]


def every_level(rows: DistinctRows) -> Within:
    """Return the lowest and highest level of each quasi-identifier."""
    return [(0, one.height) for one in rows.quasi]


def least_suppressed(rows: DistinctRows, criteria: Criteria, within: Within, most: int) -> int | None:
    """Return the fewest records that a node suppresses to keep the criteria; None if it takes all records.

    Checks at most `most` nodes, the highest first, or the highest alone where it suppresses fewest.
    """
    whatever = replace(criteria, allowed=int(rows.records.sum()))
    lattice = Lattice(rows, whatever)
    nodes = product(*(range(high, low - 1, -1) for low, high in within))
    checked = [lattice.check(node) for node in islice(nodes, 1 if whatever.monotone else most)]
    return min((one.suppressed for one in checked if one.keeps), default=None)


def minimal_nodes(
    rows: DistinctRows, criteria: Criteria, most: int | None = None, *, within: Within | None = None
) -> list[Levels] | None:
    """Return the nodes that keep the criteria while no specialization does, ascending, as Incognito does."""
    # None where that takes more than `most` checks: without monotone criteria every node is checked that no
    # other node rules out.
    keeping = keeping_nodes(rows, criteria, most, within=within)
    if keeping is None or within is None:
        return None if keeping is None else minimal_of(keeping)
    lowest = [low for low, _ in within]
    return [tuple(map(sum, zip(lowest, node, strict=True))) for node in minimal_of(keeping)]


def minimal_of(keeping: NDArray[np.bool_]) -> list[Levels]:
    """Return the nodes of a set that are above no other node of the set, ascending; one axis a column."""
    minimal = keeping & ~_above(keeping)
    return [tuple(int(level) for level in levels) for levels in np.argwhere(minimal)]


def keeping_nodes(
    rows: DistinctRows, criteria: Criteria, most: int | None = None, *, within: Within | None = None
) -> NDArray[np.bool_] | None:
    """Tell for each node, one axis a quasi-identifier, whether it keeps; None beyond `most` checks."""
    # An axis begins at the lowest level of `within`.
    lattice = Lattice(rows, criteria)
    open_nodes = _Open(within or every_level(rows), None)
    keeping = np.zeros(open_nodes.shape, dtype=bool)
    while (node := open_nodes.next(None)) is not None:
        if lattice.checked == most:
            return None
        checked = lattice.check(node.levels)
        every = checked.keeps and criteria.monotone
        place = open_nodes.place(node.levels)
        keeping[_upwards(place) if every else place] |= checked.keeps
        open_nodes.close(node.levels, below=checked.never, above=every)
    return keeping


def _numbered(rows: DistinctRows, node: Checked) -> NDArray[np.int64]:
    """Return the number of the class of each distinct row at a keeping node, -1 if suppressed."""
    number = np.where(node.gone, -1, np.cumsum(~node.gone) - 1)
    return number[classes_at(rows, node.levels).of_row]


class _Node(NamedTuple):
    """A node: its levels, and its place in the order of the levels."""

    levels: Levels
    place: int


class _Prices:
    """Costs of nodes under an objective, as fractions; for 'loss' the product of 1 + x over the columns."""

    def __init__(
        self, rows: DistinctRows, criteria: Criteria, objective: Objective, weights: Weights | None
    ) -> None:
        self._quasi, self._objective, self._k = rows.quasi, objective, criteria.k
        # Equal weights are no weights: the loss is then compared as a fraction.
        self._weights = None if weights is None or len(set(weights)) == 1 else weights
        shares = weights or [Fraction(1)] * len(rows.quasi)
        self._shares = [share / sum(shares) for share in shares]
        self._n = int(rows.records.sum())
        # A column whose hierarchy has one leaf loses by suppression only.
        self._whole = [max(one.total - 1, 1) for one in rows.quasi]
        self._unsuppressed = [
            [self._lost(rows, column, level) for level in range(one.height + 1)]
            for column, one in enumerate(rows.quasi)
        ]

    def bounds(self, within: Within) -> NDArray[np.float64] | None:
        """Return the rounded cost of each node without suppression; None if more than levels counts."""
        if self._objective not in ("loss", "precision"):
            return None
        shape = _shape(within)
        bounds = np.ones(shape) if self._objective == "loss" else np.zeros(shape)
        for column, (low, high) in enumerate(within):
            along = [1] * len(shape)
            along[column] = shape[column]
            each = [float(self._part(column, level)) for level in range(low, high + 1)]
            parts, share = np.array(each).reshape(along), float(self._shares[column])
            if self._objective == "loss":
                bounds = bounds * ((1 + parts) if self._weights is None else (1 + parts) ** share)
            else:
                bounds = bounds + parts * share
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
        return self._united(
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
        if self._objective == "loss":
            return float(cost) ** (1 if self._weights else 1 / len(self._quasi)) - 1
        return float(cost)

    def _bound(self, levels: Levels) -> Fraction:
        """Return the cost of a node without suppression."""
        return self._united(self._part(column, level) for column, level in enumerate(levels))

    def _united(self, parts: Iterable[Fraction]) -> Fraction:
        """Return the cost of all columns from the mean cost of each; with weights 1 + the mean loss."""
        if self._objective == "precision":
            pairs = zip(parts, self._shares, strict=True)
            return sum((part * share for part, share in pairs), Fraction(0))
        if self._weights is None:
            return math.prod((1 + part for part in parts), start=Fraction(1))
        powers = [float(1 + part) ** float(share) for part, share in zip(parts, self._shares, strict=True)]
        return Fraction(round(math.prod(powers), LOSS_DECIMALS))

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

    def __init__(self, within: Within, bounds: NDArray[np.float64] | None) -> None:
        self.shape = _shape(within)
        self._lowest = [low for low, _ in within]
        self._open = np.ones(self.shape, dtype=bool)
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
        above = np.unravel_index(place, self.shape)
        return _Node(tuple(low + int(up) for low, up in zip(self._lowest, above, strict=True)), place)

    def place(self, levels: Levels) -> Levels:
        """Return the place of a node in arrays of the searched nodes."""
        return tuple(level - low for level, low in zip(levels, self._lowest, strict=True))

    def close(self, levels: Levels, *, below: bool = False, above: bool = False) -> None:
        """Take a node out; with `below` also its specializations, with `above` its generalizations."""
        self._misses = 0 if above else self._misses + 1
        place = self.place(levels)
        self._open[place] = False
        if below:
            self._open[tuple(slice(level + 1) for level in place)] = False
        if above:
            self._open[_upwards(place)] = False

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


def _shape(within: Within) -> Levels:
    """Return the number of levels of each quasi-identifier."""
    return tuple(high - low + 1 for low, high in within)


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
