"""Sensitive values of a stream by number, in their order, and what a class must keep of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.database import arrow
from duckanon.errors import PolicyError
from duckanon.kernels.steered.stream import Asked
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute


@dataclass(frozen=True)
class Learned:
    """Numbers that values have by now, by those that they had; -1 of values that were forgotten."""

    places: list[NDArray[np.int64]]
    sizes: list[int]

    def of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """New codes (S, m) by the old ones."""
        # Without values there were no tuples.
        new = [place[old] if len(place) else old for place, old in zip(self.places, codes, strict=True)]
        return np.array(new, np.int64).reshape(codes.shape)


class Values:
    """The values of each attribute that are known, ascending, NaN and NULL last: as an audit orders them."""

    def __init__(self, attributes: Sequence[Attribute], types: dict[str, pa.DataType]) -> None:
        self.attributes = attributes
        self._known = [_plain(pa.array([], types[one.name])) for one in attributes]
        for one, known in zip(attributes, self._known, strict=True):
            try:
                _places(_distinct(known), known)
            except pa.ArrowNotImplementedError as cause:
                raise PolicyError(
                    f"sensitive column {one.name!r} is {one.type}, which is not yet for t and l of a stream: "
                    "CAST it to VARCHAR"
                ) from cause

    def learn(self, tuples: pa.Table, counts: Sequence[NDArray[np.int64]] | None) -> Learned | None:
        """Learn the values of tuples; None where all are known.

        Where counts by number are given, values that count no more are forgotten.
        """
        columns = [_plain(tuples.column(one.name)) for one in self.attributes]
        new = [_distinct(column) for column in columns]
        unknown = [_places(values, known).null_count for values, known in zip(new, self._known, strict=True)]
        if not any(unknown):
            return None
        places = []
        for place, (known, values) in enumerate(zip(self._known, new, strict=True)):
            stay = known if counts is None else known.filter(pa.array(counts[place][: len(known)] > 0))
            now = _distinct(pa.concat_arrays([stay, values]))
            found = _places(known, now)
            places.append(arrow.numbers(pc.fill_null(found, -1)).astype(np.int64))
            self._known[place] = now
        return Learned(places, [len(known) for known in self._known])

    def of(self, tuples: pa.Table) -> NDArray[np.int64]:
        """Numbers (S, m) of the values of tuples, all of which are known."""
        found = [
            arrow.numbers(_places(_plain(tuples.column(one.name)), known))
            for one, known in zip(self.attributes, self._known, strict=True)
        ]
        return np.array(found, np.int64).reshape(len(found), len(tuples))


def guarded(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Sensitive columns of which t or l is asked."""
    return [
        one for one in attributes if one.role is Role.SENSITIVE and (one.t is not None or one.l is not None)
    ]


def asked_of(attributes: Sequence[Attribute]) -> list[Asked]:
    """What a class must keep of each sensitive column."""
    return [
        Asked(
            one.distance == "ordered",
            None if one.t is None else Fraction(one.t),
            1 if one.l is None else math.ceil(one.l),
        )
        for one in attributes
    ]


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values in a type that Arrow orders, of which equal ones are the same: no -0.0, one NaN."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):  # of no chunk
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
        values = pc.if_else(pc.equal(values, zero), zero, pc.if_else(pc.is_nan(values), nan, values))
    return values


def _distinct(values: pa.Array) -> pa.Array:
    """Each value once, ascending, NaN and NULL last."""
    once = pc.unique(values)
    return once.take(pc.array_sort_indices(once))


def _places(values: pa.Array, known: pa.Array) -> pa.Array:
    """Where each value is among those known, NULL as one of them; NULL where it is not."""
    return pc.index_in(values, value_set=known, skip_nulls=False)
