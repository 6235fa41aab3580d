"""Together: merges classes until they keep t of several sensitive columns together, by the exact EMD."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.audits.joint import JOINT_VALUES_MAX
from duckanon.errors import PolicyError
from duckanon.kernels.closeness.joint import joint_distance
from duckanon.kernels.closeness.reference import class_histograms
from duckanon.kernels.merge_joint import JointLimit, merge_together
from duckanon.policy.bind import joint_thresholds
from duckanon.release.stages.classes import changed, joined
from duckanon.release.stages.repair import summed_again
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.policy.joint import JointThreshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Staged


@progress.step("together")
def together(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, classes: Classes, policy: Policy
) -> Classes:
    """Classes that keep t of several columns together; merging keeps k, l and t of single columns.

    Without such a t it costs nothing. In memory: 32 bytes a record.
    """
    asked = joint_thresholds(policy, [field.attribute for field in staged.sensitive])
    if not asked:
        return classes
    labels = classes.by_record(staged.size)
    limits = [_limit(con, staged, embedded, labels, classes.count, one) for one in asked]
    sums = summed_again(con, embedded, labels, classes.count)
    merged = merge_together(sums.sums, sums.sizes, limits)
    if int(merged.max(initial=-1)) + 1 == classes.count:
        return classes
    return changed(con, np.where(labels >= 0, merged[labels], -1), joined(sums, merged))


def _limit(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    labels: npt.NDArray[np.int64],
    classes: int,
    asked: JointThreshold,
) -> JointLimit:
    """Joint values of the released records by class; the distance is that of their ranks."""
    released = labels >= 0
    columns = {field.name: f"c_{field.column}" for field in staged.sensitive}
    codes = np.stack(
        [
            column_of(con, embedded.coded, columns[name], staged.size, "together")[released]
            for name in asked.columns
        ]
    )
    places = np.stack([np.unique(row, return_inverse=True)[1] for row in codes])
    values, value_of = np.unique(places, axis=1, return_inverse=True)
    count = values.shape[1]
    if count > JOINT_VALUES_MAX:
        raise PolicyError(
            f"t of ({asked.name}): these columns have {count:,} joint values, and joint t-closeness is for "
            f"{JOINT_VALUES_MAX:,} at most: release coarser values, or name fewer columns together"
        )
    try:
        distance = joint_distance(values, asked.ordered, largest=asked.largest)
    except ValueError as wide:
        raise PolicyError(f"t of ({asked.name}): {wide}") from wide
    order = np.argsort(labels[released], kind="stable")
    offsets = np.searchsorted(labels[released][order], np.arange(classes + 1))
    counts = np.bincount(value_of.ravel(), minlength=count)
    held = class_histograms(value_of.ravel()[order].astype(np.int64), offsets.astype(np.int64))
    return JointLimit(distance, Fraction(asked.t), counts, held)
