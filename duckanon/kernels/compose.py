"""From points to final classes: a first partition, fewer violations, merging, refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.exchange.refine import Effort, Stop, reduce_violations, refine
from duckanon.kernels.first.blocks import blocks
from duckanon.kernels.first.mdav import mdav, mdav1
from duckanon.kernels.first.tcloseness_first import class_size, stratified
from duckanon.kernels.loss import class_means
from duckanon.kernels.merging.merge import Partner, class_members, merge_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Threshold

EXACT = 8192
"""Up to so many records exact MDAV; beyond, MDAV in blocks, which refinement makes up for."""

MANY = 500_000
"""Beyond so many records larger classes are not tried: they take twice as long to refine and gain little."""

Start = Literal["mdav", "mdav1", "blocks", "tcloseness_first"]
"""First partitions that recipes begin with."""


@dataclass(frozen=True)
class Recipe:
    """How classes are made.

    Attributes
    ----------
    start : str
        First partition: one of `Start` where `compose` makes the classes.
    size : int
        Its class size, at least k.
    partner : {'efficient', 'nearest', None}
        How classes that violate a threshold are merged; None: they stay as they are.
    effort : {'fast', 'balanced', 'best', None}
        Refinement; None: none.
    """

    start: str
    size: int
    partner: Partner | None = "efficient"
    effort: Effort | None = None


def recipes(
    n: int, k: int, thresholds: Sequence[Threshold], effort: Effort | None, *, largest: int
) -> tuple[Recipe, ...]:
    """Return the recipes worth trying.

    Parameters
    ----------
    n : int
        Number of records.
    k : int
        Smallest class size.
    thresholds : sequence of Threshold
        What every class must satisfy.
    effort : {'fast', 'balanced', 'best', None}
        Refinement.
    largest : int
        No class size of a first partition is above this.

    Returns
    -------
    tuple of Recipe
        Without thresholds one: MDAV, in blocks beyond `EXACT` records. With them t-closeness-first with one,
        two and four times the class size of its Eq. 3, with one time where more than `MANY` records are to be
        refined; up to `EXACT` records also MDAV with the smallest size that can satisfy t, whose classes have
        to be changed and merged much: it pays in small tables only.
    """
    if not thresholds:
        return (Recipe("mdav" if n <= EXACT else "blocks", k, "efficient", effort),)
    spread = stratum_size(n, k, thresholds, largest=largest)
    factors = (1,) if effort and n > MANY else (1, 2, 4)
    sizes = sorted({min(spread * factor, max(largest, k)) for factor in factors})
    spreads = tuple(Recipe("tcloseness_first", size, "efficient", effort) for size in sizes if size <= n)
    if n > EXACT:
        return spreads
    smallest = smallest_size(n, k, thresholds, largest=largest) if effort else k
    return (Recipe("mdav", smallest, "efficient", effort), *spreads)


def compose(
    points: NDArray[np.float64],
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]],
    k: int,
    thresholds: Sequence[Threshold],
    recipe: Recipe,
    *,
    share: float = 1.0,
    seed: int = 0,
    stop: Stop | None = None,
    merging: bool = True,
) -> NDArray[np.int64]:
    """Return the classes that a recipe makes.

    Parameters
    ----------
    points, codes, k
        See `duckanon.kernels`; codes of ordered distance first; fewer than k records become one class.
    thresholds : sequence of S Threshold
        What every class should satisfy.
    recipe : Recipe
        What is done.
    share, seed, stop
        As in `refine`.
    merging : bool
        False where the classes that violate a threshold are not to be merged, since they may be suppressed.

    Returns
    -------
    ndarray of shape (n,), int64
        Classes of at least k. With merging, every threshold is satisfied where the recipe has a partner and
        one class of all these records satisfies it.
    """
    labels = first_partition(points, codes, recipe)
    if recipe.partner is None:
        return labels
    n = len(points)
    if thresholds:
        if recipe.effort and recipe.start != "tcloseness_first" and n >= 2 * k:
            labels = reduce_violations(
                points, labels, k, codes=codes, thresholds=thresholds, effort=recipe.effort, stop=stop
            )
        if merging:
            labels = merged(points, codes, thresholds, labels, recipe.partner)
    if recipe.effort and n >= 2 * k:
        labels = refine(
            points, labels, k, codes=codes, thresholds=thresholds, effort=recipe.effort,
            share=share, seed=seed, stop=stop,
        )  # fmt: skip
    return labels


def first_partition(
    points: NDArray[np.float64], codes: NDArray[np.int64] | Sequence[NDArray[np.int64]], recipe: Recipe
) -> NDArray[np.int64]:
    """Return the first partition of a recipe: classes of at least its size, or one class."""
    size = min(recipe.size, len(points))
    if recipe.start == "mdav":
        return mdav(points, size)
    if recipe.start == "mdav1":
        return mdav1(points, size)
    if recipe.start == "blocks":
        return blocks(points, size, threads=1)
    order = np.empty(len(points), dtype=np.int64)
    by_value = np.lexsort(list(codes)[::-1]) if len(codes) else np.arange(len(points))
    order[by_value] = np.arange(len(points))
    return stratified(points, order, size)


def merged(
    points: NDArray[np.float64],
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]],
    thresholds: Sequence[Threshold],
    labels: NDArray[np.int64],
    partner: Partner,
) -> NDArray[np.int64]:
    """Return the classes merged until each satisfies every threshold, or one is left: see `merge_classes`."""
    offsets, members = class_members(labels, codes)
    means = class_means(points, labels)
    joined = merge_classes(means, np.diff(offsets), members, offsets, thresholds, partner=partner)
    return joined[labels]


def stratum_size(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the class size with which one record of each stratum comes close to the thresholds.

    Their smallest t goes into Eq. 3 and 4 of Soria-Comas 2015, and a class needs l records for l values. At
    least k, and at most `largest`: merging does the rest beyond.
    """
    tight = [threshold.t for threshold in thresholds if threshold.t is not None]
    diverse = _diverse(k, thresholds)
    size = class_size(max(n, diverse), diverse, min(tight)) if tight else diverse
    return int(max(k, min(size, largest)))


def smallest_size(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the smallest class size, k..largest, that can satisfy the thresholds at all.

    For ordered distance the smallest size that Proposition 1 of Soria-Comas 2015 allows:
    (n + s)(n - s) / (4 n (n - 1) s) <= t, which holds without ties and nearly with few.
    """
    tight = [x.t for x in thresholds if x.t is not None and x.reference.distance == "ordered"]
    size = _diverse(k, thresholds)
    if tight and n > 1:
        t = float(min(tight))
        # (n^2 - s^2) <= 4 n (n - 1) s t: the positive root of s^2 + 4 n (n - 1) t s - n^2.
        half = 2.0 * n * (n - 1) * t
        size = max(size, int(np.ceil(n * n / (half + np.sqrt(half * half + n * n)) - 1e-9)))
    return int(max(k, min(size, largest)))


def _diverse(k: int, thresholds: Sequence[Threshold]) -> int:
    """Return the records that a class needs for k and for l values."""
    return max([k, *(math.ceil(x.l) for x in thresholds if x.l is not None)])
