"""What an audit of joint t-closeness or (n, t)-closeness is given, and SQL checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.database import arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

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


BOUND = ("superset", "place", "first", "last")
"""Columns of a bound of a box."""

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

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> Supersets:
        """Boxes from rows of superset, place, first and last; none without rows."""
        # Imported here because an audit without n needs no Arrow table.
        import pyarrow as pa

        columns = np.array(rows, dtype=np.int64).reshape(-1, len(BOUND)).T
        arrays = (arrow.arrow(np.ascontiguousarray(one)) for one in columns)
        return cls(pa.table(dict(zip(BOUND, arrays, strict=True))))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: lists of numbers by column."""
        return dict(self.bounds.to_pydict())
