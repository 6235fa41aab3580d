"""Nodes of the lattice of full-domain generalization: what a node keeps, and which nodes that rules out.

Without suppression all criteria are monotone: what a node keeps, every generalization keeps
(`Criteria.monotone`). With suppression k, distinct l and k of subsets of the columns are monotone. A class
that keeps k and l is not suppressed after a merge. Records that together keep k of all subsets keep it at
every generalization, because combinations of values only merge. t, bounds of shares, entropy and recursive
l are not monotone: a merged class may miss what one of its parts kept. A node that fails by t may still rule
out the nodes below.

Why a node can rule out others by t (`loosest`): the released classes keep t against the reference R. A union
S of released classes keeps t as well, since EMD is convex.

1. Without `limits`, R is the whole table T, so EMD(S, T) <= t.
2. With `limits`, R lacks at most a of the n records, a being `allowed`. T is a mixture of R and of the
   records that R lacks, so EMD(S, T) <= (1 - a / n) EMD(S, R) + a / n.
3. Ranks change where values vanish. If d of m values vanish, EMD(S, R) is a mean over the m - 1 - d edges
   left. With the distances of T it is a mean over m - 1 edges, of which d weigh 1 at most. So 1 - EMD with
   the distances of T is at least 1 - d / (m - 1) of 1 - EMD(S, R).
4. Together 1 - EMD(S, T) >= (1 - t) (1 - a / n) (1 - d / (m - 1)), the last factor for 'ordered' only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import THRESHOLD_DENOMINATOR, Threshold
from duckanon.kernels.rare import cells_of
from duckanon.kernels.rollup import (
    DistinctRows,
    asked_of,
    classes_at,
    kept_records,
    rolled_up,
    rows_memory,
    violating_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.rollup import CodedThreshold

Levels = tuple[int, ...]

Limits = Callable[[Sequence["NDArray[np.int64]"]], Sequence["Threshold"]]
"""Maps the records of each value (0: none), one array a column, to the thresholds of a table."""

KEPT_ROLLUPS_FACTOR = 4
"""Memory of the kept roll-ups, in multiples of the memory of the distinct rows."""


@dataclass(frozen=True, eq=False)
class Criteria:
    """Criteria that the classes of a node must keep."""

    k: int  # smallest class size
    thresholds: Sequence[Threshold] = ()  # of each sensitive column, against the whole table
    allowed: int = 0  # most records that may be suppressed, as whole classes that violate
    # thresholds of the released table, with the same t; ranks are those of the released values. Without
    # `limits` the whole table stays the reference of t.
    limits: Limits | None = None
    # numbers of columns, and the least number of released records with equal nodes in them
    subsets: Sequence[tuple[tuple[int, ...], int]] = ()
    # column of `DistinctRows.sensitive` with the subjects that `subsets` count; None if they count records
    subjects: int | None = None

    @property
    def monotone(self) -> bool:
        """Whether every generalization of a node that keeps the criteria keeps them as well.

        True without suppression, and with k, subsets and distinct l alone. See the top of the module.
        """
        plain = all(
            one.t is None and one.shares is None and (one.l is None or one.l_kind == "distinct")
            for one in self.thresholds
        )
        return self.allowed == 0 or plain


@dataclass(frozen=True, eq=False)
class Checked:
    """A node that was checked."""

    levels: Levels  # of each quasi-identifier
    keeps: bool  # the released classes keep the criteria, and at most `allowed` records are suppressed
    never: bool  # no specialization can keep the criteria either
    rows: DistinctRows  # one row a class
    gone: NDArray[np.bool_]  # (classes,) which classes are suppressed, where the node keeps

    @property
    def suppressed(self) -> int:
        """Suppressed records."""
        return int(self.rows.records[self.gone].sum())


class Lattice:
    """The nodes above a table, each rolled up from the smallest table below it that is at hand."""

    def __init__(self, rows: DistinctRows, criteria: Criteria) -> None:
        self.rows, self.criteria = rows, criteria
        self.shape = tuple(one.height + 1 for one in rows.quasi)
        self.checked = 0
        self._held = 0
        whole = [one.reference for one in criteria.thresholds]
        self._whole = tuple(np.asarray(one.counts) for one in whole)
        every = [np.arange(len(one.counts)) for one in whole]
        asked = [(*_in_steps(one), loosest(one, criteria)) for one in criteria.thresholds]
        self._steps = [
            [asked_of(step, codes) if step is not None else None for step in steps]
            for steps, codes in zip(asked, every, strict=True)
        ]
        self._kept = [rows]
        self._levels = np.zeros((1, len(self.shape)), np.int64)

    def check(self, levels: Levels) -> Checked:
        """Return whether a node keeps the criteria, and what it rules out."""
        self.checked += 1
        below = self._below(levels)
        classes = classes_at(below, levels)
        small = classes.sizes < self.criteria.k
        allowed = self.criteria.allowed
        unheld = DistinctRows(below.codes[:0], classes.sizes, below.quasi)
        if classes.sizes[small].sum() > allowed:
            return Checked(levels, keeps=False, never=True, rows=unheld, gone=small)
        rows = rolled_up(below, classes)
        self._keep(levels, rows, of=below)
        small = self._without_rare(levels, rows, small)
        if rows.records[small].sum() > allowed:
            return Checked(levels, keeps=False, never=True, rows=rows, gone=small)
        return self._asked(levels, rows, small)

    def _without_rare(self, levels: Levels, rows: DistinctRows, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Suppress more classes until no subset has a combination of nodes that is too rare."""
        # Suppressed classes leave fewer records to the others, so the subsets take turns. The classes left
        # are the most that keep all subsets together, in whatever order classes are suppressed.
        criteria = self.criteria
        nodes = [one.nodes[level] for one, level in zip(rows.quasi, levels, strict=True)]
        parts = [
            cells_of(np.stack([nodes[column][rows.codes[:, column]] for column in columns]))
            for columns, _ in criteria.subsets
        ]
        values = None if criteria.subjects is None else rows.sensitive[criteria.subjects]
        while True:
            before = gone
            for cells, (_, k) in zip(parts, criteria.subsets, strict=True):
                if values is None:
                    counts = np.bincount(cells, weights=np.where(gone, 0, rows.records))
                else:
                    kept = np.repeat(~gone, np.diff(values.starts))
                    of = np.repeat(cells, np.diff(values.starts))
                    pairs = np.unique(np.stack([of[kept], values.codes[kept]]), axis=1)
                    counts = np.bincount(pairs[0], minlength=int(cells.max()) + 1)
                gone = gone | (counts[cells] < k)
            if gone is before or (gone == before).all():
                return gone

    def _asked(self, levels: Levels, rows: DistinctRows, gone: NDArray[np.bool_]) -> Checked:
        """Check a node whose classes below k are `gone`: by distinct l, by other l, then by t and shares."""
        allowed, first, sure = self.criteria.allowed, self.criteria.allowed == 0, gone
        for step in (0, 1):
            for which, steps in enumerate(self._steps):
                asked = steps[step]
                if asked is not None:
                    gone = gone | violating_rows(rows, which, asked, gone, only_one=first)
            gone = self._without_rare(levels, rows, gone)
            if rows.records[gone].sum() > allowed:
                never = step == 0 or self._never(rows, sure)
                return Checked(levels, keeps=False, never=never, rows=rows, gone=gone)
            sure = sure if step else gone
        last = [steps[2] for steps in self._steps]
        while True:
            if gone.all():
                return Checked(levels, keeps=False, never=self._never(rows, sure), rows=rows, gone=gone)
            if gone.any() and self.criteria.limits is not None and any(last):
                last = self._against(rows, gone, self.criteria.limits)
            more = gone
            for which, asked in enumerate(last):
                if asked is not None:
                    more = more | violating_rows(rows, which, asked, more, only_one=first)
            more = self._without_rare(levels, rows, more)
            if rows.records[more].sum() > allowed:
                return Checked(levels, keeps=False, never=self._never(rows, sure), rows=rows, gone=more)
            if (more == gone).all():
                return Checked(levels, keeps=True, never=False, rows=rows, gone=gone)
            gone = more

    def _never(self, rows: DistinctRows, sure: NDArray[np.bool_]) -> bool:
        """Tell whether a failing node rules out all below it; `sure` miss k or distinct l."""
        # No part of a class in `sure` is released below. Any other class releases at most the records that
        # can meet the loosest t of each column.
        if self.criteria.monotone:
            return True
        kept = np.where(sure, 0, rows.records)
        for which, steps in enumerate(self._steps):
            asked = steps[3]
            if asked is not None:
                kept = np.minimum(kept, kept_records(rows, which, asked, sure))
        released = int(kept.sum())
        return released == 0 or int(rows.records.sum()) - released > self.criteria.allowed

    def _against(
        self, rows: DistinctRows, gone: NDArray[np.bool_], limits: Limits
    ) -> list[CodedThreshold | None]:
        """Return t and shares of each column against the records that are not suppressed."""
        left = []
        for values, whole in zip(rows.sensitive, self._whole, strict=True):
            of = np.repeat(gone, np.diff(values.starts))
            lost = np.bincount(values.codes[of], weights=values.records[of], minlength=len(whole))
            left.append(whole - lost.astype(np.int64))
        asked: list[CodedThreshold | None] = []
        for counts, threshold in zip(left, limits(left), strict=True):
            # A value without released records has no position: no released class holds it.
            codes = np.maximum(np.cumsum(counts > 0) - 1, 0)
            step = _in_steps(threshold)[2]
            asked.append(None if step is None else asked_of(step, codes))
        return asked

    def _below(self, levels: Levels) -> DistinctRows:
        """Return the table with the fewest rows from which a node can be rolled up."""
        able = np.flatnonzero((self._levels <= levels).all(axis=1))
        lengths = [len(self._kept[place].records) for place in able]
        return self._kept[int(able[int(np.argmin(lengths))])]

    def _keep(self, levels: Levels, rows: DistinctRows, *, of: DistinctRows) -> None:
        """Keep the rows of a node if at most half of those below; drop the oldest beyond the memory limit."""
        if 2 * len(rows.records) > len(of.records):
            return
        self._kept.append(rows)
        self._levels = np.vstack([self._levels, levels])
        self._held += rows_memory(rows)
        while len(self._kept) > 2 and self._held > KEPT_ROLLUPS_FACTOR * rows_memory(self.rows):
            self._held -= rows_memory(self._kept.pop(1))
            self._levels = np.delete(self._levels, 1, axis=0)


def _in_steps(threshold: Threshold) -> tuple[Threshold | None, Threshold | None, Threshold | None]:
    """Split a threshold into distinct l, another l, and t with shares; None for a part that it lacks."""
    alone = replace(threshold, t=None, shares=None) if threshold.l is not None else None
    distinct, against = (
        threshold.l_kind == "distinct",
        threshold.t is not None or threshold.shares is not None,
    )
    t = replace(threshold, l=None, l_kind="distinct", c=None) if against else None
    return (alone if distinct else None, None if distinct else alone, t)


def loosest(threshold: Threshold, criteria: Criteria) -> Threshold | None:
    """Return the t that every union of released classes meets against the whole table, at a keeping node.

    None where that t is 1, which rules out nothing. Proof: top of the module.
    """
    if threshold.t is None:
        return None
    left = 1 - Fraction(threshold.t)
    if criteria.limits is not None:
        counts = np.sort(threshold.reference.counts)
        left *= 1 - Fraction(min(criteria.allowed, threshold.reference.total), threshold.reference.total)
        if threshold.reference.distance == "ordered" and len(counts) > 1:
            vanishing = int(np.searchsorted(np.cumsum(counts), criteria.allowed, side="right"))
            left *= 1 - Fraction(min(vanishing, len(counts) - 1), len(counts) - 1)
    # Rounded up: too small a t would rule out nodes that keep the criteria.
    t = Fraction(math.ceil((1 - left) * THRESHOLD_DENOMINATOR), THRESHOLD_DENOMINATOR)
    return Threshold(threshold.reference, t=t) if t < 1 else None
