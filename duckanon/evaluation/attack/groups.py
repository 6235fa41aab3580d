"""One attack: an attacker who knows some columns of each record takes the nearest released record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.evaluation.attack.distances import Cells
from duckanon.evaluation.attack.linking import Guesses, attack, plant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from duckanon.evaluation.attack.cells import Alternatives, Counted

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Problem:
    """The sample of r records of the original, and m released classes.

    Attributes
    ----------
    known : ndarray of shape (r, q, 2), float64
        Quasi-identifiers: coordinates (NaN for NULL), or codes of nominal columns; as pairs.
    cells : tuple of Alternatives
        What the classes released for each quasi-identifier, on the same scale.
    nominal : ndarray of shape (q,), bool
        Which columns have codes.
    center, factor : ndarray of shape (q, 2) and (q,), float64
        Coordinate of the mean, and the unit of the coordinates in standard deviations.
    records : ndarray of shape (m,), int64
        Released records of each class.
    truth : ndarray of shape (r,), int64
        Class of each record; negative where it was left out, or where nobody knows.
    guesses : tuple of Counted
        Released values of the columns to be disclosed.
    low, high : ndarray of shape (r, c), float64
        Interval around the true values of those columns; NaN for NULL.
    """

    known: npt.NDArray[np.float64]
    cells: tuple[Alternatives, ...]
    nominal: npt.NDArray[np.bool_]
    center: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float64]
    records: Ints
    truth: Ints
    guesses: tuple[Counted, ...]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Linked(NamedTuple):
    """What an attack found for each record of the sample.

    Attributes
    ----------
    groups, smallest : int
        Released combinations of the known columns, and the fewest records that share one.
    nearest : ndarray of shape (r,), int64
        Number of nearest released records.
    own : ndarray of shape (r,), int64
        How many of them are in the group of the record; 0 where it is not among them, or nobody knows.
    inside : ndarray of shape (r, c), int64
        How many of them have a value in the interval of each column.
    """

    groups: int
    smallest: int
    nearest: Ints
    own: Ints
    inside: Ints


def link(problem: Problem, subset: Sequence[int]) -> Linked:
    """Link every record of the sample by some of the quasi-identifiers.

    Parameters
    ----------
    problem : Problem
        Sample and classes.
    subset : sequence of int
        Numbers of the columns that the attacker knows; none for one who picks a record blindly.

    Returns
    -------
    Linked
        O((m + r) log m) time on average.
    """
    group, first = _groups([problem.cells[j].key for j in subset], len(problem.records))
    weight = np.bincount(group, weights=problem.records, minlength=len(first)).astype(np.int64)
    truth = np.where(problem.truth < 0, -1, group[problem.truth])
    nearest, hit, inside = attack(
        plant(_gathered(problem, list(subset), first)),
        weight,
        np.ascontiguousarray(problem.known[:, list(subset)]),
        truth,
        _guesses(problem.guesses, group, len(first)),
        problem.low,
        problem.high,
    )
    return Linked(len(first), int(weight.min()), nearest, np.where(hit, weight[truth], 0), inside)


def _groups(keys: Sequence[Ints], classes: int) -> tuple[Ints, Ints]:
    """Return the group of each class, and the first class of each group: those with equal keys."""
    group, first = np.zeros(classes, np.int64), np.zeros(1, np.int64)
    for key in keys:
        pairs = group * (int(key.max()) + 1) + key
        _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _gathered(problem: Problem, subset: list[int], rows: Ints) -> Cells:
    """Return the cells of some classes, all columns behind each other."""
    start = np.zeros((len(subset), len(rows) + 1), np.int64)
    least, most, used = [np.zeros((0, 2))], [np.zeros((0, 2))], 0
    for j, column in enumerate(problem.cells[at] for at in subset):
        lengths = column.start[rows + 1] - column.start[rows]
        ends = np.cumsum(lengths)
        start[j, 0], start[j, 1:] = used, used + ends
        # Position of every alternative: where its cell begins, and how far it is from there.
        at = np.repeat(column.start[rows] - (ends - lengths), lengths) + np.arange(int(ends[-1]))
        least.append(column.least[at])
        most.append(column.most[at])
        used += int(ends[-1])
    nominal, center, factor = problem.nominal[subset], problem.center[subset], problem.factor[subset]
    return Cells(start, np.concatenate(least), np.concatenate(most), nominal, center, factor)


def _guesses(columns: Sequence[Counted], group: Ints, groups: int) -> Guesses:
    """Return the released values of each group, sorted and counted; those of all of them come last."""
    start = np.zeros((len(columns), groups + 2), np.int64)
    absent = np.zeros((len(columns), groups + 1), np.int64)
    position, records, used = [np.zeros(0)], [np.zeros(1, np.int64)], 0
    for j, column in enumerate(columns):
        of, null = group[column.classes], np.isnan(column.value)
        absent[j, :-1] = np.bincount(of[null], weights=column.records[null], minlength=groups)
        absent[j, -1] = absent[j, :-1].sum()
        of, value, number = of[~null], column.value[~null], column.records[~null]
        within, among = np.lexsort((value, of)), np.argsort(value, kind="stable")
        start[j, :-1] = used + np.searchsorted(of[within], np.arange(groups + 1))
        position += [value[within], value[among]]
        records += [number[within], number[among]]
        used += 2 * len(value)
        start[j, -1] = used
    return Guesses(start, np.concatenate(position), np.cumsum(np.concatenate(records)), absent)
