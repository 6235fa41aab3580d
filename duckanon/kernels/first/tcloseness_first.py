"""t-closeness-first microaggregation: every class takes one record from each stratum of the sensitive values.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 7, Algorithm 3.

The class size is Eq. 3, max(k, ceil(n / (2 (n-1) t + 1))), adjusted by Eq. 4, and n at most. It is computed
in fractions; a float t counts as the shortest decimal that reads back as it, so 0.1 is 1/10. Eq. 4 is read
with the floor of the paper's text: with the ceiling that its pseudo-code prints, Table 3 would not come out
at t = 0.01. By Table 3:

>>> class_size(1080, 2, 0.01)
49

The EMD of Proposition 2 is at most t if all sensitive values differ and the class size divides n. With ties,
or with a remainder, a class may miss t slightly: measure the result and repair it.

The centroid of the remaining records is a running sum divided by their count; records are subtracted in the
order in which they enter classes. Equal distances go to the lowest record number. O(n^2 / k) distances, O(n
d) memory. `stratified_parts` is our own: Algorithm 3 looks at all records left for each class, and records
far away are hardly ever taken.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import exact_t
from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import total_of
from duckanon.kernels.neighbours.kd import widest_variance
from duckanon.kernels.neighbours.slots import Slots, farthest_of, fill, nearest_in, remove
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

Number = float | Decimal | Fraction | str


def class_size(n: int, k: int, t: Number) -> int:
    """Return the class size of Algorithm 3 for n records, k and t; ValueError if k or t is out of range."""
    return _adjusted(n, least_size(n, k, t))


def least_size(n: int, k: int, t: Number) -> int:
    """Return Eq. 3, max(k, ceil(n / (2 (n-1) t + 1))), exactly; ValueError as `class_size`."""
    check_class_size(n, k)
    return max(k, int(-(-n // (2 * (n - 1) * exact_t(t, may_be_zero=True) + 1))))


def tcloseness_first(points: ArrayLike, order: ArrayLike, k: int, t: Number) -> NDArray[np.int64]:
    """Return classes (n,), 0..m-1 in the order of formation, each spread evenly over the sensitive values."""
    # Algorithm 3. Every size is `class_size` or one more, at least k. `order` (n,) has the sensitive value or
    # rank of each record. Only the order counts; equal values go by record number. ValueError if k, t, order
    # or points are out of range.
    matrix = distance_points(points)
    return _stratified(matrix, order, class_size(len(matrix), k, t))


def stratified_parts(
    points: ArrayLike, strata_order: ArrayLike, size: int, largest: int
) -> NDArray[np.int64]:
    """Return classes (n,), one record from each of `size` strata: Algorithm 3 without Eq. 3, in parts."""
    # `strata_order` (n,) as `order` in `tcloseness_first`; `size`, 1..n, is raised by Eq. 4 if n leaves too
    # great a remainder. Every class has the (raised) size or one more. ValueError if an argument is out of
    # range.
    # A part with more than `largest` records is halved, in every stratum, at the median of its widest
    # coordinate, as long as both halves have two classes and need no larger size by Eq. 4. The strata are
    # those of the whole table, except for the middle ones, which hold the surplus records. O(n largest /
    # size) distances and O(n log n) for the parts; deterministic.
    matrix = distance_points(points)
    check_class_size(len(matrix), size)
    size = _adjusted(len(matrix), size)
    by_stratum = np.argsort(_ranks(strata_order, len(matrix)), kind="stable")
    ranks, labels = np.empty((2, len(matrix)), np.int64)
    ranks[by_stratum] = np.arange(len(matrix))
    classes = 0
    for part in map(np.sort, _parts(matrix, by_stratum, size, largest)):
        labels[part] = _stratified(matrix[part], ranks[part], size) + classes
        classes += len(part) // size
    return labels


def _adjusted(n: int, size: int) -> int:
    """Return the size by Eq. 4, so that fewer records remain than classes are formed."""
    return size + (n % size) // (n // size)


def _strata_sizes(n: int, size: int) -> NDArray[np.int64]:
    """Return the sizes of the strata: n // size each, the remainder in the middle (Figures 3 and 4)."""
    # With an even number of strata the upper of the two in the middle gets the odd record: of two strata the
    # lower is S_1, which the pseudo-code never asks for a second record.
    sizes = np.full(size, n // size)
    remainder = n % size
    if size % 2:
        sizes[size // 2] += remainder
    else:
        sizes[size // 2 - 1] += remainder // 2
        sizes[size // 2] += remainder - remainder // 2
    return sizes


def _parts(
    points: NDArray[np.float64], by_stratum: NDArray[np.int64], size: int, largest: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the parts of the given records, which are ordered by stratum, as the records of each part are."""
    n = len(by_stratum)
    classes, over = divmod(n, size)
    left = classes // 2
    before = left * size + over * left // classes
    sizes = (before, n - before)
    if n <= largest or left < 2 or any(_adjusted(part, size) > size for part in sizes):
        yield by_stratum
        return
    first, second = (_strata_sizes(part, size) for part in sizes)
    values = points[by_stratum, widest_variance(points, by_stratum)]
    strata = np.split(values, np.cumsum(first + second)[:-1])
    goes_left = np.concatenate([_lowest(values, count) for values, count in zip(strata, first, strict=True)])
    for side in (goes_left, ~goes_left):
        yield from _parts(points, by_stratum[side], size, largest)


def _lowest(values: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Tell which are the `count` lowest values, at least one; the first among equals."""
    greatest = np.partition(values, count - 1)[count - 1]
    lowest: NDArray[np.bool_] = values < greatest
    lowest[np.flatnonzero(values == greatest)[: count - np.count_nonzero(lowest)]] = True
    return lowest


def _ranks(order: ArrayLike, n: int) -> NDArray[np.generic]:
    """Return the order of the strata, checked."""
    ranks = np.asarray(order)
    if ranks.shape != (n,):
        raise ValueError(f"order must hold one value a record, of shape ({n},), not {ranks.shape}")
    if ranks.dtype.kind == "f" and np.isnan(ranks).any():
        raise ValueError(f"order holds NaN in record {int(np.argmax(np.isnan(ranks)))}: give it a rank")
    return ranks


def _stratified(points: NDArray[np.float64], order: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return the classes for a size that Eq. 4 leaves unchanged."""
    n = len(points)
    strata = fill(points, np.argsort(_ranks(order, n), kind="stable"), _strata_sizes(n, size))
    labels = np.full(n, -1)
    _run(strata, points, total_of(points), labels)
    return labels


@compiled
def _run(
    strata: Slots, points: NDArray[np.float64], rest: NDArray[np.float64], labels: NDArray[np.int64]
) -> None:
    """Form all classes in turns: around the record farthest from the centroid, and around its opposite."""
    left, classes = len(points), len(points) // len(strata.start)
    seed, every = 0, np.ones(len(strata.start), np.bool_)
    for label in range(classes):
        seed = farthest_of(strata, every, points[seed] if label % 2 else rest / left)
        members = _form(strata, points[seed])
        left -= len(members)
        for record in members:
            labels[record] = label
            for j in range(len(rest)):
                rest[j] -= points[record, j]


@compiled
def _form(strata: Slots, query: NDArray[np.float64]) -> NDArray[np.int64]:
    """Take the record nearest to the query from each stratum, and once a second one if there are extras."""
    size = len(strata.start)
    members, taken = np.empty(size + 1, np.int64), 0
    for stratum in range(size):
        start = strata.start[stratum]
        for _ in range(2):
            _, record = nearest_in(strata, start, start + strata.left[stratum], query)
            members[taken] = record
            taken += 1
            remove(strata, record)
            if strata.left[stratum] <= strata.left[0] or taken != stratum + 1:
                break
    return members[:taken]
