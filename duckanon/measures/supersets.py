"""(n, t)-closeness: a class may differ from the table if it is close to a large group that contains it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.histograms import class_histograms
from duckanon.kernels.closeness.reference import Distance, Reference, reference
from duckanon.kernels.loss import class_means
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.points import Scale, distance_points, scaled
from duckanon.measures.inputs import class_labels, column, members, policy_errors, ranked, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


LARGEST_SUM = 2**63
"""Sums below this one are whole numbers of 64 bits; greater ones are floats."""


class _Records(NamedTuple):
    """What does not depend on the grouping.

    Attributes
    ----------
    labels, position : ndarray of shape (n,), int64
        Class of each record, and the position of its value in the reference.
    sizes : ndarray of shape (m,), int64
        Records of each class.
    ascending : ndarray of shape (n,), int64
        All records by position.
    small : ndarray of shape (s,), int64
        The records of the classes to be judged, class by class and there by position.
    """

    labels: NDArray[np.int64]
    position: NDArray[np.int64]
    sizes: NDArray[np.int64]
    ascending: NDArray[np.int64]
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
    labels : array_like of shape (N,), int
        Class of each record, 0..m-1, no class empty; N >= 1.
    sensitive : array_like of shape (N,)
        Sensitive values or their codes: numbers, dates or text. NaN is a value, and so is None.
    n : int
        Least number of records of a natural superset, at least 1.
    groups : array_like of shape (N,) or (N, g), int, optional
        Natural supersets, in up to g groupings of the records: the number of the group of each record. Every
        group is a union of classes. `nested_groups` makes them from quasi-identifiers; other sources are
        the classes of a coarser generalization.
    distance : {'ordered', 'equal', 'hierarchical'}
        Ground distance of the EMD, on the values of the whole table, as in `emd`.
    paths : array_like, optional
        For 'hierarchical' only, as in `emd`.

    Returns
    -------
    ndarray of shape (m,), float64
        The least EMD between the class and a superset of at least n records; 0.0 for a class that has n
        records itself; infinity where not even the table has. The partition is (n, t)-close if the greatest
        is at most t.

    Raises
    ------
    PolicyError
        If an argument is unusable, or a class lies in two groups of a grouping.

    Notes
    -----
    O(g N log N) time, or O(g N (H + log N)) for a tree; exact but for the last rounding while 4 n N^2 < 2^63.
    Li, Li and Venkatasubramanian, "Closeness: a new privacy measure for data publishing", IEEE TKDE 22(7),
    2010: a class is (n, t)-close if some natural superset of it has at least n records and a distribution
    within t. Read so: natural supersets are the class itself, the groups given, and the whole table. Any
    other union of classes is none: one could be picked for its sensitive values. About 0.5 s of CPU time for
    each grouping of 1,000,000 records.

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
    points : array_like of shape (N, d), float
        Quasi-identifiers, one row a record; finite numbers.
    labels : array_like of shape (N,), int
        Class of each record, 0..m-1, no class empty.
    n : int
        Least number of records: groupings without a group of this size are left out; at least 1.
    scale : {'zscore', 'minmax', 'none'}
        Scale on which distances between points are taken.

    Returns
    -------
    ndarray of shape (N, g), int64
        Group of each record, from the finest grouping to the whole table in the last column; g <= 1 + log2 m.

    Raises
    ------
    PolicyError
        If points, labels, n or scale are unusable.

    Notes
    -----
    O(m d log^2 m + N (d + g)) time, deterministic. The classes are halved again and again at the median of
    their means in the widest coordinate, as Mondrian splits a table (LeFevre, DeWitt and Ramakrishnan, ICDE
    2006) and as the kd order does here; every node of this tree is a group. So the supersets of a class are
    its ancestors, as in a top-down anonymization.

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

    The two distributions are coupled in order: the j-th of the s records of a class faces the j-th of s equal
    parts of its group. In units of 1 / s records, group record i covers s i to s (i + 1). The record itself
    stands in the group: before it no position is greater, after it none is less, so the sign turns there.
    """
    order = records.ascending[np.argsort(group[records.ascending], kind="stable")]
    total = np.bincount(group)
    begin = np.append(0, np.cumsum(total))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    small, superset = records.small, group[records.small]
    judged, sizes, starts = _judged(records)
    # Whole numbers where the largest sum fits, for the difference of two of them is small.
    fits = 4 * int(sizes.max()) * int(total.max()) * len(known.counts) < LARGEST_SUM
    number = np.int64 if fits else np.float64
    until = np.append(0, np.cumsum(records.position[order])).astype(number)
    rank, s, whole = records.position[small].astype(number), sizes[judged], total[superset]

    def summed(at: NDArray[np.int64]) -> NDArray[np.number]:
        """Return the sum of the positions from the begin of the group up to a place in units of 1 / s."""
        full = begin[superset] + at // s
        last = np.minimum(full, len(order) - 1)
        part = (at % s).astype(number) * records.position[order[last]]
        return np.asarray(s * (until[full] - until[begin[superset]]) + part)

    low = whole * (np.arange(len(small)) - starts[judged])
    high = low + whole
    turn = np.clip(s * (place[small] - begin[superset]), low, high)
    area = rank * (2 * turn - low - high) + summed(low) + summed(high) - 2 * summed(turn)
    size, other = sizes.astype(np.float64), total[superset[starts]].astype(np.float64)
    return np.asarray(np.add.reduceat(area, starts) / (size * other * known.scale))


def _tree(records: _Records, group: NDArray[np.int64], known: Reference) -> NDArray[np.float64]:
    """Return the EMD of each judged class from its group on a tree: the edges above every node of a level."""
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
    """Return, of the judged classes: which one each record is in, their sizes, and where each begins."""
    _, starts, judged = np.unique(records.labels[records.small], return_index=True, return_inverse=True)
    return judged, np.diff(np.append(starts, len(records.small))), starts
