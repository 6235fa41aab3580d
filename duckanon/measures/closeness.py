"""Measures of closeness: the distance between the sensitive values of a class and those of the whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import Distance, Reference, class_histograms, reference
from duckanon.kernels.loss import class_means
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.points import Scale, distance_points, scaled
from duckanon.measures.inputs import (
    class_labels,
    column,
    histograms,
    members,
    policy_errors,
    ranked,
    whole_number,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class _CodedTable(NamedTuple):
    """Checked arguments: class and value code of each record, and the records of the whole with each code."""

    labels: NDArray[np.int64]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


@policy_errors()
def emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the earth mover's distance of each class from the whole.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1; 0.0 where the whole has one value. The float nearest to the exact distance while (class size)
        (N) (v - 1), or 2 H for v - 1, stays below 2^53.

    Notes
    -----
    O(n log n) time, or O(n log n + n H) for a tree. `duckanon.audit` compares whole numbers with t. Rounding
    keeps the order, so a class whose EMD is at most t is never above t here.

    Source: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 5.

    Examples
    --------
    >>> emd([0, 0, 0, 1, 1, 1, 1, 1, 1], [3, 4, 5, 6, 7, 8, 9, 10, 11]).tolist()
    [0.375, 0.1875]
    """
    table = _table(labels, sensitive, population)
    order, offsets = members(table.labels)
    return emd_per_class(reference(table.counts, distance, paths), table.codes[order], offsets)


def maximum_emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> float:
    """Return the greatest EMD of a class, 0 to 1: the least t for which the partition is t-close.

    Notes
    -----
    Cost and rounding as of `emd`. Source: Li, Li and Venkatasubramanian, ICDE 2007, definition 2; "maximum
    EMD" of Domingo-Ferrer and Soria-Comas, "Steered microaggregation", 2017, section VI-B.
    """
    return float(emd(labels, sensitive, distance, paths=paths, population=population).max())


def average_emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> float:
    """Return the mean EMD of the classes, 0 to 1, each class counted once whatever its size.

    Notes
    -----
    Cost as of `emd`. Source: "average EMD" of Domingo-Ferrer and Soria-Comas, 2017, section VI-B.
    """
    return float(emd(labels, sensitive, distance, paths=paths, population=population).mean())


def variational_distance(
    labels: ArrayLike, sensitive: ArrayLike, *, population: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return half the sum of |p_i - q_i| for each class, p its distribution and q that of the whole.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1, rounded as `emd`.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 4. Section 5.2: it equals the
    EMD with the equal distance.
    """
    return emd(labels, sensitive, "equal", population=population)


@policy_errors()
def kullback_leibler_distance(
    labels: ArrayLike, sensitive: ArrayLike, *, population: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the sum of p_i ln(p_i / q_i) for each class, p its distribution and q that of the whole.

    Returns
    -------
    ndarray of shape (m,), float64
        In nats, at least 0 and at most ln(N / least frequency of a value in the whole). Values that a class
        lacks add nothing.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 4, after Kullback and Leibler
    1951.

    Examples
    --------
    >>> kullback_leibler_distance([0, 0, 1, 1], [5, 5, 6, 6]).tolist()
    [0.6931471805599453, 0.6931471805599453]
    """
    table = _table(labels, sensitive, population)
    values = histograms(table.labels, table.codes)
    first = values.starts[:-1]
    size = np.repeat(np.add.reduceat(values.weights, first), np.diff(values.starts))
    # Both products are whole numbers below 2^62: equal shares have the ratio 1 exactly, and logarithm 0.
    ratio = (values.weights * table.counts.sum()) / (size * table.counts[values.values])
    distance = np.add.reduceat(values.weights / size * np.log(ratio), first)
    return np.asarray(np.maximum(distance, 0.0))


def _table(labels: ArrayLike, sensitive: ArrayLike, population: ArrayLike | None) -> _CodedTable:
    """Return the checked arguments; codes are ranks among the values of the whole."""
    classes = class_labels(labels)
    values = column(sensitive, len(classes))
    if population is None:
        return _CodedTable(classes, *ranked(values))
    whole = np.asarray(population)
    if whole.ndim != 1 or whole.size == 0:
        raise ValueError(f"population must hold at least one value, not be of shape {whole.shape}")
    codes, _ = ranked(np.concatenate([whole, values]))
    counts = np.bincount(codes[: len(whole)], minlength=int(codes.max()) + 1)
    missing = counts[codes[len(whole) :]] == 0
    if missing.any():
        value = values[int(np.argmax(missing))]
        raise ValueError(f"the sensitive value {value} does not occur in the population")
    return _CodedTable(classes, codes[len(whole) :], counts)


LARGEST_SUM = 2**63
"""Sums below this number are whole numbers of 64 bits; greater sums are floats."""


class _Records(NamedTuple):
    """The records in the orders that no grouping changes."""

    labels: NDArray[np.int64]  # (n,) class of each record
    position: NDArray[np.int64]  # (n,) position of its value in the reference
    sizes: NDArray[np.int64]  # (m,) records of each class
    ascending: NDArray[np.int64]  # (n,) all records by position
    # (s,) records of the judged classes: class by class, and within a class by position
    small: NDArray[np.int64]


@policy_errors()
def nt_closeness(
    labels: ArrayLike,
    sensitive: ArrayLike,
    n: int,
    groups: ArrayLike | None = None,
    *,
    distance: Distance = "ordered",
    paths: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the least t for which each class is (n, t)-close.

    Parameters
    ----------
    labels, sensitive, distance, paths
        See `duckanon.measures`; N records.
    n : int
        Least number of records of a natural superset, at least 1.
    groups : array_like of shape (N,) or (N, g), int, optional
        Natural supersets, in up to g groupings of the records: the number of the group of each record. Every
        group is a union of classes. `nested_groups` makes groups from quasi-identifiers; the classes of a
        coarser generalization are groups as well.

    Returns
    -------
    ndarray of shape (m,), float64
        The least EMD between the class and a superset of at least n records. 0.0 for a class of n records or
        more; infinity where the table has fewer than n. The partition is (n, t)-close if the greatest entry
        is at most t.

    Raises
    ------
    PolicyError
        If an argument is unusable, or a class lies in two groups of a grouping.

    Notes
    -----
    O(g N log N) time, or O(g N (H + log N)) for a tree; exact but for the last rounding while 4 n N^2 < 2^63.
    About 0.5 s of CPU time for each grouping of 1,000,000 records.

    Source: Li, Li and Venkatasubramanian, IEEE TKDE 22(7), 2010; its reading stands at the top of the
    module.

    Examples
    --------
    >>> nt_closeness([0, 0, 1, 1, 2, 2], [1, 2, 1, 2, 8, 9], 4, [0, 0, 0, 0, 1, 1]).tolist()
    [0.0, 0.0, 0.4444444444444444]
    """
    classes, least = class_labels(labels), whole_number("n", n, 1)
    ranks = ranked(column(sensitive, len(classes)))
    known = reference(ranks.counts, distance, paths)
    groupings = _groupings(groups, classes)
    records = _records(classes, known.positions(ranks.codes), least)
    result = np.where(records.sizes >= least, 0.0, math.inf)
    for group in groupings:
        large = np.bincount(group)[group[records.small]] >= least
        judged = records._replace(small=records.small[large])
        if len(judged.small):
            emd = _path(judged, group, known) if distance == "ordered" else _tree(judged, group, known)
            which = np.unique(classes[judged.small])
            result[which] = np.minimum(result[which], emd)
    return result


@policy_errors()
def nested_groups(points: ArrayLike, labels: ArrayLike, n: int, scale: Scale = "zscore") -> NDArray[np.int64]:
    """Return nested groups of neighbouring classes: natural supersets for `nt_closeness`.

    Parameters
    ----------
    points, labels, scale
        See `duckanon.measures`; N records.
    n : int
        Least number of records, at least 1. A grouping without a group of n records is left out.

    Returns
    -------
    ndarray of shape (N, g), int64
        Group of each record, from the finest grouping to the whole table in the last column; g <= 1 + log2 m.

    Notes
    -----
    O(m d log^2 m + N (d + g)) time. The classes are halved again and again at the median of their means in
    the widest coordinate. Mondrian splits a table so (LeFevre, DeWitt and Ramakrishnan, ICDE 2006), and so
    does the kd order here. Every node of this tree is a group, so the supersets of a class are its ancestors,
    as in a top-down anonymization.

    Examples
    --------
    >>> nested_groups([[0.0], [0.0], [1.0], [8.0], [9.0]], [0, 0, 1, 2, 3], 2).T.tolist()
    [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    """
    matrix = distance_points(scaled(points, scale))
    classes, least = class_labels(labels, len(matrix)), whole_number("n", n, 1)
    means = class_means(matrix, classes)
    groupings, most = [np.zeros(len(matrix), dtype=np.int64)], len(means)
    while most > 2:
        most = -(-most // 2)
        order, offsets = kd_blocks(means, 1, most)
        block = np.empty(len(means), dtype=np.int64)
        block[order] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        group = block[classes]
        if np.bincount(group).max() < least:
            break
        groupings.append(group)
    return np.stack(groupings[::-1], axis=1)


def _groupings(groups: ArrayLike | None, labels: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the groupings, each with dense group numbers, and the whole table as the last."""
    whole = np.zeros(len(labels), dtype=np.int64)
    if groups is None:
        return [whole]
    given = np.asarray(groups)
    if given.ndim not in (1, 2) or len(given) != len(labels) or given.dtype.kind not in "iu":
        raise ValueError(f"groups must be integers, one row for each of the {len(labels)} records")
    groupings = []
    first = np.unique(labels, return_index=True)[1]
    for column_of in given.reshape(len(labels), -1).T:
        group = np.unique(column_of, return_inverse=True)[1].astype(np.int64)
        torn = group != group[first][labels]
        if torn.any():
            raise ValueError(
                f"class {labels[np.argmax(torn)]} lies in two groups: groups are unions of classes"
            )
        groupings.append(group)
    return [*groupings, whole]


def _records(labels: NDArray[np.int64], position: NDArray[np.int64], least: int) -> _Records:
    """Return the records in the orders that every grouping needs."""
    sizes = np.bincount(labels)
    ascending = np.argsort(position, kind="stable")
    by_class = ascending[np.argsort(labels[ascending], kind="stable")]
    return _Records(labels, position, sizes, ascending, by_class[sizes[labels[by_class]] < least])


def _path(records: _Records, group: NDArray[np.int64], known: Reference) -> NDArray[np.float64]:
    """Return the EMD of each judged class from its group on a path.

    The two distributions are coupled in order: the j-th of the s records of a class faces the j-th of s
    equal parts of its group. In units of 1 / s records, group record i covers s i to s (i + 1).
    """
    order = records.ascending[np.argsort(group[records.ascending], kind="stable")]
    total = np.bincount(group)
    begin = np.append(0, np.cumsum(total))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    small, superset = records.small, group[records.small]
    judged, sizes, starts = _judged(records)
    # Whole numbers where the largest sum fits: a small difference of two large sums stays exact.
    fits = 4 * int(sizes.max()) * int(total.max()) * len(known.counts) < LARGEST_SUM
    number = np.int64 if fits else np.float64
    until = np.append(0, np.cumsum(records.position[order])).astype(number)
    rank, s, whole = records.position[small].astype(number), sizes[judged], total[superset]

    def summed(at: NDArray[np.int64]) -> NDArray[np.number]:
        """Return the sum of the positions from the begin of the group to a place, in units of 1 / s."""
        full = begin[superset] + at // s
        last = np.minimum(full, len(order) - 1)
        part = (at % s).astype(number) * records.position[order[last]]
        return np.asarray(s * (until[full] - until[begin[superset]]) + part)

    low = whole * (np.arange(len(small)) - starts[judged])
    high = low + whole
    # The record itself stands in the group: no earlier position is greater, no later position is less. So the
    # sign of the difference turns at its place.
    turn = np.clip(s * (place[small] - begin[superset]), low, high)
    area = rank * (2 * turn - low - high) + summed(low) + summed(high) - 2 * summed(turn)
    size, other = sizes.astype(np.float64), total[superset[starts]].astype(np.float64)
    return np.asarray(np.add.reduceat(area, starts) / (size * other * known.scale))


def _tree(records: _Records, group: NDArray[np.int64], known: Reference) -> NDArray[np.float64]:
    """Return the EMD of each judged class from its group on a tree, summed over the edges of every level."""
    m, total = len(known.counts), np.bincount(group)
    _, sizes, starts = _judged(records)
    superset = group[records.small[starts]]
    height = len(known.edges.nodes) // m
    by_group, ends = members(group)
    area = height * sizes * total[superset]
    for level in range(height):
        node = known.edges.nodes[level * m + records.position]
        inside = class_histograms(node[records.small], np.append(starts, len(records.small)))
        around = class_histograms(node[by_group], ends)
        judged = np.repeat(np.arange(len(sizes)), np.diff(inside.starts))
        key = np.repeat(np.arange(len(total)), np.diff(around.starts)) * m + around.values
        below = around.weights[np.searchsorted(key, superset[judged] * m + inside.values)]
        untouched = sizes[judged] * below
        change = np.abs(total[superset[judged]] * inside.weights - untouched) - untouched
        area += np.add.reduceat(change, inside.starts[:-1])
    return np.asarray(area / (sizes * total[superset] * float(known.scale)))


def _judged(records: _Records) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the judged class of each record, the sizes of the judged classes, and where each begins."""
    _, starts, judged = np.unique(records.labels[records.small], return_index=True, return_inverse=True)
    return judged, np.diff(np.append(starts, len(records.small))), starts
