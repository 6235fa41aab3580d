"""Points that every kernel takes: the checks, and scales that make columns comparable.

>>> zscore([[1.0, 7.0], [3.0, 7.0]]).tolist()
[[-1.0, 0.0], [1.0, 0.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

COORDINATE_MAX = 1e150
"""Largest absolute coordinate whose squared distances, and their sums, stay finite."""

ENLARGED_BELOW = 2.0**-64
"""Points are enlarged if no coordinate is larger, because their squares would vanish."""

Scale = Literal["zscore", "minmax", "none"]


def finite_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return the points (n, d) as a C-contiguous matrix of finite float64, uncopied if they are one."""
    # No columns (d = 0) means that all records are equal. ValueError if the points are not a matrix of
    # numbers, have no row, or hold NaN or infinity.
    matrix = np.ascontiguousarray(points, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] == 0:
        raise ValueError(f"points must be a matrix with one row a record, not of shape {np.shape(points)}")
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        record, column = bad[0]
        raise ValueError(f"points hold {matrix[record, column]} in record {record}, column {column}")
    return matrix


def squared_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return `finite_points` with at least one column and coordinates small enough to be squared."""
    # Without columns, a column of zeros stands for "all records equal". ValueError above 1e150 as well.
    matrix = finite_points(points)
    if matrix.shape[1] == 0:
        return np.zeros((matrix.shape[0], 1))
    if np.abs(matrix).max() > COORDINATE_MAX:
        raise ValueError(
            f"points exceed {COORDINATE_MAX:g}, their squared distances overflow: scale them first"
        )
    return matrix


def distance_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return points whose distances can be compared: `squared_points`, `enlarged` if they are tiny."""
    return enlarged(squared_points(points), ENLARGED_BELOW)


def enlarged(matrix: NDArray[np.float64], limit: float = np.inf) -> NDArray[np.float64]:
    """Return numbers times the power of two that brings the largest absolute one between 1/2 and 1."""
    # Squares then neither vanish nor overflow. A power of two changes no digit, so every comparison of
    # distances or of sums of squares has the same result. If the largest one is above `limit`, the numbers
    # are returned unchanged.
    largest = np.abs(matrix).max(initial=0.0)
    return matrix if largest > limit else np.asarray(np.ldexp(matrix, -np.frexp(largest)[1]))


def check_class_size(n: int, k: int) -> None:
    """Raise ValueError unless n records can form classes of at least k >= 1 records."""
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if k > n:
        raise ValueError(f"k = {k} needs at least {k} records, there are {n}")


def scaled(points: ArrayLike, scale: Scale = "zscore") -> NDArray[np.float64]:
    """Return the points (n, d) as z-scores, in the range 0 to 1 ('minmax'), or unchanged, C-contiguous."""
    # ValueError if the scale is unknown or the points are not finite.
    if scale == "zscore":
        return zscore(points)
    if scale == "minmax":
        return minmax(points)
    if scale == "none":
        return finite_points(points)
    raise ValueError(f"unknown scale '{scale}': use 'zscore', 'minmax' or 'none'")


def zscore(points: ArrayLike) -> NDArray[np.float64]:
    """Return each column as (x - mean) / standard deviation (ddof 0); a constant column becomes 0."""
    # Columns are first scaled by a power of two, which is exact, so that neither 1e308 nor 1e-308 overflows
    # or vanishes. O(n d) time, deterministic. C-contiguous; ValueError if the points are not finite.
    matrix = _halved(finite_points(points))
    centred = _halved(matrix - matrix.mean(axis=0))
    deviation = np.sqrt(np.mean(centred * centred, axis=0))
    return _divided(centred, deviation, varying=_varies(matrix))


def minmax(points: ArrayLike) -> NDArray[np.float64]:
    """Return each column moved and stretched to the range 0 to 1; a constant column becomes 0."""
    # C-contiguous; ValueError if the points are not finite.
    matrix = _halved(finite_points(points))
    low = matrix.min(axis=0)
    return _divided(matrix - low, matrix.max(axis=0) - low, varying=_varies(matrix))


def _halved(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns times powers of two that bring every absolute value to at most one half."""
    _, exponent = np.frexp(np.abs(matrix).max(axis=0))
    return np.asarray(np.ldexp(matrix, -(exponent + 1)))


def _varies(matrix: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which columns hold two different values; rounding may hide that in the standard deviation."""
    return np.asarray(matrix.max(axis=0) > matrix.min(axis=0))


def _divided(
    matrix: NDArray[np.float64], divisor: NDArray[np.float64], *, varying: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return matrix / divisor by column, 0 if the column does not vary."""
    return np.where(varying, matrix / np.where(varying, divisor, 1.0), 0.0)
