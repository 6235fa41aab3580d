"""Recipes: which ways to make classes are worth trying, and the class sizes that they begin with.

Without thresholds there is one recipe: MDAV, in blocks beyond `MDAV_MAX_RECORDS` records, or in one column
the classes with the least loss, which need no refinement. With thresholds the recipes are:

- t-closeness-first with one, two and four times the class size of its Eq. 3. If more than
  `FULL_PASSES_MAX_RECORDS` records are refined, only with one time: larger classes take twice as long and
  gain little.
- Up to `MDAV_MAX_RECORDS` records, MDAV with the smallest size that can satisfy t (with k if not refined).
  Its classes have to be changed and merged much, which pays in small tables only. If refined and without t,
  also the clusters of a spanning tree.
- If refined, for any number of records, the classes for k alone. They lose least if many records are equal,
  or in one column. Limits: `K_ALONE_MAX_LOSS_SHARE`, `K_ALONE_MAX_RECORDS`, `K_ALONE_MAX_COLUMNS`.
  With bounds of shares also in more columns: only classes with rare values have to be large.
- Beyond `MDAV_MAX_RECORDS` records, MDAV in blocks with one to eight times that smallest size, merged and not
  refined. Beside recipes that are refined, only with twice that size, and not with bounds of shares: on a
  sample rare values decide, and later few classes hold them.
- If the only requirement is a share (alpha for all values; or recursive, l = 1, c below 1), Anatomize for any
  number of records, instead of MDAV in blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.closeness.threshold import least_records
from duckanon.kernels.exchange.refine import FULL_PASSES_MAX_RECORDS, Effort
from duckanon.kernels.first.tcloseness_first import class_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.merge import Partner

MDAV_MAX_RECORDS = 8192
"""Up to this size exact MDAV; beyond, MDAV in blocks, and refinement makes up for the difference."""

FAST_IS_BALANCED_MAX_RECORDS = 1024
"""Up to this size effort 'fast' is 'balanced', which takes about a second. With less work, tables of many
equal records lost up to twice as much as by a published method.
"""

BLOCK_SIZE_FACTORS = (1, 2, 4, 8)
"""Class sizes of MDAV in blocks that are tried without refinement, as multiples of the smallest size. With
refinement only the second is tried, since exchanges do not pay among the larger classes that merging makes.
"""

BLOCKS_MAX_LOSS_FACTOR = 1.3
"""Among MDAV in blocks, the largest classes that lose at most this many times the least loss are taken:
merging smaller ones takes longer.
"""

BLOCKS_MAX_LOSS_SHARE = 0.8
"""MDAV in blocks makes fewer classes; it is taken if it loses at most this share of the others' loss."""

K_ALONE_MAX_LOSS_SHARE = 0.9
"""Classes of k alone have to be merged much, which takes three times as long. Beyond `MDAV_MAX_RECORDS`
records they are taken if on a sample they lose at most this share of the others' loss.
"""

K_ALONE_MAX_RECORDS = 50_000
"""With t, classes of k alone are tried up to this size: a million records take 170 CPU seconds, not 30."""

K_ALONE_MAX_COLUMNS = 16
"""Beyond `MDAV_MAX_RECORDS` records, most columns with which classes of k alone are tried: that takes 1 s."""

SHARE_STEP = Decimal("1e-12")
"""Step of c: the least c above an alpha is this much larger."""

Start = Literal["mdav", "mdav1", "blocks", "tcloseness_first", "univariate", "forest", "anatomy", "k_alone"]
"""First partitions that recipes begin with; `k_alone` has the classes of `auto` without thresholds."""


@dataclass(frozen=True)
class Recipe:
    """How classes are made."""

    start: str  # first partition: one of `Start` if `compose` makes the classes
    size: int  # class size of the first partition, at least k
    # how classes that violate a threshold are merged; None leaves them as they are
    partner: Partner | None = "efficient"
    effort: Effort | None = None  # refinement; None for no refinement


def recipes(
    n: int,
    k: int,
    thresholds: Sequence[Threshold],
    effort: Effort | None,
    *,
    largest: int,
    columns: int,
) -> tuple[Recipe, ...]:
    """Return the recipes worth trying (see above); `largest` limits the class size of first partitions."""
    if not thresholds and columns == 1:
        return (Recipe("univariate", k),)
    if not thresholds:
        return (Recipe("mdav" if n <= MDAV_MAX_RECORDS else "blocks", k, "efficient", effort),)
    spread = _begun(stratum_size(n, k, thresholds, largest=largest), thresholds, largest)
    factors = (1,) if effort and n > FULL_PASSES_MAX_RECORDS else (1, 2, 4)
    sizes = sorted({min(spread * factor, max(largest, k)) for factor in factors})
    spreads = tuple(Recipe("tcloseness_first", size, "efficient", effort) for size in sizes if size <= n)
    if most_share(thresholds) is not None:
        spreads += (Recipe("anatomy", k, "efficient", effort),)
    smallest = _begun(smallest_size(n, k, thresholds, largest=largest), thresholds, largest)
    near = n <= K_ALONE_MAX_RECORDS or all(threshold.t is None for threshold in thresholds)
    bounded = any(threshold.shares is not None for threshold in thresholds)
    few = n <= MDAV_MAX_RECORDS or (near and (bounded or columns <= K_ALONE_MAX_COLUMNS))
    alone = (Recipe("k_alone", k, "efficient", effort),) if effort and few else ()
    if n > MDAV_MAX_RECORDS:
        times = (
            ()
            if most_share(thresholds) is not None or (bounded and effort)
            else BLOCK_SIZE_FACTORS[1:2]
            if effort
            else BLOCK_SIZE_FACTORS
        )
        sizes = sorted({min(smallest * some, max(largest, k)) for some in times})
        return spreads + alone + tuple(Recipe("blocks", size) for size in sizes if size <= n)
    smallest = smallest if effort else k
    # A class within t of the table spreads over clusters; l different values are often near.
    trees = effort and all(threshold.t is None for threshold in thresholds)
    first = ("mdav", "forest") if trees else ("mdav",)
    return (*(Recipe(start, smallest, "efficient", effort) for start in first), *alone, *spreads)


def effort_for(n: int, effort: Effort) -> Effort:
    """Return the effort with which n records are refined: small tables get more than 'fast'."""
    return "balanced" if effort == "fast" and n <= FAST_IS_BALANCED_MAX_RECORDS else effort


def choice(tried: Sequence[Recipe], losses: Sequence[float], *, sampled: bool = False) -> int:
    """Return the place of the recipe that is taken: the first with the least loss, with two exceptions."""
    # On a sample, classes of k alone have to lose much less than others (`K_ALONE_MAX_LOSS_SHARE`). If no
    # recipe is refined, MDAV in blocks is skipped unless it loses much less than all other starts
    # (`BLOCKS_MAX_LOSS_SHARE`). Otherwise the largest of its class sizes is taken for which the loss is that
    # small and at most `BLOCKS_MAX_LOSS_FACTOR` times the least among them.
    places = range(len(tried))
    blocks = [i for i in places if tried[i].start == "blocks"]
    others = [i for i in places if tried[i].start != "blocks"]
    if not blocks or any(recipe.effort for recipe in tried):
        factors = [
            K_ALONE_MAX_LOSS_SHARE if sampled and recipe.start == "k_alone" else 1.0 for recipe in tried
        ]
        return min(places, key=lambda i: losses[i] / factors[i])
    best = min(others, key=losses.__getitem__, default=None)
    if best is not None:
        # No loss is less than 0, and a partition that violates a threshold has infinite loss.
        blocks = [
            i
            for i in blocks
            if losses[i] <= BLOCKS_MAX_LOSS_SHARE * losses[best] and losses[i] < losses[best]
        ]
        if not blocks:
            return best
    least = min(losses[i] for i in blocks)
    return max(
        (i for i in blocks if losses[i] <= BLOCKS_MAX_LOSS_FACTOR * least), key=lambda i: tried[i].size
    )


def _begun(size: int, thresholds: Sequence[Threshold], largest: int) -> int:
    """Return the class size to begin with: the largest if no class of that many records satisfies all."""
    # Merging small classes one after the other until they satisfy all takes a minute for some thousand
    # values.
    return max(size, largest) if max(map(least_records, thresholds)) > largest else size


def most_share(thresholds: Sequence[Threshold]) -> Decimal | None:
    """Return c if the only requirement is that no value of one attribute has a share of c or more."""
    # An alpha counts as the next c of twelve decimals; classes are compared with alpha itself later.
    if len(thresholds) != 1:
        return None
    (only,) = thresholds
    if only.shares is not None:
        alpha = only.shares.alpha
        alone = only.t is None and only.l is None and not only.shares.relative
        return alpha + SHARE_STEP if alone and isinstance(alpha, Decimal) and alpha < 1 else None
    return only.c if only.t is None and only.l == 1 and only.c is not None and only.c < 1 else None


def tile_strata(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the number of equal parts of the sensitive order of which every tile gets its share."""
    # It is `stratum_size`, unless a share of a value is the only requirement. Then it is so large that, up to
    # rounding, no tile has too many records of a value: a value is denser in a tile than in the table at most
    # in the two parts where the value begins and ends.
    share = most_share(thresholds)
    if share is None:
        return stratum_size(n, k, thresholds, largest=largest)
    reference = thresholds[0].reference
    slack = Fraction(share) - Fraction(int(reference.most_frequent[0]), reference.total)
    return max(k, min(math.ceil(2 / slack), largest)) if slack > 0 else largest


def stratum_size(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the class size, k..`largest`, for which one record a stratum comes close to the thresholds."""
    # The smallest t goes into Eq. 3 and 4 of Soria-Comas 2015, and a class needs l records for l values.
    # Merging does the rest beyond `largest`.
    tight = [threshold.t for threshold in thresholds if threshold.t is not None]
    diverse = _diverse(k, thresholds)
    size = class_size(max(n, diverse), diverse, min(tight)) if tight else diverse
    return int(max(k, min(size, largest)))


def smallest_size(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the smallest class size, k..`largest`, that can satisfy the thresholds at all."""
    # For ordered distance the smallest size that Proposition 1 of Soria-Comas 2015 allows: (n + s)(n - s) /
    # (4 n (n - 1) s) <= t, which holds without ties and nearly with few.
    tight = [x.t for x in thresholds if x.t is not None and x.reference.distance == "ordered"]
    size = _diverse(k, thresholds)
    if tight and n > 1:
        t = float(min(tight))
        # (n^2 - s^2) <= 4 n (n - 1) s t: the positive root of s^2 + 4 n (n - 1) t s - n^2.
        half = 2.0 * n * (n - 1) * t
        size = max(size, int(np.ceil(n * n / (half + np.sqrt(half * half + n * n)) - 1e-9)))
    return int(max(k, min(size, largest)))


def _diverse(k: int, thresholds: Sequence[Threshold]) -> int:
    """Return the records that a class needs for k, for l values and for shares of values."""
    shares = [x.c for x in thresholds if x.t is not None and x.l == 1 and x.c is not None]
    return max(
        [
            k,
            *(math.ceil(x.l) for x in thresholds if x.l is not None),
            # A class of s records has less than c s records of one value.
            *(math.floor(1 / Fraction(c)) + 1 for c in shares),
            *(x.shares.least_records for x in thresholds if x.shares is not None),
        ]
    )
