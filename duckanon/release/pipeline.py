"""The pipeline: from a query and a policy to an audited release, in reading order.

stage → embed → limit → bucket → partition → repair → together → protect →
subsets → recode → audit → advise → publish
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.database import engine, interrupts
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.policy.reported import reported_loss
from duckanon.release.stages.advise.advise import advise
from duckanon.release.stages.audit import audit
from duckanon.release.stages.bucket import bucket, drop_tiles
from duckanon.release.stages.embed import embed
from duckanon.release.stages.limit import limit
from duckanon.release.stages.partition.boxes import ALL_RECORDS, box_tiles, supersets
from duckanon.release.stages.partition.partition import partition
from duckanon.release.stages.protect import protect
from duckanon.release.stages.recode import recode
from duckanon.release.stages.repair import repair
from duckanon.release.stages.stage import CLASS_FIELD, stage
from duckanon.release.stages.subsets import larger_classes, subsets
from duckanon.release.stages.together import together
from duckanon.release.ways import (
    from_all_records,
    instead_of,
    loses_less,
    near_ways,
    other_ways,
    way_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.audits.certificate import Supersets
    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.source import Drawn
    from duckanon.release.stages.bucket import Tiles
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.partition import Partitioned
    from duckanon.release.stages.recode import Recoded
    from duckanon.release.stages.stage import Field, Staged
    from duckanon.release.ways import Way


@dataclass(frozen=True)
class Candidate:
    """A release that passed its audit, in temporary tables that nobody else sees, and its source records."""

    staged: Staged
    embedded: Embedded
    recoded: Recoded
    start: str  # name of the first partition
    report: Report
    policy: Policy

    @property
    def fields(self) -> tuple[Field, ...]:
        """Columns of the release, in their order."""
        fields = self.staged.fields
        return fields if self.policy.release == "table" else (CLASS_FIELD, *fields)

    @property
    def information_loss(self) -> float | None:
        """Reported IL in per cent."""
        return reported_loss(self.recoded.loss, self.policy)

    @property
    def method(self) -> str:
        """The requested method and the chosen one."""
        return self.start if self.policy.method == "auto" else self.policy.method


@contextlib.contextmanager
def candidate_of(
    con: duckdb.DuckDBPyConnection,
    query: str,
    policy: Policy,
    *,
    drawn: Drawn | None = None,
    keep_source: bool = False,
    advice: bool = True,
) -> Iterator[Candidate]:
    """Give an audited release of a query in temporary tables, which are dropped after the block.

    The source must have the columns `drawn`; `keep_source` also keeps the rows of the source.
    """
    with engine.temporary(con) as workspace:
        staged: Staged = stage(con, query, policy, workspace, drawn=drawn, keep_source=keep_source)
        embedded: Embedded = embed(con, staged, policy)
        limits: Limits = limit(con, staged, embedded, policy)
        way: Way = least_way(con, staged, embedded, limits, policy)
        recoded: Recoded = recode(con, staged, embedded, way.classes, way.plan.levels, policy)
        report: Report = audit(con, staged, embedded, recoded, way.plan, policy, way.supersets)
        if advice:
            report = advise(con, staged, embedded, limits, way.sample, recoded, report, policy)
        yield Candidate(staged, embedded, recoded, way.plan.method, report, policy)


def least_way(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Way:
    """The way of least loss. With n, ways of three kinds: t from all records, classes of n records, boxes."""
    if policy.n is None:
        return protected(con, staged, embedded, limits, policy)
    way = protected(con, staged, embedded, limits, from_all_records(staged, policy))
    way = replace(way, supersets=ALL_RECORDS)
    for other, of in near_ways(staged, embedded, limits, policy):
        if staged.late:
            break
        try:
            found = protected(con, staged, embedded, of, other)
        except PolicyError:
            # A box may not keep l, or fewer records than n are left.
            continue
        bounds: Supersets | None = ALL_RECORDS
        if found.boxes is not None:
            bounds = supersets(con, staged, embedded, limits, found.classes, found.boxes, policy)
        found = replace(found, supersets=bounds, violates=found.violates or bounds is None)
        if loses_less(found, way, staged):
            way = instead_of(found, way, staged, policy)
    return way


def protected(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Way:
    """The way of least loss, with classes merged until they keep p % and the k of subsets.

    If the records left by suppression cannot keep them, nothing is suppressed.
    """
    way = least_loss(con, staged, embedded, limits, policy)
    try:
        return merged_way(con, staged, embedded, limits, way, policy)
    except InfeasibleError:
        if not way.classes.suppressed or not limits.whole_reaches:
            raise
    whole = replace(policy, suppression_limit=0)
    way = least_loss(con, staged, embedded, limits, whole)
    way = merged_way(con, staged, embedded, limits, way, whole)
    what = "a threshold" if policy.p_percent is None else "p_percent"
    why = f"{way.plan.why}; nothing is suppressed, for {what} is out of reach of fewer records"
    return replace(way, plan=replace(way.plan, why=why))


def merged_way(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    way: Way,
    policy: Policy,
) -> Way:
    """A way with classes merged until they keep p % and the k of subsets.

    If subsets make classes merge, larger classes from the start are tried, too: they keep the k of every
    subset whatever they release.
    """
    classes = protect(con, staged, embedded, way.classes, policy)
    merged = subsets(con, staged, embedded, classes, policy)
    if merged is classes:
        return replace(way, classes=classes)
    # Contributions of one subject to two classes add up, so merged classes may miss p % again.
    while (classes := protect(con, staged, embedded, merged, policy)) is not merged:
        merged = subsets(con, staged, embedded, classes, policy)
    way = replace(way, classes=classes)
    larger = larger_classes(staged, policy)
    if larger is None:
        return way
    try:
        found = one_way(con, staged, embedded, limits, larger)
        found = replace(found, classes=protect(con, staged, embedded, found.classes, policy))
    except PolicyError:
        # Suppression has left fewer records than k, or the method cannot keep the policy.
        return way
    return instead_of(found, way, staged, policy) if loses_less(found, way, staged) else way


def least_loss(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Way:
    """The way whose classes lose least: the policy itself, or another policy with the same guarantee.

    Every other way costs as much as the first. No way begins after the time for refinement.
    """
    least = one_way(con, staged, embedded, limits, policy)
    tried = [least]
    with progress.step("least_loss"):
        for other in other_ways(tried, staged, embedded, limits, policy):
            if staged.late:
                break
            try:
                found = one_way(con, staged, embedded, limits, other)
            except PolicyError:
                # Its method cannot keep the policy.
                continue
            tried.append(found)
            if loses_less(found, least, staged):
                least = instead_of(found, least, staged, policy)
    return least


def one_way(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Way:
    """The classes of a policy, which keep k, l and t, of several columns together, too."""
    if policy.n is None:
        tiles: Tiles = bucket(con, staged, embedded, limits, policy)
    else:
        tiles = box_tiles(con, staged, embedded, limits, policy)
    with interrupts.cleanup(con, lambda: drop_tiles(con, tiles)):
        partitioned: Partitioned = partition(con, staged, embedded, limits, tiles, policy)
    classes: Classes = repair(con, staged, embedded, limits, partitioned, policy)
    way = way_of(partitioned, classes)
    kept: Classes = together(con, staged, embedded, classes, policy)
    if kept is classes:
        return way
    why = f"{way.plan.why}; {classes.count} classes are merged into {kept.count} for t of several columns"
    return replace(way, classes=kept, plan=replace(way.plan, why=why))
