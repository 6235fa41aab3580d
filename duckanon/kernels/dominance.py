"""How well the total of a class hides the largest contribution to it: the p % rule of magnitude tables.

A contribution is what one record, or all records of one subject, adds to the total. Of each class six numbers
are enough, and those of a union follow from those of its parts; `merging.dominated` merges by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMBERS_A_CLASS = 6
"""Numbers of a class: largest positive contribution, the next, the sum of others; of negative ones too."""

ROUNDING = 1e-9
"""Share of p beyond which a class has to keep it, so that sums in another order find the same."""


def contributions(
    values: NDArray[np.float64], labels: NDArray[np.int64], subjects: NDArray[np.int64] | None, classes: int
) -> NDArray[np.float64]:
    """Return what is known of the contributions to each class.

    Parameters
    ----------
    values : ndarray of shape (n,), float64
        Of each record; NaN for none, which contributes nothing.
    labels : ndarray of shape (n,), int64
        Class of each record, 0..classes-1, negative where it is in none.
    subjects : ndarray of shape (n,), int64, or None
        Whose each record is: the contribution of a subject to a class is the sum of its values there.
    classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (classes, `NUMBERS_A_CLASS`), float64
        Absolute values: of the positive contributions the largest, the next and the sum of the others, then
        the same of the negative ones; 0 where there is none.

    Notes
    -----
    O(n), with subjects O(n log n). Summed in the order of the records, nothing is subtracted.

    Examples
    --------
    >>> contributions(np.array([5.0, 9.0, 1.0, -2.0]), np.zeros(4, dtype=np.int64), None, 1).tolist()
    [[9.0, 5.0, 1.0, 2.0, 0.0, 0.0]]
    """
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
    """Return the least p, in per cent, within which one contribution to each class can be estimated.

    Parameters
    ----------
    parts : ndarray of shape (..., `NUMBERS_A_CLASS`), float64
        As `contributions` gives them.

    Returns
    -------
    ndarray of shape (...), float64
        Infinity for a class to which nothing is contributed.

    Notes
    -----
    Who knows the total and a contribution x_j, and of the remaining ones that they lie in a range that holds
    0, finds x_i in an interval that goes to each side of it by the sum of their distances to that end of the
    range: by no less than the sum P of the positive ones on one side, and N of the negative ones on the
    other. So it is never wholly within max(P, N) of x_i. Worst is the largest of one sign, told by the next
    of that sign or by the largest of the other. A union has no less than the lesser of its parts.

    References
    ----------
    Hundepool et al., "Statistical Disclosure Control", Wiley 2012, section 4.2: the p % rule, for
    contributions that are not negative.

    Examples
    --------
    By hand: 100, told by 50, is hidden by 3 + 2; 100 beside -50 and nothing else by nothing.

    >>> reached(np.array([[100.0, 50.0, 5.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 50.0, 0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    first, second, rest, low_first, low_second, low_rest = np.moveaxis(parts, -1, 0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        above, below = second + rest, low_second + low_rest
        by_next = np.maximum(rest, low_first + below) / first
        by_next_below = np.maximum(first + above, low_rest) / low_first
        by_other = np.maximum(above, below) / np.maximum(first, low_first)
        # 0 / 0 and x / 0 are of no contribution.
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
    """Return class and sum of each subject in each class."""
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
    """Return of each class the largest number, the next, and the sum of the others (classes, 3)."""
    parts = np.zeros((classes, 3))
    for place in range(2):
        np.maximum.at(parts[:, place], class_of, numbers)
        # One record of those that are equal goes: the last.
        at = np.flatnonzero(numbers == parts[class_of, place])
        gone = np.full(classes, -1, dtype=np.int64)
        gone[class_of[at]] = at
        left = np.ones(len(numbers), dtype=bool)
        left[gone[gone >= 0]] = False
        numbers, class_of = numbers[left], class_of[left]
    with np.errstate(over="ignore"):
        parts[:, 2] = np.bincount(class_of, weights=numbers, minlength=classes)
    return parts
