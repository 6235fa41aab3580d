"""Kinds of columns, by type and by name, and the recode rules: the value that a class releases.

A mean of codes has no meaning. A release takes the mode of a column that is surely a code, and warns about a
column that may be one. `duckanon suggest` proposes the mode for both.

A rule is an entry of `RULES` and the file ``sql/recode/rule/<name>.sql.j2``. The file makes the value of a
class, and tells whether it differs from the value of a record. ``docs/options.md`` is the manual of the
rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

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


Recode = Literal["mean", "median", "mode", "range", "set", "hierarchy"]
"""Rules that a policy can name."""

AsItIs = Literal["swap", "anatomy"]
"""Forms of release whose quasi-identifiers are not recoded."""

_ALL_KINDS: frozenset[Kind] = frozenset(get_args(Kind)) - {"other"}


@dataclass(frozen=True)
class Rule:
    """A recode rule."""

    name: Recode | AsItIs
    kinds: frozenset[Kind]  # of columns that the rule accepts: all but `other`, or `NUMBERS` only
    released: str = "{0}"  # type of the released values, {0} for the type of the column
    shows: Literal["one", "all"] | None = None  # released values of single records, if any
    of_values: bool = False  # whether NULL is left out, so that a class with few values would reveal them
    rounds: bool = False  # whether the released number may be no value of a record
    ranks: bool = False  # whether the rule takes a text column that has an order

    @property
    def keeps_type(self) -> bool:
        """Whether a released value is of the type of the column."""
        return self.released == "{0}"


RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("mean", NUMBERS, of_values=True, rounds=True),
        Rule("median", NUMBERS, of_values=True, rounds=True, ranks=True),
        Rule("mode", _ALL_KINDS, shows="one"),
        Rule("range", NUMBERS, released="STRUCT(low {0}, high {0})", of_values=True, ranks=True),
        Rule("set", _ALL_KINDS, released="{0}[]", shows="all"),
        Rule("hierarchy", _ALL_KINDS, released="VARCHAR"),
    )
}
"""Rules by name, in the order in which errors list them."""


UNRECODED: Mapping[str, Rule] = {name: Rule(name, _ALL_KINDS) for name in get_args(AsItIs)}
"""Rules by form of release, where quasi-identifiers are not recoded."""


def rule_of(name: str) -> Rule:
    """Rule of a quasi-identifier by the name in the metadata."""
    return UNRECODED[name] if name in UNRECODED else RULES[name]


_ENUM_VALUE = re.compile("'((?:[^']|'')*)'")


def enum_values(type_text: str) -> tuple[str, ...] | None:
    """Values of an ENUM in its order; None for another type.

    >>> enum_values("ENUM('low', 'it''s high')"), enum_values("VARCHAR")
    (('low', "it's high"), None)
    """
    if not type_text.startswith("ENUM(") or kind_of(type_text) != "text":
        return None
    return tuple(value.replace("''", "'") for value in _ENUM_VALUE.findall(type_text))


def default_rule(kind: Kind, name: str) -> Recode:
    """Rule of a column for which the policy names none: the mean of a quantity or time, else the mode."""
    code = kind == "integer" and code_named(name) == "sure"
    return "mean" if kind in NUMBERS and not code else "mode"


def perhaps_code(kind: Kind, name: str) -> bool:
    """Whether the name of a column that is recoded by the mean suggests that its numbers are codes."""
    found = code_named(name)
    return (kind == "integer" and found is not None) or (kind in {"decimal", "float"} and found == "sure")
