"""Microaggregation of a stream once more, slowly, in fractions: from the paper, not from the code under test.

Domingo-Ferrer and Soria-Comas, "Steered Microaggregation", 2017, section V: Algorithm 2 with the position of
Algorithm 3 as one more attribute, and Note 1. What the paper leaves open is read thus: a class is the expiring
tuple and k - 1 of other subjects, each the nearest there is to the expiring tuple or to the centroid of the
class so far; equal distances go to the tuple that came first; a tuple that finds no class is dropped.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Expected(NamedTuple):
    """What becomes of a stream: classes in the order of output, and positions dropped and held."""

    classes: list[list[int]]
    dropped: list[int]
    held: list[int]


class Stream(NamedTuple):
    """A stream and what is asked: points, a subject for each (or None), and the parameters."""

    points: Sequence[Sequence[float]]
    k: int
    delay: int
    weight: float = 0.0
    subjects: Sequence[int] | None = None
    grow: bool = False
    flush: bool = False


def expected(stream: Stream) -> Expected:
    """Run Algorithm 2 line by line."""
    buffer: list[int] = []
    classes, dropped = [], []
    for i in range(len(stream.points)):
        buffer.append(i)
        if i - stream.delay in buffer:
            found = class_of(i - stream.delay, buffer, stream)
            if found is None:
                buffer.remove(i - stream.delay)
                dropped.append(i - stream.delay)
            else:
                buffer = [j for j in buffer if j not in found]
                classes.append(sorted(found))
    while stream.flush and buffer and (found := class_of(buffer[0], buffer, stream)) is not None:
        buffer = [j for j in buffer if j not in found]
        classes.append(sorted(found))
    return Expected(classes, dropped, buffer)


def class_of(expiring: int, buffer: list[int], stream: Stream) -> list[int] | None:
    """The class of a tuple, itself first; None where there are too few subjects."""
    found = [expiring]
    while len(found) < stream.k:
        subjects = {subject(j, stream) for j in found}
        others = [j for j in buffer if subject(j, stream) not in subjects]
        if not others:
            return None
        around = centroid(found, stream) if stream.grow else placed(expiring, stream)
        found.append(min(others, key=lambda j, around=around: (squared(around, placed(j, stream)), j)))
    return found


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
