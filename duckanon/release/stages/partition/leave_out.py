"""Leave out: which records of a small table are suppressed, so that the other records lose less.

A suppressed record counts as total loss, so records are suppressed only if that lowers the loss of all
records. Candidates are the records farthest from their class mean, and whole violating classes of two
partitions (k alone, and t-closeness-first). The violating classes are taken by violation, or by the cost of
merging them. The choice with the least loss after mere merging wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compose import compose, first_partition, merged
from duckanon.kernels.loss import deviations, information_loss
from duckanon.kernels.merge import violations_of
from duckanon.kernels.recipes import MDAV_MAX_RECORDS, Recipe, recipes
from duckanon.release.stages.bucket import FIRST_CLASS_MAX_RECORDS, stratum_size
from duckanon.release.stages.limit import evened, not_found, thresholds_without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Tiles
    from duckanon.release.stages.limit import Limits

    Made = Callable[
        [npt.NDArray[np.float64], npt.NDArray[np.int64], Sequence[Threshold]], npt.NDArray[np.int64]
    ]

LIMIT_DIVISORS = (1, 2, 4, 8)
"""Divisors of the limit: fewer suppressed records than allowed may be enough for t."""


def leaves_out(tiles: Tiles, limits: Limits, policy: Policy) -> bool:
    """Whether `leave_out` suppresses records, because one kernel sees all; otherwise `repair` does."""
    sees_all = tiles.count == 1 and not len(tiles.ready_labels)
    searched = policy.method == "auto" and policy.refine and tiles.open_size <= MDAV_MAX_RECORDS
    return bool(searched and sees_all and limits.thresholds and policy.suppression_limit)


def leave_out(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    whole: npt.NDArray[np.int64],
    limits: Limits,
    policy: Policy,
    made: Made,
) -> npt.NDArray[np.int64]:
    """Class of each record (n,), -1 if suppressed. Suppression is used only where it lowers the loss.

    `whole` has the classes without suppression; `made` makes classes of a part of the records.
    """

    def lost(released: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64] | None) -> _Lost:
        """Loss of merged classes if labels are given, else of new classes."""
        left, recoded = thresholds_without(limits, policy, codes, released)
        here, held = np.ascontiguousarray(points[released]), np.ascontiguousarray(recoded[:, released])
        if labels is None:
            found = made(here, held, left)
        else:
            numbered = np.unique(labels[released], return_inverse=True)[1].astype(np.int64)
            found = merged(here, held, left, numbered, "efficient")
        share = len(here) / len(points)
        loss = share * information_loss(here, found) + (1.0 - share) * 100.0
        return _Lost(float(violations_of(left, held, found).sum()), loss, found)

    choices = {
        released.tobytes(): (released, labels)
        for released, labels in _choices(points, codes, whole, limits, policy)
    }
    if not choices:
        if not limits.whole_reaches:
            raise not_found(policy)
        return whole
    released, _ = min(choices.values(), key=lambda choice: lost(*choice)[:2])
    least = lost(released, None)
    if least.violation > 0 and not limits.whole_reaches:
        raise not_found(policy)
    violation = float(violations_of(limits.thresholds, codes, whole).sum())
    # Less by more than rounding.
    if (violation, information_loss(points, whole) * (1.0 - 1e-9)) <= least[:2]:
        return whole
    classes = np.full(len(points), -1, dtype=np.int64)
    classes[released] = least.labels
    return classes


class _Lost(NamedTuple):
    """Violation of the released classes, loss of all records in per cent, and the classes."""

    violation: float
    loss: float
    labels: npt.NDArray[np.int64]


def _choices(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    whole: npt.NDArray[np.int64],
    limits: Limits,
    policy: Policy,
) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
    """Yield choices of the released records (n,), each with its original classes (n,)."""
    n, thresholds = len(points), limits.thresholds
    most = int(policy.suppression_limit * n)
    amounts = sorted({most // part for part in LIMIT_DIVISORS} - {0})
    far = np.argsort(-deviations(points, whole), kind="stable")
    for some in amounts:
        if n - some < policy.k:
            break
        released = np.ones(n, dtype=bool)
        released[far[:some]] = False
        yield released, whole
    if not limits.whole_reaches:
        # A choice that gives merging a sufficient l.
        even = evened(limits.thresholds, codes, deviations(points, whole), policy)
        if even is not None:
            yield even, whole
    alone = recipes(n, policy.k, (), "fast", largest=FIRST_CLASS_MAX_RECORDS, columns=points.shape[1])[0]
    spread = Recipe("tcloseness_first", min(n, stratum_size(n, policy, thresholds)))
    for labels in (
        compose(points, codes, policy.k, (), alone, seed=policy.seed),
        first_partition(points, codes, spread),
    ):
        violations, sizes = violations_of(thresholds, codes, labels), np.bincount(labels)
        after = deviations(points, merged(points, codes, thresholds, labels, "efficient"))
        added = np.bincount(labels, weights=after - deviations(points, labels))
        for worth in (violations, np.where(violations > 0, added, 0.0)):
            for some in amounts:
                gone = worst_classes(worth, sizes, some)
                if gone.any() and not gone.all():
                    yield ~gone[labels], labels


def worst_classes(
    violations: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64], limit: int
) -> npt.NDArray[np.bool_]:
    """Tell for each class (m,) whether it is suppressed, if at most `limit` records may be."""
    gone = np.zeros(len(sizes), dtype=bool)
    # The class with the greatest violation a record comes first. A class beyond the limit is left for
    # merging.
    for number in np.argsort(-violations / sizes, kind="stable"):
        if violations[number] > 0 and sizes[number] <= limit:
            gone[number] = True
            limit -= int(sizes[number])
    return gone
