"""What a class total tells about one contribution, by brute force: every victim, every attacker, exact numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def told(contributions: Sequence[Fraction], p: Fraction) -> bool:
    """Whether somebody finds a contribution in an interval that is wholly within p per cent of it.

    Whoever knows the total, one other contribution or none, and of the remaining ones the range that they and 0
    lie in. A contribution of 0 has nothing to be told.
    """
    total = sum(contributions, Fraction(0))
    for one, remaining, known in _attacks(contributions):
        low, high = min([Fraction(0), *remaining]), max([Fraction(0), *remaining])
        least, most = total - known - len(remaining) * high, total - known - len(remaining) * low
        margin = abs(one) * p / 100
        if one - margin <= least and most <= one + margin:
            return True
    return False


def reached(contributions: Sequence[Fraction]) -> Fraction | None:
    """Least p of all attacks, by the sums of the remaining positive and negative ones; None if all are 0."""
    found = []
    for one, remaining, _ in _attacks(contributions):
        above = sum((value for value in remaining if value > 0), Fraction(0))
        below = sum((-value for value in remaining if value < 0), Fraction(0))
        found.append(100 * max(above, below) / abs(one))
    return min(found, default=None)


def _attacks(contributions: Sequence[Fraction]) -> Iterator[tuple[Fraction, list[Fraction], Fraction]]:
    """Give each contribution but 0, what remains beside it and what the attacker knows, and that."""
    for i, one in enumerate(contributions):
        if one:
            others = [*contributions[:i], *contributions[i + 1 :]]
            yield one, others, Fraction(0)
            for j, known in enumerate(others):
                yield one, [*others[:j], *others[j + 1 :]], known
