"""Leave out: which records of a small table go under `suppression_limit`, so that the others lose less."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compose import compose, first_partition, merged
from duckanon.kernels.loss import deviations, information_loss
from duckanon.kernels.merging.merge import violations_of
from duckanon.kernels.recipes import EXACT, Recipe, recipes
from duckanon.release.stages.bucket import LARGEST, stratum_size
from duckanon.release.stages.limit.evened import evened, not_found
from duckanon.release.stages.limit.limit import thresholds_without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Tiles
    from duckanon.release.stages.limit.limit import Limits

    Made = Callable[
        [npt.NDArray[np.float64], npt.NDArray[np.int64], Sequence[Threshold]], npt.NDArray[np.int64]
    ]

PARTS = (1, 2, 4, 8)
"""The limit is tried whole and in these parts: what t needs may be less than what is allowed."""


def leaves_out(tiles: Tiles, limits: Limits, policy: Policy) -> bool:
    """Whether `leave_out` tells what is suppressed: one kernel sees all records. Else `repair` does."""
    sees_all = tiles.count == 1 and not len(tiles.ready_labels)
    searched = policy.method == "auto" and policy.refine and tiles.open_size <= EXACT
    return bool(searched and sees_all and limits.thresholds and policy.suppression_limit)


def leave_out(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    whole: npt.NDArray[np.int64],
    limits: Limits,
    policy: Policy,
    made: Made,
) -> npt.NDArray[np.int64]:
    """Classes (n,) of all records, -1 of those that are suppressed: of none unless that loses less.

    A record that is suppressed counts as lost altogether. `whole` are the classes without suppression, `made`
    makes such classes of other records under the thresholds of these. Several choices of records are tried,
    and merging alone tells which is taken.
    """

    def lost(released: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64] | None) -> _Lost:
        """Try the classes that are given, merged; where none are, those that are made."""
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
    """What the classes of what is left violate, the loss of all records in per cent, and the classes."""

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
    """Yield which records (n,) would be released, and the classes (n,) that have told it.

    Those farthest from the mean of their class go, or classes that violate a threshold before anything is
    done about it: of k alone, and of t-closeness-first. Of these the worst first, or those that lose most
    where they are merged.
    """
    n, thresholds = len(points), limits.thresholds
    most = int(policy.suppression_limit * n)
    amounts = sorted({most // part for part in PARTS} - {0})
    far = np.argsort(-deviations(points, whole), kind="stable")
    for some in amounts:
        if n - some < policy.k:
            break
        released = np.ones(n, dtype=bool)
        released[far[:some]] = False
        yield released, whole
    if not limits.whole_reaches:
        # A choice with an l that merging ends with.
        even = evened(limits.thresholds, codes, deviations(points, whole), policy)
        if even is not None:
            yield even, whole
    alone = recipes(n, policy.k, (), "fast", largest=LARGEST, columns=points.shape[1])[0]
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
    """Tell of each class (m,) whether it is suppressed, where at most `limit` records may be."""
    gone = np.zeros(len(sizes), dtype=bool)
    # The worst per record first; a class that does not fit in the limit any more is left for merging.
    for number in np.argsort(-violations / sizes, kind="stable"):
        if violations[number] > 0 and sizes[number] <= limit:
            gone[number] = True
            limit -= int(sizes[number])
    return gone
