"""Kinds of columns: how a policy treats the values of a DuckDB type."""

from __future__ import annotations

from typing import Literal

Kind = Literal["integer", "decimal", "float", "date", "timestamp", "boolean", "text", "other"]

NUMBERS: frozenset[Kind] = frozenset({"integer", "decimal", "float", "date", "timestamp"})
"""Kinds whose values have an order and differences."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "timestamp"),
    **dict.fromkeys(("VARCHAR", "UUID", "JSON"), "text"),
    "DATE": "date",
    "BOOLEAN": "boolean",
}


def kind_of(type_text: str) -> Kind:
    """Kind of a DuckDB type as DESCRIBE writes it; "other" for types without a kind of their own.

    >>> kind_of("ENUM('a', 'b')"), kind_of("INTEGER[]")
    ('text', 'other')
    """
    if type_text.endswith("]"):
        return "other"
    if type_text.startswith("DECIMAL("):
        return "decimal"
    return "text" if type_text.startswith("ENUM(") else _KINDS.get(type_text, "other")
