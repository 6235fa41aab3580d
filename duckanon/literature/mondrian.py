"""Mondrian: the table is cut at medians, and each part again, as long as both sides keep what is asked.

LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE 2006, section 4; with t as a
condition of every cut: Li, Li and Venkatasubramanian, "Closeness: a new privacy measure for data publishing",
IEEE TKDE 22(7), 2010, as Soria-Comas et al., IEEE TKDE 27(11), 2015, section 2, quote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import rules_of
from duckanon.kernels.points import check_class_size, distance_points, squared_points
from duckanon.literature.parts import divide, parts_of, positions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.literature.parts import ColumnTree


def mondrian(
    points: ArrayLike,
    k: int,
    *,
    codes: Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    relaxed: bool = False,
    trees: Mapping[int, ColumnTree] | None = None,
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes of at least k records by Mondrian.

    A part of the table, at first all of it, is cut at the median of its widest column. A cut is allowed where
    both sides have k records and satisfy every threshold; if the widest column allows none, the next widest
    is tried, and a part that no column can cut is a class. Strict: all records with one value of the column
    go to one side. Relaxed: those with the median value are divided, so that the sides are equally large.

    Parameters
    ----------
    points, k
        See `duckanon.literature`.
    codes : sequence of S array_like of shape (n,), int
        Value codes of sensitive attributes, dense ranks.
    thresholds : sequence of S Threshold
        What every class must satisfy, with t, l or both. Their reference may be a larger table.
    relaxed : bool
        Whether the records with the median value may be divided.
    trees : mapping from int to ColumnTree, optional
        Columns of the points that hold places in a hierarchy, and that hierarchy.
    stop : callable, optional
        Asked after each level: True leaves the parts as they are, which keep k and the thresholds.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1 in the order of the cuts: all of a left side come before those of the
        right one. Every size is at least k, and every threshold is satisfied if one class of all records
        satisfies it. Without thresholds a relaxed class has at most 2k-1 records, a strict one at most
        2 d (k-1) + m, where m is the largest number of equal records (Theorems 3 and 2 of the paper).

    Raises
    ------
    ValueError
        If the codes are not one a record for each threshold, or not those that its reference counts.

    Notes
    -----
    What the paper leaves open is read thus. The widest column is the one with the greatest range on the scale
    of the points, of several the first: on 'minmax' that is the range over the range in the table. A strict
    cut is the one of the two around the median (at most it, or less than it, goes left) with the less unequal
    sides, of two the one whose sides are farther apart, then the former; if that is not allowed, the other
    one. Theorem 2 needs both: with the former alone, as in the pseudo-code, no part would be cut whose
    greatest value is that of half its records. The left side of a relaxed cut is the greater one where they
    differ; of the records with the median value it takes those that are least in the next widest column, of
    equal ones in the next one, in the end by record number; after all others, columns without a range are
    cut, too.

    A column with a hierarchy is as wide as the lowest node above all of the part. It is cut between two
    branches below the highest node that leaves k records on both sides, nearest to the middle; if that is not
    allowed, between the two values nearest to the middle. A relaxed cut divides a value only after that.

    Parts are stretches of all columns, which a cut divides in place; the records of each also stand in the
    order of every sensitive attribute, so that the values of both sides are counted in one pass. A level
    costs O(n (d + S)), and O(n S) for every cut that a threshold forbids: O(n (d + S) log n) where few are
    forbidden and no value is so frequent that sides are very unequal. O(n (d + S)) memory. Deterministic;
    verdicts as of `Threshold`.

    Examples
    --------
    >>> mondrian([[0.0], [9.0], [1.0], [8.0]], 2).tolist()
    [0, 1, 0, 1]
    >>> mondrian([[0.0], [3.0], [3.0], [3.0]], 2).tolist()
    [0, 0, 0, 0]
    >>> mondrian([[0.0], [3.0], [3.0], [3.0]], 2, relaxed=True).tolist()
    [0, 0, 1, 1]
    """
    matrix = squared_points(points) if trees else distance_points(points)
    n = len(matrix)
    check_class_size(n, k)
    parts = parts_of(matrix, positions_of(codes, thresholds, n), trees or {})
    rules = rules_of(thresholds)
    nodes = np.array([[0, n]])
    while len(nodes) and not (stop is not None and stop()):
        nodes = divide(parts, rules, nodes, k, relaxed)
    for first, last in nodes.tolist():
        parts.begin[parts.record[first:last]] = first
    begins = np.zeros(n, np.int64)
    begins[parts.begin] = 1
    return np.asarray(np.cumsum(begins)[parts.begin] - 1)
