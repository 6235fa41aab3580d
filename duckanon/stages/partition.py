"""Partition: the kernels label every record with its class, tile after tile, and repair by merging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon.stages.bucket import stream
from duckanon.stages.classes import Classes, sums_of
from duckanon.stages.embed import coordinates
from duckanon.stages.plan import Plan, choose_plan, tile_labels

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
    parts.append(sums_of(coordinates(embedded.axes, bucketed.ready.columns), bucketed.ready_labels))
    plan = choose_plan(con, embedded, bucketed, policy, thresholds)
    for records in stream(con, embedded, bucketed):
        points = coordinates(embedded.axes, records.columns)
        local = tile_labels(points, records.codes, plan)
        count = _place(labels, codes, records, local, count)
        parts.append(sums_of(points, local))
    joined = [
        np.concatenate([getattr(part, name) for part in parts]) for name in Classes.__dataclass_fields__
    ]
    return Partitioned(labels, codes, Classes(*joined), plan)


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
