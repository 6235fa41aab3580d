"""The classes that are near a class, and near a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.neighbours.nearest import nearest
from duckanon.kernels.neighbours.principal import principal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.exchange.state import Groups


def centroids_of(groups: Groups) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the classes that have records, and their means.

    Parameters
    ----------
    groups : Groups
        m classes with records among them.

    Returns
    -------
    tuple of ndarray of shape (m,) and of shape (m, d)
        Ascending classes, float64 means.
    """
    alive = np.flatnonzero(groups.size)
    return alive, groups.sums[alive] / groups.size[alive, None]


def neighbours(groups: Groups, count: int) -> NDArray[np.int64]:
    """Return the nearest other classes of each class.

    Parameters
    ----------
    groups : Groups
        The classes.
    count : int
        How many.

    Returns
    -------
    ndarray of shape (classes, count), int64
        Nearest first; -1 where there are no more.

    Notes
    -----
    O((m + n) log m) on average. Searched in the widest directions where there are many.
    """
    alive, centroids = centroids_of(groups)
    near = np.full((len(groups.size), count), -1)
    ranks = np.arange(2, min(count + 1, len(alive)) + 1)
    if len(ranks):
        features = principal(centroids, np.arange(len(alive)))
        near[alive, : len(ranks)] = alive[nearest(features, features, ranks)]
    return near


def near_records(groups: Groups, count: int) -> NDArray[np.int64]:
    """Return the classes nearest to each record.

    Parameters
    ----------
    groups : Groups
        The classes.
    count : int
        How many.

    Returns
    -------
    ndarray of shape (n, count), int64
        Nearest first, the own class among them; fewer columns where there are fewer classes.

    Notes
    -----
    O((m + n) log m) on average. Searched in the widest directions where there are many.
    """
    alive, centroids = centroids_of(groups)
    ranks = np.arange(1, min(count, len(alive)) + 1)
    both = np.vstack([centroids, groups.points])
    features = principal(both, np.arange(len(alive)))
    found = nearest(features[: len(alive)], features[len(alive) :], ranks)
    return np.ascontiguousarray(alive[found])
