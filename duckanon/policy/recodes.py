"""The recode rules: what a class can release for a quasi-identifier.

A rule is an entry of `RULES` and the file ``sql/recode/rule/<name>.sql.j2``, which makes the value of a class
and tells whether it is another one than that of a record. What it is for users stands in ``docs/options.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from duckanon.policy.codes import code_named
from duckanon.policy.kinds import NUMBERS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

Recode = Literal["mean", "median", "mode", "range", "set", "hierarchy"]
"""What a policy can name."""

AsItIs = Literal["swap", "anatomy"]
"""Releases of which quasi-identifiers are not recoded."""

_ALL_KINDS: frozenset[Kind] = frozenset(get_args(Kind)) - {"other"}


@dataclass(frozen=True)
class Rule:
    """A recode rule.

    It `shows` one or all values of its records as they are, None where it need be none. A rule that is
    `of_values` leaves NULL out: of few values what it releases tells them.
    """

    name: Recode | AsItIs
    kinds: frozenset[Kind]  # of columns that it takes: all but `other`, or only those of `NUMBERS`
    released: str = "{0}"  # type of the released values, {0} for the type of the column
    shows: Literal["one", "all"] | None = None
    of_values: bool = False
    rounds: bool = False  # whether it makes a number that no record need have

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
"""By name, in the order in which errors list them."""


UNRECODED: Mapping[str, Rule] = {name: Rule(name, _ALL_KINDS) for name in get_args(AsItIs)}
"""What stands in place of a rule where quasi-identifiers are released as they are, by the release."""


def rule_of(name: str) -> Rule:
    """Rule of a quasi-identifier by the name that metadata have."""
    return UNRECODED[name] if name in UNRECODED else RULES[name]


def default(kind: Kind, name: str) -> Recode:
    """Rule of a column for which a policy names none: the mean of a quantity or time, else the mode."""
    code = kind == "integer" and code_named(name) == "sure"
    return "mean" if kind in NUMBERS and not code else "mode"


def perhaps_code(kind: Kind, name: str) -> bool:
    """Whether numbers that are recoded by their mean may be codes, by their name."""
    found = code_named(name)
    return (kind == "integer" and found is not None) or (kind in {"decimal", "float"} and found == "sure")
