"""MDAV-generic and CBFS: two siblings of MDAV.

MDAV-generic is MDAV with the threshold 3k, so that no record is left over. Domingo-Ferrer and Torra,
"Ordinal, continuous and heterogeneous k-anonymity through microaggregation", Data Mining and Knowledge
Discovery 11(2), 2005; the thresholds also in Solanas, "Privacy protection with genetic algorithms", 2008.
Left open there: the second seed is searched among the records that the class of the first leaves.
`duckanon.kernels.first.mdav.mdav` reads it so, and its published figures come out.

CBFS is centroid-based fixed-size microaggregation, one class a round. Laszlo and Mukherjee, "Minimum spanning
tree partitioning algorithm for microaggregation", IEEE TKDE 17(7), 2005. Left open there: the last records
compare with the centroids of the classes as formed, so the order of these records does not matter.

Both take O(n^2 / k) distances at worst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.one_by_one import (
    Formation,
    farthest_from_centroid,
    form,
    formation_of,
    join_nearest,
)
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def mdav_generic(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k records, the last of k..2k-1, by MDAV-generic.

    Source: Domingo-Ferrer and Torra 2005. Steps: docs/methods/fixed-size.md.
    """
    return _mdav_generic(distance_points(points), k)


def cbfs(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by centroid-based fixed-size microaggregation.

    Source: Laszlo and Mukherjee 2005. Steps: docs/methods/fixed-size.md.
    """
    return _cbfs(distance_points(points), k)


def _mdav_generic(points: NDArray[np.float64], k: int, *, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    _run_mdav_generic(state, k)
    return state.labels


@compiled
def _run_mdav_generic(state: Formation, k: int) -> None:
    """Form all classes."""
    left = state.tree.left
    while left[0] >= 3 * k:
        r = farthest_from_centroid(state)
        form(state, r, k)
        form(state, farthest(state.tree, state.points[r]), k)
    if left[0] >= 2 * k:
        form(state, farthest_from_centroid(state), k)
    form(state, farthest_from_centroid(state), left[0])


def _cbfs(points: NDArray[np.float64], k: int, *, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    _run_cbfs(state, k)
    return state.labels


@compiled
def _run_cbfs(state: Formation, k: int) -> None:
    """Form all classes."""
    while state.tree.left[0] >= k:
        form(state, farthest_from_centroid(state), k)
    if state.tree.left[0] > 0:
        join_nearest(state)
