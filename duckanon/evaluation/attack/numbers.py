"""Numbers as an attack compares them: two DOUBLEs each, so that near ones do not become equal.

A DOUBLE holds 53 bits, and a BIGINT, a DECIMAL or a TIMESTAMP may need more. So a number is the sum of the
nearest DOUBLE and of what is left (Dekker, Numerische Mathematik 18, 1971). The difference of two of them is
exact to the last bit of a DOUBLE, be they as large as they may; only the difference is ever squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from duckanon.errors import SourceError

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Pairs = npt.NDArray[np.float64]

NEAREST, FARTHEST = 1e-150, 1e150
"""Differences, in standard deviations, whose squares neither vanish nor overflow."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the numbers of a column of the original lie.

    Attributes
    ----------
    least : ndarray of shape (2,)
        The least number, as a pair.
    half : float
        Half of how far the greatest is above it.
    mean, deviation : float
        Mean of the numbers above the least one, and standard deviation (population), as shares of the whole
        range: 0 to 1.
    """

    least: Pairs
    half: float
    mean: float
    deviation: float


class Axis(NamedTuple):
    """How the numbers of a column become coordinates.

    Attributes
    ----------
    exponent : int
        Coordinates count units of 2^exponent, about a standard deviation: dividing by it loses nothing.
    factor : float
        The unit in standard deviations.
    start, center : ndarray of shape (2,)
        Coordinates of the least number and of the mean of the original, as pairs.
    reach : float
        Difference of the greatest and the least coordinate of the original.
    """

    exponent: int
    factor: float
    start: Pairs
    center: Pairs
    reach: float

    def placed(self, numbers: Pairs) -> Pairs:
        """Return coordinates, as pairs."""
        return _divided(numbers, self.exponent)

    def above(self, coordinates: Pairs) -> Floats:
        """Return how far coordinates are above the least one of the original."""
        return above(coordinates, self.start)


def pairs(values: Any, name: str, table: str) -> Pairs:
    """Numbers from what ``number.sql.j2`` gives.

    Parameters
    ----------
    values : pyarrow.Array or pyarrow.ChunkedArray of struct
        Fields near and rest.
    name, table : str
        The column, and original or release, for errors.

    Returns
    -------
    ndarray of shape (n, 2), float64
        Nearest DOUBLE and rest; NaN for NULL.

    Raises
    ------
    SourceError
        A value is NaN or infinity, or has more digits than can be compared.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    near, rest = whole.flatten()
    found = np.column_stack([part.to_numpy(zero_copy_only=False) for part in (near, rest)]).astype(float)
    present = near.is_valid().to_numpy(zero_copy_only=False)
    if np.isnan(found[present, 0]).any():
        raise SourceError(
            f"column {name!r} of the {table} holds NaN or infinity: make them NULL, or leave the records out"
        )
    if np.isinf(found[present, 0]).any():
        raise SourceError(
            f"column {name!r} of the {table} holds numbers of more digits than can be compared (31; 15 if "
            "the other\ntable has FLOAT or DOUBLE): CAST it to one type with fewer digits in both tables"
        )
    return found


def alone(codes: Floats) -> Pairs:
    """Return codes as pairs without a rest."""
    return np.column_stack([codes, np.zeros(len(codes))])


def above(values: Pairs, other: Pairs) -> Floats:
    """Return how far numbers are above others, NaN for NULL: the nearest DOUBLE to the true difference."""
    difference: Floats = (values[..., 0] - other[..., 0]) + (values[..., 1] - other[..., 1])
    return difference


def axis_of(wide: Spread, released: Pairs, name: str) -> Axis:
    """Coordinates of a column whose standard deviation in the original is their unit.

    Parameters
    ----------
    wide : Spread
        Of the original.
    released : ndarray of shape (n, 2), float64
        Released numbers: they say how wide a column is that is constant in the original.
    name : str
        The column, for errors.

    Returns
    -------
    Axis
        O(n).

    Raises
    ------
    SourceError
        A released number is too far from the original ones for a square.
    """
    half = wide.deviation * wide.half
    if not half:
        half = _width(above(_divided(released, 1), _divided(wide.least, 1))) or 0.5
    # The halves do not overflow: the unit is twice theirs.
    share, exponent = math.frexp(half)[0], math.frexp(half)[1] + 1
    start, reach = _divided(wide.least, exponent), float(_divided(np.array(wide.half), exponent - 1))
    center = np.array([start[0], start[1] + reach * wide.mean])
    axis = Axis(exponent, 1 / share, start, center, reach)
    far = np.abs(axis.above(axis.placed(released)))
    if not (far[~np.isnan(released[:, 0])] <= FARTHEST).all():
        raise SourceError(
            f"column {name!r} of the release holds numbers that are too far from those of the original to be "
            "compared: make them NULL"
        )
    return axis


def check_near(values: Pairs, axis: Axis, name: str) -> None:
    """Raise an error if the squared distance of two different numbers would be zero.

    Parameters
    ----------
    values : ndarray of shape (n, 2), float64
        All that are compared.
    axis : Axis
        Their axis.
    name : str
        The column, for errors.
    """
    apart = np.unique(values[~np.isnan(values[:, 0]), 0])
    gaps = np.diff(_divided(apart, axis.exponent))
    if (gaps < NEAREST).any():
        raise SourceError(
            f"column {name!r} holds numbers that are too near to each other, beside the largest ones, to be "
            "compared: ROUND it, take its logarithm, or make the largest NULL, in both tables"
        )


def _width(numbers: Floats) -> float:
    """Return the standard deviation of numbers, or the largest if they are all equal."""
    present = np.abs(numbers[~np.isnan(numbers)])
    largest = float(present.max(initial=0.0))
    if not largest:
        return 0.0
    return (float(np.std(numbers[~np.isnan(numbers)] / largest)) or 1.0) * largest


def _divided(numbers: Floats, exponent: int) -> Floats:
    """Return numbers over a power of two."""
    with np.errstate(over="ignore", under="ignore"):
        divided: Floats = np.ldexp(numbers, -exponent)
    return divided
