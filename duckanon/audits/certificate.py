"""What an audit of joint t-closeness or (n, t)-closeness is given, and SQL checks."""

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
"""Largest number of boxes beside a release, and of those that an audit searches."""


@dataclass(frozen=True, eq=False)
class Supersets:
    """Boxes of quasi-identifiers, the natural supersets of (n, t)-closeness; all numbers are integers.

    A box has rows of bounds. `place` is the number of a quasi-identifier in the order of the columns of the
    audited rows, from 1, `first` and `last` are ranks among its values in these rows. Rows of one place are
    alternatives.
    """

    bounds: pa.Table  # superset, place, first, last

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: lists of numbers by column."""
        return dict(self.bounds.to_pydict())
