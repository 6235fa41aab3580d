"""How well the total of a class hides the largest contribution to it: the p % rule of magnitude tables.

A contribution is the amount that one record, or all records of one subject, adds to the total. For each class
six numbers are enough, and the numbers of a union follow from those of its parts; `merging.dominated` merges
by them.

An intruder knows the total and a contribution x_j, and knows that the remaining contributions lie in a range
that holds 0. Let P be the sum of the positive remaining contributions, N that of the negative ones, in
absolute value. The intruder finds x_i in an interval that extends to each side of x_i by the sum of the
remaining contributions' distances to that end of the range. This is at least P on one side and at least N on
the other. So the interval is never wholly within max(P, N) of x_i. The worst case is the largest contribution
of one sign, estimated by the second of that sign or by the largest of the other sign. The p of a union is at
least the least p of its parts.

Hundepool et al., "Statistical Disclosure Control", Wiley 2012, section 4.2: the p % rule, for contributions
that are not negative.

By hand: 100, estimated by 50, is hidden by 3 + 2; 100 beside -50 alone is not hidden.

>>> reached(np.array([[100.0, 50.0, 5.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 50.0, 0.0, 0.0]])).tolist()
[5.0, 0.0]

>>> contributions(np.array([5.0, 9.0, 1.0, -2.0]), np.zeros(4, dtype=np.int64), None, 1).tolist()
[[9.0, 5.0, 1.0, 2.0, 0.0, 0.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMBERS_A_CLASS = 6
"""Numbers of a class: largest positive contribution, the second, the sum of the others; the same negative."""

ROUNDING = 1e-9
"""Share of p by which a class has to exceed p, so that sums in another order give the same verdict."""


def contributions(
    values: NDArray[np.float64], labels: NDArray[np.int64], subjects: NDArray[np.int64] | None, classes: int
) -> NDArray[np.float64]:
    """Return the contributions (classes, `NUMBERS_A_CLASS`): absolute values, 0 if there is none."""
    # For the positive contributions the largest, the second and the sum of the others, then the same for the
    # negative ones. `values` (n,), NaN contributes nothing; `labels` (n,), negative for no class; `subjects`
    # (n,) or None: the contribution of a subject to a class is the sum of its values there. O(n), with
    # subjects O(n log n). Sums run in the order of the records; nothing is subtracted.
    use = (labels >= 0) & ~np.isnan(values)
    class_of, numbers = labels[use], values[use]
    if subjects is not None:
        class_of, numbers = _of_subjects(class_of, numbers, subjects[use])
    above, below = numbers > 0, numbers < 0
    return np.hstack(
        [
            _largest(numbers[above], class_of[above], classes),
            _largest(-numbers[below], class_of[below], classes),
        ]
    )


def reached(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least p (...), in per cent, within which a contribution to each class can be estimated."""
    # `parts` (..., `NUMBERS_A_CLASS`) as by `contributions`. Infinity for a class without contributions.
    first, second, rest, low_first, low_second, low_rest = np.moveaxis(parts, -1, 0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        above, below = second + rest, low_second + low_rest
        by_next = np.maximum(rest, low_first + below) / first
        by_next_below = np.maximum(first + above, low_rest) / low_first
        by_other = np.maximum(above, below) / np.maximum(first, low_first)
        # 0 / 0 and x / 0 arise if there is no contribution.
        found = [
            np.where(largest > 0, one, np.inf)
            for one, largest in (
                (by_next, first),
                (by_next_below, low_first),
                (by_other, np.maximum(first, low_first)),
            )
        ]
        return np.asarray(100.0 * np.minimum(np.minimum(found[0], found[1]), found[2]))


def _of_subjects(
    class_of: NDArray[np.int64], numbers: NDArray[np.float64], subjects: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the class and the sum of each subject in each class."""
    order = np.lexsort((subjects, class_of))
    class_of, subjects = class_of[order], subjects[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(class_of) != 0) | (np.diff(subjects) != 0)
    number = np.cumsum(begins) - 1
    sums = np.zeros(int(begins.sum()))
    with np.errstate(over="ignore"):
        np.add.at(sums, number, numbers[order])
    return class_of[begins], sums


def _largest(numbers: NDArray[np.float64], class_of: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Return for each class the largest number, the second, and the sum of the others (classes, 3)."""
    parts = np.zeros((classes, 3))
    for place in range(2):
        np.maximum.at(parts[:, place], class_of, numbers)
        # Of several equal records one is removed: the last.
        at = np.flatnonzero(numbers == parts[class_of, place])
        gone = np.full(classes, -1, dtype=np.int64)
        gone[class_of[at]] = at
        left = np.ones(len(numbers), dtype=bool)
        left[gone[gone >= 0]] = False
        numbers, class_of = numbers[left], class_of[left]
    with np.errstate(over="ignore"):
        parts[:, 2] = np.bincount(class_of, weights=numbers, minlength=classes)
    return parts
