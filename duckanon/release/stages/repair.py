"""Repair: the worst classes are suppressed or merged until every class satisfies every threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.merging.merge import class_members, merge_classes
from duckanon.kernels.neighbours.centroids import nearest
from duckanon.release.stages.class_sums import information_loss, joined, without_empty
from duckanon.release.stages.thresholds import thresholds_without

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.merging.merge import Partner
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.class_sums import Classes
    from duckanon.release.stages.partition import Partitioned


WHOLE = 100_000
"""Up to so many classes each of them is a candidate for merging; beyond, those near a violating one."""

NEAREST = 256
"""Candidates around each violating class to begin with."""


@dataclass(frozen=True)
class Repaired:
    """The final classes."""

    partitioned: Partitioned
    labels: npt.NDArray[np.int64]  # (n,), class of record_id 1, 2, ...; -1 where suppressed
    class_count: int  # of the partition; recoding may give several of them equal values
    suppressed: int  # number of suppressed records
    information_loss: float  # IL = 100 SSE / SST of the released records, in per cent


def repair(con: duckdb.DuckDBPyConnection, partitioned: Partitioned, policy: Policy) -> Repaired:
    """Classes that satisfy every threshold, by suppressing whole worst classes and by merging.

    Always ends: every merge removes a class, and one class of all records has EMD 0. Where nothing violates,
    which is the rule after merging within tiles, it costs O(n) without a copy of the records.
    """
    del con
    limited, suppression_limit = partitioned.bucketed.limited, policy.suppression_limit
    labels, codes = partitioned.labels, partitioned.codes
    violations: npt.NDArray[np.float64] | None = partitioned.violations
    thresholds = limited.thresholds
    if thresholds and suppression_limit > 0 and partitioned.violations.any():
        gone = _suppressed(partitioned, int(suppression_limit * len(labels)))
        # Every class violates and all may go: a release of nothing helps nobody, so they are merged.
        if gone.any() and not gone.all():
            labels = np.where(gone[labels], -1, labels)
            # The reference of an EMD is the released table.
            thresholds, codes = thresholds_without(limited, policy, codes, labels >= 0)
            violations = None
    labels, classes = without_empty(labels, partitioned.classes)
    if violations is None:
        released = labels >= 0
        offsets, members = class_members(labels[released], codes[:, released])
        violations = np.asarray(violations_per_class(thresholds, members, offsets).sum(axis=0))
    partner = partitioned.plan.recipe.partner
    if violations.any() and partner is not None:
        # Over the whole table: a good partner of a class often lies in another tile.
        merged = _merged(labels, codes, classes, np.flatnonzero(violations), thresholds, partner)
        labels = np.where(labels >= 0, merged[labels], -1)
        classes = joined(classes, merged)
    return Repaired(
        partitioned, labels, len(classes.sizes), int((labels < 0).sum()), information_loss(classes)
    )


def _merged(
    labels: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    classes: Classes,
    violating: npt.NDArray[np.int64],
    thresholds: Sequence[Threshold],
    partner: Partner,
) -> npt.NDArray[np.int64]:
    """Return the new class of each class (m,), the violating ones merged with others near them."""
    centroids, m = classes.sums / classes.sizes[:, None], len(classes.sizes)
    count = m if m <= WHOLE else NEAREST
    while True:
        chosen = np.ones(m, dtype=bool)
        if count < m:
            chosen[:] = False
            chosen[violating] = True
            near = nearest(centroids, centroids[violating], np.arange(1, count + 1), workers=-1)
            chosen[near.ravel()] = True
        numbers = np.flatnonzero(chosen)
        records = np.flatnonzero((labels >= 0) & chosen[labels])
        class_of = np.searchsorted(numbers, labels[records])
        offsets, members = class_members(class_of, np.ascontiguousarray(codes[:, records]))
        united = merge_classes(
            centroids[numbers], classes.sizes[numbers], members, offsets, thresholds, partner=partner
        )
        if united.max() > 0 or len(numbers) == m:
            break
        # One class is left, which may still violate, and is dear if it does not: look farther.
        count *= 8
    # There are no more unions than classes looked at, so that their numbers are names enough.
    holder = np.arange(m)
    holder[numbers] = numbers[united]
    return np.asarray(np.unique(holder, return_inverse=True)[1], dtype=np.int64)


def _suppressed(partitioned: Partitioned, limit: int) -> npt.NDArray[np.bool_]:
    """Tell of each class (m,) whether it is suppressed."""
    violations, sizes = partitioned.violations, partitioned.classes.sizes
    gone = np.zeros(len(sizes), dtype=bool)
    # The worst per record first; a class that does not fit in the limit any more is left for merging.
    for number in np.argsort(-violations / sizes, kind="stable"):
        if violations[number] > 0 and sizes[number] <= limit:
            gone[number] = True
            limit -= int(sizes[number])
    return gone
