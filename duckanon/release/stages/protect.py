"""Protect: no class mean tells the largest of its values within p_percent, by merging classes (p % rule)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import engine, templates
from duckanon.database.spool import Spool, spool_folder
from duckanon.errors import InfeasibleError
from duckanon.kernels.dominance import ROUNDING, contributions, reached
from duckanon.kernels.merging.dominated import merge_dominated
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.class_sums import information_loss, joined, spread_of
from duckanon.release.stages.least_loss import drop_tiles, least_loss
from duckanon.release.stages.partition import partition
from duckanon.release.stages.repair import repair, summed_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.repair import Repaired
    from duckanon.release.stages.stage import Field, Staged


def protect(con: duckdb.DuckDBPyConnection, repaired: Repaired, policy: Policy) -> Repaired:
    """Classes that keep the p % rule in every numeric quasi-identifier released by its mean.

    Whatever else was asked for is kept: k, l and t of a union are no worse than of its parts. Without
    `p_percent` it costs nothing; where no class violates, the columns are read once, O(n); else O(n log n), 8
    bytes for each record and column, and for each coordinate of a class. Where all that suppression left, as
    one class, violates, nothing is suppressed. InfeasibleError: the whole table violates.
    """
    if policy.p_percent is None:
        return repaired
    staged, p = repaired.partitioned.bucketed.limited.embedded.staged, float(policy.p_percent)
    kept = repaired.labels.columns()
    labels = np.full(staged.size, -1, dtype=np.int64)
    labels[kept["record_id"] - 1] = kept["class_id"]
    columns = [_column(con, staged, field.column) for field in judged(staged)]
    subjects = _column(con, staged, "subject").astype(np.int64) if policy.subject else None

    def parts_of(labels: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
        return np.stack([contributions(values, labels, subjects, classes) for values in columns], axis=1)

    parts = parts_of(labels, repaired.class_count)
    if (reached(parts) >= p * (1 + ROUNDING)).all():
        return repaired
    try:
        _check_whole(parts_of(np.where(labels >= 0, 0, -1), 1)[0], judged(staged), policy)
    except InfeasibleError:
        if not repaired.suppressed or not repaired.partitioned.bucketed.limited.whole_reaches:
            raise
        way = replace(policy, suppression_limit=0)
        return protect(con, _without_suppression(con, repaired, way), way)
    embedded = repaired.partitioned.bucketed.limited.embedded
    classes = summed_again(con, embedded, labels, repaired.class_count)

    def again(merged: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return parts_of(np.where(labels >= 0, merged[labels], -1), int(merged.max()) + 1)

    repeated = again if subjects is not None else None
    merged = merge_dominated(classes.sums, classes.sizes, parts, p, again=repeated)
    united = joined(classes, merged)
    spool = Spool(spool_folder(con))
    spool.add({"record_id": kept["record_id"], "class_id": merged[kept["class_id"]]})
    return replace(
        repaired,
        labels=spool,
        means=None,
        class_count=len(united.sizes),
        information_loss=information_loss([spread_of(united)]),
    )


def _without_suppression(con: duckdb.DuckDBPyConnection, repaired: Repaired, way: Policy) -> Repaired:
    """Return the classes of a policy that suppresses nothing, and say why in their plan."""
    before = repaired.partitioned.bucketed
    drop_tiles(con, before)
    bucketed = bucket(con, before.limited, way, name="whole")
    found = least_loss(con, repair(con, partition(con, bucketed, way), way), way)
    plan = found.partitioned.plan
    why = f"{plan.why}; nothing is suppressed, for p_percent is out of reach of fewer records"
    return replace(found, partitioned=replace(found.partitioned, plan=replace(plan, why=why)))


def judged(staged: Staged) -> tuple[Field, ...]:
    """Quasi-identifiers of which the p % rule speaks: numbers, that have a zero, released by their mean."""
    return tuple(field for field in staged.quasi if field.attribute.has_total)


def _column(con: duckdb.DuckDBPyConnection, staged: Staged, column: str) -> npt.NDArray[np.float64]:
    query = templates.render("relation.sql.j2:numbers", records=staged.records, column=column)
    return engine.column(con, query, "protect", staged.size)


def _check_whole(parts: npt.NDArray[np.float64], fields: Sequence[Field], policy: Policy) -> None:
    """Raise where one class of all records violates, which no merging ends then."""
    found = reached(parts)
    worst = int(np.argmin(found))
    best = float(found[worst]) / (1 + ROUNDING)
    if best >= float(policy.p_percent or 0):
        return
    name, whose = fields[worst].name, "subject" if policy.subject else "record"
    # Rounded down: what is named can be asked for, and all digits would tell the record.
    step = 10.0 ** (math.floor(math.log10(best)) - 1) if best > 0 else 1.0
    least = float(f"{math.floor(best / step) * step:.2g}")
    way_out = f"ask for p_percent = {least:g} at most" if least > 0 else "no p_percent is in reach"
    raise InfeasibleError(
        f"p_percent = {policy.p_percent} is out of reach: of {name!r} one {whose} has so much that even the "
        f"mean of all tells it; {way_out}, cap the column in the source query (top coding), or use "
        f"recode = {{{name}: 'median'}}",
        least,
    )
