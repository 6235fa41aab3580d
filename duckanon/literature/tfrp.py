"""TFRP: microaggregation from two fixed reference points.

Chang, Li and Huang, "TFRP: An efficient microaggregation algorithm for statistical disclosure control",
Journal of Systems and Software 80(11), 2007; described in Kabir et al., section IV. The original was not at
hand. What the description leaves open is read so that all published figures come out to the last digit.
Steps: docs/methods/data-oriented.md.

- First phase: the reference points have one minimum and one maximum of all columns together, not of each
  column. Centroids are not updated while the last records join. For EIA the figures are those of the ten
  revenue and sales columns, without UTILITYID.
- Second phase: the order of trials, by descending sum of squared errors, and the partition of large classes
  by the first phase, with reference points of their own, are not in the description. All twelve published
  figures come out. On these data no class grows to 4k records, so the figures do not show how the limit of
  4k-1 is meant.

O(n^2 / k) distances at worst. The paper sorts the distances to the reference points beforehand; searching for
the farthest record each time gives the same classes. Dissolving adds O(n^2 / k) distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.divide import partitioned
from duckanon.kernels.first.one_by_one import Formation, form, formation_of, join_nearest
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import distance_points
from duckanon.literature.dissolve import dissolved, least_homogeneous_first

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def tfrp1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by the first phase of TFRP.

    Source: Chang, Li and Huang 2007, first stage. Readings and cost: top of the module.
    """
    return _tfrp1(distance_points(points), k)


def tfrp2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by TFRP: first phase, `dissolved`, first phase in large classes.

    Labels: the classes left of the first phase, then the further parts of large classes.
    Source: Chang, Li and Huang 2007, both stages. Readings and cost: top of the module.
    """
    matrix = distance_points(points)
    labels = _tfrp1(matrix, k)
    labels = dissolved(matrix, labels, least_homogeneous_first(matrix, labels), limit=4 * k - 1)
    return partitioned(matrix, labels, k, tfrp1)


def _tfrp1(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    d = points.shape[1]
    _run(state, k, np.full(d, points.min()), np.full(d, points.max()))
    return state.labels


@compiled
def _run(state: Formation, k: int, lowest: NDArray[np.float64], highest: NDArray[np.float64]) -> None:
    """Form all classes, by turns from the two reference points."""
    left = state.tree.left
    while left[0] >= k:
        form(state, farthest(state.tree, lowest), k)
        if left[0] >= k:
            form(state, farthest(state.tree, highest), k)
    if left[0] > 0:
        join_nearest(state)
