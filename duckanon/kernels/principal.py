"""Few directions that tell points apart: a search tree cannot prune in many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIRECTIONS = 12
"""Directions in which neighbours are searched where there are more; they are judged in all of them."""


def principal(features: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the features along the widest directions of the chosen rows.

    Parameters
    ----------
    features : ndarray of shape (m, d), float64
        Points.
    chosen : ndarray of shape (c,), int64
        Rows whose spread counts.

    Returns
    -------
    ndarray of shape (m, min(d, DIRECTIONS)), float64
        The features themselves where there are few.

    Notes
    -----
    The sums are taken in a fixed order, without a threaded matrix product, so that the result does not depend
    on the number of threads.
    """
    if features.shape[1] <= DIRECTIONS:
        return features
    centred = features[chosen] - features[chosen].mean(axis=0)
    covariance = np.einsum("ni,nj->ij", centred, centred)
    widest = np.linalg.eigh(covariance)[1][:, -DIRECTIONS:]
    projected: NDArray[np.float64] = np.einsum("ni,ij->nj", features, widest)
    return projected
