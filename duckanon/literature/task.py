"""What a partition method works on: points, k, and what the classes must satisfy in the sensitive columns."""

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
    """What a partition method works on.

    Attributes
    ----------
    points : ndarray of shape (n, d), float64
        Quasi-identifiers on the scale on which distances are taken.
    k : int
        Smallest class size.
    codes : sequence of ndarray of shape (n,), int64
        Dense rank of each record's value, for each sensitive column.
    thresholds : sequence of Threshold
        What every class must satisfy in each of them.
    limits : sequence of Fraction
        t of each of them.
    trees : mapping from int to ColumnTree
        For methods that cut: columns of the points that are places in a hierarchy, and that hierarchy.
    stop : callable, optional
        Tells when the classes are not wanted any more.
    suppression : Suppression, optional
        For methods that cut: what may be left out of the classes.
    """

    points: NDArray[np.float64]
    k: int
    codes: Sequence[NDArray[np.int64]] = ()
    thresholds: Sequence[Threshold] = ()
    limits: Sequence[Fraction] = ()
    trees: Mapping[int, ColumnTree] = field(default_factory=dict)
    stop: Stop | None = None
    suppression: Suppression | None = None


def with_thresholds(
    task: Task, sensitive: ArrayLike, *, t: object, distance: object, paths: object = None
) -> Task:
    """Return the task with sensitive columns (n,) or (n, s), NaN being the last value, and their t.

    t, distance and paths as in `duckanon.partition`: one for all columns, or a list with one for each.
    PolicyError if t is out of range, shapes do not fit, or values cannot be ordered; ValueError if the
    distance is unknown or the paths are no tree over the values. O(s n log n).
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
    """Return the argument for each sensitive column: itself if it is no list, else its entries."""
    entries = list(argument) if isinstance(argument, list | tuple) else [argument] * columns
    if len(entries) != columns:
        raise PolicyError(f"{name} has {len(entries)} entries for {columns} sensitive columns")
    return entries
