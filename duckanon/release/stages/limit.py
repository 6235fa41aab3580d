"""Limit: thresholds for every class, against the distribution of the released records.

If even the whole table misses the requested l or alpha, `evened` says which records to suppress. Suppressing
records of frequent values raises entropy and recursive l-diversity, and lowers the largest share. Classes can
keep l only if the class of all released records keeps it: the entropy of a union is at least the least
entropy of its parts, and a union keeps a recursive (c, l) that all its parts keep (Machanavajjhala et al.
2007, section 4). The share of a value in a union lies between its shares in the parts. The whole table always
keeps delta and beta, which are against the table.

`most_even` cuts the largest counts to one height, as low as possible. All other counts with the same sum
majorize the result, so its entropy is greatest, and recursive l gains, too. `cut_to_alpha` keeps as many
records as any counts within alpha do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon import progress
from duckanon.database import engine, templates
from duckanon.errors import InfeasibleError, tell
from duckanon.hierarchies.tree import make_tree
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.shares import share_bounds
from duckanon.kernels.closeness.threshold import ENTROPY_MARGIN, Threshold
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.shares import Alpha
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged

    Counts = npt.NDArray[np.int64]

EVENED = ("entropy", "recursive")
"""Kinds of l-diversity that can be greater in a part of a table than in the table."""


class AskedDiversity(NamedTuple):
    """A requested l: its kind, and c of recursive l-diversity."""

    l: Decimal  # noqa: E741 - l-diversity has this name everywhere
    l_kind: str
    c: Decimal | None


@dataclass(frozen=True)
class Limits:
    """The sensitive fields with a threshold, ordered distance first."""

    fields: tuple[Field, ...]
    thresholds: tuple[Threshold, ...]  # of each field, against all staged records
    counts: tuple[npt.NDArray[np.int64], ...]  # records by value code, of each field
    paths: Mapping[str, npt.NDArray[np.int64]]  # tree nodes above each value code, by field column
    alphas: Mapping[str, Alpha]  # by field column; named values by value code

    @property
    def whole_reaches(self) -> bool:
        """Whether all records, as one class, keep every l and alpha."""
        return all(map(reaches, self.thresholds, self.counts))

    @property
    def codes(self) -> tuple[str, ...]:
        """Columns of the fields in the coded table."""
        return tuple(f"c_{field.column}" for field in self.fields)


@progress.step("limit")
def limit(con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, policy: Policy) -> Limits:
    """Sensitive fields with a threshold, and their trees; none if the policy asks for k only.

    PolicyError: a hierarchy is unusable. InfeasibleError: the whole table misses l or alpha.
    """
    paths = {
        field.column: make_tree(
            con, field.attribute, tree=staged.tree(field), domain=embedded.domains[field.column]
        )
        for field in staged.sensitive
        if field.attribute.distance == "hierarchical"
    }
    bound = [field for field in staged.sensitive if field.attribute.limited]
    # k subjects in a class are k distinct values of the subject column.
    bound += [staged.subject] if staged.subject is not None else []
    fields = tuple(sorted(bound, key=lambda field: field.attribute.distance != "ordered"))
    counts = tuple(embedded.counts[field.column] for field in fields)
    alphas, named = _alphas(con, fields, embedded)
    for field, values in zip(fields, counts, strict=True):
        most = most_gone(policy, staged.size)
        check_l(field, values, policy, most=most)
        check_alpha(field, alphas.get(field.column), values, named.get(field.column, ()), most=most)
    thresholds = tuple(
        threshold_of(field, values, paths.get(field.column), policy, alphas.get(field.column))
        for field, values in zip(fields, counts, strict=True)
    )
    return Limits(fields, thresholds, counts, paths, alphas)


def _alphas(
    con: duckdb.DuckDBPyConnection, fields: Sequence[Field], embedded: Embedded
) -> tuple[dict[str, Alpha], dict[str, list[str]]]:
    """Return the alpha of each column that has one, and the values that it names, in its order."""
    alphas: dict[str, Alpha] = {}
    values: dict[str, list[str]] = {}
    for field in fields:
        attribute = field.attribute
        if attribute.alpha is not None:
            alphas[field.column] = attribute.alpha
        if attribute.alpha_of:
            shares = dict(attribute.alpha_of)
            domain = embedded.domains[field.column]
            query = templates.render("embed.sql.j2:named", domain=domain, names=[*shares])
            codes = dict(engine.rows(con, query, "limit"))
            for name in shares:
                if name not in codes:
                    tell(
                        f"alpha names {name!r}, which no record has in {attribute.name!r}: it bounds nothing"
                    )
            values[field.column] = [name for name in shares if name in codes]
            alphas[field.column] = {int(codes[name]): shares[name] for name in values[field.column]}
    return alphas, values


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
    found = []
    for field, left in zip(limits.fields, counts, strict=True):
        paths, alpha, present = limits.paths.get(field.column), limits.alphas.get(field.column), left > 0
        if isinstance(alpha, Mapping):
            code = np.cumsum(present) - 1
            alpha = {int(code[value]): share for value, share in alpha.items() if present[value]}
        above = None if paths is None else paths[present]
        found.append(threshold_of(field, left[present], above, policy, alpha))
    return tuple(found)


def threshold_of(
    field: Field,
    counts: npt.NDArray[np.int64],
    paths: npt.NDArray[np.int64] | None,
    policy: Policy,
    alpha: Alpha | None = None,
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
        shares=share_bounds(
            counts,
            alpha=alpha,
            delta=attribute.delta,
            beta=attribute.beta,
            enhanced_beta=attribute.enhanced_beta,
        ),
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
        f"{whole} has l = {best:.10g}; ask for l <= {math.floor(best * 1e6) / 1e6:.12g}",
        best,
    )


def check_alpha(
    field: Field, alpha: Alpha | None, counts: Counts, named: Sequence[str], *, most: int = 0
) -> None:
    """Raise an InfeasibleError if even the whole table, with these counts of values, exceeds alpha.

    At most `most` records of the whole table may be suppressed; `named` are the values that alpha names.
    """
    if alpha is None or cut_to_alpha(alpha, counts, most) is not None:
        return
    whole = f"what {most} suppressed records leave" if most else "the whole table"
    if not isinstance(alpha, Mapping):
        height = _height(counts, most)
        least = height / int(np.minimum(counts, height).sum())
        raise InfeasibleError(
            f"alpha = {alpha} is out of reach of {field.name!r}: in {whole} one value has a share of "
            f"{least:.6g}; ask for alpha >= {math.ceil(least * 1e6) / 1e6:g}",
            least,
        )
    for (code, share), value in zip(alpha.items(), named, strict=True):
        gone = min(most, int(counts[code]))
        least = (int(counts[code]) - gone) / max(int(counts.sum()) - gone, 1)
        if share < least:
            raise InfeasibleError(
                f"alpha = {share} of {value!r} is out of reach of {field.name!r}: in {whole} its share is "
                f"{least:.6g}; ask for alpha >= {math.ceil(least * 1e6) / 1e6:g}",
                least,
            )
    raise InfeasibleError(
        f"alpha of {', '.join(map(repr, named))} together is out of reach of {field.name!r}: {most} records "
        "may be suppressed; ask for larger shares, or raise suppression_limit",
        0.0,
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


def most_gone(policy: Policy, size: int) -> int:
    """Largest number of records that may be suppressed in a table of a size; at least k stay."""
    return max(0, min(int(policy.suppression_limit * size), size - policy.k))


def reaches(threshold: Threshold | AskedDiversity, counts: Counts) -> bool:
    """Whether one class with these counts of values keeps the l and alpha of a threshold."""
    bounds = threshold.shares if isinstance(threshold, Threshold) else None
    if bounds is not None and bounds.alpha is not None and cut_to_alpha(bounds.alpha, counts, 0) is None:
        return False
    present = np.sort(counts[counts > 0])[::-1]
    if threshold.l is None:
        return True
    if threshold.l_kind == "recursive" and threshold.c is not None:
        tail = int(present[math.ceil(threshold.l) - 1 :].sum())
        return bool(int(present.max(initial=0)) < threshold.c * tail)
    wanted = float(threshold.l)
    if threshold.l_kind != "entropy" or wanted <= 1 or len(set(present.tolist())) < 2:
        return len(present) >= wanted
    # The entropy of unequal counts is rounded, see `ENTROPY_MARGIN`.
    return math.log(entropy_l(present)) >= math.log(wanted) + ENTROPY_MARGIN


def entropy_l(counts: Counts) -> float:
    """Return exp H for counts of each value."""
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def most_even(counts: Counts, most: int) -> Counts:
    """Counts of values with the greatest entropy l after suppressing at most `most` records.

    Records left after the cut lower some of the largest counts by one more, if that helps. Proof: top of the
    module.
    """
    height = _height(counts, most)
    cut = np.minimum(counts, height)
    at = np.flatnonzero(cut == height)
    left = most - int((counts - cut).sum())
    best, least = cut, entropy_l(cut)
    for gone in range(1, min(left, len(at) - 1) + 1) if height > 1 else ():
        some = cut.copy()
        some[at[:gone]] -= 1
        if entropy_l(some) > least * (1 + 1e-12):
            best, least = some, entropy_l(some)
    return best


def cut_to_alpha(alpha: Alpha, counts: Counts, most: int) -> Counts | None:
    """Greatest counts of values whose shares are at most alpha; None if more than `most` records would go.

    Each step cuts every count to its share of all records that are left, which no counts within alpha exceed.
    """
    total, left = int(counts.sum()), counts
    while True:
        every = Fraction(1) if isinstance(alpha, Mapping) else Fraction(alpha)
        cut = np.minimum(left, _part(every, int(left.sum())))
        for code, share in alpha.items() if isinstance(alpha, Mapping) else ():
            if code < len(cut):
                cut[code] = min(int(left[code]), _part(Fraction(share), int(left.sum())))
        if total - int(cut.sum()) > most or not cut.any():
            return None
        if (cut == left).all():
            return left
        left = cut


def _part(share: Fraction, records: int) -> int:
    return share.numerator * records // share.denominator


def fewest_gone(threshold: Threshold, counts: Counts, most: int) -> Counts | None:
    """Counts of values that keep a threshold with few suppressed records; None if `most` are too few."""
    alpha = None if threshold.shares is None else threshold.shares.alpha
    if alpha is not None and cut_to_alpha(alpha, counts, 0) is None:
        return cut_to_alpha(alpha, counts, most)
    if threshold.l_kind not in EVENED:
        return None
    low, high = _height(counts, most), int(counts.max())
    if not reaches(threshold, np.minimum(counts, low)):
        some = most_even(counts, most)
        return some if reaches(threshold, some) else None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reaches(threshold, np.minimum(counts, middle)) else (low, middle - 1)
    return np.minimum(counts, low)


def evened(
    thresholds: Sequence[Threshold],
    codes: npt.NDArray[np.int64],
    worth: npt.NDArray[np.float64],
    policy: Policy,
) -> npt.NDArray[np.bool_] | None:
    """Whether each record (n,) is released, so that the class of all released records keeps l and alpha.

    Of a too frequent value, the records with the greatest `worth` (n,) are suppressed. Several sensitive
    columns take turns. None if more records than allowed would have to be suppressed.
    """
    released = np.ones(codes.shape[1], dtype=bool)
    order = np.argsort(-worth, kind="stable")
    while True:
        counted = [np.bincount(of[released]).astype(np.int64) for of in codes]
        missed = [place for place, one in enumerate(thresholds) if not reaches(one, counted[place])]
        if not missed:
            return released
        threshold, of, counts = thresholds[missed[0]], codes[missed[0]], counted[missed[0]]
        left = most_gone(policy, len(released)) - int(np.count_nonzero(~released))
        target = fewest_gone(threshold, counts, left)
        if target is None:
            return None
        for value in np.flatnonzero(target < counts):
            having = order[released[order] & (of[order] == value)]
            released[having[: int(counts[value] - target[value])]] = False


def not_found(policy: Policy) -> InfeasibleError:
    """Return the error if no suppression was found that keeps the l and alpha of all columns."""
    return InfeasibleError(
        f"suppression_limit = {policy.suppression_limit}: no records were found that may go and leave the l "
        "and alpha of all sensitive columns; raise it, ask for less, or name fewer columns",
        0.0,
    )


def together(
    thresholds: Sequence[Threshold], codes: npt.NDArray[np.int64], released: npt.NDArray[np.bool_]
) -> bool:
    """Whether the released records (n,), as one class, keep every l and alpha."""
    pairs = zip(thresholds, codes, strict=True)
    return all(reaches(threshold, np.bincount(of[released]).astype(np.int64)) for threshold, of in pairs)


def _height(counts: Counts, most: int) -> int:
    """Return the least height, at least 1, to which suppressing `most` records can cut all counts."""
    low, high = 1, int(counts.max())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if int(np.maximum(counts - middle, 0).sum()) <= most else (middle + 1, high)
    return low
