"""M-d: microaggregation by a minimum spanning tree, whose large clusters are divided by diameters.

Laszlo and Mukherjee, "Minimum spanning tree partitioning algorithm for microaggregation", IEEE TKDE 17(7),
2005; named in Kabir et al., section IV, who quote its information losses in Tables VI and VII. The original
was not at hand. Steps: docs/methods/fixed-size.md.

Ties: of equally long edges, the edge with the lowest record is in the tree, and is tried for a cut, first;
then the edge whose other end is lower. Equal distances in a cluster are decided as in
`duckanon.literature.maximum_distance`.

The description at hand leaves open how the division of a large cluster ends. Eight ends were compared: from
2k or 3k records on; four ways to seed the last class, four to let the last records join. The end chosen comes
nearest to the eight published figures: four of them to two digits (Tarragona at k = 3 and 4, Census at 5 and
10), all within 0.32 %.

O(n^2) distances for the tree, each pair once and without a matrix. O(n) steps a cut at worst, as a rule far
fewer. The division costs what maximum distance costs in the clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.divide import partitioned
from duckanon.kernels.first.one_by_one import Formation, farthest_from_centroid, form, formation_of
from duckanon.kernels.first.spanning_tree import clusters, spanning_tree
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.literature.maximum_distance import Reach, most_distant, reach_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def m_d(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by M-d.

    Labels: the clusters by lowest record (of a divided cluster its first class), then all further classes.
    Source: Laszlo and Mukherjee 2005. Ties, reading and cost: top of the module.
    """
    matrix = distance_points(points)
    check_class_size(len(matrix), k)
    return partitioned(matrix, clusters(spanning_tree(matrix), k), k, _diameter)


def _diameter(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of a cluster."""
    state = formation_of(points, k, leaf_size)
    _divide(state, reach_of(state), k)
    return state.labels


@compiled
def _divide(state: Formation, reach: Reach, k: int) -> None:
    """Form all classes of a cluster of 2k or more records."""
    left = state.tree.left
    while left[0] >= 3 * k:
        r = most_distant(state, reach)
        form(state, r, k)
        # As in maximum distance: as far from r as its partner, even if the class of r takes that partner.
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= 2 * k:
        form(state, most_distant(state, reach), k)
    form(state, farthest_from_centroid(state), left[0])
