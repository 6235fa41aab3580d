"""t, l and alpha of a stream: sensitive values get numbers, in the order of the values.

Independent counts check all of them again when a class leaves.
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
from duckanon.kernels.steered.stream import AttributeLimit, Known
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.policy.policy import Policy
    from duckanon.streams.coordinates import Climb
    from duckanon.streams.methods import Departure

ENTROPY_AUDIT_MARGIN = 1e-9
"""By how much the entropy of unequal counts must exceed log l, as in the audit."""


@dataclass(frozen=True)
class Renumbering:
    """New numbers of the values of each column."""

    places: list[NDArray[np.int64]]  # new number of each old number; -1 for a forgotten value
    sizes: list[int]  # numbers now in use
    known: list[Known]  # nodes above the values in their hierarchy, and their largest shares

    def of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """New codes (S, m) of old ones."""
        # A column without known values has had no tuple.
        new = [place[old] if len(place) else old for place, old in zip(self.places, codes, strict=True)]
        return np.array(new, np.int64).reshape(codes.shape)


class SensitiveValues:
    """The known values of each column, ascending, NaN and NULL last, as an audit orders them."""

    def __init__(
        self, attributes: Sequence[Attribute], types: dict[str, pa.DataType], climbs: Mapping[str, Climb]
    ) -> None:
        self.attributes, self._climbs = attributes, climbs
        self._known = [arrow.sortable(pa.nulls(0, types[one.name])) for one in attributes]
        self._unseen = [{name for name, _ in one.alpha_of} for one in attributes]
        for one, known in zip(attributes, self._known, strict=True):
            try:
                arrow.places_among(arrow.distinct(known), known)
            except pa.ArrowNotImplementedError as cause:
                raise PolicyError(
                    f"sensitive column {one.name!r} is {one.type}, which is not yet for t and l of a stream: "
                    "CAST it to VARCHAR"
                ) from cause

    def learn(
        self,
        con: duckdb.DuckDBPyConnection,
        tuples: pa.Table,
        first: int,
        counts: Sequence[NDArray[np.int64]] | None,
    ) -> Renumbering | None:
        """Learn the values of tuples and forget values with count 0; None if all values are known.

        `first` is the place of the first tuple in the stream, from 0. A SourceError for a value that is no
        leaf of its hierarchy.
        """
        columns = [arrow.sortable(tuples.column(one.name)) for one in self.attributes]
        new = [arrow.distinct(column) for column in columns]
        unknown = [
            arrow.places_among(values, known).null_count
            for values, known in zip(new, self._known, strict=True)
        ]
        if not any(unknown):
            return None
        for values, names in zip(new, self._unseen, strict=True):
            names.difference_update(values.to_pylist() if names else ())
        for name, climb in self._climbs.items():
            climb.nodes(con, tuples.column(name), first)
        places = []
        for place, (known, values) in enumerate(zip(self._known, new, strict=True)):
            stay = known if counts is None else known.filter(pa.array(counts[place][: len(known)] > 0))
            now = arrow.distinct(pa.concat_arrays([stay, values]))
            found = arrow.places_among(known, now)
            places.append(arrow.numbers(pc.fill_null(found, -1)).astype(np.int64))
            self._known[place] = now
        told = [
            Known(self._nodes(con, one, known), _shares(one, known))
            for one, known in zip(self.attributes, self._known, strict=True)
        ]
        return Renumbering(places, [len(known) for known in self._known], told)

    def unseen(self) -> Iterator[str]:
        """Warnings of values that alpha names and no tuple had."""
        for one, names in zip(self.attributes, self._unseen, strict=True):
            for name in sorted(names):
                yield f"alpha names {name!r}, which no tuple has in {one.name!r}: it bounds nothing"

    def _nodes(self, con: duckdb.DuckDBPyConnection, one: Attribute, known: pa.Array) -> NDArray[np.int64]:
        """Nodes (H, M) above the known values, below the root; H is 0 without a hierarchy."""
        if one.name not in self._climbs:
            return np.zeros((0, len(known)), np.int64)
        return self._climbs[one.name].nodes(con, pa.chunked_array([known]), 0)[:, :-1].T

    def of(self, tuples: pa.Table) -> NDArray[np.int64]:
        """Numbers (S, m) of the values of tuples, all of which are known."""
        found = [
            arrow.numbers(arrow.places_among(arrow.sortable(tuples.column(one.name)), known))
            for one, known in zip(self.attributes, self._known, strict=True)
        ]
        return np.array(found, np.int64).reshape(len(found), len(tuples))


def _shares(one: Attribute, known: pa.Array) -> NDArray[np.int64]:
    """Largest share (M, 2) of each known value; a value without one has 0 and 0."""
    shares = np.zeros((len(known), 2), np.int64)
    if one.alpha is not None:
        shares[:] = Fraction(one.alpha).as_integer_ratio()
    named = {value: Fraction(share).as_integer_ratio() for value, share in one.alpha_of}
    for place, value in enumerate(known.to_pylist() if named else ()):
        shares[place] = named.get(value, (0, 0))
    return shares


def with_thresholds(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Sensitive columns with t, l or alpha; a PolicyError for named values that are no text."""
    found = [one for one in attributes if one.role is Role.SENSITIVE and one.limited]
    for one in found:
        if one.alpha_of and one.kind != "text":
            raise PolicyError(
                f"alpha names values of {one.name!r}, which is {one.type}: in a stream only texts are named; "
                "CAST it to VARCHAR, or give one number"
            )
    return found


def asked_of(
    attributes: Sequence[Attribute], policy: Policy, climbs: Mapping[str, Climb]
) -> list[AttributeLimit]:
    """The thresholds of each sensitive column in the form of the kernels."""
    return [
        AttributeLimit(
            one.distance == "ordered",
            None if one.t is None else Fraction(one.t),
            1 if one.l is None else float(one.l) if policy.l_diversity == "entropy" else math.ceil(one.l),
            "distinct" if one.l is None else policy.l_diversity,
            Fraction(policy.c) if policy.c is not None and one.l is not None else None,
            climbs[one.name].height if one.name in climbs else 0,
            one.alpha is not None or bool(one.alpha_of),
        )
        for one in attributes
    ]


class ClosenessGuard:
    """Counts of the sensitive values read so far, and the extremes of the classes that left."""

    def __init__(self, attributes: Sequence[Attribute], asked: Sequence[AttributeLimit], window: int) -> None:
        self.attributes, self.asked = attributes, asked  # S columns with thresholds
        self._known: list[Known] = []
        self.window = window  # number of last tuples that count; 0 is all
        self.counts = [np.zeros(0, np.int64) for _ in attributes]  # records of each value, by number
        self._largest, self._least = [0.0] * len(attributes), [0] * len(attributes)
        self._shares = [0.0] * len(attributes)
        self._codes = np.zeros((len(attributes), 0), np.int64)  # of the tuples from place _first on
        self._first = self._counted = 0

    def report(self) -> dict[str, Any]:
        """Return the thresholds of each column, with the largest EMD and the fewest values of a class."""
        columns = {}
        for place, (one, asked) in enumerate(zip(self.attributes, self.asked, strict=True)):
            columns[one.name] = {
                "distance": one.distance,
                "t": None if one.t is None else float(one.t),
                "l": None if one.l is None else asked.l,
                **({} if asked.l_kind == "distinct" else {"l_diversity": asked.l_kind}),
                **({} if asked.c is None else {"c": float(asked.c)}),
                "largest_emd": self._largest[place],
                "least_values": self._least[place],
                **({"alpha": _alpha(one), "largest_share": self._shares[place]} if asked.shares else {}),
            }
        reference = {"reference": "window" if self.window else "all", "window": self.window or None}
        return {**reference, "columns": columns}

    def learn(self, learned: Renumbering) -> None:
        """Take the new numbers of the values."""
        self._known = learned.known
        self._codes = learned.of(self._codes)
        for place, (new, size) in enumerate(zip(learned.places, learned.sizes, strict=True)):
            counts = np.zeros(size, np.int64)
            counts[new[new >= 0]] = self.counts[place][new >= 0]
            self.counts[place] = counts

    def read(self, codes: NDArray[np.int64]) -> None:
        """Read the values (S, m) of the next tuples."""
        self._codes = np.hstack([self._codes, codes])

    def check(self, left: Departure, codes: NDArray[np.int64]) -> None:
        """Check each class when it leaves, against the tuples read; a ReleaseError if it misses a threshold.

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
        for place, (asked, counts, known) in enumerate(
            zip(self.asked, self.counts, self._known, strict=True)
        ):
            members = np.bincount(codes[place], minlength=len(counts))
            different, size = int((members > 0).sum()), int(members.sum())
            emd = _distance(members, counts, asked, known)
            if (
                not _diverse(sorted(members[members > 0].tolist(), reverse=True), asked)
                or (asked.t is not None and emd > asked.t)
                or (asked.shares and not _within(members, known))
            ):
                raise ReleaseError(
                    f"a class of the stream has {different} sensitive values and an EMD of {float(emd):g}, "
                    f"where {_told(self.attributes[place], asked)} are asked: it was not written; please "
                    "report this"
                )
            self._largest[place] = max(self._largest[place], float(emd))
            self._least[place] = min(self._least[place] or different, different)
            if asked.shares:
                shared = members[known.shares[:, 1] > 0]
                self._shares[place] = max(self._shares[place], int(shared.max(initial=0)) / size)


def _told(one: Attribute, asked: AttributeLimit) -> str:
    """Thresholds of a column, for a message."""
    alpha = f", alpha = {_alpha(one)}" if asked.shares else ""
    return f"l = {asked.l} ({asked.l_kind}) and t = {asked.t}{alpha}"


def _alpha(one: Attribute) -> float | dict[str, float] | None:
    """The alpha of a column, for JSON."""
    if one.alpha_of:
        return {value: float(share) for value, share in one.alpha_of}
    return None if one.alpha is None else float(one.alpha)


def _diverse(counts: Sequence[int], asked: AttributeLimit) -> bool:
    """Whether descending counts of values keep l; Machanavajjhala et al. 2007, definitions 4.1 and 4.3."""
    if asked.l_kind == "recursive" and asked.c is not None:
        return counts[0] < asked.c * sum(counts[int(asked.l) - 1 :])
    if len(counts) < asked.l or asked.l_kind == "distinct":
        return len(counts) >= asked.l
    entropy = -sum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)
    return counts[0] == counts[-1] or asked.l <= 1 or entropy >= math.log(asked.l) + ENTROPY_AUDIT_MARGIN


def _within(members: NDArray[np.int64], known: Known) -> bool:
    """Whether no value has more than its largest share of a class, in whole numbers."""
    size, held = int(members.sum()), np.flatnonzero(members)
    return all(
        count * bottom <= top * size
        for count, (top, bottom) in zip(members[held].tolist(), known.shares[held].tolist(), strict=True)
    )


def _distance(
    members: NDArray[np.int64], counts: NDArray[np.int64], asked: AttributeLimit, known: Known
) -> Fraction:
    """EMD between a class and all counted tuples; in a hierarchy the mean over the levels below the root."""
    if not asked.height:
        return _emd(members, counts, ordered=asked.ordered)
    levels = []
    for row in known.nodes:
        nodes = np.unique(row, return_inverse=True)[1]
        below = [np.zeros(len(row), np.int64) for _ in range(2)]
        for total, of in zip(below, (members, counts), strict=True):
            np.add.at(total, nodes, of)
        levels.append(_emd(*below, ordered=False))
    return sum(levels, Fraction(0)) / asked.height


def _emd(members: NDArray[np.int64], counts: NDArray[np.int64], *, ordered: bool) -> Fraction:
    """EMD between a class and all counted tuples, in whole numbers: Li et al. 2007, section 5."""
    size, number, domain = int(members.sum()), int(counts.sum()), counts > 0
    shares = number * members[domain] - size * counts[domain]
    if ordered:
        steps = max(1, len(shares) - 1)
        return Fraction(int(np.abs(np.cumsum(shares)).sum()), size * number * steps)
    return Fraction(int(np.abs(shares).sum()), 2 * size * number)
