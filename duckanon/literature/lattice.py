"""What a node keeps at its levels of the hierarchies, and what that says of the nodes below it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import THRESHOLD_DENOMINATOR, Threshold
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
"""Gives thresholds for a table, from the records of each value (0: it does not occur), an array a column."""

KEPT_ROLLUPS_FACTOR = 4
"""Memory of the roll-ups that are kept, in multiples of that of the distinct rows."""


@dataclass(frozen=True, eq=False)
class Criteria:
    """What the classes of a node must keep.

    Attributes
    ----------
    k : int
        Smallest class size.
    thresholds : sequence of Threshold
        Of each sensitive column, against the whole table.
    allowed : int
        Most records that may be suppressed: whole classes that violate.
    limits : callable, optional
        The thresholds of the released table, by the records of its values, see `Limits`: the same t, and the
        same distances but for ranks, which are those of the values that are left. By default the distribution
        in the whole table remains the reference of t.
    """

    k: int
    thresholds: Sequence[Threshold] = ()
    allowed: int = 0
    limits: Limits | None = None

    @property
    def monotone(self) -> bool:
        """Whether what a node keeps, every generalization of it keeps too.

        k and distinct l with suppression, too: classes that keep them are never suppressed by merging. t is
        not, nor are entropy and recursive l: a merged class may violate what one of its parts kept. A node
        that fails by them may still rule out those below: see `loosest`.
        """
        plain = all(one.t is None and (one.l is None or one.l_kind == "distinct") for one in self.thresholds)
        return self.allowed == 0 or plain


@dataclass(frozen=True, eq=False)
class Checked:
    """A node that was checked.

    Attributes
    ----------
    levels : tuple of int
        Level of each quasi-identifier.
    keeps : bool
        Whether the released classes keep the criteria and the suppressed ones are not too many.
    never : bool
        Whether no specialization can keep them either.
    rows : DistinctRows
        A row a class.
    gone : ndarray of shape (classes,), bool
        Which classes are suppressed, where it keeps.
    """

    levels: Levels
    keeps: bool
    never: bool
    rows: DistinctRows
    gone: NDArray[np.bool_]

    @property
    def suppressed(self) -> int:
        """Suppressed records."""
        return int(self.rows.records[self.gone].sum())


class Lattice:
    """The nodes above a table, each rolled up from the smallest table below it that is still at hand."""

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
        """Return what a node keeps."""
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
        return self._asked(levels, rows, small)

    def _asked(self, levels: Levels, rows: DistinctRows, gone: NDArray[np.bool_]) -> Checked:
        """Return what the classes of a node of k records each keep: distinct l, other l, then t."""
        allowed, first, sure = self.criteria.allowed, self.criteria.allowed == 0, gone
        for step in (0, 1):
            for which, steps in enumerate(self._steps):
                asked = steps[step]
                if asked is not None:
                    gone = gone | violating_rows(rows, which, asked, gone, only_one=first)
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
            if rows.records[more].sum() > allowed:
                return Checked(levels, keeps=False, never=self._never(rows, sure), rows=rows, gone=more)
            if (more == gone).all():
                return Checked(levels, keeps=True, never=False, rows=rows, gone=gone)
            gone = more

    def _never(self, rows: DistinctRows, sure: NDArray[np.bool_]) -> bool:
        """Tell whether a node that fails rules out all below it, given the classes that miss k or distinct l.

        No part of those is released at a specialization, and of another class no more than what can meet
        the loosest t of each column.
        """
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
        """Return t of each column against the records that are left."""
        left = []
        for values, whole in zip(rows.sensitive, self._whole, strict=True):
            of = np.repeat(gone, np.diff(values.starts))
            lost = np.bincount(values.codes[of], weights=values.records[of], minlength=len(whole))
            left.append(whole - lost.astype(np.int64))
        asked: list[CodedThreshold | None] = []
        for counts, threshold in zip(left, limits(left), strict=True):
            # A value that is suppressed altogether has no place any more; no class that is left has it.
            codes = np.maximum(np.cumsum(counts > 0) - 1, 0)
            step = _in_steps(threshold)[2]
            asked.append(None if step is None else asked_of(step, codes))
        return asked

    def _below(self, levels: Levels) -> DistinctRows:
        """Return the fewest rows at hand that a node can be rolled up from."""
        able = np.flatnonzero((self._levels <= levels).all(axis=1))
        lengths = [len(self._kept[place].records) for place in able]
        return self._kept[int(able[int(np.argmin(lengths))])]

    def _keep(self, levels: Levels, rows: DistinctRows, *, of: DistinctRows) -> None:
        """Keep the rows of a node, if much fewer than those that they were made of; the oldest ones go."""
        if 2 * len(rows.records) > len(of.records):
            return
        self._kept.append(rows)
        self._levels = np.vstack([self._levels, levels])
        self._held += rows_memory(rows)
        while len(self._kept) > 2 and self._held > KEPT_ROLLUPS_FACTOR * rows_memory(self.rows):
            self._held -= rows_memory(self._kept.pop(1))
            self._levels = np.delete(self._levels, 1, axis=0)


def _in_steps(threshold: Threshold) -> tuple[Threshold | None, Threshold | None, Threshold | None]:
    """Return distinct l, another l, and t of a threshold."""
    alone = replace(threshold, t=None) if threshold.l is not None else None
    distinct = threshold.l_kind == "distinct"
    t = replace(threshold, l=None, l_kind="distinct", c=None) if threshold.t is not None else None
    return (alone if distinct else None, None if distinct else alone, t)


def loosest(threshold: Threshold, criteria: Criteria) -> Threshold | None:
    """Return the t that all unions of released classes meet against the whole table, at any node that keeps.

    None where that is 1, which says nothing.

    Notes
    -----
    The released classes keep t against the reference R, and so does a union S of them, since EMD is convex.
    Without `limits`, R is the whole table T. With them R lacks at most a of the n records, a being `allowed`:
    T is a mixture of R and of what is lacking, and EMD(S, T) <= (1 - a / n) EMD(S, R) + a / n. Ranks change
    where values vanish: if d of m values do, EMD(S, R) is a sum over the m - 1 - d edges that are left, and
    with the distances of T one over m - 1 edges of which d weigh 1 at most: its 1 - EMD is at least
    1 - d / (m - 1) of the former. Together 1 - EMD(S, T) >= (1 - t) (1 - a / n) (1 - d / (m - 1)).
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
    # Rounded up: a t that is too small would rule out nodes that keep.
    t = Fraction(math.ceil((1 - left) * THRESHOLD_DENOMINATOR), THRESHOLD_DENOMINATOR)
    return Threshold(threshold.reference, t=t) if t < 1 else None
