"""Repair: the worst classes are suppressed or merged until every class satisfies every threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.merge import class_members, merge_classes
from duckanon.kernels.threshold import violations_per_class
from duckanon.stages.classes import information_loss, joined, without_empty
from duckanon.stages.thresholds import thresholds, thresholds_without

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from duckanon.kernels.threshold import Threshold
    from duckanon.stages.partition import Partitioned
    from duckanon.stages.thresholds import Judged


@dataclass(frozen=True)
class Repaired:
    """The final classes.

    Attributes
    ----------
    labels : ndarray of shape (n,), int64
        Class of record_id 1, 2, ...; -1 where suppressed.
    class_count : int
        Number of classes.
    suppressed : int
        Number of suppressed records.
    information_loss : float
        IL = 100 SSE / SST of the released records, in per cent.
    """

    labels: npt.NDArray[np.int64]
    class_count: int
    suppressed: int
    information_loss: float


def repair(
    partitioned: Partitioned,
    judged: Judged,
    *,
    suppression_limit: float,
) -> Repaired:
    """Classes that satisfy every threshold, by suppressing whole worst classes and by merging.

    Parameters
    ----------
    partitioned : Partitioned
        Labels and class sums.
    judged : Judged
        What every class must satisfy. The reference of an EMD is the released table, so the thresholds are
        made anew when records were suppressed.
    suppression_limit : float
        Share of all records that may be left out.

    Returns
    -------
    Repaired
        Final labels. A plan without repair keeps its classes.

    Notes
    -----
    Classes are merged over the whole table: a good partner of a class often lies in another tile. Always
    ends: every merge removes a class, and one class of all records has EMD 0.
    """
    labels, codes = partitioned.labels.copy(), partitioned.codes
    released = np.ones(len(labels), dtype=bool)
    wanted = thresholds(judged)
    if wanted and suppression_limit > 0:
        released = _suppress(partitioned, wanted, int(suppression_limit * len(labels)))
        if not released.any():
            # Every class violates and all may go: a release of nothing helps nobody, so they are merged.
            released[:] = True
        labels[~released] = -1
        if not released.all():
            wanted, codes = thresholds_without(judged, codes, released)
    labels, classes = without_empty(labels, partitioned.classes)
    if wanted and len(classes.sizes) and partitioned.plan.recipe.partner is not None:
        released = labels >= 0
        offsets, members = class_members(labels[released], np.ascontiguousarray(codes[:, released]))
        merged = merge_classes(
            classes.sums / classes.sizes[:, None],
            classes.sizes,
            members,
            offsets,
            wanted,
            partner=partitioned.plan.recipe.partner,
        )
        labels = np.where(released, merged[labels], -1)
        classes = joined(classes, merged)
    return Repaired(labels, len(classes.sizes), int((labels < 0).sum()), information_loss(classes))


def _suppress(partitioned: Partitioned, thresholds: Sequence[Threshold], limit: int) -> npt.NDArray[np.bool_]:
    offsets, members = class_members(partitioned.labels, partitioned.codes)
    violations = violations_per_class(thresholds, members, offsets).sum(axis=0)
    sizes = np.diff(offsets)
    gone = np.zeros(len(sizes), dtype=bool)
    # The worst per record first; a class that does not fit in the limit any more is left for merging.
    for number in np.argsort(-violations / sizes, kind="stable"):
        if violations[number] > 0 and sizes[number] <= limit:
            gone[number] = True
            limit -= int(sizes[number])
    return ~gone[partitioned.labels]
