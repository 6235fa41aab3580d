"""The recode rules: the value that a class releases for a quasi-identifier.

A rule is an entry of `RULES` and the file ``sql/recode/rule/<name>.sql.j2``. The file makes the value of a
class, and tells whether it differs from the value of a record. ``docs/options.md`` is the manual of the
rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from duckanon.policy.kinds import NUMBERS, Kind, code_named

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    @property
    def keeps_type(self) -> bool:
        """Whether a released value is of the type of the column."""
        return self.released == "{0}"


RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("mean", NUMBERS, of_values=True, rounds=True),
        Rule("median", NUMBERS, of_values=True, rounds=True),
        Rule("mode", _ALL_KINDS, shows="one"),
        Rule("range", NUMBERS, released="STRUCT(low {0}, high {0})", of_values=True),
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


def default(kind: Kind, name: str) -> Recode:
    """Rule of a column for which the policy names none: the mean of a quantity or time, else the mode."""
    code = kind == "integer" and code_named(name) == "sure"
    return "mean" if kind in NUMBERS and not code else "mode"


def perhaps_code(kind: Kind, name: str) -> bool:
    """Whether the name of a column that is recoded by the mean suggests that its numbers are codes."""
    found = code_named(name)
    return (kind == "integer" and found is not None) or (kind in {"decimal", "float"} and found == "sure")
