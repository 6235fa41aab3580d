"""Class means of a column of floating-point numbers, independent of the order of the rows.

Numbers are added in the order of record_id, and the mean is corrected once by the mean of the remainders
(Chan, Golub and LeVeque 1983, section 3), which is as exact as a compensated sum. Each class has its own
scale, so the numbers of one class do not change the mean of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from duckanon.release.stages.stage import Field, Staged

CHUNK_RECORDS = 131_072
"""Records that are added at once: copies of a whole column would take much memory."""

SCALE_EXPONENT = 64
"""Power of two by which large numbers are divided before they are added."""

SCALED_MIN_NUMBER = 2.0**900
"""Number above which a sum may overflow; a class with such a number is scaled."""


def averaged(staged: Staged) -> list[Field]:
    """Quasi-identifiers with class means from here, because sums in SQL may depend on the order of rows."""
    return [field for field in staged.quasi if field.recode == "mean" and not field.exact]


def class_means(
    values: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], classes: int
) -> npt.NDArray[np.float64]:
    """Mean of every class over its numbers; NaN for a class without a number. O(n + classes).

    A mean lies within the numbers of its class and is never -0.0. In memory: n numbers and one chunk.
    """
    count = np.zeros(classes, dtype=np.int64)
    low, high = np.full(classes, np.inf), np.full(classes, -np.inf)
    for class_of, numbers in _chunks(values, labels):
        count += np.bincount(class_of, minlength=classes)
        np.minimum.at(low, class_of, numbers)
        np.maximum.at(high, class_of, numbers)
    empty = count == 0
    count[empty] = 1
    large = np.maximum(high, -low) > SCALED_MIN_NUMBER
    mean, left = np.zeros(classes), np.zeros(classes)
    for class_of, numbers in _chunks(values, labels, large):
        np.add.at(mean, class_of, numbers)
    mean /= count
    for class_of, numbers in _chunks(values, labels, large):
        np.add.at(left, class_of, numbers - mean[class_of])
    left /= count
    mean += left
    with np.errstate(over="ignore"):
        mean[large & ~empty] *= 2.0**SCALE_EXPONENT
    mean[empty] = low[empty] = high[empty] = np.nan
    # A mean of very small negative numbers rounds to -0.0.
    return np.clip(mean, low, high, out=mean) + 0.0


def _chunks(
    values: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], large: npt.NDArray[np.bool_] | None = None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Classes and numbers of the released records with a number, scaled by 2^-64 in the large classes."""
    shifted = None if large is None or not large.any() else large
    for start in range(0, len(values), CHUNK_RECORDS):
        class_of, numbers = labels[start : start + CHUNK_RECORDS], values[start : start + CHUNK_RECORDS]
        use = (class_of >= 0) & ~np.isnan(numbers)
        if not use.all():
            class_of, numbers = class_of[use], numbers[use]
        if shifted is not None:
            numbers = np.where(shifted[class_of], numbers * 2.0**-SCALE_EXPONENT, numbers)
        yield class_of, numbers
