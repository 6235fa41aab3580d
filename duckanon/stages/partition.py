"""Partition: the kernels label every record with its class, tile after tile, and repair by merging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.loss import information_loss
from duckanon.kernels.mdav import mdav, mdav1
from duckanon.kernels.merge import class_members, merge_classes
from duckanon.kernels.tcloseness_first import class_size, stratified
from duckanon.stages.bucket import TILE, stream
from duckanon.stages.embed import coordinates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.threshold import Threshold
    from duckanon.policy import Policy
    from duckanon.stages.bucket import Bucketed, Records
    from duckanon.stages.embed import Embedded
    from duckanon.stages.stage import Staged


@dataclass(frozen=True)
class Plan:
    """What is done in every tile.

    Attributes
    ----------
    method : str
        Kernel: ``mdav``, ``mdav1``, ``tcloseness_first``.
    size : int
        Smallest class it makes.
    repair : {'efficient', 'nearest', None}
        How classes that miss a threshold are merged afterwards; None for a method without repair.
    why : str
        Reason for the choice, for EXPLAIN and the report.
    """

    method: str
    size: int
    repair: Literal["efficient", "nearest"] | None
    why: str


@dataclass(frozen=True)
class Classes:
    """Classes as sums, so that merging and losses need no record again.

    Attributes
    ----------
    sums : ndarray of shape (m, d), float64
        Sum of the coordinates of each class.
    squares : ndarray of shape (m,), float64
        Sum of the squared coordinates.
    sizes : ndarray of shape (m,), int64
        Records.
    """

    sums: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partitioned:
    """Labels of all records before repair.

    Attributes
    ----------
    labels : ndarray of shape (n,), int64
        Class of record_id 1, 2, ...
    codes : ndarray of shape (s, n), int64
        Codes of the sensitive columns with a threshold.
    classes : Classes
        Their sums.
    plan : Plan
        What was done.
    """

    labels: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    classes: Classes
    plan: Plan


def partition(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    bucketed: Bucketed,
    *,
    policy: Policy,
    thresholds: Sequence[Threshold],
) -> Partitioned:
    """Labels of all records, k or more in every class; thresholds of t and l are not repaired yet.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    staged, embedded, bucketed : Staged, Embedded, Bucketed
        Results of the stages before.
    policy : Policy
        k and method.
    thresholds : sequence of Threshold
        What every class must satisfy in the end.

    Returns
    -------
    Partitioned
        Labels, codes and class sums.

    Notes
    -----
    O(n TILE d / k) for the exact kernels. Tiles are independent, the result does not depend on threads.
    """
    labels = np.full(staged.size, -1, dtype=np.int64)
    codes = np.zeros((len(bucketed.codes), staged.size), dtype=np.int64)
    parts: list[Classes] = []
    count = _place(labels, codes, bucketed.ready, bucketed.ready_labels, 0)
    parts.append(_sums(coordinates(embedded.axes, bucketed.ready.columns), bucketed.ready_labels))
    plan = choose_plan(con, embedded, bucketed, policy, thresholds)
    for records in stream(con, embedded, bucketed):
        points = coordinates(embedded.axes, records.columns)
        local = tile_labels(points, records.codes, plan)
        count = _place(labels, codes, records, local, count)
        parts.append(_sums(points, local))
    joined = [
        np.concatenate([getattr(part, name) for part in parts]) for name in Classes.__dataclass_fields__
    ]
    return Partitioned(labels, codes, Classes(*joined), plan)


def choose_plan(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    bucketed: Bucketed,
    policy: Policy,
    thresholds: Sequence[Threshold],
) -> Plan:
    """Method and class size for all tiles.

    A method chosen by name is taken as it is. For ``auto`` without t and l it is exact MDAV; with them the
    candidates (MDAV, and Algorithm 3 with one, two and four times the class size of its Eq. 3) are run and
    repaired on the middle tile, and the one that loses the least information is taken.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    embedded, bucketed : Embedded, Bucketed
        Results of the stages before.
    policy : Policy
        k, t and method.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    Plan
        What every tile gets.
    """
    size = stratum_size(bucketed.open_size, policy, thresholds)
    if policy.method != "auto":
        return _named(policy, size)
    if not thresholds or not bucketed.tile_count:
        return Plan("mdav", policy.k, "efficient", "only k is asked for: exact MDAV in every tile")
    sizes = sorted({min(size * factor, max(TILE // 4, policy.k)) for factor in (1, 2, 4)})
    candidates = [
        Plan("mdav", policy.k, "efficient", ""),
        *(Plan("tcloseness_first", s, "efficient", "") for s in sizes),
    ]
    middle = bucketed.tile_count // 2
    (records,) = stream(con, embedded, bucketed, only=middle)
    points = coordinates(embedded.axes, records.columns)
    losses = [repaired(points, records.codes, plan, thresholds)[1] for plan in candidates]
    best = int(np.argmin(losses))
    chosen = candidates[best]
    why = (
        f"least loss of {len(candidates)} candidates (mdav, then tcloseness_first with classes of "
        f"{', '.join(str(s) for s in sizes)}), each repaired, on a tile of {len(points)} records"
    )
    return Plan(chosen.method, chosen.size, chosen.repair, why)


def stratum_size(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Class size with which one record of each stratum comes close to the thresholds.

    Parameters
    ----------
    n : int
        Number of records.
    policy : Policy
        k.
    thresholds : sequence of Threshold
        Their smallest t goes into Eq. 3 and 4 of Soria-Comas 2015; a class needs l records for l values.

    Returns
    -------
    int
        At least k; at most a quarter of a tile, since merging does the rest.
    """
    tight = [threshold.t for threshold in thresholds if threshold.t is not None]
    diverse = max(
        [policy.k, *(int(-(-threshold.l // 1)) for threshold in thresholds if threshold.l is not None)]
    )
    size = class_size(max(n, diverse), diverse, min(tight)) if tight else diverse
    return int(max(policy.k, min(size, TILE // 4)))


def tile_labels(
    points: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], plan: Plan
) -> npt.NDArray[np.int64]:
    """Labels of the records of one tile, before repair.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        Coordinates.
    codes : ndarray of shape (s, n), int64
        Sensitive codes; the strata follow their lexicographic order.
    plan : Plan
        Kernel and class size.

    Returns
    -------
    ndarray of shape (n,), int64
        Labels 0..m-1.
    """
    if plan.method == "mdav":
        return mdav(points, min(plan.size, len(points)))
    if plan.method == "mdav1":
        return mdav1(points, min(plan.size, len(points)))
    order = np.empty(len(points), dtype=np.int64)
    order[np.lexsort(codes[::-1])] = np.arange(len(points))
    return stratified(points, order, min(plan.size, len(points)))


def _named(policy: Policy, size: int) -> Plan:
    why = "chosen by name"
    if policy.method == "tcloseness_merge":
        return Plan("mdav", policy.k, "nearest", why)
    if policy.method == "tcloseness_first":
        return Plan("tcloseness_first", size, None, why)
    return Plan(policy.method, policy.k, None, why)


def repaired(
    points: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], plan: Plan, thresholds: Sequence[Threshold]
) -> tuple[int, float]:
    """Classes and loss of a plan on some records, after repair: a trial.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        Coordinates.
    codes : ndarray of shape (s, n), int64
        Sensitive codes.
    plan : Plan
        What to try.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    tuple of int and float
        Number of classes, and IL in per cent.
    """
    labels = tile_labels(points, codes, plan)
    classes = _sums(points, labels)
    offsets, members = class_members(labels, codes)
    centroids = classes.sums / classes.sizes[:, None]
    merged = merge_classes(
        centroids, classes.sizes, members, offsets, thresholds, partner=plan.repair or "efficient"
    )
    return int(merged.max()) + 1, information_loss(points, merged[labels])


def _place(
    labels: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    records: Records,
    local: npt.NDArray[np.int64],
    first: int,
) -> int:
    labels[records.record_id - 1] = local + first
    codes[:, records.record_id - 1] = records.codes
    return first + (int(local.max()) + 1 if len(local) else 0)


def _sums(points: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> Classes:
    sizes = np.bincount(labels).astype(np.int64) if len(labels) else np.zeros(0, dtype=np.int64)
    sums = np.zeros((len(sizes), points.shape[1]))
    for axis in range(points.shape[1] if len(labels) else 0):
        sums[:, axis] = np.bincount(labels, weights=points[:, axis], minlength=len(sizes))
    norms = (points**2).sum(axis=1)
    squares = np.zeros(len(sizes))
    np.add.at(squares, labels, norms)
    return Classes(sums, squares, sizes)
