"""Scales that make the columns of a matrix comparable before distances are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.points import finite_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Scale = Literal["zscore", "minmax", "none"]


def scaled(points: ArrayLike, scale: Scale = "zscore") -> NDArray[np.float64]:
    """Return the points on the named scale.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Finite numbers.
    scale : {'zscore', 'minmax', 'none'}
        'zscore': mean 0, standard deviation 1; 'minmax': range 0 to 1; 'none': as they are.

    Returns
    -------
    ndarray of shape (n, d), float64
        C-contiguous.

    Raises
    ------
    ValueError
        If the scale is unknown or the points are not finite.
    """
    if scale == "zscore":
        return zscore(points)
    if scale == "minmax":
        return minmax(points)
    if scale == "none":
        return finite_points(points)
    raise ValueError(f"unknown scale '{scale}': use 'zscore', 'minmax' or 'none'")


def zscore(points: ArrayLike) -> NDArray[np.float64]:
    """Return each column minus its mean, divided by its standard deviation (of the population, ddof 0).

    A constant column becomes 0. Columns are first scaled by a power of two, which is exact, so that neither
    1e308 nor 1e-308 overflows or vanishes.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Finite numbers.

    Returns
    -------
    ndarray of shape (n, d), float64
        C-contiguous.

    Raises
    ------
    ValueError
        If the points are not finite.

    Notes
    -----
    O(n d) time, deterministic.

    Examples
    --------
    >>> zscore([[1.0, 7.0], [3.0, 7.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    matrix = _halved(finite_points(points))
    centred = _halved(matrix - matrix.mean(axis=0))
    deviation = np.sqrt(np.mean(centred * centred, axis=0))
    return _divided(centred, deviation, varying=_varies(matrix))


def minmax(points: ArrayLike) -> NDArray[np.float64]:
    """Return each column moved and stretched to the range 0 to 1; a constant column becomes 0.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Finite numbers.

    Returns
    -------
    ndarray of shape (n, d), float64
        C-contiguous.

    Raises
    ------
    ValueError
        If the points are not finite.
    """
    matrix = _halved(finite_points(points))
    low = matrix.min(axis=0)
    return _divided(matrix - low, matrix.max(axis=0) - low, varying=_varies(matrix))


def _halved(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns times powers of two that bring every absolute value to at most one half."""
    _, exponent = np.frexp(np.abs(matrix).max(axis=0))
    return np.asarray(np.ldexp(matrix, -(exponent + 1)))


def _varies(matrix: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which columns hold two different values; a deviation of 0.0 cannot tell, rounding blurs it."""
    return np.asarray(matrix.max(axis=0) > matrix.min(axis=0))


def _divided(
    matrix: NDArray[np.float64], divisor: NDArray[np.float64], *, varying: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return matrix / divisor by column, 0 where the column does not vary."""
    return np.where(varying, matrix / np.where(varying, divisor, 1.0), 0.0)
