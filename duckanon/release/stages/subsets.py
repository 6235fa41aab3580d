"""Subsets: merges classes until every subset of the quasi-identifiers keeps its k in the released values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.kernels.rare import CodedValues, merge_rare, rare_classes
from duckanon.policy.subsets import binding, out_of_reach
from duckanon.release.stages.classes import changed, joined
from duckanon.release.stages.recode import class_codes
from duckanon.release.stages.repair import summed_again
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.policy.subsets import SubsetThreshold
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Staged


@progress.step("subsets")
def subsets(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, classes: Classes, policy: Policy
) -> Classes:
    """Classes whose released values keep the k of every subset; merging keeps k, l and t.

    Without a k of a subset it costs nothing. Each round of merging recodes the classes, O(n) in SQL.
    InfeasibleError if the released records, or subjects, are fewer than k of a subset.
    """
    names = [field.name for field in staged.quasi]
    asked = binding(policy.k_subsets, names, policy.k)
    # full_domain counts the subsets of each node, and its labels are those of levels.
    if not asked or policy.method == "full_domain":
        return classes
    labels = classes.by_record(staged.size)
    wanted = [(tuple(map(names.index, one.columns)), one.k or 1) for one in asked]
    whose = column_of(con, staged.records, "subject", staged.size, "subsets") if policy.subject else None
    _check_whole(labels, whose, asked)
    used = sorted({number for columns, _ in wanted for number in columns})

    def values(of: Classes, labels: npt.NDArray[np.int64]) -> CodedValues:
        codes, _ = class_codes(con, staged, of, [staged.quasi[number] for number in used], policy)
        return CodedValues(codes, None if whose is None else _held(labels, whose))

    wanted = [(tuple(used.index(number) for number in columns), k) for columns, k in wanted]
    first = values(classes, labels)
    sizes = np.bincount(labels[labels >= 0], minlength=classes.count).astype(np.int64)
    if not rare_classes(first, sizes, wanted)[1].any():
        return classes
    sums = summed_again(con, embedded, labels, classes.count)

    def again(merged: npt.NDArray[np.int64]) -> CodedValues:
        new = np.where(labels >= 0, merged[labels], -1)
        return values(changed(con, new, joined(sums, merged)), new)

    merged = merge_rare(sums.sums, sums.sizes, first, wanted, again)
    return changed(con, np.where(labels >= 0, merged[labels], -1), joined(sums, merged))


def larger_classes(staged: Staged, policy: Policy) -> Policy | None:
    """The policy whose classes all have the largest k of a subset; None with subjects or few records."""
    k = max((one.k or 0 for one in binding(policy.k_subsets, policy.quasi_identifiers, policy.k)), default=0)
    if not k or policy.subject or staged.late or 2 * k > staged.size:
        return None
    return replace(policy, k=k)


def _held(
    labels: npt.NDArray[np.int64], whose: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return every pair of a class and one of its subjects, once."""
    there = labels >= 0
    pairs = np.unique(np.stack([labels[there], whose[there].astype(np.int64)]), axis=1)
    return pairs[0], pairs[1]


def _check_whole(
    labels: npt.NDArray[np.int64], whose: npt.NDArray[np.float64] | None, asked: list[SubsetThreshold]
) -> None:
    """Raise if one class of all released records would not be enough."""
    released = labels >= 0
    most, what = int(released.sum()), "records"
    if whose is not None:
        most, what = len(np.unique(whose[released])), "subjects"
    for one in asked:
        if one.k is not None and one.k > most:
            raise out_of_reach(one, most, what)
