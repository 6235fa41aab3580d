"""The values of a sensitive attribute in each class of a partition, with their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Histograms(NamedTuple):
    """The values of each class with their counts, class after class.

    Class c holds ``values[starts[c]:starts[c + 1]]``, ascending positions, with as many ``weights`` (int64).
    """

    starts: NDArray[np.int64]
    values: NDArray[np.int64]
    weights: NDArray[np.int64]


def checked_offsets(offsets: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the offsets as int64 if they cut n records into classes, none empty.

    Parameters
    ----------
    offsets : array_like of shape (m + 1,), int
        0, then the end of each class.
    n : int
        Number of records.

    Returns
    -------
    ndarray of shape (m + 1,), int64
        The offsets.

    Raises
    ------
    ValueError
        If they do not run from 0 to n, strictly ascending.
    """
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu":
        raise ValueError(f"offsets must be at least two integers, not {given.dtype} of shape {given.shape}")
    checked = given.astype(np.int64)
    if checked[0] != 0 or checked[-1] != n or (np.diff(checked) < 1).any():
        raise ValueError(f"offsets must ascend from 0 to the {n} records, with no class empty")
    return checked


def class_histograms(positions: NDArray[np.int64], offsets: NDArray[np.int64]) -> Histograms:
    """Return the values of each class with their counts.

    Parameters
    ----------
    positions : ndarray of shape (n,), int64
        Position of each record's value, the records of a class together.
    offsets : ndarray of shape (m + 1,), int64
        Class c holds the records ``offsets[c]:offsets[c + 1]``.

    Returns
    -------
    Histograms
        O(n log n) time.
    """
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    span = int(positions.max()) + 1
    key, weights = np.unique(owner * span + positions, return_counts=True)
    starts = np.searchsorted(key, np.arange(len(offsets)) * span)
    return Histograms(starts.astype(np.int64), key % span, weights.astype(np.int64))
