"""By how much a class of a stream violates entropy or recursive l, and the largest shares of values.

Each is 0.0 exactly if the class keeps what is required. `lack_with` and `add_shares` say so of the class with
one more member of each value, from one pass over the values: one more member changes one count only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.kernels.closeness.threshold import (
    ENTROPY_MARGIN,
    L_ENTROPY,
    L_RECURSIVE,
    THRESHOLD_DENOMINATOR,
    logarithm,
)
from duckanon.kernels.compiled import inner
from duckanon.kernels.neighbours.slots import ascend

if TYPE_CHECKING:
    from duckanon.kernels.steered.seen import Seen

LEAST_EXCESS = 1e-300
"""Least excess above a bound, so that it is never rounded to 0."""


@inner
def at_most(numerator: int, denominator: int, top: int, bottom: int) -> bool:
    """Tell whether numerator / denominator <= top / bottom; all are >= 0, both denominators > 0."""
    # Quotients are compared first, then the inverted fractions of the remainders. So no product can overflow.
    while True:
        whole, other = numerator // denominator, top // bottom
        if whole != other:
            return whole < other
        numerator, top = numerator - whole * denominator, top - other * bottom
        if numerator == 0 or top == 0:
            return numerator == 0
        numerator, denominator, top, bottom = bottom, top, denominator, numerator


@inner
def over(total: int, whole: int, top: int, bottom: int) -> float:
    """Return total / whole - top / bottom if it is above 0, else 0."""
    if at_most(total, whole, top, bottom):
        return 0.0
    return max(float(total) / float(whole) - float(top) / float(bottom), LEAST_EXCESS)


class Counted(NamedTuple):
    """The counts of a class, as entropy and recursive l need them."""

    size: int
    different: int  # number of values
    most: int  # members with the most frequent value
    head: int  # members with one of the l - 1 most frequent values
    last: int  # members with the least frequent of these, 0 if there are fewer than l - 1 values
    product: float  # sum of c ln c over the counts c


@inner
def counted(seen: Seen, s: int, size: int) -> Counted:
    """Count the members of the class by value. O(M + s log s)."""
    found, product = 0, 0.0
    for v in range(seen.counts.shape[1]):
        if seen.members[s, v] > 0:
            seen.numbers[0, found] = seen.members[s, v]
            found += 1
            product += _product(seen.members[s, v])
    ascend(seen.numbers[0, :found])
    head, above = 0, min(found, seen.l[s] - 1)
    for i in range(found - above, found):
        head += seen.numbers[0, i]
    last = seen.numbers[0, found - above] if 0 < above == seen.l[s] - 1 else 0
    return Counted(size, found, seen.numbers[0, found - 1] if found > 0 else 0, head, last, product)


@inner
def lack(seen: Seen, s: int, class_of: Counted) -> float:
    """Return by how much a class violates the entropy or recursive l of an attribute."""
    if seen.l_kinds[s] == L_ENTROPY:
        equal = class_of.most * class_of.different == class_of.size
        return _entropy(seen.entropy_l[s], class_of.size, class_of.different, class_of.product, equal)
    if seen.l_kinds[s] == L_RECURSIVE:
        return _recursive(seen.c[s], class_of.size, class_of.most, class_of.size - class_of.head)
    return 0.0


@inner
def lack_with(seen: Seen, s: int, class_of: Counted, count: int) -> float:
    """Return `lack` of the class with one more member of a value that `count` members have. O(1)."""
    size, most = class_of.size + 1, max(class_of.most, count + 1)
    if seen.l_kinds[s] == L_ENTROPY:
        different = class_of.different + (count == 0)
        product = class_of.product - _product(count) + _product(count + 1)
        return _entropy(seen.entropy_l[s], size, different, product, most * different == size)
    if seen.l_kinds[s] == L_RECURSIVE:
        # A value that is as frequent as the last of the l - 1 takes its place, so that these have one more.
        head = class_of.head + (seen.l[s] > 1 and count >= class_of.last)
        return _recursive(seen.c[s], size, most, size - head)
    return 0.0


@inner
def _product(count: int) -> float:
    """Return c ln c, 0 for 0."""
    return count * logarithm(float(count)) if count > 0 else 0.0


@inner
def _entropy(least: float, size: int, different: int, product: float, equal: bool) -> float:
    """Return the share of ln l that the entropy lacks; values with equal counts have ln of their number."""
    if least <= 1.0 or (equal and different >= least):
        return 0.0
    shortfall = logarithm(least) - (logarithm(float(size)) - product / size)
    if shortfall <= -ENTROPY_MARGIN:
        return 0.0
    return max(shortfall, ENTROPY_MARGIN) / logarithm(least)


@inner
def _recursive(steps: int, size: int, most: int, tail: int) -> float:
    """Return (1 + r_1 - c (r_l + ... + r_m)) / s, or 0 if r_1 < c (r_l + ... + r_m), exactly."""
    if tail > 0 and not at_most(steps, THRESHOLD_DENOMINATOR, most, tail):
        return 0.0
    return (1.0 + max(float(most) - float(steps) / THRESHOLD_DENOMINATOR * float(tail), 0.0)) / size


@inner
def above_shares(seen: Seen, s: int, size: int) -> float:
    """Return by how much the shares of values in the class exceed the largest allowed, summed. O(M)."""
    above = 0.0
    for v in range(seen.counts.shape[1]):
        above += _above_share(seen, s, v, seen.members[s, v], size)
    return above


@inner
def add_shares(seen: Seen, s: int, size: int) -> None:
    """Add to `excess` of each value `above_shares` of the class, which then has `size` members. O(M)."""
    total, values = 0.0, 0
    for v in range(seen.counts.shape[1]):
        above = _above_share(seen, s, v, seen.members[s, v], size)
        total, values = total + above, values + (above > 0.0)
    for v in range(seen.counts.shape[1]):
        before = _above_share(seen, s, v, seen.members[s, v], size)
        after = _above_share(seen, s, v, seen.members[s, v] + 1, size)
        # Counted, because the sum without a value is rounded.
        if values - (before > 0.0) + (after > 0.0) > 0:
            seen.excess[s, v] += max(total - before + after, LEAST_EXCESS)


@inner
def _above_share(seen: Seen, s: int, v: int, count: int, size: int) -> float:
    """Return by how much the share of a value exceeds the largest allowed, 0 if it does not."""
    if seen.shares[s, v, 1] == 0:
        return 0.0
    return over(count, size, seen.shares[s, v, 0], seen.shares[s, v, 1])
