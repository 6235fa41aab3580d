"""Ways: policies with the same guarantee that may lose less, and the choice of the least loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon.errors import InfeasibleError
from duckanon.kernels.compose import EFFORTS
from duckanon.kernels.recipes import MDAV_MAX_RECORDS
from duckanon.policy.reported import DIGITS, reported_loss
from duckanon.release.stages.embed import dimensions
from duckanon.release.stages.partition.boxes import without_t
from duckanon.release.stages.partition.pool import LARGE_TABLE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from duckanon.audits.certificate import Supersets
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.partition import Partitioned
    from duckanon.release.stages.partition.plan import Plan, Sample
    from duckanon.release.stages.stage import Staged

MONDRIAN_MAX_RECORDS, MONDRIAN_MAX_COORDINATES = 1_000_000, 10_000_000
"""Largest table, in records and in coordinates, for which Mondrian is tried: it needs the table in memory."""

MERGED_CLASS_SIZE = 256
"""Mean class size above which merging counts as having left few classes."""

CLASS_OF_N_MAX_TIMES = 8
"""Largest n, as a multiple of k, for which classes of n records are tried: larger ones lose more than t."""


@dataclass(frozen=True)
class Way:
    """The classes of a policy, and how they were made."""

    plan: Plan
    classes: Classes
    sample: Sample | None  # some records of the middle tile
    pooled: bool  # whether the worst classes of all tiles were searched together
    leaving: bool  # whether the partition, not the repair, chose the suppressed records
    violates: bool  # whether a class violates a threshold, and the recipe has no repair
    boxes: npt.NDArray[np.int64] | None = None  # (m,) box of each class, where t is measured from boxes
    supersets: Supersets | None = None  # bounds of these boxes


def way_of(partitioned: Partitioned, classes: Classes) -> Way:
    """Way of a partition whose repair gave these classes."""
    unrepaired = bool(len(partitioned.violating)) and classes is partitioned.classes
    return Way(
        partitioned.plan,
        classes,
        partitioned.sample,
        partitioned.pooled,
        partitioned.leaving,
        unrepaired,
        partitioned.boxes,
    )


def other_ways(
    tried: Sequence[Way], staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Iterator[Policy]:
    """Yield policies that may lose less than the tried ways, the first of which is `policy` itself.

    These are lower efforts (a pooled search from better classes may end worse), no suppression (with more
    recipes), and Mondrian, if records may be suppressed or merging has left few classes.
    """
    if policy.method != "auto" or policy.release == "anatomy" or policy.n is not None:
        return

    def lower(way: Policy) -> Iterator[Policy]:
        if tried[-1].pooled and policy.refine and staged.size <= LARGE_TABLE_RECORDS:
            for effort in EFFORTS[: EFFORTS.index(policy.effort)]:
                yield replace(way, effort=effort)

    yield from lower(policy)
    # Other ways may end with one class of all records, which has to keep the thresholds.
    if not limits.thresholds or not limits.whole_reaches:
        return
    if policy.suppression_limit and not tried[0].leaving:
        without = replace(policy, suppression_limit=0)
        yield without
        yield from lower(without)
    merged = staged.size > MDAV_MAX_RECORDS and any(
        MERGED_CLASS_SIZE * one.classes.count < staged.size for one in tried
    )
    if fits_memory(staged, embedded) and (policy.suppression_limit or merged):
        yield replace(policy, method="mondrian")


def from_all_records(staged: Staged, policy: Policy) -> Policy:
    """The policy whose t is the distance from all records, of which n or more stay: it keeps (n, t).

    InfeasibleError if the table has fewer records than n.
    """
    n, size = policy.n or 1, staged.size
    if n > size:
        raise InfeasibleError(
            f"n = {n} is out of reach: the table has {size} records; ask for n <= {size}", float(size)
        )
    return replace(policy, n=None, suppression_limit=min(policy.suppression_limit, (size - n) / size))


def near_ways(
    staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Iterator[tuple[Policy, Limits]]:
    """Yield policies that keep (n, t) otherwise, with their limits: classes of n records, and boxes.

    A class of n records is its own superset, whatever its distance from all records is. Classes in boxes
    stay in them, so nothing may merge classes afterwards.
    """
    n = max(policy.n or 1, policy.k)
    if policy.method != "auto" or 2 * n > staged.size:
        return
    if n <= CLASS_OF_N_MAX_TIMES * policy.k:
        yield replace(policy, k=n, t=None, n=None), without_t(limits)
    merging = policy.p_percent is not None or policy.k_subsets is not None
    # A box of all records has to keep l and the bounds of shares.
    if not merging and limits.whole_reaches and fits_memory(staged, embedded):
        yield replace(policy, suppression_limit=0), limits


def fits_memory(staged: Staged, embedded: Embedded) -> bool:
    """Whether Mondrian may have the whole table in memory."""
    coordinates = staged.size * dimensions(embedded.axes)
    return staged.size <= MONDRIAN_MAX_RECORDS and coordinates <= MONDRIAN_MAX_COORDINATES


def loses_less(found: Way, least: Way, staged: Staged) -> bool:
    """Whether a way keeps every threshold and loses less (six digits), or equally with fewer suppressed."""
    return not found.violates and _rank(found, staged) < _rank(least, staged)


def instead_of(found: Way, least: Way, staged: Staged, policy: Policy) -> Way:
    """The way found, with a plan that says why it replaces another way."""
    before = least.plan.method
    text = f"loses less than {before}"
    if reported_loss(0.0, policy) is not None:
        here, there = _lost(found, staged), _lost(least, staged)
        text = f"loses {here:.{DIGITS}g} % where {before} loses {there:.{DIGITS}g} %"
    if found.boxes is not None:
        text = f"{found.plan.why}; {text}"
    return replace(found, plan=replace(found.plan, why=text))


def _rank(way: Way, staged: Staged) -> tuple[float, int]:
    return float(f"{_lost(way, staged):.6g}"), way.classes.suppressed


def _lost(way: Way, staged: Staged) -> float:
    """Return the loss of all records in per cent; a suppressed record counts as total loss."""
    gone = way.classes.suppressed / staged.size if staged.size else 0.0
    return (1.0 - gone) * way.classes.information_loss + gone * 100.0
