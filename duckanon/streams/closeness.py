"""t and l of a stream: sensitive values get numbers, in the order of the values.

Independent counts check t and l again when a class leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.database import arrow
from duckanon.errors import PolicyError, ReleaseError
from duckanon.kernels.steered.stream import AttributeLimit
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.streams.methods import Departure


@dataclass(frozen=True)
class Renumbering:
    """New numbers of the values of each column."""

    places: list[NDArray[np.int64]]  # new number of each old number; -1 for a forgotten value
    sizes: list[int]  # numbers now in use

    def of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """New codes (S, m) of old ones."""
        # A column without known values has had no tuple.
        new = [place[old] if len(place) else old for place, old in zip(self.places, codes, strict=True)]
        return np.array(new, np.int64).reshape(codes.shape)


class SensitiveValues:
    """The known values of each column, ascending, NaN and NULL last, as an audit orders them."""

    def __init__(self, attributes: Sequence[Attribute], types: dict[str, pa.DataType]) -> None:
        self.attributes = attributes
        self._known = [arrow.sortable(pa.nulls(0, types[one.name])) for one in attributes]
        for one, known in zip(attributes, self._known, strict=True):
            try:
                arrow.places_among(arrow.distinct(known), known)
            except pa.ArrowNotImplementedError as cause:
                raise PolicyError(
                    f"sensitive column {one.name!r} is {one.type}, which is not yet for t and l of a stream: "
                    "CAST it to VARCHAR"
                ) from cause

    def learn(self, tuples: pa.Table, counts: Sequence[NDArray[np.int64]] | None) -> Renumbering | None:
        """Learn the values of tuples and forget values with count 0; None if all values are known."""
        columns = [arrow.sortable(tuples.column(one.name)) for one in self.attributes]
        new = [arrow.distinct(column) for column in columns]
        unknown = [
            arrow.places_among(values, known).null_count
            for values, known in zip(new, self._known, strict=True)
        ]
        if not any(unknown):
            return None
        places = []
        for place, (known, values) in enumerate(zip(self._known, new, strict=True)):
            stay = known if counts is None else known.filter(pa.array(counts[place][: len(known)] > 0))
            now = arrow.distinct(pa.concat_arrays([stay, values]))
            found = arrow.places_among(known, now)
            places.append(arrow.numbers(pc.fill_null(found, -1)).astype(np.int64))
            self._known[place] = now
        return Renumbering(places, [len(known) for known in self._known])

    def of(self, tuples: pa.Table) -> NDArray[np.int64]:
        """Numbers (S, m) of the values of tuples, all of which are known."""
        found = [
            arrow.numbers(arrow.places_among(arrow.sortable(tuples.column(one.name)), known))
            for one, known in zip(self.attributes, self._known, strict=True)
        ]
        return np.array(found, np.int64).reshape(len(found), len(tuples))


def with_thresholds(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Sensitive columns with t or l."""
    return [
        one for one in attributes if one.role is Role.SENSITIVE and (one.t is not None or one.l is not None)
    ]


def asked_of(attributes: Sequence[Attribute]) -> list[AttributeLimit]:
    """The t and l of each sensitive column in the form of the kernels."""
    return [
        AttributeLimit(
            one.distance == "ordered",
            None if one.t is None else Fraction(one.t),
            1 if one.l is None else math.ceil(one.l),
        )
        for one in attributes
    ]


class ClosenessGuard:
    """Counts of the sensitive values read so far, and the largest EMD of a class that left."""

    def __init__(self, attributes: Sequence[Attribute], window: int) -> None:
        self.attributes, self.asked = attributes, asked_of(attributes)  # S columns with t or l
        self.window = window  # number of last tuples that count; 0 is all
        self.counts = [np.zeros(0, np.int64) for _ in attributes]  # records of each value, by number
        self._largest, self._least = [0.0] * len(attributes), [0] * len(attributes)
        self._codes = np.zeros((len(attributes), 0), np.int64)  # of the tuples from place _first on
        self._first = self._counted = 0

    def report(self) -> dict[str, Any]:
        """Return t and l of each column, and the largest EMD and the fewest values of a class."""
        columns = {
            one.name: {
                "distance": one.distance,
                "t": None if one.t is None else float(one.t),
                "l": None if one.l is None else asked.l,
                "largest_emd": largest,
                "least_values": least,
            }
            for one, asked, largest, least in zip(
                self.attributes, self.asked, self._largest, self._least, strict=True
            )
        }
        reference = {"reference": "window" if self.window else "all", "window": self.window or None}
        return {**reference, "columns": columns}

    def learn(self, learned: Renumbering) -> None:
        """Take the new numbers of the values."""
        self._codes = learned.of(self._codes)
        for place, (new, size) in enumerate(zip(learned.places, learned.sizes, strict=True)):
            counts = np.zeros(size, np.int64)
            counts[new[new >= 0]] = self.counts[place][new >= 0]
            self.counts[place] = counts

    def read(self, codes: NDArray[np.int64]) -> None:
        """Read the values (S, m) of the next tuples."""
        self._codes = np.hstack([self._codes, codes])

    def check(self, left: Departure, codes: NDArray[np.int64]) -> None:
        """Check t and l of each class when it leaves, against the tuples read; a ReleaseError on failure.

        `codes` (S, r) are the values of the tuples to be written, in the order of output.
        """
        ends = np.append(left.starts[1:], len(left.positions))
        for begin, end in zip(left.starts.tolist(), ends.tolist(), strict=True):
            self._count(int(left.times[begin]) + 1)
            self._check_class(codes[:, begin:end])

    def forget(self, read: int, oldest: int) -> None:
        """Forget tuples before the oldest held tuple, unless the window has yet to subtract them."""
        self._count(read)
        keep = min(oldest, max(0, read - self.window)) if self.window else oldest
        self._codes = self._codes[:, keep - self._first :].copy()
        self._first = keep

    def _count(self, until: int) -> None:
        """Count the tuples before the place `until`."""
        for place, counts in enumerate(self.counts):
            counts += self._numbers(place, self._counted, until, len(counts))
            if self.window:
                before, now = (max(0, end - self.window) for end in (self._counted, until))
                counts -= self._numbers(place, before, now, len(counts))
        self._counted = until

    def _numbers(self, place: int, begin: int, end: int, size: int) -> NDArray[np.int64]:
        codes = self._codes[place, begin - self._first : end - self._first]
        return np.bincount(codes, minlength=size)

    def _check_class(self, codes: NDArray[np.int64]) -> None:
        for place, (asked, counts) in enumerate(zip(self.asked, self.counts, strict=True)):
            members = np.bincount(codes[place], minlength=len(counts))
            different = int((members > 0).sum())
            emd = _emd(members, counts, ordered=asked.ordered)
            if different < asked.l or (asked.t is not None and emd > asked.t):
                raise ReleaseError(
                    f"a class of the stream has {different} sensitive values and an EMD of {float(emd):g}, "
                    f"where l = {asked.l} and t = {asked.t} are asked: it was not written; please report this"
                )
            self._largest[place] = max(self._largest[place], float(emd))
            self._least[place] = min(self._least[place] or different, different)


def _emd(members: NDArray[np.int64], counts: NDArray[np.int64], *, ordered: bool) -> Fraction:
    """EMD between a class and all counted tuples, in whole numbers: Li et al. 2007, section 5."""
    size, number, domain = int(members.sum()), int(counts.sum()), counts > 0
    shares = number * members[domain] - size * counts[domain]
    if ordered:
        steps = max(1, len(shares) - 1)
        return Fraction(int(np.abs(np.cumsum(shares)).sum()), size * number * steps)
    return Fraction(int(np.abs(shares).sum()), 2 * size * number)
