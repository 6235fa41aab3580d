"""Kinds of columns, by the type of the values, and by a name that says whether whole numbers are codes.

A mean of codes has no meaning. A release takes the mode of a column that is surely a code, and warns about a
column that may be one. `duckanon suggest` proposes the mode for both.
"""

from __future__ import annotations

import re
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

_WORD = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CODE_NAMES = re.compile(
    r"_(?:code|type|kind|category|status|flag|zips?|plz|post_?code|postal_?code|codigo_postal|code_postal|icd)_$"
)
_DOUBTFUL_CODE_NAMES = re.compile(r"_(?:class|group|level)_$")


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


def words(name: str) -> str:
    """Words of a name in lower case, each between underscores: ``_date_of_birth_`` from ``dateOfBirth``."""
    parts = [word for part in _WORD.findall(name) for word in _CAMEL.split(part)]
    return f"_{'_'.join(parts).lower()}_"


def code_named(name: str) -> Literal["sure", "perhaps"] | None:
    """Whether a name is that of a code; "perhaps" for a level, whose numbers may have an order.

    >>> code_named("zip"), code_named("planType"), code_named("income_level"), code_named("age")
    ('sure', 'sure', 'perhaps', None)
    """
    text = words(name)
    return "sure" if _CODE_NAMES.search(text) else "perhaps" if _DOUBTFUL_CODE_NAMES.search(text) else None
