"""Recipes: which ways to make classes are worth trying, and the class sizes that they begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.closeness.threshold import least_records
from duckanon.kernels.exchange.refine import FULL_PASSES_MAX_RECORDS, Effort
from duckanon.kernels.first.tcloseness_first import class_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.merging.merge import Partner

MDAV_MAX_RECORDS = 8192
"""Up to so many records exact MDAV; beyond, MDAV in blocks, which refinement makes up for."""

FAST_IS_BALANCED_MAX_RECORDS = 1024
"""Up to so many records effort 'fast' is 'balanced', which takes about a second there: with less work
tables of many equal records lost up to twice as much as by a published method."""

BLOCK_SIZE_FACTORS = (1, 2, 4, 8)
"""Class sizes of MDAV in blocks that are tried without refinement, as multiples of the smallest one. With it
the second is, since exchanges do not pay among the larger classes that merging makes."""

BLOCKS_MAX_LOSS_FACTOR = 1.3
"""Of MDAV in blocks the largest classes are taken that lose at most so many times as much as any: merging
smaller ones takes longer."""

BLOCKS_MAX_LOSS_SHARE = 0.8
"""MDAV in blocks makes fewer classes, and is taken where it loses at most this share of what others lose."""

K_ALONE_MAX_LOSS_SHARE = 0.9
"""Classes of k alone have to be merged much, which takes three times as long: beyond `MDAV_MAX_RECORDS`
records they are taken where on a sample they lose at most this share of what others lose."""

K_ALONE_MAX_RECORDS = 50_000
"""With t they are tried up to so many records: a million takes 170 CPU seconds instead of 30."""

K_ALONE_MAX_COLUMNS = 16
"""Beyond `MDAV_MAX_RECORDS` records classes of k alone are not tried with more columns: that takes 1 s."""

Start = Literal["mdav", "mdav1", "blocks", "tcloseness_first", "univariate", "forest", "anatomy", "k_alone"]
"""First partitions that recipes begin with; `k_alone` has the classes of `auto` without thresholds."""


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
    n: int,
    k: int,
    thresholds: Sequence[Threshold],
    effort: Effort | None,
    *,
    largest: int,
    columns: int,
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
    columns : int
        Coordinates of a record.

    Returns
    -------
    tuple of Recipe
        Without thresholds one: MDAV, in blocks beyond `MDAV_MAX_RECORDS` records, or in one column the
        classes that lose least of all, which need no refinement. With them t-closeness-first with one, two
        and four times the
        class size of its Eq. 3, with one time where more than `FULL_PASSES_MAX_RECORDS` records are to be
        refined, since larger classes take twice as long and gain little; up to `MDAV_MAX_RECORDS`
        records also MDAV with the smallest size that can satisfy t, whose classes have to be changed and
        merged much: it pays in small tables only; if refined also the clusters of a spanning tree without t,
        and, for any number of records, the classes that k alone would get, which lose least where many
        records are equal, or in one column (see `K_ALONE_MAX_LOSS_SHARE`, `K_ALONE_MAX_RECORDS`,
        `K_ALONE_MAX_COLUMNS`). Beyond, MDAV in blocks with one to eight times that size, which is merged and
        not refined; beside others that are refined only with twice that size. Where a share is all that is
        asked for (recursive, l = 1, c below 1) Anatomize instead, for any number of records.
    """
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
    few = n <= MDAV_MAX_RECORDS or (near and columns <= K_ALONE_MAX_COLUMNS)
    alone = (Recipe("k_alone", k, "efficient", effort),) if effort and few else ()
    if n > MDAV_MAX_RECORDS:
        times = (
            ()
            if most_share(thresholds) is not None
            else BLOCK_SIZE_FACTORS[1:2]
            if effort
            else BLOCK_SIZE_FACTORS
        )
        sizes = sorted({min(smallest * some, max(largest, k)) for some in times})
        return spreads + alone + tuple(Recipe("blocks", size) for size in sizes if size <= n)
    smallest = smallest if effort else k
    # Within t of the table a class spreads over clusters; l values are often near.
    trees = effort and all(threshold.t is None for threshold in thresholds)
    first = ("mdav", "forest") if trees else ("mdav",)
    return (*(Recipe(start, smallest, "efficient", effort) for start in first), *alone, *spreads)


def effort_for(n: int, effort: Effort) -> Effort:
    """Return the effort with which so many records are refined: small tables get more than 'fast'."""
    return "balanced" if effort == "fast" and n <= FAST_IS_BALANCED_MAX_RECORDS else effort


def choice(tried: Sequence[Recipe], losses: Sequence[float], *, sampled: bool = False) -> int:
    """Return the place of the recipe that is taken, the first of those that lose least.

    Where losses are those of a sample, classes of k alone have to lose much less than others
    (`K_ALONE_MAX_LOSS_SHARE`).

    Where none is refined MDAV in blocks is passed over if it does not lose much less than all other starts
    (`BLOCKS_MAX_LOSS_SHARE`); else it is the one with the largest classes among those that do, and lose at
    most `BLOCKS_MAX_LOSS_FACTOR` times as much as any.
    """
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
        # Nothing is less than nothing, and what violates a threshold loses without end.
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
    """Return the size that classes begin with: the largest where none of that many records satisfies all.

    To merge small ones one after the other until they do takes a minute for some thousand values.
    """
    return max(size, largest) if max(map(least_records, thresholds)) > largest else size


def most_share(thresholds: Sequence[Threshold]) -> Decimal | None:
    """Return c if all that is asked for is that no value of one attribute has a share of c or more."""
    if len(thresholds) != 1:
        return None
    (only,) = thresholds
    return only.c if only.t is None and only.l == 1 and only.c is not None and only.c < 1 else None


def tile_strata(n: int, k: int, thresholds: Sequence[Threshold], *, largest: int) -> int:
    """Return the number of equal parts of the sensitive order of which every tile gets its share.

    It is `stratum_size`; but where a share of a value is all that is asked for, so many that no tile has too
    many of it, but for rounding: by its place in the order, a value is denser in a tile than in the table in
    the two parts where it begins and ends, at most.
    """
    share = most_share(thresholds)
    if share is None:
        return stratum_size(n, k, thresholds, largest=largest)
    reference = thresholds[0].reference
    slack = Fraction(share) - Fraction(int(reference.most_frequent[0]), reference.total)
    return max(k, min(math.ceil(2 / slack), largest)) if slack > 0 else largest


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
