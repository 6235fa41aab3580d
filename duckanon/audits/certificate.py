"""The certificate of an audit of joint t-closeness, which SQL checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Certificate:
    """What proves the audit of several sensitive columns together; all numbers are integers.

    Classes and joint values are numbered from 1 in the order of their values in the audited rows.
    """

    name: str  # of the columns, as in reports
    denominator: int  # distances are multiples of 1 / denominator
    flows: pa.Table  # class, from_value, to_value, mass
    potentials: pa.Table  # class, value, potential

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: lists of numbers by column."""
        return {
            "columns": self.name,
            "denominator": self.denominator,
            "flows": self.flows.to_pydict(),
            "potentials": self.potentials.to_pydict(),
        }


SUPERSETS_MAX = 256
"""Largest number of natural supersets beside the table: every class is compared with the bounds of all."""


@dataclass(frozen=True, eq=False)
class Supersets:
    """Natural supersets of an audit of (n, t)-closeness, by bounds on the ranks of quasi-identifiers.

    The values of a quasi-identifier in the audited rows have ranks from 1, NULL the last. A class is in a
    superset if each column with a bound has the rank of the class within one of its bounds.
    """

    bounds: pa.Table  # superset, place (of the quasi-identifier, from 1), first and last rank; integers
