"""Pool: the classes of all tiles that lose most are searched together, since a tile sees its part only.

Where few records lie far from all others, as in heavy tails, most of the loss is theirs, and borders of tiles
part them from each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.combine import combine
from duckanon.kernels.compose import EFFORTS, compose
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.loss import sse
from duckanon.kernels.merging.merge import violations_of
from duckanon.kernels.points import distance_points, enlarged
from duckanon.release.stages.bucket import Records, subset
from duckanon.release.stages.classes import spread_of, sums_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.kernels.recipes import Recipe
    from duckanon.policy.policy import Policy

POOL = 4096
"""Records of the pool at most: what a kernel searches in a second."""

FAR, FARTHER, MANY = 1.0, 4.0, 50_000
"""A class is for the pool where it loses more than so many times as much a record as its tile: the second
number where a table has more records than the third, of which the pool is a small part anyway."""

LARGE = 64
"""It is not searched where merging has left classes of so many records on average: that would be dear."""

WORTH = 0.1
"""The pool is searched where it has this share of the loss of all classes."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some records with their coordinates (n, d), and their classes (n,), 0..m-1."""

    records: Records
    points: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]


def parted(part: Part, size: int) -> tuple[Part, Part]:
    """Return the classes that stay as they are, and those for the pool of a table of a size. O(n d)."""
    lost, far = _lost(part), FAR if size <= MANY else FARTHER
    return _divided(part, lost > far * float(lost @ np.bincount(part.labels)) / len(part.labels))


def pooled(pool: Part | None, part: Part) -> tuple[Part, Part]:
    """Return the pool with the classes that lose most, and the others, which stay as they are."""
    others, worst = _worst(part if pool is None else _joined(pool, part), POOL)
    return worst, others


def search_pool(
    pool: Part, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    stop: Stop | None, *, merging: bool,
) -> Part:  # fmt: skip
    """Return the pool with classes that lose no more, and violate no threshold that none violated before.

    Those that lose most are searched again, half of the records, as long as a tenth of the loss is theirs.
    """
    found = _searched(pool, policy, recipe, thresholds, share, stop, merging=merging)
    others, worst = _worst(found, len(found.labels) // 2)
    if len(worst.labels) < 2 * policy.k or not pays(worst, _sse(others)):
        return found
    return _joined(others, search_pool(worst, policy, recipe, thresholds, share, stop, merging=merging))


def _worst(part: Part, most: int) -> tuple[Part, Part]:
    """Return the other classes, and those that lose most, of so many records at most."""
    lost = _lost(part)
    sizes = np.bincount(part.labels, minlength=len(lost))
    worst = np.argsort(-lost, kind="stable")
    held = np.zeros(len(sizes), dtype=bool)
    held[worst[np.cumsum(sizes[worst]) <= most]] = True
    return _divided(part, held)


def _searched(
    pool: Part, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    stop: Stop | None, *, merging: bool,
) -> Part:  # fmt: skip
    """Return the records with the better parts of their classes and of new ones."""
    points, codes, k = enlarged(distance_points(pool.points)), pool.records.codes, policy.k

    efforts = EFFORTS[: EFFORTS.index(recipe.effort) + 1] if recipe.effort else ()

    def refined(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        for effort in efforts:
            labels = refine(
                points, labels, k, codes=codes, thresholds=thresholds, effort=effort,
                share=share, seed=policy.seed, stop=stop,
            )  # fmt: skip
        return labels

    def better(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        violated = [float(violations_of(thresholds, codes, labels).sum()) for labels in (one, other)]
        if violated == [0.0, 0.0]:
            return combine(points, one, other)
        return other if (violated[1], sse(points, other)) < (violated[0], sse(points, one)) else one

    labels = one = refined(pool.labels)
    ways = [replace(recipe, effort=effort) for effort in efforts or (None,)]
    if efforts and thresholds and recipe.start != "k_alone":
        ways += [replace(way, start="k_alone", size=k) for way in ways]
    # What a lower effort finds is among what is put together.
    for way in ways:
        other = compose(
            pool.points, codes, k, thresholds, way, share=share, seed=policy.seed, stop=stop, merging=merging
        )
        labels = better(labels, other)
    return Part(pool.records, pool.points, labels if labels is one else refined(labels))


def pays(pool: Part, within: float) -> bool:
    """Tell whether the pool has enough of the SSE of all classes, of which the others have so much."""
    return _sse(pool) > WORTH * (_sse(pool) + within)


def _sse(part: Part) -> float:
    return spread_of(sums_of(part.points, part.labels)).within


def _lost(part: Part) -> npt.NDArray[np.float64]:
    """Return the mean squared distance of the records of each class (m,) from its mean."""
    classes = sums_of(part.points, part.labels)
    within = classes.squares - (classes.sums**2).sum(axis=1) / np.maximum(classes.sizes, 1)
    return np.asarray(np.maximum(within, 0.0) / np.maximum(classes.sizes, 1))


def _divided(part: Part, chosen: npt.NDArray[np.bool_]) -> tuple[Part, Part]:
    """Return the records of the other classes and those of the chosen ones (m,)."""
    of = chosen[part.labels] if len(part.labels) else np.zeros(0, dtype=bool)
    return _some(part, ~of), _some(part, of)


def _some(part: Part, keep: npt.NDArray[np.bool_]) -> Part:
    labels = np.unique(part.labels[keep], return_inverse=True)[1].astype(np.int64)
    return Part(subset(part.records, keep), np.ascontiguousarray(part.points[keep]), labels)


def _joined(one: Part, other: Part) -> Part:
    first, second = one.records, other.records
    records = Records(
        np.concatenate([first.record_id, second.record_id]),
        {name: np.concatenate([column, second.columns[name]]) for name, column in first.columns.items()},
        np.concatenate([first.codes, second.codes], axis=1),
    )
    labels = np.concatenate([one.labels, other.labels + len(np.unique(one.labels))])
    return Part(records, np.concatenate([one.points, other.points]), labels)
