"""Sensitive values of a stream, numbered in their order, and the t and l of each column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.database import arrow, ordered
from duckanon.errors import PolicyError
from duckanon.kernels.steered.stream import AttributeLimit
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute


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
        self._known = [ordered.plain(pa.nulls(0, types[one.name])) for one in attributes]
        for one, known in zip(attributes, self._known, strict=True):
            try:
                ordered.places(ordered.distinct(known), known)
            except pa.ArrowNotImplementedError as cause:
                raise PolicyError(
                    f"sensitive column {one.name!r} is {one.type}, which is not yet for t and l of a stream: "
                    "CAST it to VARCHAR"
                ) from cause

    def learn(self, tuples: pa.Table, counts: Sequence[NDArray[np.int64]] | None) -> Renumbering | None:
        """Learn the values of tuples and forget values with count 0; None if all values are known."""
        columns = [ordered.plain(tuples.column(one.name)) for one in self.attributes]
        new = [ordered.distinct(column) for column in columns]
        unknown = [
            ordered.places(values, known).null_count for values, known in zip(new, self._known, strict=True)
        ]
        if not any(unknown):
            return None
        places = []
        for place, (known, values) in enumerate(zip(self._known, new, strict=True)):
            stay = known if counts is None else known.filter(pa.array(counts[place][: len(known)] > 0))
            now = ordered.distinct(pa.concat_arrays([stay, values]))
            found = ordered.places(known, now)
            places.append(arrow.numbers(pc.fill_null(found, -1)).astype(np.int64))
            self._known[place] = now
        return Renumbering(places, [len(known) for known in self._known])

    def of(self, tuples: pa.Table) -> NDArray[np.int64]:
        """Numbers (S, m) of the values of tuples, all of which are known."""
        found = [
            arrow.numbers(ordered.places(ordered.plain(tuples.column(one.name)), known))
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
