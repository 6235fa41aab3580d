"""Recoded tuples that leave a stream: the digits of their means, and their Arrow types.

Later values are unknown. So the digits of a column stay open until the first mean of the column leaves. The
first values read before then decide. The place of a value in the stream counts, not its batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, outgoing
from duckanon.database.intake import plain_type
from duckanon.errors import SourceError
from duckanon.release.stages.digits import digits_in, rounding_of, searched, unit_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from duckanon.release.stages.stage import Field, Rounding


class OpenDigits:
    """Columns whose means have no digits yet, each with at most `most` first values."""

    def __init__(self, fields: Sequence[Field], most: int) -> None:
        self._most = most
        self._seen: dict[Field, list[pa.Table]] = {field: [] for field in fields if searched(field)}

    def read(self, tuples: pa.Table, first: int) -> None:
        """Keep the first values of tuples; `first` is the place of the first tuple in the stream."""
        for field, seen in self._seen.items():
            missing = self._most - sum(map(len, seen))
            if missing > 0:
                places = arrow.arrow(np.arange(first, first + len(tuples)))
                values = pa.table({"place": places, "value": tuples.column(field.name)})
                seen.append(values.filter(values.column("value").is_valid()).slice(0, missing))

    def first(self, made: pa.Table, times: NDArray[np.int64]) -> dict[str, Rounding]:
        """Roundings, by column, of the columns whose first mean is in `made`; these columns are settled.

        `times` has for each tuple of `made` the place of the last tuple read before it leaves.
        """
        found = {}
        for field in list(self._seen):
            means = np.flatnonzero(np.asarray(made.column(field.name).is_valid()))
            if len(means):
                seen = pa.concat_tables(self._seen.pop(field))
                before = arrow.numbers(seen.column("place")) <= times[means[0]]
                found[field.column] = _rounding(field, seen.column("value").filter(pa.array(before)))
        return found


def _rounding(field: Field, values: pa.ChunkedArray) -> Rounding:
    """Return the rounding of means by values, none of them NULL."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if field.kind == "float":
        return rounding_of(field, digits_in(arrow.numbers(values).astype(np.float64), field.type))
    zone = values.type.tz
    values = values.cast(pa.timestamp("us" if zone else values.type.unit, zone))
    return rounding_of(field, unit_in(arrow.numbers(values.cast(pa.int64())), field))


class Encoder:
    """The types of an input, by column, and the known order of its dictionaries."""

    def __init__(self, fields: Sequence[Field], types: Mapping[str, pa.DataType]) -> None:
        self._fields, self._types = fields, types
        self._orders: dict[str, outgoing.Orders] = {}

    def learn(self, batch: pa.RecordBatch) -> None:
        """Keep the order of the values of ordered dictionaries, for the output."""
        for name in self._types:
            orders = outgoing.orders([batch.column(name)], declared=True)
            if orders:
                self._orders[name] = outgoing.joined(self._orders.get(name, {}), orders)

    def encoded(self, made: pa.Table) -> pa.Table:
        """Return recoded tuples in the types of the input; a SourceError if a dictionary is too small."""
        columns = {name: made.column(name) for name in made.column_names}
        for field in self._fields:
            column, kind = columns[field.name], self._types[field.name]
            # The mean of half floats need not be a half float.
            if field.quasi and (column.type != plain_type(kind) or pa.types.is_float16(kind)):
                continue
            try:
                columns[field.name] = outgoing.encoded(column, kind, self._orders.get(field.name, {}))
            except pa.ArrowInvalid as beyond:
                raise SourceError(
                    f"column {field.name!r} of type {kind} cannot hold what leaves together: "
                    f"{engine.first_line(beyond)}; give int32 codes to its dictionary"
                ) from beyond
        return pa.table(columns)
