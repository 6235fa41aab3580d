"""Mondrian: the table is cut at medians, and each part again, while both sides keep k and the thresholds.

LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE 2006, section 4. With t as a
condition of every cut: Li, Li and Venkatasubramanian, "Closeness: a new privacy measure for data publishing",
IEEE TKDE 22(7), 2010, as Soria-Comas et al., IEEE TKDE 27(11), 2015, section 2, quote it. Steps:
docs/methods/generalization.md.

Guarantee: every class has k records or more. Every threshold is satisfied if one class of all records
satisfies it. Without thresholds a relaxed class has at most 2k-1 records, a strict class at most 2 d (k-1) +
m, where m is the largest number of equal records (Theorems 3 and 2 of the paper).

Reading of what the paper leaves open:

- The widest column has the greatest range on the scale of the points; of several columns the first. On
  'minmax' this is the range over the range in the table.
- A strict cut sends the values at most the median to the left, or the values below the median. The cut with
  the less unequal sides comes first; of two equally unequal cuts the cut whose sides are farther apart, then
  the former cut. If the first cut is not allowed, the other cut is tried. Theorem 2 needs both cuts: with the
  former alone, as in the pseudo-code, a part is not cut where half of its records have its greatest value.
- The left side of a relaxed cut is the larger side where the sides differ. Of the records with the median
  value, the left side takes the records that are least in the next widest column, of equal records in the
  column after that, in the end by record number. Columns without a range are cut, too, after all others.
- A column with a hierarchy is as wide as the lowest node above all values of the part. It is cut between two
  branches below the highest node that leaves k records on both sides, nearest to the middle. If that is not
  allowed, it is cut between the two values nearest to the middle. A relaxed cut divides a value only after
  that.

Cost: parts are stretches of all columns, which a cut divides in place. The records of a part also stand in
the order of every sensitive attribute, so the values of both sides are counted in one pass. A level costs O(n
(d + S)), and every cut that a threshold forbids O(n S). That is O(n (d + S) log n) where few cuts are
forbidden and no value is so frequent that sides are very unequal. O(n (d + S)) memory. Verdicts are those of
`Threshold`.
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
    """Return classes of k records or more by Mondrian: those of a left side before those of the right side.

    `codes` (n,) are dense ranks for each threshold, else ValueError; `trees` are the hierarchies of columns
    whose points are places; `stop` ends the cuts after a level. Source: LeFevre et al. 2006; readings and
    cost: top of the module.
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
