"""DBA: density-based microaggregation, the densest neighbourhood first.

Lin, Wen, Hsieh and Chang, "Density-based microaggregation for statistical disclosure control", Expert Systems
with Applications 37(4), 2010; described in Kabir et al., section IV. The original was not at hand. What the
description leaves open is read so that all twelve published figures of DBA-1 and of DBA-2 come out to the
last digit:

- The distances in a density are squared, and to the centroid of the neighbourhood, not to the record.
- Densities follow the records that still have no class.
- Centroids are not updated while the last records join.
- DBA-2 dissolves classes in the reverse order of formation. On the data of these figures the order by
  descending sum of squared errors, as in MDAV-2, gives the same classes.

Equal densities go to the lowest record number. Sums of squares run by column, then by record number.

Cost: a density is computed anew only when its neighbourhood has lost a record. That is n^2 looks at records
of neighbourhoods, and a search among the records left for each new density: 2 n to 6 n searches in all on the
reference data, k = 3 to 10. A search is a scan in many columns and uses a tree in few. O(n (d + k)) memory.
Dissolving adds O(n^2 / k) distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.divide import partitioned
from duckanon.kernels.first.mdav import mdav1
from duckanon.kernels.first.one_by_one import Formation, form, formation_of, join_nearest, k_neighbourhood
from duckanon.kernels.points import distance_points
from duckanon.literature.dissolve import dissolved

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def dba1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by DBA-1.

    Source: Lin et al. 2010, first stage. Readings and cost: top of the module; steps:
    docs/methods/data-oriented.md.
    """
    return _dba1(distance_points(points), k)


def dba2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by DBA-2: DBA-1, `dissolved`, MDAV-1 in classes of 2k or more.

    Labels: the classes left of DBA-1, then the further parts of large classes.
    Source: Lin et al. 2010, both stages. Readings and cost: top of the module.
    """
    matrix = distance_points(points)
    labels = _dba1(matrix, k)
    labels = dissolved(matrix, labels, np.arange(labels.max(), -1, -1))
    return partitioned(matrix, labels, k, mdav1)


def _dba1(points: NDArray[np.float64], k: int, leaf_size: int | None = None) -> NDArray[np.int64]:
    """Return the classes of checked points."""
    state = formation_of(points, k, leaf_size)
    n = len(points)
    _run(state, np.empty((n, k), np.int64), np.empty(n))
    return state.labels


@compiled
def _run(state: Formation, neighbourhoods: NDArray[np.int64], spreads: NDArray[np.float64]) -> None:
    """Form all classes; `neighbourhoods` and `spreads` are memory for neighbourhoods and 1 / density."""
    k = neighbourhoods.shape[1]
    for record in range(len(neighbourhoods)):
        _renew(state, record, neighbourhoods[record], spreads)
    while True:
        form(state, _densest(state.labels, spreads), k)
        if state.tree.left[0] < k:
            break
        for record in range(len(neighbourhoods)):
            if state.labels[record] < 0 and _lost(state.labels, neighbourhoods[record]):
                _renew(state, record, neighbourhoods[record], spreads)
    if state.tree.left[0] > 0:
        join_nearest(state)


@compiled
def _renew(
    state: Formation, record: int, neighbourhood: NDArray[np.int64], spreads: NDArray[np.float64]
) -> None:
    """Write the neighbourhood of a record, by number, and its sum of squared distances to the centroid."""
    k_neighbourhood(state, record, neighbourhood)
    total = 0.0
    # Column by column, so that no centroid needs memory of its own.
    for j in range(state.points.shape[1]):
        centre = 0.0
        for other in neighbourhood:
            centre += state.points[other, j]
        centre /= len(neighbourhood)
        for other in neighbourhood:
            difference = state.points[other, j] - centre
            total += difference * difference
    spreads[record] = total


@compiled
def _densest(labels: NDArray[np.int64], spreads: NDArray[np.float64]) -> int:
    """Return the record without a class whose neighbourhood is densest; the lowest of several."""
    best, least = -1, np.inf
    for record in range(len(labels)):
        if labels[record] < 0 and (best < 0 or spreads[record] < least):
            best, least = record, spreads[record]
    return best


@compiled
def _lost(labels: NDArray[np.int64], neighbourhood: NDArray[np.int64]) -> bool:
    """Tell whether a record of the neighbourhood has a class by now."""
    lost = False
    for other in neighbourhood:
        if labels[other] >= 0:
            lost = True
    return lost
