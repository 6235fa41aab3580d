"""DBA, MDAV-2 and TFRP: methods that dissolve classes where that loses less, and divide large classes.

Lin, Wen, Hsieh and Chang, "Density-based microaggregation for statistical disclosure control", Expert Systems
with Applications 37(4), 2010 (DBA, the densest neighbourhood first, and MDAV-2), and Chang, Li and Huang,
"TFRP: An efficient microaggregation algorithm for statistical disclosure control", Journal of Systems and
Software 80(11), 2007 (two fixed reference points); described in Kabir et al., section IV. The originals were
not at hand. What the description leaves open is read so that the published figures come out. Steps:
docs/methods/data-oriented.md.

Dissolving, in `dissolved`: each class is tried once, in a given order, with the records that it has at its
turn. On trial each of its records, by number, goes to the other class whose centroid is nearest, the lowest
of equally near classes. No centroid moves until the trial is over. If the sum of squared errors of the whole
partition is then strictly lower, the records stay in their new classes; otherwise nothing changes. A class of
more than `limit` records, those on trial included, takes no further record. O(n m) distances for m classes,
O(m d) memory.

MDAV-2: Kabir et al. give the order of trials for DBA-2, the reverse of formation, and no order for MDAV-2. By
descending sum of squared errors eleven of the twelve published figures come out to the last digit, in the
reverse order none. The twelfth, Tarragona at k = 3, is printed as 16.38261429 and comes out as 16.68261429:
one digit, probably a misprint. O(n^2 / k) distances.

DBA: all twelve published figures of DBA-1 and of DBA-2 come out to the last digit.

- The distances in a density are squared, and to the centroid of the neighbourhood, not to the record.
- Densities follow the records that still have no class.
- Centroids are not updated while the last records join.
- DBA-2 dissolves classes in the reverse order of formation. On the data of these figures the order by
  descending sum of squared errors, as in MDAV-2, gives the same classes.

Equal densities go to the lowest record number. Sums of squares run by column, then by record number. A
density is computed anew only when its neighbourhood has lost a record. That is n^2 looks at records of
neighbourhoods, and a search among the records left for each new density: 2 n to 6 n searches in all on the
reference data, k = 3 to 10. A search is a scan in many columns and uses a tree in few. O(n (d + k)) memory.

TFRP: all published figures come out to the last digit.

- First phase: the reference points have one minimum and one maximum of all columns together, not of each
  column. Centroids are not updated while the last records join. For EIA the figures are those of the ten
  revenue and sales columns, without UTILITYID.
- Second phase: the order of trials, by descending sum of squared errors, and the partition of large classes
  by the first phase, with reference points of their own, are not in the description. On these data no class
  grows to 4k records, so the figures do not show how the limit of 4k-1 is meant.

O(n^2 / k) distances at worst. The paper sorts the distances to the reference points beforehand; searching for
the farthest record each time gives the same classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.first.mdav import (
    Formation,
    form,
    formation_of,
    join_nearest,
    k_neighbourhood,
    mdav1,
    partitioned,
)
from duckanon.kernels.loss import class_means
from duckanon.kernels.neighbours.boxtree import farthest
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def mdav2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by MDAV-2: MDAV-1, `dissolved`, MDAV-1 in classes of 2k or more."""
    # Labels: the classes left of MDAV-1, then the further parts of large classes.
    matrix = distance_points(points)
    labels = mdav1(matrix, k)
    labels = dissolved(matrix, labels, least_homogeneous_first(matrix, labels))
    return partitioned(matrix, labels, k, mdav1)


def least_homogeneous_first(points: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes by descending sum of squared errors; the lowest first of equal ones. O(n d)."""
    deviation = points - class_means(points, labels)[labels]
    errors = np.bincount(labels, weights=np.sum(deviation * deviation, axis=1))
    return np.argsort(-errors, kind="stable").astype(np.int64)


def dissolved(
    points: NDArray[np.float64], labels: NDArray[np.int64], order: NDArray[np.int64], limit: int | None = None
) -> NDArray[np.int64]:
    """Return the classes (n,) left after dissolving, in their order; no class left is smaller than before.

    `order` (m,) lists the classes to try. A class of more than `limit` records takes no further record.
    """
    m, d = int(labels.max()) + 1, points.shape[1]
    sums, sizes, left = np.zeros((m, d)), np.zeros(m, np.int64), labels.copy()
    classes = _Classes(left, sizes, sums, np.zeros((m, d)), sizes.copy(), sums.copy())
    _run_trials(
        np.ascontiguousarray(points),
        classes,
        np.ascontiguousarray(order),
        len(points) if limit is None else limit,
    )
    return np.unique(left, return_inverse=True)[1].astype(np.int64)


class _Classes(NamedTuple):
    """m classes, and what they become by the trial under way."""

    labels: NDArray[np.int64]  # (n,) class of each record
    sizes: NDArray[np.int64]  # (m,) records of each class; 0 for a dissolved class
    sums: NDArray[np.float64]  # (m, d) sum of the records of each class
    centres: NDArray[np.float64]  # (m, d) mean of the records of each class
    tried_sizes: NDArray[np.int64]  # (m,) sizes with the records on trial
    tried_sums: NDArray[np.float64]  # (m, d) sums with the records on trial


@compiled
def _run_trials(points: NDArray[np.float64], classes: _Classes, order: NDArray[np.int64], limit: int) -> None:
    """Fill sizes and sums, then try the classes."""
    for record in range(len(points)):
        label = classes.labels[record]
        classes.tried_sizes[label] += 1
        for j in range(points.shape[1]):
            classes.tried_sums[label, j] += points[record, j]
    for label in range(len(classes.sizes)):
        _keep(classes, label)
    for label in order:
        _try(points, classes, label, limit)


@compiled
def _try(points: NDArray[np.float64], classes: _Classes, label: int, limit: int) -> None:
    """Dissolve the class if that lowers the sum of squared errors."""
    members = np.flatnonzero(classes.labels == label)
    targets = np.empty(len(members), np.int64)
    errors = gain = 0.0
    for i, record in enumerate(members):
        targets[i] = _nearest_class(classes, points[record], label, limit)
        if targets[i] < 0:
            gain = -np.inf
            targets = targets[:i]
            break
        errors += _distance(points[record], classes.sums[label], classes.sizes[label])
        gain -= _join(classes, targets[i], points[record])
    if errors + gain > 0.0:
        for i in range(len(members)):
            classes.labels[members[i]] = targets[i]
            _keep(classes, targets[i])
        classes.sizes[label] = 0
    else:
        for i in range(len(targets)):
            _forget(classes, targets[i])


@compiled
def _nearest_class(classes: _Classes, point: NDArray[np.float64], current: int, limit: int) -> int:
    """Return the other class with the nearest centroid that may grow, the lowest of several; -1 for none."""
    best, least = -1, np.inf
    for label in range(len(classes.sizes)):
        if label == current or classes.sizes[label] == 0 or classes.tried_sizes[label] > limit:
            continue
        distance = 0.0
        for j in range(len(point)):
            difference = point[j] - classes.centres[label, j]
            distance += difference * difference
        if distance < least:
            best, least = label, distance
    return best


@compiled
def _distance(point: NDArray[np.float64], total: NDArray[np.float64], size: int) -> float:
    """Return the squared distance between a point and the mean of a class."""
    distance = 0.0
    for j in range(len(point)):
        difference = point[j] - total[j] / size
        distance += difference * difference
    return distance


@compiled
def _join(classes: _Classes, label: int, point: NDArray[np.float64]) -> float:
    """Add a point to a class for the trial; return the growth of the squared errors of the class."""
    size = classes.tried_sizes[label]
    distance = _distance(point, classes.tried_sums[label], size)
    classes.tried_sizes[label] = size + 1
    for j in range(len(point)):
        classes.tried_sums[label, j] += point[j]
    return float(distance * size / (size + 1))


@compiled
def _keep(classes: _Classes, label: int) -> None:
    """Make the trial sizes and sums of a class its own."""
    size = classes.sizes[label] = classes.tried_sizes[label]
    for j in range(classes.sums.shape[1]):
        classes.sums[label, j] = classes.tried_sums[label, j]
        classes.centres[label, j] = classes.sums[label, j] / size


@compiled
def _forget(classes: _Classes, label: int) -> None:
    """Undo what the trial added to a class."""
    classes.tried_sizes[label] = classes.sizes[label]
    for j in range(classes.sums.shape[1]):
        classes.tried_sums[label, j] = classes.sums[label, j]


def dba1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by DBA-1: Lin et al. 2010, first stage."""
    matrix = distance_points(points)
    state = formation_of(matrix, k)
    _run_dba1(state, np.empty((len(matrix), k), np.int64), np.empty(len(matrix)))
    return state.labels


def dba2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by DBA-2: DBA-1, `dissolved`, MDAV-1 in classes of 2k or more."""
    # Labels as those of `mdav2`.
    matrix = distance_points(points)
    labels = dba1(matrix, k)
    labels = dissolved(matrix, labels, np.arange(labels.max(), -1, -1))
    return partitioned(matrix, labels, k, mdav1)


@compiled
def _run_dba1(state: Formation, neighbourhoods: NDArray[np.int64], spreads: NDArray[np.float64]) -> None:
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
        join_nearest(state.points, state.labels, state.formed[0])


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


def tfrp1(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by the first phase of TFRP: Chang, Li and Huang 2007."""
    matrix = distance_points(points)
    state, d = formation_of(matrix, k), matrix.shape[1]
    _run_tfrp1(state, k, np.full(d, matrix.min()), np.full(d, matrix.max()))
    return state.labels


def tfrp2(points: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return classes of k..2k-1 records by TFRP: first phase, `dissolved`, first phase in large classes."""
    # Labels as those of `mdav2`.
    matrix = distance_points(points)
    labels = tfrp1(matrix, k)
    labels = dissolved(matrix, labels, least_homogeneous_first(matrix, labels), limit=4 * k - 1)
    return partitioned(matrix, labels, k, tfrp1)


@compiled
def _run_tfrp1(state: Formation, k: int, lowest: NDArray[np.float64], highest: NDArray[np.float64]) -> None:
    """Form all classes, by turns from the two reference points."""
    left = state.tree.left
    while left[0] >= k:
        form(state, farthest(state.tree, lowest), k)
        if left[0] >= k:
            form(state, farthest(state.tree, highest), k)
    if left[0] > 0:
        join_nearest(state.points, state.labels, state.formed[0])
