"""Protect: merges classes until no class mean reveals its largest value within p_percent (p % rule)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.errors import InfeasibleError
from duckanon.kernels.dominance import ROUNDING, contributions, merge_dominated, reached
from duckanon.release.stages.classes import changed, joined
from duckanon.release.stages.repair import summed_again
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged


@progress.step("protect")
def protect(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, classes: Classes, policy: Policy
) -> Classes:
    """Classes that keep the p % rule in every numeric quasi-identifier released by its mean. O(n log n).

    Merging keeps k, l and t. Without `p_percent` it costs nothing; without a violation, one scan.
    InfeasibleError if the class of all records with a class violates the rule.
    """
    if policy.p_percent is None:
        return classes
    p, labels = float(policy.p_percent), classes.by_record(staged.size)

    def column(name: str) -> npt.NDArray[np.float64]:
        return column_of(con, staged.records, name, staged.size, "protect")

    columns = [column(field.column) for field in judged(staged)]
    subjects = column("subject").astype(np.int64) if policy.subject else None

    def parts_of(labels: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
        return np.stack([contributions(values, labels, subjects, classes) for values in columns], axis=1)

    parts = parts_of(labels, classes.count)
    if (reached(parts) >= p * (1 + ROUNDING)).all():
        return classes
    _check_whole(parts_of(np.where(labels >= 0, 0, -1), 1)[0], judged(staged), policy)
    sums = summed_again(con, embedded, labels, classes.count)

    def again(merged: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return parts_of(np.where(labels >= 0, merged[labels], -1), int(merged.max()) + 1)

    repeated = again if subjects is not None else None
    merged = merge_dominated(sums.sums, sums.sizes, parts, p, again=repeated)
    return changed(con, np.where(labels >= 0, merged[labels], -1), joined(sums, merged))


def judged(staged: Staged) -> tuple[Field, ...]:
    """Quasi-identifiers under the p % rule: numbers with a zero, released by their mean."""
    return tuple(field for field in staged.quasi if field.attribute.has_total)


def _check_whole(parts: npt.NDArray[np.float64], fields: Sequence[Field], policy: Policy) -> None:
    """Raise if the class of all records violates, because then no merging helps."""
    found = reached(parts)
    worst = int(np.argmin(found))
    best = float(found[worst]) / (1 + ROUNDING)
    if best >= float(policy.p_percent or 0):
        return
    name, whose = fields[worst].name, "subject" if policy.subject else "record"
    # Rounded down, so that the named value is feasible; all digits would reveal the record.
    step = 10.0 ** (math.floor(math.log10(best)) - 1) if best > 0 else 1.0
    least = float(f"{math.floor(best / step) * step:.2g}")
    way_out = f"ask for p_percent = {least:g} at most" if least > 0 else "no p_percent is in reach"
    raise InfeasibleError(
        f"p_percent = {policy.p_percent} is out of reach: of {name!r} one {whose} has so much that even the "
        f"mean of all tells it; {way_out}, cap the column in the source query (top coding), or use "
        f"recode = {{{name}: 'median'}}",
        least,
    )
