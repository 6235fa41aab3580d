"""Pool: the classes with the greatest loss, from all tiles, are searched together.

In heavy tails a few outlying records cause most of the loss. The borders of tiles separate these records, and
no tile alone can put them into one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compose import EFFORTS, combine, compose
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.loss import sse
from duckanon.kernels.merge import violations_of
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
"""Largest pool in records: a kernel searches it in a second."""

POOL_LOSS_RATIO, POOL_LOSS_RATIO_OF_LARGE_TABLES, LARGE_TABLE_RECORDS = 1.0, 4.0, 50_000
"""A class goes to the pool if its loss a record exceeds the first number times the mean loss of its tile. In
a table with more records than the third number the second number counts, because the pool has only a small
part of its loss."""

POOL_MAX_CLASS_SIZE = 64
"""Mean class size above which the pool is not searched, because the search would take too long."""

POOL_MIN_LOSS_SHARE = 0.1
"""Share of the loss of all classes above which the pool is searched."""


@dataclass(frozen=True, eq=False)
class LabelledRecords:
    """Some records with their coordinates (n, d), and their classes (n,), 0..m-1."""

    records: Records
    points: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]


def parted(part: LabelledRecords, size: int) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the classes that stay, and the classes for the pool of a table of a size. O(n d)."""
    ratio = POOL_LOSS_RATIO if size <= LARGE_TABLE_RECORDS else POOL_LOSS_RATIO_OF_LARGE_TABLES
    lost = _lost(part)
    return _divided(part, lost > ratio * float(lost @ np.bincount(part.labels)) / len(part.labels))


def pooled(pool: LabelledRecords | None, part: LabelledRecords) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the pool with the classes of greatest loss, and the other classes, which stay."""
    others, worst = _worst(part if pool is None else _joined(pool, part), POOL_MAX_RECORDS)
    return worst, others


def search_pool(
    pool: LabelledRecords, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    stop: Stop | None, *, merging: bool,
) -> LabelledRecords:  # fmt: skip
    """Return the pool with classes that lose no more and keep every threshold that was kept before.

    The half with the greatest loss is searched again, as long as it has a tenth of the loss.
    """
    found = _searched(pool, policy, recipe, thresholds, share, stop, merging=merging)
    others, worst = _worst(found, len(found.labels) // 2)
    if len(worst.labels) < 2 * policy.k or not pays(worst, _sse(others)):
        return found
    return _joined(others, search_pool(worst, policy, recipe, thresholds, share, stop, merging=merging))


def _worst(part: LabelledRecords, most: int) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the other classes, and the classes of greatest loss with at most `most` records."""
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
    """Return the records with the better parts of their old and new classes."""
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
    # Results of lower efforts also take part in the combination.
    for way in ways:
        other = compose(
            pool.points, codes, k, thresholds, way, share=share, seed=policy.seed, stop=stop, merging=merging
        )
        labels = better(labels, other)
    return LabelledRecords(pool.records, pool.points, labels if labels is one else refined(labels))


def pays(pool: LabelledRecords, within: float) -> bool:
    """Tell whether the pool has enough of the SSE of all classes; `within` is the SSE of the others."""
    return _sse(pool) > POOL_MIN_LOSS_SHARE * (_sse(pool) + within)


def _sse(part: LabelledRecords) -> float:
    return spread_of(sums_of(part.points, part.labels)).within


def _lost(part: LabelledRecords) -> npt.NDArray[np.float64]:
    """Return the mean squared distance of the records of each class (m,) from the class mean."""
    classes = sums_of(part.points, part.labels)
    within = classes.squares - (classes.sums**2).sum(axis=1) / np.maximum(classes.sizes, 1)
    return np.asarray(np.maximum(within, 0.0) / np.maximum(classes.sizes, 1))


def _divided(part: LabelledRecords, chosen: npt.NDArray[np.bool_]) -> tuple[LabelledRecords, LabelledRecords]:
    """Return the records of the other classes, and the records of the chosen classes (m,)."""
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
