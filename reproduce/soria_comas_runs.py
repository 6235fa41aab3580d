"""Soria-Comas et al. 2015: the Census data, the three algorithms, and other readings of the merging.

An array of one number a record has shape (1080,) and type int64.
"""

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
"""Function from the centroids of all classes and the worst class to the class that the worst joins."""

PAPER = "Soria-Comas 2015"
QUASI_IDENTIFIERS = ("TAXINC", "POTHVAL")
SENSITIVE = {"MCD": "FEDTAX", "HCD": "FICA"}
"""Sensitive column by data set, as the paper names both."""

K = (2, 5, 10, 15, 20, 25, 30)
T = ("0.01", "0.05", "0.09", "0.13", "0.17", "0.21", "0.25")


@cache
def quasi_identifiers() -> Points:
    """Return the unscaled quasi-identifiers (1080, 2) of the Census data."""
    return matrix("census", QUASI_IDENTIFIERS)


@cache
def sensitive(column: str, *, by_rank: bool = False) -> Labels:
    """Return the dense ranks, from 0, of a sensitive column of the Census data."""
    # With `by_rank` equal values count as different, in the order of the file, as in section 7.
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
    """Return the labels of algorithm 1, 2 or 3 of the paper; they are cached and must not be changed."""
    # The second algorithm is followed by the merging of the first. `partner` is the class that the worst
    # class joins: 'nearest' in the paper, or a name of `PARTNERS`. See `sensitive` for `by_rank`.
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
    """Return the labels of Algorithm 1 or 2, in the order of formation, before classes are merged."""
    if algorithm == 1:
        return partition(quasi_identifiers(), k, "mdav")
    codes = sensitive(column, by_rank=by_rank)
    threshold = Threshold(reference(np.bincount(codes), "ordered"), t=Fraction(t))
    return kanonymity_first(zscore(quasi_identifiers()), codes, k, threshold)


def merged_with(
    partner: Partner, points: Points, labels: Labels, known: Reference, codes: Labels, t: float
) -> Labels:
    """Return labels merged as in Algorithm 1 until each EMD is at most t, with another choice of partner."""
    # A merged class goes to the end of the list of classes. Points (n, d) are on their final scale.
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
    """Return how many cases hold, as text: ``3 of 7``."""
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
"""Readings of Algorithm 1 that the paper does not state; 'first' and 'next' in the list of classes."""
