"""Microaggregation of a stream once more, slowly, in fractions: from the paper, not from the code under test.

Domingo-Ferrer and Soria-Comas, "Steered Microaggregation", 2017, section V: Algorithm 2 with the position of
Algorithm 3 as one more attribute, and Note 1. What the paper leaves open is read thus: a class is the expiring
tuple and k - 1 of other subjects, each the nearest there is to the expiring tuple or to the centroid of the
class so far; equal distances go to the tuple that came first; a tuple that finds no class is dropped.

With sensitive values it follows the rule that the project gives itself where the paper leaves it open. A class
that lacks values for l, or is above t from the tuples that were read (all, or the last of them), takes a tuple
of another subject: that after which the fewest values lack, then the least EMD is above t, then the nearest to
its centroid, then the first. It goes on while what lacks, or else what is above, becomes less. EMD is that of
Li et al. 2007, section 5: the mean difference of distribution functions, or half the sum of differences; in a
hierarchy of height H, the mean over the levels below the root of half the sum of differences. Beside the EMD above
t there counts how far recursive l is missed, (1 + r_1 - c (r_l + ...)) / s, and how far shares are too large.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Expected(NamedTuple):
    """What becomes of a stream: classes in the order of output, and positions dropped and held."""

    classes: list[list[int]]
    dropped: list[int]
    held: list[int]
    apart: list[int]  # those dropped while k subjects were held


class Asked(NamedTuple):
    """What a class keeps of a sensitive attribute."""

    ordered: bool
    t: Fraction | None
    l: int  # noqa: E741 - l-diversity has this name everywhere
    c: Fraction | None = None  # of recursive l
    paths: Sequence[Sequence[int]] | None = (
        None  # of each value its node on each level, the value to the root
    )
    shares: Mapping[int, Fraction] | None = None  # largest share of a value; None is every other value


class Stream(NamedTuple):
    """A stream and what is asked: points, a subject for each (or None), and the parameters."""

    points: Sequence[Sequence[float]]
    k: int
    delay: int
    weight: float = 0.0
    subjects: Sequence[int] | None = None
    grow: bool = False
    flush: bool = False
    values: Sequence[Sequence[int]] = ()  # of each sensitive attribute, one a tuple
    asked: Sequence[Asked] = ()
    window: int = 0


def expected(stream: Stream) -> Expected:
    """Run Algorithm 2 line by line."""
    buffer: list[int] = []
    result = Expected([], [], buffer, [])
    for i in range(len(stream.points)):
        buffer.append(i)
        if i - stream.delay in buffer:
            expire(i - stream.delay, buffer, i + 1, stream, result)
    for i in list(buffer) if stream.flush else []:
        if i in buffer and nearest_of(i, buffer, stream) is not None:
            expire(i, buffer, len(stream.points), stream, result)
    return result


def expire(i: int, buffer: list[int], read: int, stream: Stream, result: Expected) -> None:
    """Let a tuple leave with its class, or drop it; so many were read."""
    found = nearest_of(i, buffer, stream)
    grown = None if found is None else satisfied(found, buffer, read, stream)
    if grown is None:
        result.dropped.append(i)
        result.apart.extend([] if found is None else [i])
    else:
        result.classes.append(sorted(grown))
    buffer[:] = [j for j in buffer if j not in (grown or [i])]


def nearest_of(expiring: int, buffer: list[int], stream: Stream) -> list[int] | None:
    """The class of a tuple, itself first; None where there are too few subjects."""
    found = [expiring]
    while len(found) < stream.k:
        others = strangers(found, buffer, stream)
        if not others:
            return None
        around = centroid(found, stream) if stream.grow else placed(expiring, stream)
        found.append(min(others, key=lambda j, around=around: (squared(around, placed(j, stream)), j)))
    return found


def satisfied(found: list[int], buffer: list[int], read: int, stream: Stream) -> list[int] | None:
    """The class with those that it takes until it keeps t and l; None where it cannot."""
    while (lack := lacking(found, read, stream)) > (0, 0):
        around = centroid(found, stream)
        choices = [
            (lacking([*found, j], read, stream), squared(around, placed(j, stream)), j)
            for j in strangers(found, buffer, stream)
        ]
        if not choices or min(choices)[0] >= lack:
            return None
        found = [*found, min(choices)[2]]
    return found


def strangers(found: list[int], buffer: list[int], stream: Stream) -> list[int]:
    """Tuples of other subjects than those of a class."""
    subjects = {subject(j, stream) for j in found}
    return [j for j in buffer if subject(j, stream) not in subjects]


def lacking(found: list[int], read: int, stream: Stream) -> tuple[int, Fraction]:
    """Values that a class lacks for l, and how far its EMD is above t, summed over the attributes."""
    first = max(0, read - stream.window) if stream.window else 0
    few, above = 0, Fraction(0)
    for values, asked in zip(stream.values, stream.asked, strict=True):
        members = [values[j] for j in found]
        few += max(0, asked.l - len(set(members)))
        if asked.t is not None:
            above += max(Fraction(0), distance(members, values[first:read], asked) - asked.t)
        if asked.c is not None:
            above += missed(members, asked.l, asked.c)
        for value, share in shares_of(members).items():
            most = (asked.shares or {}).get(value)
            above += Fraction(0) if most is None else max(Fraction(0), share - most)
    return few, above


def missed(members: Sequence[int], l: int, c: Fraction) -> Fraction:  # noqa: E741 - as above
    """How far recursive (c, l)-diversity is missed; 0 if r_1 < c (r_l + ... + r_m)."""
    counts = sorted((members.count(value) for value in set(members)), reverse=True)
    lack = counts[0] - c * sum(counts[l - 1 :])
    return Fraction(0) if lack < 0 else (1 + lack) / len(members)


def shares_of(members: Sequence[int]) -> dict[int, Fraction]:
    """The share of each value in a class."""
    return {value: Fraction(members.count(value), len(members)) for value in set(members)}


def distance(members: Sequence[int], population: Sequence[int], asked: Asked) -> Fraction:
    """The earth mover's distance under the ground distance asked."""
    if asked.paths is None:
        return emd(members, population, asked.ordered)
    height = len(asked.paths[0]) - 1
    levels = [
        emd([asked.paths[v][h] for v in members], [asked.paths[v][h] for v in population], ordered=False)
        for h in range(height)
    ]
    return sum(levels, Fraction(0)) / height


def emd(members: Sequence[int], population: Sequence[int], ordered: bool) -> Fraction:
    """The earth mover's distance of the values of a class from those of a population."""
    domain = sorted(set(population))
    shares = [
        Fraction(list(members).count(v), len(members)) - Fraction(list(population).count(v), len(population))
        for v in domain
    ]
    if not ordered:
        return sum(map(abs, shares), Fraction(0)) / 2
    steps = max(1, len(domain) - 1)
    return sum((abs(sum(shares[: i + 1], Fraction(0))) for i in range(len(domain))), Fraction(0)) / steps


def subject(j: int, stream: Stream) -> int:
    """Whose tuple it is."""
    return j if stream.subjects is None else stream.subjects[j]


def placed(j: int, stream: Stream) -> list[Fraction]:
    """The quasi-identifiers and P, the position times its weight: Algorithm 3, step 1."""
    return [*map(Fraction, stream.points[j]), j * Fraction(stream.weight)]


def centroid(members: list[int], stream: Stream) -> list[Fraction]:
    """The mean of each attribute."""
    columns = zip(*(placed(j, stream) for j in members), strict=True)
    return [sum(column, Fraction(0)) / len(members) for column in columns]


def squared(x: list[Fraction], y: list[Fraction]) -> Fraction:
    """The squared Euclidean distance."""
    return sum(((a - b) ** 2 for a, b in zip(x, y, strict=True)), Fraction(0))
