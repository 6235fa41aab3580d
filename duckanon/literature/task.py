"""The input of a partition method: points, k, and the thresholds of the sensitive columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.errors import PolicyError
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.exact import exact_t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.reference import Distance
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.literature.mondrian_suppressed import Suppression
    from duckanon.literature.parts import ColumnTree


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a partition method."""

    points: NDArray[np.float64]  # (n, d) quasi-identifiers on the scale on which distances are taken
    k: int  # smallest class size
    # for each sensitive column: (n,) dense rank of the value of each record
    codes: Sequence[NDArray[np.int64]] = ()
    thresholds: Sequence[Threshold] = ()  # for each sensitive column: what every class must satisfy
    limits: Sequence[Fraction] = ()  # t of each sensitive column
    # for Mondrian: hierarchy of each column of the points that holds places
    trees: Mapping[int, ColumnTree] = field(default_factory=dict)
    stop: Stop | None = None  # for Mondrian: true when the classes are no longer wanted
    suppression: Suppression | None = None  # for Mondrian: what may be suppressed


def with_thresholds(
    task: Task, sensitive: ArrayLike, *, t: object, distance: object, paths: object = None
) -> Task:
    """Return the task with sensitive columns, (n,) or (n, s), and their t; NaN is last. O(s n log n).

    `t`, `distance` and `paths` as in `duckanon.partition`. PolicyError if t is out of range, shapes do not
    fit or values have no order; ValueError if the distance is unknown or the paths are no tree over the
    values.
    """
    values, n = np.asarray(sensitive), len(task.points)
    if values.ndim not in (1, 2) or len(values) != n or values.size == 0:
        raise PolicyError(f"sensitive must hold one row a record, of shape ({n}, s), not {values.shape}")
    columns = np.reshape(values, (n, -1)).T
    given = {"t": t, "distance": distance, "paths": paths}
    each = [_each(name, argument, len(columns)) for name, argument in given.items()]
    try:
        limits = [exact_t(limit, may_be_zero=False) for limit in each[0]]
    except ValueError as error:
        raise PolicyError(str(error)) from error
    codes, thresholds = [], []
    for column, limit, kind, path in zip(columns, limits, *each[1:], strict=True):
        code, counts = _ranked(column)
        known = reference(counts, cast("Distance", kind), cast("ArrayLike | None", path))
        codes.append(code)
        thresholds.append(Threshold(known, t=limit))
    return replace(task, codes=codes, thresholds=thresholds, limits=limits)


def _ranked(column: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the dense rank of each value, and the number of records of each rank."""
    try:
        _, code, counts = np.unique(column, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise PolicyError(f"sensitive values cannot be ordered ({error}): give numbers or text") from error
    return code.astype(np.int64), counts.astype(np.int64)


def _each(name: str, argument: object, columns: int) -> list[object]:
    """Return the argument for each sensitive column: the entries of a list, or the same argument for all."""
    entries = list(argument) if isinstance(argument, list | tuple) else [argument] * columns
    if len(entries) != columns:
        raise PolicyError(f"{name} has {len(entries)} entries for {columns} sensitive columns")
    return entries
