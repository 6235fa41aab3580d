"""The values of a sensitive attribute in each class of a partition, with their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Histograms(NamedTuple):
    """The values of each class with their counts: class c holds ``values[starts[c]:starts[c + 1]]``."""

    starts: NDArray[np.int64]
    values: NDArray[np.int64]  # ascending positions in each class
    weights: NDArray[np.int64]  # records at each position


def checked_offsets(offsets: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the offsets (m + 1,) as int64; ValueError unless they cut n records into classes, none empty."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu":
        raise ValueError(f"offsets must be at least two integers, not {given.dtype} of shape {given.shape}")
    checked = given.astype(np.int64)
    if checked[0] != 0 or checked[-1] != n or (np.diff(checked) < 1).any():
        raise ValueError(f"offsets must ascend from 0 to the {n} records, with no class empty")
    return checked


def class_histograms(positions: NDArray[np.int64], offsets: NDArray[np.int64]) -> Histograms:
    """Return the counted values of each class c, the records offsets[c]:offsets[c + 1] of n. O(n log n)."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    span = int(positions.max()) + 1
    key, weights = np.unique(owner * span + positions, return_counts=True)
    starts = np.searchsorted(key, np.arange(len(offsets)) * span)
    return Histograms(starts.astype(np.int64), key % span, weights.astype(np.int64))
