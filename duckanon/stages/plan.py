"""Plan: which kernel every tile gets, and with which class size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.loss import information_loss
from duckanon.kernels.mdav import mdav, mdav1
from duckanon.kernels.merge import class_members, merge_classes
from duckanon.kernels.tcloseness_first import class_size, stratified
from duckanon.stages.bucket import TILE, stream
from duckanon.stages.classes import sums_of
from duckanon.stages.embed import coordinates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.threshold import Threshold
    from duckanon.policy import Policy
    from duckanon.stages.bucket import Bucketed
    from duckanon.stages.embed import Embedded


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
    classes = sums_of(points, labels)
    offsets, members = class_members(labels, codes)
    centroids = classes.sums / classes.sizes[:, None]
    merged = merge_classes(
        centroids, classes.sizes, members, offsets, thresholds, partner=plan.repair or "efficient"
    )
    return int(merged.max()) + 1, information_loss(points, merged[labels])


def _named(policy: Policy, size: int) -> Plan:
    why = "chosen by name"
    if policy.method == "tcloseness_merge":
        return Plan("mdav", policy.k, "nearest", why)
    if policy.method == "tcloseness_first":
        return Plan("tcloseness_first", size, None, why)
    return Plan(policy.method, policy.k, None, why)
