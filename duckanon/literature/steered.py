"""Steered microaggregation: weighted artificial attributes steer which classes a method forms.

Domingo-Ferrer and Soria-Comas, "Steered Microaggregation: A Unified Primitive for Anonymization of Data Sets
and Data Streams", IEEE ICDM Workshops, 2017: section III, Definition 3; section IV, Algorithm 1 and
Proposition 1. Steps: docs/methods/steered.md.

t is not guaranteed by Algorithm 1. Where b divides n and the method forms classes of b, as MDAV does, the
weight of Proposition 1 puts the records of every class into different buckets. Then the EMD is at most that
of Proposition 2 of Soria-Comas 2015, without ties at most t. Where b does not divide n, the greatest bucket
has a record more than another bucket, which lacks the number of that record. The class of b records around
this number shifts all classes after it: the proposition does not hold, whatever the weight. Measure the
result.

`steered_evenly` is ours. It sets the n mod b records in the middle of the sensitive order aside, so that b
divides what is left. Section VII leaves other privacy models open; for l-diversity there are at least l
buckets, and a record takes over no number from a record with its own value while other records are free. If b
divides n and no value has more than n / b records, every class of one number has b different values. Proof:
a value in two buckets that are not neighbours would fill the bucket between them, and have more than n / b
records. Let c records of a bucket and a records of the bucket before share a value. Then a + c <= n / b. The
c records choose first, and find n / b - a >= c records with other values.

Reading of what the paper leaves open:

- Buckets are contiguous runs of the sensitive order, of n // b records or one more, the longer runs lowest.
  Buckets of one size count in ascending order of their values.
- "One of the records" is the lowest record number. Equal sensitive values are taken by record number.
- Numbers 1..|B_1| become 0..weight, so that a weight of |B_1| - 1 puts neighbouring numbers 1 apart.

O(n^2 / b) distances, and the cost of the method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.tcloseness_first import least_size
from duckanon.kernels.loss import class_means
from duckanon.kernels.neighbours.slots import Slots, fill, nearest_in, remove
from duckanon.kernels.points import check_class_size, finite_points, minmax

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.first.tcloseness_first import Number

Method = Callable[[NDArray[np.float64], int], NDArray[np.int64]]
"""A method of microaggregation: from points (n, d) and the smallest class size to labels (n,)."""


def steered(
    points: ArrayLike, k: int, *, artificial: ArrayLike, weights: ArrayLike, base: Method = mdav
) -> NDArray[np.int64]:
    """Return the classes that a method forms of points with artificial attributes beside them (Definition 3).

    Every attribute is scaled to the range 0..1, then each artificial attribute to 0..its weight.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Quasi-identifiers, finite numbers on any scale. A constant attribute becomes 0.
    k : int
        Smallest class size, 1..n.
    artificial : array_like of shape (n, a)
        Artificial attributes, finite numbers.
    weights : array_like of shape (a,)
        Weight of each artificial attribute, at least 0; a quasi-identifier has 1.
    base : callable, optional
        The method, by default `mdav`.

    Returns
    -------
    ndarray of shape (n,), int64
        Labels of the method, with its guarantees.

    Raises
    ------
    ValueError
        If the shapes do not fit, a number is not finite, a weight is negative, or the method refuses k.

    Notes
    -----
    Cost and determinism are those of the method, plus O(n (d + a)).

    Examples
    --------
    >>> points, side = [[0.0], [1.0], [2.0], [3.0]], [[0], [1], [0], [1]]
    >>> steered(points, 2, artificial=side, weights=[0.0]).tolist()
    [0, 0, 1, 1]
    >>> steered(points, 2, artificial=side, weights=[9.0]).tolist()
    [0, 1, 0, 1]
    """
    matrix, added = finite_points(points), finite_points(artificial)
    if len(added) != len(matrix):
        raise ValueError(f"artificial attributes have {len(added)} rows for {len(matrix)} records")
    scales = np.asarray(weights, dtype=np.float64)
    if scales.shape != (added.shape[1],):
        raise ValueError(f"weights must be one a column, of shape ({added.shape[1]},), not {scales.shape}")
    if not (np.isfinite(scales) & (scales >= 0.0)).all():
        raise ValueError(f"weights must be finite and at least 0, not {scales.tolist()}")
    return base(np.hstack([minmax(matrix), minmax(added) * scales]), k)


def steered_tcloseness(
    points: ArrayLike,
    sensitive: ArrayLike,
    k: int,
    *,
    t: Number | None = None,
    weight: float | None = None,
    base: Method = mdav,
    buckets: int | None = None,
    apart: bool = False,
) -> NDArray[np.int64]:
    """Return the classes of Algorithm 1, whose records come from different buckets of sensitive values."""
    # `buckets` (k..n) replaces the number that follows from t, or k; ValueError if both are given. `weight`
    # is by default `steering_weight`: less gives more homogeneous classes and more EMD. `apart` as in
    # `bucket_attribute`.
    matrix = finite_points(points)
    n = len(matrix)
    if t is not None and buckets is not None:
        raise ValueError("the number of buckets follows from t: give one of t and buckets")
    count = buckets if buckets is not None else k if t is None else least_size(n, k, t)
    check_class_size(n, k)
    if not k <= count <= n:
        raise ValueError(f"there must be k..n buckets, {k}..{n}, not {count}")
    numbers = bucket_attribute(matrix, sensitive, count, apart=apart)
    if weight is None:
        weight = steering_weight(n, count, matrix.shape[1])
    return steered(matrix, count, artificial=numbers[:, None], weights=[weight], base=base)


def steered_evenly(
    points: ArrayLike,
    codes: ArrayLike,
    k: int,
    threshold: Threshold,
    *,
    weight: float | None = None,
    base: Method = mdav,
) -> NDArray[np.int64]:
    """Return classes as Algorithm 1 forms them, steered to t, to l or to both, for any number of records."""
    # The number of buckets b is at least k, l, the records that a largest share needs, and Eq. 2. The n mod b
    # records in the middle of the sensitive order are set aside, because they change the EMD of a class
    # least. Afterwards each joins the class with the nearest mean that keeps the threshold with the record,
    # else the nearest class.
    matrix, values = finite_points(points), np.asarray(codes)
    n = len(matrix)
    values_needed = 1 if threshold.l is None else math.ceil(threshold.l)
    if threshold.shares is not None:
        values_needed = max(values_needed, threshold.shares.least_records)
    least = max(k, values_needed)
    count = min(n, least if threshold.t is None else max(least, least_size(n, k, Fraction(threshold.t))))
    spare = n % count
    order = np.argsort(values, kind="stable")
    aside = np.sort(order[(n - spare) // 2 : (n - spare) // 2 + spare])
    kept = np.setdiff1d(np.arange(n), aside)
    labels = np.full(n, -1)
    labels[kept] = steered_tcloseness(
        matrix[kept], values[kept], k, buckets=count, weight=weight, base=base,
        apart=values_needed > 1,
    )  # fmt: skip
    unit = minmax(matrix)
    for record in aside:
        _join(unit, values, threshold, labels, int(record))
    return labels


def _join(
    points: NDArray[np.float64],
    values: NDArray[np.int64],
    threshold: Threshold,
    labels: NDArray[np.int64],
    record: int,
) -> None:
    """Let a record join the nearest class that keeps the threshold with it, else the nearest class."""
    classed = np.flatnonzero(labels >= 0)
    away = ((class_means(points[classed], labels[classed]) - points[record]) ** 2).sum(axis=1)
    near = np.argsort(away, kind="stable")
    for one in near:
        members = np.append(values[labels == one], values[record])
        if not violations_per_class([threshold], [members], [0, len(members)]).any():
            labels[record] = one
            return
    labels[record] = near[0]


def bucket_attribute(
    points: ArrayLike, sensitive: ArrayLike, buckets: int, *, apart: bool = False
) -> NDArray[np.int64]:
    """Return the bucket attribute (n,) of Algorithm 1, steps 3 to 6: 1..ceil(n / buckets)."""
    # The records of one bucket have different numbers. With `apart`, records of equal values in neighbouring
    # buckets have different numbers, too, as far as possible. ValueError if shapes do not fit or `buckets` is
    # not within 1..n.
    matrix = minmax(points)
    n, values = len(matrix), np.asarray(sensitive)
    if values.shape != (n,):
        raise ValueError(f"sensitive must hold one value a record, of shape ({n},), not {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"sensitive holds NaN in record {int(np.argmax(np.isnan(values)))}: give it a rank")
    check_class_size(n, buckets)
    runs = np.array_split(np.argsort(values, kind="stable"), buckets)
    parts = [np.sort(part) for part in runs]
    order = np.concatenate(parts).astype(np.int64)
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    columns = matrix if matrix.shape[1] else np.zeros((n, 1))
    shared = np.zeros((2, n), dtype=np.bool_)
    for before, after in pairwise(runs) if apart else ():
        if values[before[-1]] == values[after[0]]:
            shared[0, before] = values[before] == values[after[0]]
            shared[1, after] = values[after] == values[after[0]]
    numbers = np.zeros(n, dtype=np.int64)
    _number(fill(columns, order, sizes), columns, order, sizes, shared, numbers)
    return numbers


def steering_weight(n: int, buckets: int, attributes: int) -> float:
    """Return the least float above ceil(n / buckets) * sqrt(m), for m quasi-identifiers."""
    # Proposition 1: from this weight on no class has two records of a bucket, if the method forms classes of
    # exactly `buckets` records and that number divides n.
    check_class_size(n, buckets)
    return float(np.nextafter(-(-n // buckets) * math.sqrt(attributes), np.inf))


@compiled
def _number(
    slots: Slots, points: NDArray[np.float64], order: NDArray[np.int64], sizes: NDArray[np.int64],
    shared: NDArray[np.bool_], numbers: NDArray[np.int64],
) -> None:  # fmt: skip
    """Number the first bucket, and hand the numbers on from bucket to bucket."""
    # `shared` (2, n): whether the next bucket, or the bucket before, has the value of a record, too. Records
    # that share their value with the bucket before choose first.
    for i in range(sizes[0]):
        numbers[order[i]] = i + 1
    for j in range(1, len(sizes)):
        start, before = slots.start[j], slots.start[j - 1]
        for sharing in (True, False):
            for i in range(start, start + sizes[j]):
                if shared[1, order[i]] != sharing:
                    continue
                giver = -1
                if sharing:
                    giver = _nearest_other(
                        slots, before, before + slots.left[j - 1], points[order[i]], shared[0]
                    )
                if giver < 0:
                    giver = nearest_in(slots, before, before + slots.left[j - 1], points[order[i]])[1]
                numbers[order[i]] = numbers[giver]
                remove(slots, giver)


@compiled
def _nearest_other(
    slots: Slots, start: int, stop: int, query: NDArray[np.float64], shared: NDArray[np.bool_]
) -> int:
    """Return the nearest record of some slots that does not share its value; -1 if there is none."""
    best, found = np.inf, -1
    for place in range(start, stop):
        record = slots.record[place]
        if shared[record]:
            continue
        distance = 0.0
        for j in range(len(query)):
            difference = slots.columns[j, place] - query[j]
            distance += difference * difference
        if distance < best or (distance == best and record < found):
            best, found = distance, record
    return found
