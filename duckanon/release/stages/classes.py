"""Classes: labels in a spool on disk, sums of coordinates for merging and losses, and means of columns.

The mean of a column does not depend on the order of the rows. Numbers are added in the order of record_id,
and the mean is corrected once by the mean of the remainders (Chan, Golub and LeVeque 1983, section 3), which
is as exact as a compensated sum. Each class has its own scale, so the numbers of one class do not change the
mean of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.database.spool import Spool, spool_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import numpy.typing as npt


CHUNK_RECORDS = 131_072
"""Records that are added at once: copies of a whole column would take much memory."""

SCALE_EXPONENT = 64
"""Power of two by which large numbers are divided before they are added."""

SCALED_MIN_NUMBER = 2.0**900
"""Number above which a sum may overflow; a class with such a number is scaled."""


@dataclass(frozen=True)
class Classes:
    """The classes of a table; data of every record are in spools on disk."""

    labels: Spool  # record_id and class_id of every released record
    means: Spool | None  # class_id, means of floating-point columns; None if classes were changed
    count: int  # classes; recoding may give two classes equal values
    suppressed: int  # records without a class
    information_loss: float  # IL = 100 SSE / SST of the records with a class, in per cent

    def by_record(self, size: int) -> npt.NDArray[np.int64]:
        """Class of each record (size,), by record_id from 1; -1 without a class."""
        kept, labels = self.labels.columns(), np.full(size, -1, dtype=np.int64)
        labels[kept["record_id"] - 1] = kept["class_id"]
        return labels


@dataclass(frozen=True)
class ClassSums:
    """Sums of the classes, from which merging and losses are computed without the records."""

    sums: npt.NDArray[np.float64]  # (m, d), sums of the coordinates
    squares: npt.NDArray[np.float64]  # (m,), sums of the squared coordinates
    sizes: npt.NDArray[np.int64]  # (m,), records


class Spread(NamedTuple):
    """Totals of some classes, from which their common loss is computed."""

    sums: npt.NDArray[np.float64]  # (d,), sums of the coordinates
    squares: float  # sum of the squared coordinates
    records: int  # number of records
    within: float  # squared distances of records from class centroids


def sums_of(points: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> ClassSums:
    """Sums of the classes 0..m-1 of some records, added in the order of the records. O(n d)."""
    sizes = np.bincount(labels).astype(np.int64) if len(labels) else np.zeros(0, dtype=np.int64)
    sums = np.zeros((len(sizes), points.shape[1]))
    for axis in range(points.shape[1] if len(labels) else 0):
        sums[:, axis] = np.bincount(labels, weights=points[:, axis], minlength=len(sizes))
    norms = (points**2).sum(axis=1)
    squares = np.zeros(len(sizes))
    np.add.at(squares, labels, norms)
    return ClassSums(sums, squares, sizes)


def changed(con: duckdb.DuckDBPyConnection, labels: npt.NDArray[np.int64], sums: ClassSums) -> Classes:
    """Classes of changed labels (n,), -1 for a suppressed record, with the sums of the classes."""
    released = np.flatnonzero(labels >= 0)
    kept = Spool(spool_folder(con))
    kept.add({"record_id": released + 1, "class_id": labels[released]})
    loss = information_loss([spread_of(sums)])
    return Classes(kept, None, len(sums.sizes), len(labels) - len(released), loss)


def without_empty(
    labels: npt.NDArray[np.int64], classes: ClassSums
) -> tuple[npt.NDArray[np.int64], ClassSums]:
    """Labels and classes without empty classes, renumbered in the same order.

    Labels of suppressed records are negative.
    """
    left = np.bincount(labels[labels >= 0], minlength=len(classes.sizes)) > 0
    number = np.cumsum(left) - 1
    kept = ClassSums(classes.sums[left], classes.squares[left], classes.sizes[left])
    return np.where(labels >= 0, number[labels], -1), kept


def joined(classes: ClassSums, merged: npt.NDArray[np.int64]) -> ClassSums:
    """Sums of merged classes; `merged` (m,) has the new class of each class."""
    count = int(merged.max()) + 1 if len(merged) else 0
    sums = np.zeros((count, classes.sums.shape[1]))
    squares, sizes = np.zeros(count), np.zeros(count, dtype=np.int64)
    np.add.at(sums, merged, classes.sums)
    np.add.at(squares, merged, classes.squares)
    np.add.at(sizes, merged, classes.sizes)
    return ClassSums(sums, squares, sizes)


def spread_of(classes: ClassSums) -> Spread:
    """Totals of some classes. O(m d)."""
    within = (classes.squares - (classes.sums**2).sum(axis=1) / np.maximum(classes.sizes, 1)).sum()
    return Spread(
        classes.sums.sum(axis=0), float(classes.squares.sum()), int(classes.sizes.sum()), float(within)
    )


def information_loss(parts: Sequence[Spread]) -> float:
    """IL = 100 SSE / SST of all classes, in per cent; 0 when all records are equal."""
    squares, records = sum(part.squares for part in parts), sum(part.records for part in parts)
    total = squares - float((np.sum([part.sums for part in parts], axis=0) ** 2).sum()) / max(records, 1)
    within = sum(part.within for part in parts)
    return min(max(100 * within / total, 0.0), 100.0) if total > 1e-12 * squares else 0.0


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
