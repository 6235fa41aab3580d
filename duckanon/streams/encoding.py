"""Tuples that leave a stream get the Arrow types of the input, with dictionaries of their own values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.database import engine, outgoing
from duckanon.database.intake import plain_type
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.release.stages.stage import Field


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
