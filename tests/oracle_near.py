"""(n, t)-closeness by its definition, in fractions and by brute force; it shares no code with the package.

Source: Li, Li and Venkatasubramanian, IEEE TKDE 22(7), 2010: a class is (n, t)-close if a natural superset of
at least n records is within t of it. The values of an ordered column are ranked in the whole table.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Class = tuple[Any, ...]


def emd(part: Sequence[Any], whole: Sequence[Any], domain: Sequence[Any], *, ordered: bool) -> Fraction:
    """EMD between two lists of values; `domain` are the values of the table, in order."""
    gaps = [Fraction(part.count(v), len(part)) - Fraction(whole.count(v), len(whole)) for v in domain]
    if not ordered:
        return sum((abs(gap) for gap in gaps), Fraction(0)) / 2
    work, carried = Fraction(0), Fraction(0)
    for gap in gaps[:-1]:
        carried += gap
        work += abs(carried)
    return work / max(len(domain) - 1, 1)


def domain_of(values: Iterable[Any]) -> list[Any]:
    """Different values in order, None last."""
    return sorted({*values}, key=lambda value: (value is None, 0 if value is None else value))


def ranks(classes: Iterable[Class]) -> dict[Class, tuple[int, ...]]:
    """Rank of each class in each quasi-identifier, from 1."""
    known = list(classes)
    domains = [domain_of(column) for column in zip(*known, strict=True)]
    return {one: tuple(of.index(value) + 1 for of, value in zip(domains, one, strict=True)) for one in known}


def held(bounds: Iterable[tuple[int, int, int, int]], classes: Iterable[Class]) -> list[set[Class]]:
    """Classes in each superset of rows (superset, place, first, last)."""
    of: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for superset, place, first, last in bounds:
        of.setdefault(superset, {}).setdefault(place, []).append((first, last))
    placed = ranks(classes)
    return [
        {
            one
            for one, at in placed.items()
            if all(
                any(first <= at[place - 1] <= last for first, last in spans) for place, spans in asked.items()
            )
        }
        for asked in of.values()
    ]


def intervals(classes: Iterable[Class]) -> list[set[Class]]:
    """Classes within every natural box: in each quasi-identifier an interval of values, None, or both."""
    known = list(classes)
    choices = []
    for column in zip(*known, strict=True):
        values = [value for value in domain_of(column) if value is not None]
        spans = [{*values[a:b]} for a in range(len(values) + 1) for b in range(a, len(values) + 1)]
        choices.append([*spans, *({*span, None} for span in spans)] if None in column else spans)
    return [
        {one for one in known if all(value in span for value, span in zip(one, box, strict=True))}
        for box in product(*choices)
    ]


def far(
    classes: Mapping[Class, Sequence[Any]],
    supersets: Sequence[set[Class]],
    n: int,
    t: Fraction,
    *,
    ordered: bool,
) -> dict[Class, Fraction | None]:
    """Classes that no superset of n records is within t of, with the least distance; None without a superset.

    The class itself and the whole table are supersets, too.
    """
    domain = domain_of(value for values in classes.values() for value in values)
    found: dict[Class, Fraction | None] = {}
    for one, values in classes.items():
        least: Fraction | None = None
        for superset in [{one}, {*classes}, *(box for box in supersets if one in box)]:
            records = [value for other in superset for value in classes[other]]
            if len(records) >= n:
                distance = emd(list(values), records, domain, ordered=ordered)
                least = distance if least is None else min(least, distance)
        if least is None or least > t:
            found[one] = least
    return found
