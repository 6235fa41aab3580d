"""What the role finder knows of a column: counts over all records, and the look of its values in a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from duckanon import progress
from duckanon.database import engine, templates
from duckanon.policy.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from duckanon.policy.kinds import Kind

Repair = Literal["finite", "double"]
"""What a statement does to a quasi-identifier: NaN and infinity become NULL, or large numbers DOUBLE."""

EXACT = 2**125
"""Up to this sum of whole numbers, those behind a DECIMAL included, a mean is computed exactly as HUGEINT."""

SHAPED = 10_000
"""Values of a column that are compared with the patterns."""

_DATE = r"\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d{2})"
PATTERNS = {
    "email": r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}",
    "ssn": r"^\d{3}-\d{2}-\d{4}$",
    "iban": r"^[A-Z]{2}\d{2} ?([A-Z0-9]{4} ?){2,7}[A-Z0-9]{1,4}$",
    "phone": r"^(\+\d[\d ().\-/]{6,18}|\(\d{2,5}\)[\d .\-/]{5,14}|\d{2,5}[ \-./]\d{3,4}[ \-.]\d{3,4})$",
    "card": r"^\d{4}([ -]?)\d{4}([ -]?)\d{4}([ -]?)\d{1,4}$",
    "network": r"^(\d{1,3}\.){3}\d{1,3}$|^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"
    r"|^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){3,7}$",
    "url": r"^(https?://|www\.)\S+$",
    "uuid": r"^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$",
    "date": rf"^({_DATE})([ T]\d{{1,2}}:\d{{2}}.*)?$",
    "zip": r"^\d{5}(-\d{4})?$|^[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}$|^[A-Z]\d[A-Z] ?\d[A-Z]\d$",
    "coordinates": r"^-?\d{1,2}\.\d+ *[,; ] *-?\d{1,3}\.\d+$|^POINT ?\(",
    "fine_decimal": r"^-?\d{1,3}\.\d{4,}$",
    "number": r"^-?\d+([.,]\d+)?$",
}
"""Regular expressions of what values may be; ``email`` is also found inside longer texts."""

_ENUM = re.compile(r"ENUM\((?:'[^']*'(?:, )?)*\)")


@dataclass(frozen=True)
class Column:
    """A column of the source and its name inside the role finder: c1.. ."""

    name: str
    type: str
    code: str

    @property
    def shown(self) -> str:
        """Its type for readers: without the values of an ENUM, which are values of the table."""
        return _ENUM.sub("ENUM", self.type)

    @property
    def scale(self) -> int:
        """Digits after the point of a DECIMAL; 0 for other types."""
        return int(self.type.rstrip(")").rpartition(",")[2]) if self.kind == "decimal" else 0

    @property
    def kind(self) -> Kind:
        """Kind of its type; ``other`` for one that a quasi-identifier cannot have."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Facts:
    """What was counted in a column.

    Attributes
    ----------
    column : Column
        The column.
    records, nulls, values, alone, unusable : int
        Over all records: their number; NULLs; different values other than NULL; records alone with their
        value, NULL being one; NaN and infinite values.
    low, high : float or None
        Smallest and largest number, or year of a date.
    whole : bool or None
        Whether all numbers are whole.
    looked_at : int
        Values that were written and looked at.
    words, length : float
        Their mean number of words and characters.
    shortest, longest : int
        Their lengths.
    shares : mapping
        Share of them that match each of `PATTERNS`.
    """

    column: Column
    records: int
    nulls: int
    values: int
    alone: int
    unusable: int = 0
    low: float | None = None
    high: float | None = None
    whole: bool | None = None
    looked_at: int = 0
    length: float = 0.0
    words: float = 0.0
    shortest: int = 0
    longest: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def present(self) -> int:
        """Records with a value other than NULL."""
        return self.records - self.nulls

    @property
    def distinct_ratio(self) -> float:
        """Different values for each record that has one, 0 to 1."""
        return self.values / self.present if self.present else 0.0

    @property
    def unique_share(self) -> float:
        """Share of all records that are alone with their value."""
        return self.alone / self.records

    @property
    def own_share(self) -> float:
        """Share of the records with a value that are alone with it."""
        return (self.alone - (self.nulls == 1)) / self.present if self.present else 0.0

    @property
    def repair(self) -> Repair | None:
        """What a release with a mean needs first; None where it takes the column as it is."""
        if self.unusable:
            return "finite"
        if self.column.kind not in {"integer", "decimal"}:
            return None
        largest = max(abs(self.low or 0), abs(self.high or 0)) * 10.0**self.column.scale
        return "double" if largest * self.records > EXACT else None

    def share(self, pattern: str) -> float:
        """Share of the values that match a pattern."""
        return self.shares.get(pattern, 0.0)


def profile(
    con: duckdb.DuckDBPyConnection, records: str, sample: str, columns: Sequence[Column]
) -> tuple[Facts, ...]:
    """Facts of all columns.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    records, sample : str
        Temporary tables: all records, and those that stand for them.
    columns : sequence of Column
        The columns.

    Returns
    -------
    tuple of Facts
        In the order of the columns.

    Notes
    -----
    One GROUP BY over all records a column; at most `SHAPED` values of it are compared with the patterns.
    """
    found = []
    with progress.step("columns", len(columns), "columns") as step:
        for column in columns:
            query = templates.render("suggest/column.sql.j2", records=records, column=column)
            size, nulls, values, alone, unusable, low, high, whole = engine.rows(con, query, "suggest")[0]
            counted = Facts(column, size, nulls, values, alone, unusable, low, high, whole)
            found.append(counted if column.kind == "other" else _shaped(con, sample, counted))
            step.advance()
    return tuple(found)


def _shaped(con: duckdb.DuckDBPyConnection, sample: str, facts: Facts) -> Facts:
    query = templates.render(
        "suggest/shapes.sql.j2", sample=sample, column=facts.column, limit=SHAPED, patterns=PATTERNS
    )
    looked_at, length, words, shortest, longest, *matched = engine.rows(con, query, "suggest")[0]
    shares = {name: count / max(looked_at, 1) for name, count in zip(PATTERNS, matched, strict=True)}
    return replace(
        facts,
        looked_at=looked_at,
        length=length,
        words=words,
        shortest=shortest,
        longest=longest,
        shares=shares,
    )
