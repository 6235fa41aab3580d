"""t-closeness-first microaggregation: every class takes one record from each stratum of the sensitive values.

Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through Microaggregation: Strict Privacy with
Enhanced Utility Preservation", IEEE TKDE 27(11), 2015, section 7, Algorithm 3.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.exact import exact_t
from duckanon.kernels.neighbours.kd import EQUAL_VARIANCE_SHARE
from duckanon.kernels.neighbours.slots import Slots, farthest_in, fill, nearest_in, remove
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

Number = float | Decimal | Fraction | str


def class_size(n: int, k: int, t: Number) -> int:
    """Return the class size that Algorithm 3 uses for n records, k and t.

    Parameters
    ----------
    n : int
        Number of records, at least k.
    k : int
        Smallest class size, at least 1.
    t : float, Decimal, Fraction or str
        Largest EMD, 0 to 1. A float counts as the shortest decimal that reads back as it, so 0.1 is 1/10.

    Returns
    -------
    int
        Eq. 3, max(k, ceil(n / (2 (n-1) t + 1))), adjusted by Eq. 4; n at most.

    Raises
    ------
    ValueError
        If k < 1, k > n, or t is not within 0..1.

    Notes
    -----
    Exact: computed in fractions. Eq. 4 is read with the floor of the paper's text; with the ceiling that its
    pseudo-code prints, Table 3 would not come out at t = 0.01.

    Examples
    --------
    >>> class_size(1080, 2, 0.01)
    49
    """
    check_class_size(n, k)
    exact = exact_t(t, may_be_zero=True)
    needed = -(-n // (2 * (n - 1) * exact + 1))
    return _adjusted(n, max(k, int(needed)))


def tcloseness_first(points: ArrayLike, order: ArrayLike, k: int, t: Number) -> NDArray[np.int64]:
    """Return classes of at least k records, each spread evenly over the sensitive values (Algorithm 3).

    Parameters
    ----------
    points, k
        See `duckanon.kernels`.
    order : array_like of shape (n,)
        Sensitive value or rank of each record. Only their order counts; equal values are taken by record
        number.
    t : float, Decimal, Fraction or str
        Largest EMD aimed at, 0 to 1; a float counts as its shortest decimal.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation, every size `class_size` or one more.

    Raises
    ------
    ValueError
        If k, t, order or points are out of range.

    Notes
    -----
    The EMD of Proposition 2 is at most t where all sensitive values differ and the class size divides n.
    With ties, or with a remainder, a class may miss t slightly: measure the result and repair it.
    O(n^2 / k) distances, O(n d) memory; deterministic, equal distances go to the lowest record number. The
    centroid of the remaining records is a running sum, from which records are subtracted in the order in
    which they enter classes, divided by their count.
    """
    matrix = distance_points(points)
    return _stratified(matrix, order, class_size(len(matrix), k, t))


def stratified(points: ArrayLike, strata_order: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return classes of a given size, one record from each of `size` strata: Algorithm 3 without Eq. 3.

    Parameters
    ----------
    points
        See `duckanon.kernels`.
    strata_order : array_like of shape (n,)
        Sensitive value or rank of each record, as in `tcloseness_first`.
    size : int
        Class size, 1..n; raised by Eq. 4 where n leaves too great a remainder.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of formation, every size the (raised) size or one more.

    Raises
    ------
    ValueError
        If size, strata_order or points are out of range.
    """
    matrix = distance_points(points)
    check_class_size(len(matrix), size)
    return _stratified(matrix, strata_order, _adjusted(len(matrix), size))


def stratified_parts(
    points: ArrayLike, strata_order: ArrayLike, size: int, largest: int
) -> NDArray[np.int64]:
    """Return classes as `stratified` does, formed in parts of neighbours that have a share of every stratum.

    Parameters
    ----------
    points, strata_order, size
        As in `stratified`.
    largest : int
        A part with more records is halved, in every stratum, at the median of its widest coordinate, as long
        as both halves have two classes and need no larger size by Eq. 4.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, as of `stratified`: the strata are the same, but for those in the middle, which
        hold the records that are over.

    Raises
    ------
    ValueError
        If size, strata_order or points are out of range.

    Notes
    -----
    O(n largest / size) distances and O(n log n) for the parts; deterministic. Our own: Algorithm 3 looks at
    all records left for each class, and those far away are hardly ever taken.
    """
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
    """Yield the parts of the given records, which stand by stratum as those of each part do."""
    n = len(by_stratum)
    classes, over = divmod(n, size)
    left = classes // 2
    before = left * size + over * left // classes
    sizes = (before, n - before)
    if n <= largest or left < 2 or any(_adjusted(part, size) > size for part in sizes):
        yield by_stratum
        return
    first, second = (_strata_sizes(part, size) for part in sizes)
    here = points[by_stratum]
    spread = here.var(axis=0)
    values = (
        here[:, int(np.argmax(spread >= spread.max() * EQUAL_VARIANCE_SHARE))] if len(spread) else np.zeros(n)
    )
    strata = np.split(values, np.cumsum(first + second)[:-1])
    goes_left = np.concatenate([_lowest(values, count) for values, count in zip(strata, first, strict=True)])
    for side in (goes_left, ~goes_left):
        yield from _parts(points, by_stratum[side], size, largest)


def _lowest(values: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Tell which are the lowest values, so many, at least one; of equal ones the first."""
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
    """Return the classes for a size that Eq. 4 leaves as it is."""
    n, d = points.shape
    strata = fill(points, np.argsort(_ranks(order, n), kind="stable"), _strata_sizes(n, size))
    labels = np.full(n, -1)
    _run(strata, points, np.zeros(d), labels)
    return labels


@compiled
def _run(
    strata: Slots, points: NDArray[np.float64], rest: NDArray[np.float64], labels: NDArray[np.int64]
) -> None:
    """Form all classes: one around the record farthest from the centroid, one around its opposite, again."""
    n = len(points)
    for i in range(n):
        for j in range(len(rest)):
            rest[j] += points[i, j]
    left, classes = n, n // len(strata.start)
    seed = 0
    for label in range(classes):
        seed = _farthest(strata, points[seed] if label % 2 else rest / left)
        members = _form(strata, points[seed])
        left -= len(members)
        for record in members:
            labels[record] = label
            for j in range(len(rest)):
                rest[j] -= points[record, j]


@compiled
def _farthest(strata: Slots, query: NDArray[np.float64]) -> int:
    """Return the record left that is farthest from the query, of several the lowest."""
    best_distance, best_record = -1.0, -1
    for stratum in range(len(strata.start)):
        start = strata.start[stratum]
        distance, record = farthest_in(strata, start, start + strata.left[stratum], query)
        if distance > best_distance or (distance == best_distance and record < best_record):
            best_distance, best_record = distance, record
    return best_record


@compiled
def _form(strata: Slots, query: NDArray[np.float64]) -> NDArray[np.int64]:
    """Take the record nearest to the query from each stratum, once a second one where there are extras."""
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
