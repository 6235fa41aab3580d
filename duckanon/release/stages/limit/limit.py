"""Limit: thresholds for every class, against the distribution of the released records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.errors import InfeasibleError
from duckanon.hierarchies.tree import make_tree
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.policy.bind import Role
from duckanon.release.stages.limit.evened import (
    EVENED,
    AskedDiversity,
    entropy_l,
    most_even,
    most_gone,
    reaches,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged


@dataclass(frozen=True)
class Limits:
    """The sensitive fields with a threshold, ordered distance first."""

    fields: tuple[Field, ...]
    thresholds: tuple[Threshold, ...]  # of each field, against all staged records
    counts: tuple[npt.NDArray[np.int64], ...]  # records by value code, of each field
    paths: Mapping[str, npt.NDArray[np.int64]]  # tree nodes above each value code, by field column

    @property
    def whole_reaches(self) -> bool:
        """Whether all records, as one class, keep every l."""
        return all(map(reaches, self.thresholds, self.counts))

    @property
    def codes(self) -> tuple[str, ...]:
        """Columns of the fields in the coded table."""
        return tuple(f"c_{field.column}" for field in self.fields)


@progress.step("limit")
def limit(con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, policy: Policy) -> Limits:
    """Sensitive fields with a threshold, and their trees; none if the policy asks for k only.

    PolicyError: a hierarchy is unusable. InfeasibleError: l is above the l of the whole table.
    """
    paths = {
        field.column: make_tree(
            con, field.attribute, tree=staged.tree(field), domain=embedded.domains[field.column]
        )
        for field in staged.sensitive
        if field.attribute.distance == "hierarchical"
    }
    bound = [f for f in staged.sensitive if f.attribute.t is not None or f.attribute.l is not None]
    # k subjects in a class are k distinct values of the subject column.
    bound += [staged.subject] if staged.subject is not None else []
    fields = tuple(sorted(bound, key=lambda field: field.attribute.distance != "ordered"))
    counts = tuple(embedded.counts[field.column] for field in fields)
    for field, values in zip(fields, counts, strict=True):
        check_l(field, values, policy, most=most_gone(policy, staged.size))
    thresholds = tuple(
        threshold_of(field, values, paths.get(field.column), policy)
        for field, values in zip(fields, counts, strict=True)
    )
    return Limits(fields, thresholds, counts, paths)


def thresholds_without(
    limits: Limits, policy: Policy, codes: npt.NDArray[np.int64], released: npt.NDArray[np.bool_]
) -> tuple[tuple[Threshold, ...], npt.NDArray[np.int64]]:
    """Thresholds against the released records, and the codes (s, n) in their smaller domain.

    A completely suppressed value leaves the domain of the release, because ordered distance counts ranks of
    released values only. Codes of suppressed records are meaningless.
    """
    left, recoded = [], np.zeros_like(codes)
    for number, all_counts in enumerate(limits.counts):
        counts = np.bincount(codes[number][released], minlength=len(all_counts)).astype(np.int64)
        recoded[number] = np.maximum(np.cumsum(counts > 0) - 1, 0)[codes[number]]
        left.append(counts)
    return thresholds_of(limits, policy, left), recoded


def thresholds_of(
    limits: Limits, policy: Policy, counts: Sequence[npt.NDArray[np.int64]]
) -> tuple[Threshold, ...]:
    """Thresholds against a part of the records, with the counts of its value codes for each field."""
    return tuple(
        threshold_of(field, left[left > 0], None if paths is None else paths[left > 0], policy)
        for field, left, paths in zip(
            limits.fields, counts, [limits.paths.get(field.column) for field in limits.fields], strict=True
        )
    )


def threshold_of(
    field: Field, counts: npt.NDArray[np.int64], paths: npt.NDArray[np.int64] | None, policy: Policy
) -> Threshold:
    """Threshold of a sensitive field, against a table with these counts of each value."""
    attribute, asked = field.attribute, policy.audited()
    kind = "distinct" if attribute.role is Role.SUBJECT else asked.l_diversity
    recursive = attribute.l is not None and kind == "recursive"
    return Threshold(
        reference(counts, attribute.distance or "equal", paths),
        t=attribute.t,
        l=attribute.l,
        l_kind=kind,
        c=asked.c if recursive else None,
    )


def check_l(field: Field, counts: npt.NDArray[np.int64], policy: Policy, *, most: int = 0) -> None:
    """Raise an InfeasibleError if even the whole table, with these counts of values, misses l.

    At most `most` records of the whole table may be suppressed.
    """
    threshold = field.attribute.l
    if threshold is None or field.attribute.role is Role.SUBJECT:
        return
    if policy.release == "anatomy":
        _check_share(field, counts, policy)
        return
    kind, whole = policy.l_diversity, "the whole table"
    if most and kind in EVENED:
        counts, whole = most_even(counts, most), f"what {most} suppressed records leave"
    if reaches(AskedDiversity(threshold, kind, policy.c), counts):
        return
    if kind == "recursive":
        tail = int(np.sort(counts)[::-1][math.ceil(threshold) - 1 :].sum())
        least = int(counts.max()) / tail if tail else math.inf
        raise InfeasibleError(
            f"recursive l-diversity with l = {threshold}, c = {policy.c} is out of reach of "
            f"{field.name!r}: {whole} needs c above {least:g}",
            least,
        )
    best = entropy_l(counts) if kind == "entropy" else float(np.count_nonzero(counts))
    raise InfeasibleError(
        f"{kind} l-diversity with l = {threshold} is out of reach for {field.name!r}: "
        f"{whole} has l = {best:.10g}; ask for l <= {math.floor(best * 1e6) / 1e6:g}",
        best,
    )


def _check_share(field: Field, counts: npt.NDArray[np.int64], policy: Policy) -> None:
    """Raise if a value has more than 1 / l of the records of the whole table."""
    most, total = int(counts.max()), int(counts.sum())
    way_out = f"ask for l <= {total // most}" if total >= 2 * most else "no l is in reach"
    if isinstance(policy.l, Decimal) and most * int(policy.l) > total:
        raise InfeasibleError(
            f"l = {policy.l} is out of reach of {field.name!r} with release = 'anatomy': one value has "
            f"{most} of all {total} records; {way_out}",
            float(total // most),
        )
