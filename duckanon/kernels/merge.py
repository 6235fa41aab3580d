"""Repair of a partition: classes are merged until every one satisfies its thresholds.

'nearest' merges the class with the greatest EMD with the class of the nearest centroid. With several
attributes, with l or with bounds of shares, the greatest sum of violations counts. 'efficient' merges the
class with the greatest sum of violations with the class whose union costs least SSE for the violation
removed. Two weightings of these are tried, and the result with less SSE is returned.

Each step leaves one class fewer, so merging ends. One single class satisfies every t, and every l that any
partition can satisfy. Deterministic; ties to the lowest index.

Cost: O(n + m d) if t leaves only one class, which happens when nearly all values differ and are equally far
apart (`least_records`). Otherwise O(m^2 d) for up to 2000 classes and for 'nearest'. Beyond, 'efficient'
searches neighbours in two kd-trees: of the centroids, and of their mirror images in the distribution of the
attributes. The trees are renewed after each round, until few enough classes violate.

Source of 'nearest': Soria-Comas, Domingo-Ferrer, Sanchez and Martinez, "t-Closeness through microaggregation:
strict privacy with enhanced utility preservation", IEEE TKDE 27(11), 2015, section 5, Algorithm 1.

>>> offsets, members = class_members([1, 0, 1], [[7, 8, 9]])
>>> offsets.tolist(), members.tolist()
([0, 1, 3], [[8, 7, 9]])
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import checked_offsets, class_histograms
from duckanon.kernels.closeness.threshold import Rules, least_records, rules_of, violations_per_class
from duckanon.kernels.merge_state import MergeState, copied, merge_all, merge_round, merge_state_of
from duckanon.kernels.neighbours.centroids import nearest, principal
from duckanon.kernels.points import distance_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.reference import Reference
    from duckanon.kernels.closeness.threshold import Threshold

Partner = Literal["nearest", "efficient"]

REMOVAL_POWERS = (1.0, 2.0)
"""Powers of the removed violation that are tried: 1 is better if little is violated, 2 if much is."""

ALL_CANDIDATES_MAX_PAIRS = 4_000_000
"""Largest product of violating classes and classes for which every class is a candidate."""

CANDIDATES_A_KIND = 32
"""Candidates of each of the two kinds, if not every class is a candidate."""

DISTRIBUTION_COORDINATES = 8
"""Coordinates that describe the distribution of an attribute in a class."""

EMD_BOUND_BINS = 32
"""Parts of the order of an attribute; their sums bound the EMD of a union from below."""

MERGED_SHARE = 0.25
"""Share of the violating classes, the worst first, merged before candidates are searched anew."""


def merge_classes(
    centroids: ArrayLike,
    members: NDArray[np.int64] | Sequence[ArrayLike],
    offsets: ArrayLike,
    thresholds: Sequence[Threshold],
    *,
    partner: Partner = "efficient",
) -> NDArray[np.int64]:
    """Return the new class (m,) of each old class, merged until all satisfy the thresholds or one is left."""
    # `centroids` (m, d) are those of the classes, `members` (S, n) the value codes, where class c holds the
    # records offsets[c]:offsets[c + 1]; `thresholds` has one entry for each of S attributes. New classes are
    # numbered in the order of their lowest old class. ValueError if the shapes or codes do not fit, a class
    # is empty, or the partner is unknown.
    points = distance_points(centroids)
    bounds = _checked(points, members, offsets, thresholds)
    if partner not in get_args(Partner):
        raise ValueError(f"unknown partner '{partner}': use 'nearest' or 'efficient'")
    if not thresholds:
        return np.arange(len(points), dtype=np.int64)
    coded = [x.reference.positions(column) for x, column in zip(thresholds, members, strict=True)]
    if any(2 * least_records(x) > bounds[-1] for x in thresholds):
        # One of any two classes is too small to satisfy that threshold, so all classes become one.
        return np.zeros(len(points), dtype=np.int64)
    rules = rules_of(thresholds)
    described = [_described(x.reference, column, bounds) for x, column in zip(thresholds, coded, strict=True)]
    binned = [_binned(x.reference, column, bounds) for x, column in zip(thresholds, coded, strict=True)]
    alone = len(thresholds) == 1 and thresholds[0].l is None and thresholds[0].shares is None
    by_emd = partner == "nearest" and alone
    start = merge_state_of(
        np.hstack([points, *described, *binned]),
        np.diff(bounds),
        [class_histograms(column, bounds) for column in coded],
        dimensions=points.shape[1],
        bins=EMD_BOUND_BINS,
        violations=violations_per_class(thresholds, members, bounds).sum(axis=0),
        emd=emd_per_class(thresholds[0].reference, members[0], bounds) if by_emd else None,
    )
    if partner == "nearest":
        merge_all(start, rules, np.arange(len(points)), 0.0, 0.0, np.inf)
        return _labels(start)
    return _least_loss(start, rules)


def class_members(
    labels: ArrayLike, codes: NDArray[np.int64] | Sequence[ArrayLike]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return offsets (m + 1,) and codes (S, n), class after class; records keep their order in a class."""
    # Class c holds the records offsets[c]:offsets[c + 1]. ValueError if a class 0..m-1 is empty or the shapes
    # do not fit.
    owner = np.asarray(labels)
    if owner.ndim != 1 or owner.size == 0 or owner.dtype.kind not in "iu" or owner.min() < 0:
        raise ValueError("labels must be one integer a record, 0..m-1")
    rows = np.asarray(codes, dtype=np.int64).reshape(len(codes), -1 if len(codes) else owner.size)
    if rows.shape[1] != owner.size:
        raise ValueError(f"there are {owner.size} labels for {rows.shape[1]} records")
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(owner))])
    return checked_offsets(offsets, owner.size), rows[:, np.argsort(owner, kind="stable")]


def violations_of(
    thresholds: Sequence[Threshold], codes: NDArray[np.int64] | Sequence[ArrayLike], labels: ArrayLike
) -> NDArray[np.float64]:
    """Return how far each class (m,) violates all thresholds together, 0.0 exactly if none. O(S n log n)."""
    offsets, members = class_members(labels, codes)
    if not thresholds:
        return np.zeros(len(offsets) - 1)
    return np.asarray(violations_per_class(thresholds, members, offsets).sum(axis=0))


def _checked(
    points: NDArray[np.float64],
    members: NDArray[np.int64] | Sequence[ArrayLike],
    offsets: ArrayLike,
    thresholds: Sequence[Threshold],
) -> NDArray[np.int64]:
    """Return the offsets if everything fits together."""
    if len(members) != len(thresholds):
        raise ValueError(f"there are {len(thresholds)} thresholds for {len(members)} attributes")
    bounds = checked_offsets(offsets, int(np.asarray(offsets)[-1]))
    if len(points) != len(bounds) - 1:
        raise ValueError("centroids and offsets do not speak of the same classes")
    for column in members:
        if np.shape(column) != (bounds[-1],):
            raise ValueError(
                f"members must be one code a record, of shape ({bounds[-1]},), not {np.shape(column)}"
            )
    return bounds


def _described(
    reference: Reference, positions: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return for each class its share less the table's share below the heaviest edges, (m, r)."""
    first, last, below = _heaviest(reference)
    inside = (positions[:, None] >= first) & (positions[:, None] <= last)
    counts = np.add.reduceat(inside, offsets[:-1], axis=0, dtype=np.float64)
    return np.asarray(counts / np.diff(offsets)[:, None] - below / reference.total)


def _binned(
    reference: Reference, positions: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return (m, bins) sums of n P - s Q of each class over parts of a path, per record; 0 in a tree."""
    # P and Q count the records up to a position, P of the class of s records, Q of the table of n records.
    # The edge sum is at least the sum of the absolute values of these numbers.
    edges = reference.edges
    sums = np.zeros((len(offsets) - 1, EMD_BOUND_BINS))
    if len(edges.nodes):
        return sums
    ends = np.arange(EMD_BOUND_BINS + 1) * len(edges.cumulative) // EMD_BOUND_BINS
    for b, (start, end) in enumerate(pairwise(ends)):
        below = np.maximum(end - np.maximum(positions, start), 0)
        sums[:, b] = edges.total * (np.add.reduceat(below, offsets[:-1]) / np.diff(offsets))
        sums[:, b] -= float(edges.prefix[end] - edges.prefix[start])
    return sums


def _heaviest(reference: Reference) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last position below some edges, and the records there."""
    # On a path these are quantiles, in a tree the edges that split the table most evenly.
    edges, m = reference.edges, len(reference.counts)
    if len(edges.nodes) == 0:
        shares = np.arange(1, DISTRIBUTION_COORDINATES + 1) * edges.total // (DISTRIBUTION_COORDINATES + 1)
        last = np.unique(np.minimum(np.searchsorted(edges.cumulative, shares), m - 1))
        return np.zeros(len(last), dtype=np.int64), last, edges.cumulative[last]
    nodes = edges.nodes.reshape(-1, m)
    level, first = np.nonzero(np.diff(nodes, axis=1, prepend=-1))
    last = np.nonzero(np.diff(nodes, axis=1, append=-1))[1]
    below = edges.below.reshape(-1, m)[level, first]
    order = np.argsort(-np.minimum(below, edges.total - below), kind="stable")[:DISTRIBUTION_COORDINATES]
    return first[order], last[order], below[order]


def _least_loss(start: MergeState, rules: Rules) -> NDArray[np.int64]:
    """Return the merged classes for the power that raises SSE least, the first power among equals."""
    best = copied(start)
    least = _merge_in_rounds(best, rules, REMOVAL_POWERS[0], np.inf)
    for power in REMOVAL_POWERS[1:]:
        state = copied(start)
        lost = _merge_in_rounds(state, rules, power, least)
        if lost < least:
            least, best = lost, state
    return _labels(best)


def _merge_in_rounds(state: MergeState, rules: Rules, power: float, most: float) -> float:
    """Merge with candidates from kd-trees while classes are many, then with all; return the rise of SSE."""
    # It is infinite if it overflows. Merging is not completed once the increase exceeds `most`.
    lost = 0.0
    while lost <= most:
        violation, parent = state.table["violation"], state.table["parent"]
        violating = np.flatnonzero(violation > 0.0)
        remaining = np.flatnonzero(parent == np.arange(len(parent)))
        if len(violating) * len(remaining) <= ALL_CANDIDATES_MAX_PAIRS:
            return merge_all(state, rules, remaining, power, lost, most)
        worst = violating[np.argsort(-violation[violating], kind="stable")]
        worst = worst[: int(np.ceil(MERGED_SHARE * len(worst)))]
        lost += merge_round(state, rules, worst, _candidates(state, remaining, worst), power)
    return lost


def _candidates(
    state: MergeState, remaining: NDArray[np.int64], violating: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest classes of each violating class, and those nearest to its mirror image."""
    points = principal(state.features[:, : state.dimensions], remaining)
    excess = state.features[:, state.dimensions : state.binned]
    spread, contrast = points[remaining].var(axis=0).sum(), excess[remaining].var(axis=0).sum()
    weighted = excess * np.sqrt(spread / contrast) if contrast > 0.0 else excess
    both = np.vstack([np.hstack([points, weighted]), np.hstack([points, -weighted])])
    mirrored = principal(both, remaining)
    ranks = np.arange(1, min(CANDIDATES_A_KIND + 1, len(remaining)) + 1)
    near = nearest(points[remaining], points[violating], ranks, parallel=True)
    opposite = nearest(mirrored[remaining], mirrored[len(points) + violating], ranks, parallel=True)
    return remaining[np.hstack([near, opposite])]


def _labels(state: MergeState) -> NDArray[np.int64]:
    """Return the merged classes, numbered in the order of their lowest old class."""
    parent = state.table["parent"].copy()
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return np.asarray(np.unique(parent, return_inverse=True)[1], dtype=np.int64)
