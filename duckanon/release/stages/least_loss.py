"""Least loss: other ways to the classes are tried where those of tiles may not be the best."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.errors import PolicyError
from duckanon.kernels.compose import EFFORTS
from duckanon.kernels.recipes import EXACT
from duckanon.policy.told import DIGITS, told_loss
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.embed import dimensions
from duckanon.release.stages.leave_out import leaves_out
from duckanon.release.stages.partition import partition
from duckanon.release.stages.pool import MANY
from duckanon.release.stages.repair import repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Bucketed
    from duckanon.release.stages.repair import Repaired

LARGEST, WIDEST = 1_000_000, 10_000_000
"""Mondrian has the whole table in memory: it is tried on so many records, and coordinates in all, at most."""

MERGED = 256
"""Classes of so many records on average are what merging has left of a partition."""


def least_loss(con: duckdb.DuckDBPyConnection, repaired: Repaired, policy: Policy) -> Repaired:
    """The classes that lose least, of those that are given and those of other ways.

    A record that is suppressed counts as lost altogether; of equal ways the fewest suppressed records win.
    Each costs as much as another partition.
    """
    least, found = repaired, [repaired]
    for number, way in enumerate(_ways(found, policy)):
        limited = repaired.partitioned.bucketed.limited
        until = limited.embedded.staged.until
        if until is not None and time.monotonic() > until:
            break
        bucketed = bucket(con, limited, way, name=f"way{number}")
        try:
            other = repair(con, partition(con, bucketed, way), way)
        except PolicyError:
            # A method that cannot do it is no way.
            drop_tiles(con, bucketed)
            continue
        found.append(other)
        better = not _violates(other) and _rank(other) < _rank(least)
        drop_tiles(con, (least if better else other).partitioned.bucketed)
        least = _told(other, least, policy) if better else least
    return least


def _ways(found: Sequence[Repaired], policy: Policy) -> Iterator[Policy]:
    """Yield other policies with the same guarantee, to the first that is found.

    With less effort, where the worst classes of all tiles were searched together, which may end with more
    loss from better classes: so a higher effort never loses more. Without suppression, which has more recipes
    to choose from, too. Mondrian, which cuts the table from above, where suppression is allowed, or where
    merging has left few classes.
    """
    bucketed = found[0].partitioned.bucketed
    size = bucketed.limited.embedded.staged.size
    if policy.method != "auto" or policy.release == "anatomy":
        return

    def lower(way: Policy) -> Iterator[Policy]:
        if found[-1].partitioned.pooled and policy.refine and size <= MANY:
            for effort in EFFORTS[: EFFORTS.index(policy.effort)]:
                yield replace(way, effort=effort)

    yield from lower(policy)
    # Other ways end with all records in one class, which has to keep what is asked.
    if not bucketed.limited.thresholds or not bucketed.limited.whole_reaches:
        return
    if policy.suppression_limit and not leaves_out(bucketed, policy):
        without = replace(policy, suppression_limit=0)
        yield without
        yield from lower(without)
    merged = size > EXACT and any(MERGED * one.class_count < size for one in found)
    fits = size <= LARGEST and size * dimensions(bucketed.limited.embedded.axes) <= WIDEST
    if fits and (policy.suppression_limit or merged):
        yield replace(policy, method="mondrian")


def _rank(repaired: Repaired) -> tuple[float, int]:
    """What is lost, to six digits, and how many records are suppressed: the less the better."""
    return float(f"{_lost(repaired):.6g}"), repaired.suppressed


def _lost(repaired: Repaired) -> float:
    """Return the loss of all records in per cent."""
    size = repaired.partitioned.bucketed.limited.embedded.staged.size
    gone = repaired.suppressed / size if size else 0.0
    return (1.0 - gone) * repaired.information_loss + gone * 100.0


def _violates(repaired: Repaired) -> bool:
    """Tell whether a class violates a threshold that nothing was left to repair."""
    left = repaired.partitioned
    return bool(len(left.violating)) and left.plan.recipe.partner is None and repaired.labels is left.labels


def _told(other: Repaired, least: Repaired, policy: Policy) -> Repaired:
    """Return the classes with a plan that says why they are taken."""
    before = least.partitioned.plan.method
    text = f"loses less than {before}"
    if told_loss(0.0, policy) is not None:
        text = f"loses {_lost(other):.{DIGITS}g} % where {before} loses {_lost(least):.{DIGITS}g} %"
    plan = replace(other.partitioned.plan, why=text)
    return replace(other, partitioned=replace(other.partitioned, plan=plan))


def drop_tiles(con: duckdb.DuckDBPyConnection, bucketed: Bucketed) -> None:
    """Drop tiles that nobody reads any more."""
    if bucketed.tile_count:
        drop = templates.render("relation.sql.j2:drop", parts=("temp", bucketed.tiles), view=False)
        engine.run(con, drop, "least_loss")
