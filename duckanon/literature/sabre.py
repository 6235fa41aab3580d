"""SABRE: sensitive values are cut into buckets, and every class takes records from them in proportion.

Cao, Karras, Kalnis and Tan, "SABRE: a Sensitive Attribute Bucketization and REdistribution framework for
t-closeness", The VLDB Journal 20(1), 2011. Steps: docs/methods/t-closeness.md.

Written without the paper's text, from its abstract and from second-hand descriptions (a published set of
slides on it; section 3 of Soria-Comas et al. 2015). These say: a first phase partitions the table greedily
into buckets of similar sensitive values, every value in one bucket only, until an upper bound on the EMD,
made of an upper bound for each bucket, obeys t. A second phase redistributes the records of each bucket into
classes, whose sizes are determined while the phase runs. If the records of a class are picked in proportion
to the sizes of their buckets, the bounds of the buckets bound the EMD of the class. One variant picks nearest
neighbours.

The rest is ours. The published figures are no test of it.

1. A bucket of a path is divided in two between two values, where the bounds of the parts weigh least. A
   bucket of a tree is a node, divided into its children. Ties go to the lowest value. Every division of two
   values or more lowers the sum of the bounds, which is 0 where every value has its own bucket.
2. The paper's exact proportion is seldom whole. A class that takes a_B of the N_B records of bucket B, s in
   all, is held to the bound EMD(P, Q) + sum a_B / s * bound(B), where P spreads a_B / s over B as the table
   does. By the triangle inequality the EMD of the class is no greater.
3. Sizes are found by halving. Odd numbers go up and down in turn, so that the lowest j buckets together are
   halved to within one record. A class whose halves miss the bound stays as it is: where the buckets leave
   little of t to spare, classes are many times k.
4. Every class has k records, for k-anonymity. One class of all records is the last resort, so k and t are
   always kept.
5. The seed is the record farthest from the centroid of the records left, in a bucket from which the class
   takes any.

O(m) work for each bucket and each kind of class, O(n^2) distances at worst. The verdict on t is exact.
Buckets take O(m b) time for b buckets on a path, O(m H) and O(b^2) in a tree.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of
from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import total_of
from duckanon.kernels.neighbours.slots import Slots, farthest_of, fill, nearest_in, remove
from duckanon.kernels.points import check_class_size, distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.reference import Reference
    from duckanon.kernels.closeness.threshold import Threshold

DOUBTFUL_DIFFERENCE = 1e-9
"""A bound that differs from t by less is computed anew in whole numbers."""


def sabre(points: ArrayLike, codes: ArrayLike, k: int, threshold: Threshold) -> NDArray[np.int64]:
    """Return classes of k records or more, without upper limit, that satisfy t, by SABRE."""
    # `codes` (n,) are dense ranks. The threshold has t, no l, and the distribution of these records; else
    # ValueError.
    matrix = distance_points(points)
    n, ranks = len(matrix), np.asarray(codes)
    check_class_size(n, k)
    if ranks.shape != (n,):
        raise ValueError(f"codes must hold one value a record, of shape ({n},), not {ranks.shape}")
    if threshold.t is None or threshold.l is not None:
        raise ValueError("SABRE takes a threshold with t and without l")
    known = threshold.reference
    positions = known.positions(ranks)
    if not np.array_equal(np.bincount(ranks, minlength=len(known.counts)), known.counts):
        raise ValueError("the reference does not count these codes: SABRE divides the whole table")
    table = table_of(known, _limit(threshold))
    classes = class_sizes(table, k)
    order = np.argsort(positions, kind="stable")
    by_bucket = np.repeat(np.arange(len(table.sizes)), table.sizes)
    slots = fill(matrix, order[np.lexsort((order, by_bucket))], table.sizes)
    labels = np.full(n, -1)
    _redistribute(slots, matrix, total_of(matrix), classes, labels)
    return labels


class SabreTable(NamedTuple):
    """The sensitive values by position, and their b buckets."""

    counts: NDArray[np.int64]  # (m,) records at each position
    starts: list[NDArray[np.int64]]  # first position below each edge, level after level; empty for a path
    buckets: list[Bucket]  # in the order of their positions
    sizes: NDArray[np.int64]  # (b,) records of each bucket
    scale: int  # distances are multiples of 1 / scale
    limit: Fraction  # t times n times scale


def table_of(known: Reference, limit: Fraction) -> SabreTable:
    """Return the table with buckets whose bounds obey the limit, t n scale: the first phase of SABRE."""
    counts = np.diff(known.edges.cumulative, prepend=0)
    nodes = known.edges.nodes.reshape(-1, len(counts))
    starts = [np.flatnonzero(np.diff(row, prepend=-1)) for row in nodes]
    buckets = buckets_within(known, limit)
    sizes = np.add.reduceat(counts, [bucket.first for bucket in buckets])
    return SabreTable(counts, starts, buckets, sizes, known.scale, limit)


def class_sizes(table: SabreTable, k: int) -> NDArray[np.int64]:
    """Return the records that each class takes from each bucket (classes, b), at least k records a class."""
    allowed: dict[bytes, bool] = {}
    done, waiting = [], [table.sizes]
    while waiting:
        taken = waiting.pop()
        halves = _halved(taken)
        for half in halves:
            key = half.tobytes()
            if key not in allowed:
                allowed[key] = bool(half.sum() >= k) and obeys(table, half)
        if all(allowed[half.tobytes()] for half in halves):
            waiting += halves[::-1]
        else:
            done.append(taken)
    return np.array(done)


def obeys(table: SabreTable, taken: NDArray[np.int64]) -> bool:
    """Tell exactly whether a class with these records (b,) from the buckets has a bound of at most t."""
    n, size = int(table.sizes.sum()), int(taken.sum())
    rough = _bound(table, taken, 1.0 / table.sizes, 1.0 / n)
    allowed = float(table.limit) / n * size
    if abs(rough - allowed) > DOUBTFUL_DIFFERENCE * size * table.scale:
        return bool(rough < allowed)
    common = math.lcm(n, *table.sizes.tolist())
    parts = np.array([common // count for count in table.sizes.tolist()], dtype=object)
    exact = _bound(table, taken.astype(object), parts, common // n)
    return bool(exact * n <= table.limit * size * common)


def _limit(threshold: Threshold) -> Fraction:
    """Return t times n times scale, as all verdicts on t compute it."""
    rule = rules_of([threshold]).table[0]
    return int(rule["step"]) + Fraction(int(rule["rest"]), int(rule["parts"]))


def _bound(table: SabreTable, taken: NDArray[Any], part: NDArray[Any], whole: Any) -> Any:
    """Return the bound on the EMD of a class, times its size and scale."""
    # With `part` 1 / N_B and `whole` 1 / n it is rounded; with both times a common multiple it is exact.
    each = taken * part
    share = np.repeat(each, [bucket.last - bucket.first for bucket in table.buckets])
    excess = (share - taken.sum() * whole) * table.counts
    if table.starts:
        moved = sum(np.abs(np.add.reduceat(excess, starts)).sum() for starts in table.starts)
    else:
        moved = np.abs(np.cumsum(excess)[:-1]).sum()
    return moved + (each * np.array([bucket.bound for bucket in table.buckets])).sum()


def _halved(taken: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return two halves of a class; odd numbers are rounded up and down in turn."""
    odd = taken % 2
    first = taken // 2 + odd * (np.cumsum(odd) % 2)
    return [first, taken - first]


@compiled
def _redistribute(
    slots: Slots, points: NDArray[np.float64], rest: NDArray[np.float64],
    classes: NDArray[np.int64], labels: NDArray[np.int64],
) -> None:  # fmt: skip
    """Give each class its records: the nearest to the record farthest from the centroid of those left."""
    left = len(points)
    for label in range(len(classes)):
        seed = farthest_of(slots, classes[label] > 0, rest / left)
        for bucket in range(len(slots.start)):
            start = slots.start[bucket]
            for _ in range(classes[label, bucket]):
                _, record = nearest_in(slots, start, start + slots.left[bucket], points[seed])
                remove(slots, record)
                labels[record] = label
                left -= 1
                for j in range(len(rest)):
                    rest[j] -= points[record, j]


class Bucket(NamedTuple):
    """Neighbouring values; in a tree all values of a node."""

    first: int  # first position
    last: int  # position after the last
    # records * scale * the greatest EMD between a value alone and the distribution inside the bucket
    bound: int
    level: int  # level of the node in a tree; 0 on a path


def buckets_within(known: Reference, limit: Fraction) -> list[Bucket]:
    """Return the buckets by position, divided greedily until their bounds sum to the limit or less."""
    m = len(known.counts)
    shape: _Path | _BucketTree = _tree(known) if len(known.edges.nodes) else _path(known)
    height = len(known.edges.nodes) // m
    done = [_bucket(shape, 0, m, height)]
    children = [_divided(shape, done[0])]
    total = done[0].bound
    while total > limit:
        gains = [
            bucket.bound - sum(part.bound for part in parts)
            for bucket, parts in zip(done, children, strict=True)
        ]
        which = int(np.argmax(gains))
        parts = children[which]
        total -= gains[which]
        done[which : which + 1] = parts
        children[which : which + 1] = [_divided(shape, part) for part in parts]
    return done


def _divided(shape: _Path | _BucketTree, bucket: Bucket) -> list[Bucket]:
    """Return the parts of a bucket; a bucket of one value is its only part."""
    first, last, _, level = bucket
    if last - first == 1:
        return [bucket]
    if isinstance(shape, _Path):
        cuts = np.arange(first + 1, last)
        cut = int(cuts[np.argmin(_ends(shape, first, cuts) + _ends(shape, cuts, last))])
        return [_bucket(shape, first, cut, 0), _bucket(shape, cut, last, 0)]
    while True:
        level -= 1
        starts = first + np.flatnonzero(np.diff(shape.nodes[level, first:last], prepend=-1))
        if len(starts) > 1:
            break
    ends = [*starts[1:].tolist(), last]
    return [_bucket(shape, a, b, level) for a, b in zip(starts.tolist(), ends, strict=True)]


def _bucket(shape: _Path | _BucketTree, first: int, last: int, level: int) -> Bucket:
    """Return a bucket with its bound."""
    if isinstance(shape, _Path):
        return Bucket(first, last, int(_ends(shape, first, last)), 0)
    # In units of 1 / scale two records are 2 apart for each lower level on which their nodes differ.
    records = int(shape.records[last] - shape.records[first])
    return Bucket(first, last, 2 * (level * records - int(shape.below[level, first:last].min())), level)


def _ends(path: _Path, first: int | NDArray[np.int64], last: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the summed distance of all records of a stretch from its farther end; no value has more."""
    records = path.records[last] - path.records[first]
    moments = path.moments[last] - path.moments[first]
    return np.asarray(np.maximum(moments - records * first, records * (last - 1) - moments))


class _Path(NamedTuple):
    """Records, and records times position, summed over the positions before each position."""

    records: NDArray[np.int64]
    moments: NDArray[np.int64]


def _path(known: Reference) -> _Path:
    """Return the prefix sums of a path."""
    counts = np.diff(known.edges.cumulative, prepend=0)
    moments = np.cumsum(counts * np.arange(len(counts)))
    return _Path(np.append(0, known.edges.cumulative), np.append(0, moments))


class _BucketTree(NamedTuple):
    """By level and position: the node, and the records below the nodes of all lower levels, summed."""

    nodes: NDArray[np.int64]
    below: NDArray[np.int64]
    records: NDArray[np.int64]


def _tree(known: Reference) -> _BucketTree:
    """Return the levels of a tree, the root on top."""
    m = len(known.counts)
    nodes = np.vstack([known.edges.nodes.reshape(-1, m), np.zeros((1, m), np.int64)])
    below = np.cumsum(known.edges.below.reshape(-1, m), axis=0)
    return _BucketTree(
        nodes, np.vstack([np.zeros((1, m), np.int64), below]), np.append(0, known.edges.cumulative)
    )
