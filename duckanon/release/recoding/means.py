"""Means of floating-point numbers by class, independent of the order of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUMMED_MAX_VALUE = 1e300
"""Largest absolute value in a class whose values are added before the division: larger sums may overflow."""


def means_between(
    values: NDArray[np.float64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Mean of the values between each begin and end, without NaN; classes of one size together."""
    means, sizes = np.empty(len(begins)), ends - begins
    if len(sizes) and (sizes == sizes[0]).all() and np.array_equal(begins[1:], ends[:-1]):
        # Usually all classes have k records and are adjacent, so nothing is copied.
        return _class_means(values[begins[0] : ends[-1]].reshape(len(sizes), sizes[0]))
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        means[same] = _class_means(values[begins[same, None] + np.arange(size)])
    return means


def _class_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row (m, k) without its NaN, in any order of the row; NaN for a row of NaN alone."""
    plain = ordered = np.sort(values, axis=1)
    counts = np.full(len(ordered), ordered.shape[1])
    if np.isnan(ordered[:, -1]).any():
        counts = np.maximum(np.sum(~np.isnan(ordered), axis=1), 1)
        plain = np.where(np.isnan(ordered), 0.0, ordered)
    low, high = ordered[:, 0], ordered[np.arange(len(ordered)), counts - 1]
    with np.errstate(over="ignore", invalid="ignore"):
        # By columns, one instruction adds many classes. For a single row numpy uses another order of
        # additions.
        columns = np.ascontiguousarray(plain.T)
        sums = np.add.accumulate(columns)[-1] if len(plain) == 1 else columns.sum(axis=0)
        means = sums / counts
        wide = np.maximum(-low, high) > SUMMED_MAX_VALUE
        means[wide] = (plain[wide] / counts[wide, None]).sum(axis=1)
    return np.asarray(np.clip(means, low, high))
