"""Soria-Comas et al. 2015: the Census data, the three algorithms, and other readings of the merging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from duckanon import partition
from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import Reference, reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import merged
from duckanon.kernels.points import zscore
from duckanon.literature.kanonymity_first import kanonymity_first
from reproduce.data import matrix

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Partner = Callable[[Points, int], int]
"""From the centroids of all classes and the number of the worst to the number of the one it joins."""

PAPER = "Soria-Comas 2015"
QUASI_IDENTIFIERS = ("TAXINC", "POTHVAL")
SENSITIVE = {"MCD": "FEDTAX", "HCD": "FICA"}
"""Sensitive column of each data set as the paper names them."""

K = (2, 5, 10, 15, 20, 25, 30)
T = ("0.01", "0.05", "0.09", "0.13", "0.17", "0.21", "0.25")


@cache
def quasi_identifiers() -> Points:
    """Return the quasi-identifiers of the Census data.

    Returns
    -------
    ndarray of shape (1080, 2), float64
        Unscaled.
    """
    return matrix("census", QUASI_IDENTIFIERS)


@cache
def sensitive(column: str, *, by_rank: bool = False) -> Labels:
    """Return the dense ranks of a sensitive column.

    Parameters
    ----------
    column : str
        Of the Census data.
    by_rank : bool
        Whether equal values count as different ones, in the order of the file, as in section 7.

    Returns
    -------
    ndarray of shape (1080,), int64
        Codes from 0 on.
    """
    values = matrix("census", (column,))[:, 0]
    if not by_rank:
        return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


@cache
def classes(
    algorithm: int, column: str, k: int, t: str, *, by_rank: bool = False, partner: str = "nearest"
) -> Labels:
    """Return the classes of one of the three algorithms.

    Parameters
    ----------
    algorithm : {1, 2, 3}
        As numbered in the paper; the second with the merging of the first after it.
    column : str
        Sensitive column.
    k, t
        Smallest class size and largest EMD.
    by_rank : bool
        As in `sensitive`.
    partner : {'nearest', 'farthest', 'first', 'next'}
        Which class the worst one joins: 'nearest' is what the paper says.

    Returns
    -------
    ndarray of shape (1080,), int64
        Labels; not to be changed, since they are kept.
    """
    codes = sensitive(column, by_rank=by_rank)
    if algorithm == 3:
        return partition(quasi_identifiers(), k, "tcloseness_first", sensitive=codes, t=t)
    if algorithm == 1 and partner == "nearest":
        return partition(quasi_identifiers(), k, "tcloseness_merge", sensitive=codes, t=t)
    points, known = zscore(quasi_identifiers()), reference(np.bincount(codes), "ordered")
    start = unmerged(algorithm, column, k, t, by_rank=by_rank)
    if partner == "nearest":
        return merged(points, [codes], [Threshold(known, t=Fraction(t))], start, "nearest")
    return merged_with(PARTNERS[partner], points, start, known, codes, float(t))


@cache
def unmerged(algorithm: int, column: str, k: int, t: str, *, by_rank: bool = False) -> Labels:
    """Return the classes of Algorithm 1 or 2 before any is merged.

    Parameters
    ----------
    algorithm, column, k, t, by_rank
        As in `classes`.

    Returns
    -------
    ndarray of shape (1080,), int64
        Labels in the order of formation.
    """
    if algorithm == 1:
        return partition(quasi_identifiers(), k, "mdav")
    codes = sensitive(column, by_rank=by_rank)
    threshold = Threshold(reference(np.bincount(codes), "ordered"), t=Fraction(t))
    return kanonymity_first(zscore(quasi_identifiers()), codes, k, threshold)


def merged_with(
    partner: Partner, points: Points, labels: Labels, known: Reference, codes: Labels, t: float
) -> Labels:
    """Return classes merged like those of Algorithm 1, but with another partner than the nearest.

    Parameters
    ----------
    partner : Partner
        Chooses the class that the worst one joins.
    points : ndarray of shape (n, d), float64
        Quasi-identifiers on their final scale.
    labels : ndarray of shape (n,), int64
        Classes, 0..m-1.
    known : Reference
        Distribution of the codes in the whole table.
    codes : ndarray of shape (n,), int64
        Sensitive values.
    t : float
        Largest EMD.

    Returns
    -------
    ndarray of shape (n,), int64
        Classes whose EMD is at most t. A union goes to the end of the list of classes.
    """
    members = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    centroids = [points[records].mean(axis=0) for records in members]
    distances = [_emd(known, codes[records]) for records in members]
    while len(members) > 1 and max(distances) > t:
        worst = int(np.argmax(distances))
        pair = sorted((worst, partner(np.array(centroids), worst)))
        records = np.concatenate([members[i] for i in pair])
        for i in reversed(pair):
            del members[i], centroids[i], distances[i]
        members.append(records)
        centroids.append(points[records].mean(axis=0))
        distances.append(_emd(known, codes[records]))
    result = np.empty(len(labels), dtype=np.int64)
    for label, records in enumerate(members):
        result[records] = label
    return result


def counted(cases: Sequence[bool]) -> str:
    """Return how many cases hold, as text.

    Parameters
    ----------
    cases : sequence of bool
        Any number.

    Returns
    -------
    str
        For example ``3 of 7``.
    """
    return f"{sum(cases)} of {len(cases)}"


def _farthest(centroids: Points, worst: int) -> int:
    return int(np.argmax(np.square(centroids - centroids[worst]).sum(axis=1)))


def _first(centroids: Points, worst: int) -> int:
    del centroids
    return 0 if worst else 1


def _next(centroids: Points, worst: int) -> int:
    return (worst + 1) % len(centroids)


def _emd(known: Reference, codes: Labels) -> float:
    return float(emd_per_class(known, codes, [0, len(codes)])[0])


PARTNERS: dict[str, Partner] = {"farthest": _farthest, "first": _first, "next": _next}
"""Readings of Algorithm 1 that the paper does not state; 'first' and 'next' are of the list of classes."""
