"""Pool: the classes that lose most, of all tiles, are searched together.

In heavy tails a few records that lie far from all others make most of the loss. The borders of tiles part
these records, and no tile alone can put them into one class.
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

POOL_MAX_RECORDS = 4096
"""Records of the pool, at most: a kernel searches so many in a second."""

POOL_LOSS_RATIO, POOL_LOSS_RATIO_OF_LARGE_TABLES, LARGE_TABLE_RECORDS = 1.0, 4.0, 50_000
"""A class goes to the pool if its loss a record is more than the first number times that of its tile. A
table of more records than the third number takes the second: the pool has a small part of it anyway."""

POOL_MAX_CLASS_SIZE = 64
"""Records of a class, on average, from which the pool is not searched: the search would take too long."""

POOL_MIN_LOSS_SHARE = 0.1
"""Share of the loss of all classes from which the pool is searched."""


@dataclass(frozen=True, eq=False)
class LabelledRecords:
    """Some records with their coordinates (n, d), and their classes (n,), 0..m-1."""

    records: Records
    points: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]


def parted(part: LabelledRecords, size: int) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the classes that stay as they are, and those for the pool of a table of a size. O(n d)."""
    ratio = POOL_LOSS_RATIO if size <= LARGE_TABLE_RECORDS else POOL_LOSS_RATIO_OF_LARGE_TABLES
    lost = _lost(part)
    return _divided(part, lost > ratio * float(lost @ np.bincount(part.labels)) / len(part.labels))


def pooled(pool: LabelledRecords | None, part: LabelledRecords) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the pool with the classes that lose most, and the others, which stay as they are."""
    others, worst = _worst(part if pool is None else _joined(pool, part), POOL_MAX_RECORDS)
    return worst, others


def search_pool(
    pool: LabelledRecords, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    stop: Stop | None, *, merging: bool,
) -> LabelledRecords:  # fmt: skip
    """Return the pool with classes that lose no more, and that keep the thresholds which all kept before.

    The half whose classes lose most is searched again, as long as it has a tenth of the loss.
    """
    found = _searched(pool, policy, recipe, thresholds, share, stop, merging=merging)
    others, worst = _worst(found, len(found.labels) // 2)
    if len(worst.labels) < 2 * policy.k or not pays(worst, _sse(others)):
        return found
    return _joined(others, search_pool(worst, policy, recipe, thresholds, share, stop, merging=merging))


def _worst(part: LabelledRecords, most: int) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the other classes, and those that lose most, of so many records at most."""
    lost = _lost(part)
    sizes = np.bincount(part.labels, minlength=len(lost))
    worst = np.argsort(-lost, kind="stable")
    held = np.zeros(len(sizes), dtype=bool)
    held[worst[np.cumsum(sizes[worst]) <= most]] = True
    return _divided(part, held)


def _searched(
    pool: LabelledRecords, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    stop: Stop | None, *, merging: bool,
) -> LabelledRecords:  # fmt: skip
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
    return LabelledRecords(pool.records, pool.points, labels if labels is one else refined(labels))


def pays(pool: LabelledRecords, within: float) -> bool:
    """Tell whether the pool has enough of the SSE of all classes, of which the others have so much."""
    return _sse(pool) > POOL_MIN_LOSS_SHARE * (_sse(pool) + within)


def _sse(part: LabelledRecords) -> float:
    return spread_of(sums_of(part.points, part.labels)).within


def _lost(part: LabelledRecords) -> npt.NDArray[np.float64]:
    """Return the mean squared distance of the records of each class (m,) from its mean."""
    classes = sums_of(part.points, part.labels)
    within = classes.squares - (classes.sums**2).sum(axis=1) / np.maximum(classes.sizes, 1)
    return np.asarray(np.maximum(within, 0.0) / np.maximum(classes.sizes, 1))


def _divided(part: LabelledRecords, chosen: npt.NDArray[np.bool_]) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the records of the other classes and those of the chosen ones (m,)."""
    of = chosen[part.labels] if len(part.labels) else np.zeros(0, dtype=bool)
    return _some(part, ~of), _some(part, of)


def _some(part: LabelledRecords, keep: npt.NDArray[np.bool_]) -> LabelledRecords:
    labels = np.unique(part.labels[keep], return_inverse=True)[1].astype(np.int64)
    return LabelledRecords(subset(part.records, keep), np.ascontiguousarray(part.points[keep]), labels)


def _joined(one: LabelledRecords, other: LabelledRecords) -> LabelledRecords:
    first, second = one.records, other.records
    records = Records(
        np.concatenate([first.record_id, second.record_id]),
        {name: np.concatenate([column, second.columns[name]]) for name, column in first.columns.items()},
        np.concatenate([first.codes, second.codes], axis=1),
    )
    labels = np.concatenate([one.labels, other.labels + len(np.unique(one.labels))])
    return LabelledRecords(records, np.concatenate([one.points, other.points]), labels)
