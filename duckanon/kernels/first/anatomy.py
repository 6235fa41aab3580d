"""Anatomize among near records: classes in which no sensitive value has more than its share.

Xiao and Tao, "Anatomy: Simple and Effective Privacy Preservation", VLDB 2006, algorithm Anatomize, takes one
random record from each of the l fullest buckets. Here the record is the nearest one, and it may come from any
bucket, as long as the rest can still be partitioned.

A class begins with a record of the most frequent value left. That record is in turns the one farthest from
the centroid of all records left, and the one farthest from the last seed. The class takes the records nearest
to this seed, of each value as many as its size allows. The rest must keep c as a whole. So of a value that
would have too great a share of the rest, the nearest records are taken, however far they are. The size of the
class is the least, from k on, for which this is possible: for c just above 1 / l and k <= l it is nearly
always l. Records that remain when no further class is possible join the nearest classes that keep c with
them, each record by itself. If that fails, all of them join the last class.

Anatomize never fails. Classes that keep c keep it together, because r_1 < c s and r'_1 < c s' add up; and if
the rest keeps c, the whole rest is a class. If the table is not eligible (does not keep c itself), as many
records of the too frequent values are set aside as makes the rest eligible. The records set aside become
classes of their own by `mdav`, or join others if they are fewer than a class.

A part with more than `largest` records is halved at the median of its widest coordinate. If a half would not
keep c, its surplus records of a value go to the other half, the nearest to the cut first.

O(n largest / k) distances, O(n d log n) for the parts, O(n d) memory. Deterministic: equal distances go to
the lowest record number.

>>> anatomize([[0.0], [1.0], [2.0], [9.0]], [5, 5, 6, 6], 2, Fraction(500000000001, 10**12)).tolist()
[1, 0, 1, 0]
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import most_of_one
from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import mdav, total_of
from duckanon.kernels.neighbours.kd import widest_variance
from duckanon.kernels.neighbours.slots import Slots, farthest_of, fill, nearest_in, remove
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from numpy.typing import ArrayLike, NDArray

WHOLE_TABLE_MAX_RECORDS = 128
"""Up to this size a class is searched among all records; larger tables are halved."""


class _Rest(NamedTuple):
    """The records left, in a bucket for each value."""

    buckets: Slots  # the records
    # (buckets,), records of each bucket that no class takes because they are too many; 0 if eligible
    spare: NDArray[np.int64]
    caps: NDArray[np.int64]  # (n + 1,), most records of one value among 0..n records


class _Near(NamedTuple):
    """For each bucket the record nearest to a seed, its squared distance, and the number of records taken."""

    record: NDArray[np.int64]
    taken: NDArray[np.int64]
    distance: NDArray[np.float64]


def anatomize(
    points: ArrayLike, codes: ArrayLike, k: int, c: Decimal | Fraction, largest: int = WHOLE_TABLE_MAX_RECORDS
) -> NDArray[np.int64]:
    """Return classes (n,), 0..m-1, of at least k near records, in which a value has less than the share c."""
    # A class of s records has r_1 < c s for the r_1 records of its most frequent value, that is recursive (c,
    # 1)-diversity. c is above 0 and cut off after 12 decimals; just above 1 / l it is the l of Anatomy. If
    # the table is not eligible, the classes of surplus records do not keep c, and are left to merging with
    # other tables. ValueError if k, c, codes (n,) or points are out of range.
    matrix = distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    values = np.asarray(codes)
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise ValueError(f"codes must be one integer a record, of shape ({n},), not {values.shape}")
    if not c > 0:
        raise ValueError(f"c must be above 0, not {c}")
    values = np.unique(values, return_inverse=True)[1]
    caps = most_of_one(n, Fraction(c))
    # A smaller class could not hold even one record of a value.
    size = max(k, int(np.searchsorted(caps, 1)))
    if size > n:
        return np.zeros(n, dtype=np.int64)
    labels = np.empty(n, np.int64)
    classes = 0
    for part in _parts(matrix, values, np.arange(n), size, caps, largest):
        labels[part] = _anatomized(matrix[part], values[part], size, caps) + classes
        classes = int(labels[part].max()) + 1
    return labels


def _parts(
    points: NDArray[np.float64],
    values: NDArray[np.int64],
    records: NDArray[np.int64],
    size: int,
    caps: NDArray[np.int64],
    largest: int,
) -> Iterator[NDArray[np.int64]]:
    """Yield the parts of the given records, ascending; each is eligible if all records together are."""
    # Of each value `least` records at least and `most` at most go left, so that neither half has more than
    # its cap. Any halves are allowed where these numbers leave room for half of the records.
    counts = np.bincount(values[records])
    spare = np.maximum(counts - _most_eligible(counts, size, caps), 0)
    kept, shared = counts - spare, spare // 2
    whole = int(kept.sum())
    half = whole // 2 - whole // 2 % size
    least = np.maximum(kept - caps[whole - half], 0)
    most = np.minimum(kept, caps[half])
    if (
        len(records) <= largest
        or half < size
        or (least > most).any()
        or not least.sum() <= half <= most.sum()
    ):
        yield records
        return
    cut = half + int(shared.sum())
    for side in _sides(points[records], values[records], least + shared, most + shared, cut):
        yield from _parts(points, values, records[side], size, caps, largest)


def _sides(
    points: NDArray[np.float64],
    values: NDArray[np.int64],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    cut: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the `cut` records that go left by the widest coordinate, and the others; both ascending."""
    column = points[:, widest_variance(points, np.arange(len(points)))]
    counts = np.bincount(values)
    place = np.empty(len(values), np.int64)
    place[np.lexsort((column, values))] = np.arange(len(values))
    place -= (np.cumsum(counts) - counts)[values]
    # 0 has to go left, 2 must not.
    side = (place >= least[values]).astype(np.int64) + (place >= most[values])
    order = np.lexsort((column, side))
    return np.sort(order[:cut]), np.sort(order[cut:])


def _anatomized(
    points: NDArray[np.float64], values: NDArray[np.int64], size: int, caps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the classes of a part of at least `size` records."""
    n, counts = len(points), np.bincount(values)
    spare = np.maximum(counts - _most_eligible(counts, size, caps), 0)
    labels = np.full(n, -1)
    rest = _Rest(fill(points, np.argsort(values, kind="stable"), counts), spare, caps)
    _run(rest, points, total_of(points), size, labels)
    left = np.flatnonzero(labels < 0)
    last = int(labels.max())
    if len(left) >= size and spare.any():
        labels[left] = mdav(points[left], size) + last + 1
    elif not _joined(points, values, labels, left, caps, anywhere=bool(spare.any())):
        labels[left] = last
    return labels


def _most_eligible(counts: NDArray[np.int64], size: int, caps: NDArray[np.int64]) -> int:
    """Return the most records of each value that are eligible together; 0 if too few for a class."""
    # With more records of each value the share of the most frequent value never falls: the last number that
    # keeps c is the most. It is below the largest count only if the table is not eligible.
    most = int(counts.max())
    at_least = np.cumsum(np.bincount(counts, minlength=most + 1)[::-1])[::-1][1:]
    together = np.cumsum(at_least)
    kept = np.flatnonzero(caps[together] >= np.arange(1, most + 1))
    return int(kept[-1]) + 1 if len(kept) and together[kept[-1]] >= size else 0


def _joined(
    points: NDArray[np.float64],
    values: NDArray[np.int64],
    labels: NDArray[np.int64],
    left: NDArray[np.int64],
    caps: NDArray[np.int64],
    *,
    anywhere: bool,
) -> bool:
    """Let each record left, in order, join the class with the nearest mean that keeps c with the record."""
    # If a record finds no class, return False with the labels unchanged; with `anywhere` it joins the nearest
    # class.
    classed = labels >= 0
    sizes = np.bincount(labels[classed])
    sums = np.stack([np.bincount(labels[classed], weights=column[classed]) for column in points.T], axis=1)
    means = sums / sizes[:, None]
    joined = labels.copy()
    for record in left:
        same = np.bincount(joined[(values == values[record]) & (joined >= 0)], minlength=len(sizes))
        able = same < caps[sizes + 1]
        if not able.any() and not anywhere:
            return False
        distances = np.zeros(len(sizes))
        for column, own in zip(means.T, points[record], strict=True):
            distances += (column - own) ** 2
        joined[record] = np.argmin(np.where(able, distances, np.inf) if able.any() else distances)
        sizes[joined[record]] += 1
    labels[left] = joined[left]
    return True


@compiled
def _run(
    rest: _Rest,
    points: NDArray[np.float64],
    centre: NDArray[np.float64],
    size: int,
    labels: NDArray[np.int64],
) -> None:
    """Form classes as long as a further class is possible."""
    n, d = points.shape
    left = n
    for count in rest.spare:
        left -= count
    numbers = np.empty((2, len(rest.spare)), np.int64)
    near = _Near(numbers[0], numbers[1], np.empty(len(rest.spare)))
    seed, label, gone, last = -1, 0, 0, False
    while left >= size and not last:
        count, last = _class_size(rest, left, size)
        seed = _farthest(rest, points[seed] if label % 2 else centre / (n - gone))
        # The fifth argument is the most records that may stay in a bucket.
        members = _form(rest, points[seed], seed, count, left if last else rest.caps[left - count], near)
        left -= count
        gone += count
        for record in members:
            labels[record] = label
            for j in range(d):
                centre[j] -= points[record, j]
        label += 1


@compiled
def _class_size(rest: _Rest, left: int, size: int) -> tuple[int, bool]:
    """Return the least size after which the rest, without spare records, keeps c; else the last class's."""
    most = 0
    for bucket in range(len(rest.spare)):
        most = max(most, rest.buckets.left[bucket] - rest.spare[bucket])
    for count in range(size, left - size + 1):
        stay, cap = rest.caps[left - count], rest.caps[count]
        if most - stay <= cap and _needed(rest, stay) <= count <= _available(rest, cap):
            return count, False
    count = size
    while _available(rest, rest.caps[count]) < count:
        count += 1
    return count, True


@compiled
def _needed(rest: _Rest, stay: int) -> int:
    """Return how many records have to be taken so that at most `stay` remain in each bucket."""
    needed = 0
    for bucket in range(len(rest.spare)):
        needed += max(0, rest.buckets.left[bucket] - rest.spare[bucket] - stay)
    return needed


@compiled
def _available(rest: _Rest, cap: int) -> int:
    """Return how many records can be taken, at most `cap` of a bucket."""
    available = 0
    for bucket in range(len(rest.spare)):
        available += min(cap, rest.buckets.left[bucket] - rest.spare[bucket])
    return available


@compiled
def _farthest(rest: _Rest, query: NDArray[np.float64]) -> int:
    """Return the record of the fullest buckets that is farthest from the query, the lowest among equals."""
    left = rest.buckets.left - rest.spare
    return farthest_of(rest.buckets, left == left.max(), query)


@compiled
def _form(
    rest: _Rest, query: NDArray[np.float64], seed: int, count: int, stay: int, near: _Near
) -> NDArray[np.int64]:
    """Take the seed and the records nearest to it, so that at most `stay` remain in each bucket."""
    buckets, cap, free = rest.buckets, rest.caps[count], count - _needed(rest, stay)
    for bucket in range(len(rest.spare)):
        near.taken[bucket] = 0
        _look(rest, bucket, query, cap, near)
    chosen, members = buckets.bin[buckets.slot[seed]], np.empty(count, np.int64)
    near.record[chosen] = seed
    for place in range(count):
        if place > 0:
            chosen = _nearest(rest, stay, free, near)
        record = near.record[chosen]
        members[place] = record
        free -= buckets.left[chosen] - rest.spare[chosen] <= stay
        remove(buckets, record)
        near.taken[chosen] += 1
        _look(rest, chosen, query, cap, near)
    return members


@compiled
def _look(rest: _Rest, bucket: int, query: NDArray[np.float64], cap: int, near: _Near) -> None:
    """Find the nearest record of a bucket; infinitely far if no more records of the bucket may be taken."""
    near.distance[bucket] = np.inf
    start, left = rest.buckets.start[bucket], rest.buckets.left[bucket]
    if near.taken[bucket] < cap and left > rest.spare[bucket]:
        found = nearest_in(rest.buckets, start, start + left, query)
        near.distance[bucket], near.record[bucket] = found


@compiled
def _nearest(rest: _Rest, stay: int, free: int, near: _Near) -> int:
    """Return the bucket with the nearest record that may be taken."""
    # If `free` is 0, records may be taken only from buckets in which more than `stay` would remain.
    chosen = -1
    for bucket in range(len(rest.spare)):
        distance = near.distance[bucket]
        has_to = rest.buckets.left[bucket] - rest.spare[bucket] > stay
        if (
            distance < np.inf
            and (free > 0 or has_to)
            and (
                chosen < 0
                or distance < near.distance[chosen]
                or (distance == near.distance[chosen] and near.record[bucket] < near.record[chosen])
            )
        ):
            chosen = bucket
    return chosen
