"""From points to final classes: a first partition, fewer violations, merging, refinement.

`combine` takes the better parts of two partitions of the same records. Classes of the two partitions that
share records are linked. At the border of a group of linked classes, a class ends in both partitions. So each
group can be taken from the partition that loses less in it, from the first if equal. A requirement that each
class satisfies in both partitions holds for each class of the result.

>>> points = np.array([[0.0], [1.0], [0.0], [1.0], [8.0], [8.0], [9.0], [9.0]])
>>> combine(points, np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3])).tolist()
[2, 3, 2, 3, 0, 0, 1, 1]

`dissolve` dissolves classes between others, so that the others grow from k to 2k-1 records where it pays. It
is our variant of the second stage of DBA-2 and MDAV-2 (Lin, Wen, Hsieh and Chang, Expert Systems with
Applications 37(4), 2010; see `duckanon.literature.dissolve`): only near classes are looked at, no class grows
to 2k, and gains are exact. A class whose records are on average nearer to other centroids than to its own is
tried, by descending SSE. Each of its records joins the nearest of its `NEAREST_CLASSES` classes that has
room. The class is dissolved if that loses less. O((m + n) log m) on average, and O(k NEAREST_CLASSES d) for a
trial. Plain numpy: trials are few, and compiling would take longer than the trials on all but the largest
tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.exchange.refine import Effort, Stop, reduce_violations, refine
from duckanon.kernels.first.anatomy import anatomize
from duckanon.kernels.first.blocks import blocks
from duckanon.kernels.first.mdav import mdav, mdav1, repeated
from duckanon.kernels.first.spanning_tree import forest
from duckanon.kernels.first.tcloseness_first import stratified_parts
from duckanon.kernels.first.univariate import univariate
from duckanon.kernels.loss import class_means, deviations, sse
from duckanon.kernels.merge import Partner, class_members, merge_classes, violations_of
from duckanon.kernels.neighbours.centroids import nearest, principal
from duckanon.kernels.neighbours.kd import kd_blocks
from duckanon.kernels.points import distance_points, enlarged
from duckanon.kernels.recipes import MDAV_MAX_RECORDS, Recipe, effort_for, most_share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Threshold

TREE_TRIAL_RECORDS = 2048
"""Records on which larger tables try whether spanning trees pay."""

TREE_MAX_SSE_SHARE = 0.98
"""Spanning trees pay if at most this share of the SSE is left."""

ALGORITHM_3_MAX_RECORDS, ALGORITHM_3_PART_RECORDS = 2048, 1024
"""Up to the first number of records, Algorithm 3 searches all records for a class. Larger tables are halved
until no part has more records than the second number: that takes half the time of parts of 2,048 records, and
loses no more.
"""

ANATOMIZE_NARROW_RECORDS, ANATOMIZE_BROAD_RECORDS = 128, 4096
"""Records that Anatomize searches for a class, in two starts."""

K_ALONE_BALANCED_MAX_RECORDS = 4096
"""Up to this size classes of k alone are also searched as by 'balanced'; it takes seconds beyond."""

FULL_SEARCH_RECORDS = 6000
"""Table size with a full search; the searches of a smaller table are shorter in proportion."""

SEARCHES_A_TABLE = 3
"""Searches that share the work of a table for MDAV: from both starts, and from the best result."""

BEST_SEARCHES = 8
"""Times that 'best' searches a table of up to `MDAV_MAX_RECORDS` records as 'balanced' does, each time with
other random choices. As many longer searches go on from the ends of these, and as many more from the best end
of all.
"""

WORSE_SHARES = (0.2, 0.1, 0.05, 0.025)
"""How much worse a rebuilt neighbourhood may be in longer searches, in turns: none is best for all tables."""

STARTS: Mapping[str, Callable[[NDArray[np.float64], int], NDArray[np.int64]]] = {
    "mdav": mdav,
    "mdav1": mdav1,
    "blocks": partial(blocks, threads=1),
    "univariate": univariate,
    "forest": partial(forest, largest=MDAV_MAX_RECORDS),
}
"""First partitions by points and class size alone."""

EFFORTS: tuple[Effort, ...] = ("fast", "balanced", "best")
"""Efforts in ascending order: each takes more work than the one before and never loses more."""


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
    """Return the classes (n,) that a recipe makes, each of at least k records."""
    # Fewer than k records become one class. `codes` of ordered distance come first. `share`, `seed` and
    # `stop` as in `refine`. Without `merging`, classes that violate a threshold stay, since they may be
    # suppressed. With it, every threshold is satisfied if the recipe has a partner and one class of all
    # records satisfies it. From the same start, a higher effort never loses more, with merging and without
    # `stop`.
    n = len(points)
    effort = effort_for(n, recipe.effort) if recipe.effort and n >= 2 * k else None
    start = first_partition(points, codes, recipe, thresholds)
    if recipe.partner is None or recipe.start == "univariate":
        return start
    if thresholds:
        limited = _Limited(points, codes, k, thresholds, share, seed, stop)
        if recipe.start == "anatomy":
            return _anatomy(limited, recipe, start, effort, merging=merging)
        return _refined_under(limited, recipe, start, effort, merging=merging)
    if effort is None or not points.shape[1]:
        return start
    return _refined_freely(enlarged(distance_points(points)), start, k, effort, share, seed, stop)


@dataclass(frozen=True, eq=False)
class _Limited:
    """Records that are refined under thresholds, and the arguments of `refine`."""

    points: NDArray[np.float64]
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]]
    k: int
    thresholds: Sequence[Threshold]
    share: float
    seed: int
    stop: Stop | None

    def refined(self, labels: NDArray[np.int64], effort: Effort) -> NDArray[np.int64]:
        return refine(
            self.points, labels, self.k, codes=self.codes, thresholds=self.thresholds, effort=effort,
            share=self.share, seed=self.seed, stop=self.stop,
        )  # fmt: skip

    def best(self, partitions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the first partition with the least `rank`, which takes a while to compute."""
        return partitions[0] if len(partitions) == 1 else min(partitions, key=self.rank)

    def rank(self, labels: NDArray[np.int64]) -> tuple[float, float]:
        """Return the violations of all classes, and the SSE: the less the better."""
        return float(violations_of(self.thresholds, self.codes, labels).sum()), sse(self.points, labels)


def _refined_under(
    limited: _Limited, recipe: Recipe, start: NDArray[np.int64], effort: Effort | None, *, merging: bool
) -> NDArray[np.int64]:
    """Return classes that keep the thresholds; a higher effort never loses more."""
    # From one start 'balanced' makes the passes of 'fast' and more, and 'best' begins with what 'balanced'
    # ends with. Efforts reduce violations in different steps, so a start with violations is tried with the
    # steps of each effort up to the one asked.

    def kept(level: Effort | None, labels: NDArray[np.int64] = start) -> NDArray[np.int64]:
        if level and recipe.start != "tcloseness_first":
            labels = reduce_violations(
                limited.points, labels, limited.k, codes=limited.codes, thresholds=limited.thresholds,
                effort=level, stop=limited.stop,
            )  # fmt: skip
        partner = recipe.partner if merging else None
        return (
            merged(limited.points, limited.codes, limited.thresholds, labels, partner) if partner else labels
        )

    if effort is None:
        return kept(None)
    bases = [start] if recipe.start != "k_alone" else _alone(limited, start, recipe.size, effort)
    # If few classes violate, merging alone often loses less.
    levels: tuple[Effort | None, ...] = (None, "fast") if recipe.start in ("forest", "k_alone") else ("fast",)
    starts = [kept(level, base) for base in bases for level in levels]
    fewest = len(starts)
    if recipe.start not in ("tcloseness_first", "k_alone"):
        starts += [kept(level) for level in EFFORTS[1 : EFFORTS.index(effort) + 1]]
    # The start of 'best' alone has no part in the result of 'balanced'.
    below, own = _different(starts[: fewest + 1]), starts[fewest + 1 :]
    at_most: Effort = "fast" if effort == "fast" else "balanced"
    ended = limited.best([limited.refined(labels, at_most) for labels in below])
    if effort != "best":
        return ended
    return limited.best([limited.refined(labels, effort) for labels in (ended, *own)])


def _anatomy(
    limited: _Limited, recipe: Recipe, start: NDArray[np.int64], effort: Effort | None, *, merging: bool
) -> NDArray[np.int64]:
    """Return classes from the given start or from a broader one, as `_refined_under` does."""
    # A broad start finds nearer records where every value is frequent everywhere, a narrow one where some
    # values are rare in places. If the whole table has too large a share of a value, merging does not help.
    whole = violations_per_class(limited.thresholds, limited.codes, [0, len(start)])
    broad = _anatomized(
        limited.points, limited.codes, recipe.size, limited.thresholds, ANATOMIZE_BROAD_RECORDS
    )
    joins = merging and not whole.any()
    starts = _different([start, broad])
    return limited.best([_refined_under(limited, recipe, x, effort, merging=joins) for x in starts])


def _different(partitions: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return each partition once: without violations all steps leave a partition unchanged."""
    found: dict[bytes, NDArray[np.int64]] = {}
    for labels in partitions:
        found.setdefault(labels.tobytes(), labels)
    return list(found.values())


def _alone(limited: _Limited, start: NDArray[np.int64], size: int, effort: Effort) -> list[NDArray[np.int64]]:
    """Return the classes for k alone, here the size, with little effort and with more."""
    if not limited.points.shape[1]:
        return [start]
    n, points = len(start), enlarged(distance_points(limited.points))
    levels = {
        effort_for(n, "fast"),
        "balanced" if effort != "fast" and n <= K_ALONE_BALANCED_MAX_RECORDS else "fast",
    }
    return [
        _refined_freely(points, start, size, level, limited.share, limited.seed, limited.stop)
        for level in EFFORTS
        if level in levels
    ]


def _refined_freely(
    points: NDArray[np.float64], start: NDArray[np.int64], k: int, effort: Effort,
    share: float, seed: int, stop: Stop | None,
) -> NDArray[np.int64]:  # fmt: skip
    """Return classes refined without thresholds; each effort starts from the end of the one below."""
    # Other starts are the clusters of a spanning tree, in larger tables where they pay, and classes of equal
    # records. The classes that lose least are combined. If one column only varies, the optimal cut is known.
    n, varies = len(points), points.min(axis=0) < points.max(axis=0)
    if np.count_nonzero(varies) == 1:
        return univariate(np.ascontiguousarray(points[:, varies]), k)
    one = other = ended = _grown(points, start, k, stop)
    if not (stop is not None and stop()) and (n <= MDAV_MAX_RECORDS or _has_gaps(points, k, stop)):
        other = _grown(points, forest(points, k, largest=MDAV_MAX_RECORDS), k, stop)
        ended = refine(points, combine(points, one, other), k, effort="fast", stop=stop)
    equal = repeated(points, k) if n <= MDAV_MAX_RECORDS else None
    if equal is not None:
        ended = combine(points, ended, _grown(points, equal, k, stop))
    if n > MDAV_MAX_RECORDS:
        for level in EFFORTS[1 : EFFORTS.index(effort) + 1]:
            ended = refine(points, ended, k, effort=level, share=share, seed=seed, stop=stop)
        return ended
    searches = _Searches(
        points, k, share * min(1.0, n / FULL_SEARCH_RECORDS, 1.0 / SEARCHES_A_TABLE), seed, stop
    )
    if effort != "fast":
        ended = searches.balanced(one, other, ended, 0)
    return searches.best(one, other, ended) if effort == "best" else ended


@dataclass(frozen=True, eq=False)
class _Searches:
    """Searches of a table for MDAV without thresholds, each with a share of the work."""

    points: NDArray[np.float64]
    k: int
    share: float
    seed: int
    stop: Stop | None

    def _refined(self, labels: NDArray[np.int64], effort: Effort, number: int) -> NDArray[np.int64]:
        worse = WORSE_SHARES[number % len(WORSE_SHARES)] if effort == "best" else 0.0
        return refine(
            self.points, labels, self.k, effort=effort, share=self.share, seed=self.seed + number,
            worse=worse, stop=self.stop,
        )  # fmt: skip

    def balanced(
        self, one: NDArray[np.int64], other: NDArray[np.int64], ended: NDArray[np.int64], number: int
    ) -> NDArray[np.int64]:
        """Search from both starts, then from the best result; never more loss than the partition `ended`."""
        found = (self._refined(labels, "balanced", number + i) for i, labels in enumerate((one, other)))
        best = combine(self.points, ended, combine(self.points, *found))
        return self._refined(best, "balanced", number + 2)

    def best(
        self, one: NDArray[np.int64], other: NDArray[np.int64], ended: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Search from both starts again and again, then longer from each end; never more loss."""
        start = combine(self.points, one, other)
        pool = [
            ended,
            *(self.balanced(one, other, start, SEARCHES_A_TABLE * turn) for turn in range(1, BEST_SEARCHES)),
        ]
        pool.insert(0, self._combined(pool))
        number = SEARCHES_A_TABLE * BEST_SEARCHES
        found = [self._refined(labels, "best", number + i) for i, labels in enumerate(pool)]
        least = self._combined(found)
        for turn in range(BEST_SEARCHES):
            least = self._refined(least, "best", number + len(pool) + turn)
        return least

    def _combined(self, partitions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Put the better parts of several partitions together, beginning with those that lose least."""
        return reduce(partial(combine, self.points), sorted(partitions, key=partial(sse, self.points)))


def _grown(
    points: NDArray[np.float64], labels: NDArray[np.int64], k: int, stop: Stop | None
) -> NDArray[np.int64]:
    """Return classes refined with little effort, before and after classes between others are dissolved."""
    labels = refine(points, labels, k, effort="fast", stop=stop)
    if stop is not None and stop():
        return labels
    return refine(points, dissolve(points, labels, k), k, effort="fast", stop=stop)


def _has_gaps(points: NDArray[np.float64], k: int, stop: Stop | None) -> bool:
    """Tell whether in one block of neighbours a spanning tree finds clusters that MDAV cuts."""
    # A larger k needs larger trees, which cost the square of their records.
    if 4 * k > MDAV_MAX_RECORDS:
        return False
    order, offsets = kd_blocks(points, k, max(TREE_TRIAL_RECORDS, 4 * k))
    middle = len(offsets) // 2
    block = points[np.sort(order[offsets[middle - 1] : offsets[middle]])]
    one = _grown(block, blocks(block, k, threads=1), k, stop)
    other = _grown(block, forest(block, k, largest=len(block)), k, stop)
    return sse(block, combine(block, one, other)) <= TREE_MAX_SSE_SHARE * sse(block, one)


def first_partition(
    points: NDArray[np.float64],
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]],
    recipe: Recipe,
    thresholds: Sequence[Threshold] = (),
) -> NDArray[np.int64]:
    """Return the first partition of a recipe: classes of at least its size, or one class."""
    # 'anatomy' needs exactly one threshold, a share.
    size = min(recipe.size, len(points))
    if recipe.start == "anatomy":
        return _anatomized(points, codes, size, thresholds, ANATOMIZE_NARROW_RECORDS)
    if recipe.start == "k_alone":
        return STARTS["mdav" if len(points) <= MDAV_MAX_RECORDS else "blocks"](points, size)
    if recipe.start in STARTS:
        return STARTS[recipe.start](points, size)
    order = np.empty(len(points), dtype=np.int64)
    by_value = np.lexsort(list(codes)[::-1]) if len(codes) else np.arange(len(points))
    order[by_value] = np.arange(len(points))
    return stratified_parts(
        points,
        order,
        size,
        largest=ALGORITHM_3_MAX_RECORDS
        if len(points) <= ALGORITHM_3_MAX_RECORDS
        else ALGORITHM_3_PART_RECORDS,
    )


def _anatomized(
    points: NDArray[np.float64],
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]],
    size: int,
    thresholds: Sequence[Threshold],
    largest: int,
) -> NDArray[np.int64]:
    """Return the classes of `anatomize` under the only threshold."""
    share = most_share(thresholds)
    if share is None:
        raise ValueError("'anatomy' needs one threshold, recursive with l = 1 and c below 1, without t")
    return anatomize(points, codes[0], min(size, len(points)), share, largest)


def merged(
    points: NDArray[np.float64],
    codes: NDArray[np.int64] | Sequence[NDArray[np.int64]],
    thresholds: Sequence[Threshold],
    labels: NDArray[np.int64],
    partner: Partner,
) -> NDArray[np.int64]:
    """Return the classes merged until each satisfies every threshold, or one is left: see `merge_classes`."""
    offsets, members = class_members(labels, codes)
    if not violations_per_class(thresholds, members, offsets).any():
        return labels
    means = class_means(points, labels)
    joined = merge_classes(means, members, offsets, thresholds, partner=partner)
    return joined[labels]


NEAREST_CLASSES = 8
"""Nearest classes that a record may join."""


def dissolve(points: NDArray[np.float64], labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return classes (n,), 0..m'-1, of at least k records with at most the SSE of the given ones."""
    # Every given class has at least k records; no record joins a class of 2k-1 or more.
    means, sizes = class_means(points, labels), np.bincount(labels)
    m = len(sizes)
    if m < 2:
        return labels
    features = principal(np.vstack([means, points]), np.arange(m))
    near = nearest(features[:m], features[m:], np.arange(1, min(NEAREST_CLASSES, m) + 1))
    errors = np.bincount(labels, weights=_squared(points, means[labels]))
    away = np.where(near[:, 0] == labels, near[:, 1], near[:, 0])
    costs = np.bincount(labels, weights=_squared(points, means[away]) * sizes[away] / (sizes[away] + 1))
    doubtful = np.flatnonzero(errors > costs)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    classes = {number: own.tolist() for number, own in enumerate(members)}
    sums = means * sizes[:, None]
    for number in doubtful[np.argsort(-errors[doubtful], kind="stable")].tolist():
        _try(points, near, number, k, classes, sums)
    left = np.empty(len(points), dtype=np.int64)
    for number, own in enumerate(own for own in classes.values() if own):
        left[own] = number
    return left


def _try(
    points: NDArray[np.float64], near: NDArray[np.int64], number: int, k: int,
    classes: dict[int, list[int]], sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Dissolve a class if its records lose less in the nearest classes that have room."""
    own = classes[number]
    error = float(_squared(points[own], sums[number] / len(own)).sum())
    joined: list[int] = []
    for record in own:
        options = [c for c in near[record].tolist() if c != number and 0 < len(classes[c]) < 2 * k - 1]
        if not options:
            break
        counts = np.array([len(classes[c]) for c in options])
        distances = _squared(points[record], sums[options] / counts[:, None])
        best = int(np.argmin(distances))
        error -= float(distances[best] * counts[best] / (counts[best] + 1))
        if error <= 0.0:
            break
        joined.append(options[best])
        classes[options[best]].append(record)
        sums[options[best]] += points[record]
    if len(joined) == len(own):
        classes[number] = []
        return
    for record, c in zip(own, joined, strict=False):
        classes[c].remove(record)
        sums[c] -= points[record]


def _squared(points: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squared distances between rows, added column by column: the order of numpy's sums may change."""
    total: NDArray[np.float64] = np.zeros(np.broadcast_shapes(points.shape, others.shape)[0])
    for one, other in zip(points.T, others.T, strict=True):
        total += (one - other) ** 2
    return total


def combine(
    points: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a partition (n,) of classes of either partition, with at most the SSE of each of the two."""
    # O(n d), and O(n) for each step from a class to the classes linked with it; a few steps if groups are
    # small. Deterministic.
    group = groups(one, other)[one]
    gain = np.bincount(group, weights=deviations(points, one) - deviations(points, other))
    chosen = np.where(gain[group] > 0.0, other + int(one.max()) + 1, one)
    return np.asarray(np.unique(chosen, return_inverse=True)[1], dtype=np.int64)


def groups(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each class of the first partition the lowest class of that partition in its group."""
    m = int(one.max()) + 1
    lowest = np.arange(m)
    while True:
        across = np.full(int(other.max()) + 1, m)
        np.minimum.at(across, other, lowest[one])
        lower = np.full(m, m)
        np.minimum.at(lower, one, across[other])
        lower = lower[lower]
        if np.array_equal(lower, lowest):
            return lowest
        lowest = lower
