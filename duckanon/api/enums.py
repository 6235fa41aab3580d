"""Enums of polars, at any depth, restricted to the categories of released records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from duckanon.database.intake import children, plain_type, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


def with_enums(frame: Any, given: Any, released: pa.Table) -> Any:
    """The frame of released records with the Enums of the given frame, restricted to released categories."""
    polars = sys.modules["polars"]
    for name, kind in given.schema.items():
        if "Enum(" not in str(kind) or name not in frame.columns:
            continue
        column = released.select([name])
        if plain_type(column.schema.types[0]) == column.schema.types[0]:
            # A set, for example, has no dictionary in Arrow.
            continue
        # Inside an array only text can become an Enum.
        texts = polars.from_arrow(readable(column, categories=False))[name]
        frame = frame.with_columns(texts.cast(_kept(kind, column.column(0).chunks)))
    return frame


def _kept(kind: Any, parts: Sequence[pa.Array]) -> Any:
    """Return a type whose Enums have the categories of the Arrow dictionaries at the same place."""
    polars = sys.modules["polars"]
    if isinstance(kind, polars.Enum):
        return polars.Enum(parts[0].dictionary.to_pylist())
    if not isinstance(kind, polars.List | polars.Array | polars.Struct):
        return kind
    inner = list(zip(*map(children, parts), strict=True))
    if isinstance(kind, polars.Struct):
        pairs = zip(kind.fields, inner, strict=True)
        return polars.Struct([polars.Field(one.name, _kept(one.dtype, below)) for one, below in pairs])
    within = _kept(kind.inner, inner[0])
    return polars.List(within) if isinstance(kind, polars.List) else polars.Array(within, kind.size)
