"""Evened: which records to suppress if even the whole table misses the requested l.

Suppressing records of frequent values raises entropy and recursive l-diversity. Classes can keep l only if
the class of all released records keeps it: the entropy of a union is at least the least entropy of its parts,
and a union keeps a recursive (c, l) that all its parts keep (Machanavajjhala et al. 2007, section 4).

`most_even` cuts the largest counts to one height, as low as possible. All other counts with the same sum
majorize the result, so its entropy is greatest, and recursive l gains, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.errors import InfeasibleError
from duckanon.kernels.closeness.threshold import ENTROPY_MARGIN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy

    Counts = npt.NDArray[np.int64]

EVENED = ("entropy", "recursive")
"""Kinds of l-diversity that can be greater in a part of a table than in the table."""


class AskedDiversity(NamedTuple):
    """A requested l: its kind, and c of recursive l-diversity."""

    l: Decimal  # noqa: E741 - l-diversity has this name everywhere
    l_kind: str
    c: Decimal | None


def most_gone(policy: Policy, size: int) -> int:
    """Largest number of records that may be suppressed in a table of a size; at least k stay."""
    return max(0, min(int(policy.suppression_limit * size), size - policy.k))


def reaches(threshold: Threshold | AskedDiversity, counts: Counts) -> bool:
    """Whether one class with these counts of values keeps the l of a threshold."""
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


def fewest_gone(threshold: Threshold | AskedDiversity, counts: Counts, most: int) -> Counts | None:
    """Counts of values that keep a threshold with few suppressed records; None if `most` are too few."""
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
    """Whether each record (n,) is released, so that the class of all released records keeps every l.

    Of a too frequent value, the records with the greatest `worth` (n,) are suppressed. Several sensitive
    columns take turns. None if more records than allowed would have to be suppressed.
    """
    released = np.ones(codes.shape[1], dtype=bool)
    order = np.argsort(-worth, kind="stable")
    while True:
        counted = [np.bincount(of[released]).astype(np.int64) for of in codes]
        missed = [
            place
            for place, one in enumerate(thresholds)
            if one.l is not None and not reaches(one, counted[place])
        ]
        if not missed:
            return released
        threshold, of, counts = thresholds[missed[0]], codes[missed[0]], counted[missed[0]]
        left = most_gone(policy, len(released)) - int(np.count_nonzero(~released))
        target = fewest_gone(threshold, counts, left) if threshold.l_kind in EVENED else None
        if target is None:
            return None
        for value in np.flatnonzero(target < counts):
            having = order[released[order] & (of[order] == value)]
            released[having[: int(counts[value] - target[value])]] = False


def not_found(policy: Policy) -> InfeasibleError:
    """Return the error if no suppression was found that keeps the l of all columns."""
    return InfeasibleError(
        f"suppression_limit = {policy.suppression_limit}: no records were found that may go and leave the l "
        "of all sensitive columns; raise it, ask for less, or name fewer columns",
        0.0,
    )


def together(
    thresholds: Sequence[Threshold], codes: npt.NDArray[np.int64], released: npt.NDArray[np.bool_]
) -> bool:
    """Whether the released records (n,), as one class, keep every l."""
    pairs = zip(thresholds, codes, strict=True)
    return all(reaches(threshold, np.bincount(of[released]).astype(np.int64)) for threshold, of in pairs)


def _height(counts: Counts, most: int) -> int:
    """Return the least height, at least 1, to which suppressing `most` records can cut all counts."""
    low, high = 1, int(counts.max())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if int(np.maximum(counts - middle, 0).sum()) <= most else (middle + 1, high)
    return low
