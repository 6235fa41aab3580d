"""What the role finder hands back: a proposal with its reasons, as data and as text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from duckanon.suggestion.text import LIMITS, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.schema import Role


@dataclass(frozen=True)
class ColumnSuggestion:
    """A column, how far it singles out records, and the role proposed for it.

    Attributes
    ----------
    name, type : str
        As the source has them.
    role : Role
        The proposal.
    reason : str
        Why, in words.
    values : int
        Different values other than NULL.
    distinct_ratio, null_share, unique_share : float
        Different values for each record with one; share of records with NULL; share of records that are alone
        with their value (NULL is a value): 0 to 1, over all records.
    recode : str or None
        Of a quasi-identifier: how to recode it.
    distance : str or None
        Of a sensitive column: its ground distance.
    t : float or None
        Of a sensitive column: a threshold to start from.
    l : int or None
        Of a sensitive column with too many texts for t: a threshold to start from.
    """

    name: str
    type: str
    role: Role
    reason: str
    values: int
    distinct_ratio: float
    null_share: float
    unique_share: float
    recode: str | None = None
    distance: str | None = None
    t: float | None = None
    l: int | None = None  # noqa: E741 - l-diversity has this name everywhere


@dataclass(frozen=True)
class ColumnSet:
    """A few quasi-identifiers together.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    records : int
        Records looked at: all, or the sample.
    unique_records : int
        Those alone with their combination of values.
    special_records : int or None
        Those of them that are not alone on any part of the set: the set is a minimal key of theirs. None
        where it was not counted.
    unique_in_table : int or None
        Records alone among all records; None where only the sample was looked at.
    """

    columns: tuple[str, ...]
    records: int
    unique_records: int
    special_records: int | None
    unique_in_table: int | None

    @property
    def unique_share(self) -> float:
        """Share of the records looked at that are alone."""
        return self.unique_records / self.records


@dataclass(frozen=True)
class SpecialUniques:
    """Records that can be singled out by `size` columns, and by no fewer.

    Attributes
    ----------
    size : int
        1, 2 or 3 columns.
    records : int
        Records whose smallest minimal set has this size.
    sets : int
        Minimal sets of this size, summed over all records.
    """

    size: int
    records: int
    sets: int


@dataclass(frozen=True)
class Suggestion:
    """Proposed roles for the columns of a table, with the evidence and a statement to start from.

    Attributes
    ----------
    name : str
        The table.
    records, sampled : int
        All records, and those that sets of columns were counted in.
    columns : tuple of ColumnSuggestion
        The columns that single out the most records first.
    sets : tuple of ColumnSet
        Pairs and triples of quasi-identifiers, the most unique first.
    together : ColumnSet or None
        All quasi-identifiers, over all records.
    special_uniques : tuple of SpecialUniques
        By size; empty without two quasi-identifiers.
    contributions : tuple of (str, float)
        Share of the minimal sets that a column is in, the largest first.
    examined : tuple of str
        Quasi-identifiers among which minimal sets were sought.
    warnings : tuple of str
        What to look at, and what to do about it.
    statement : str or None
        CREATE ANONYMIZED VIEW with the proposed roles; None where there is nothing to release.
    database : str or None
        File on which the statement runs; None where it runs anywhere.
    """

    name: str
    records: int
    sampled: int
    columns: tuple[ColumnSuggestion, ...]
    sets: tuple[ColumnSet, ...]
    together: ColumnSet | None
    special_uniques: tuple[SpecialUniques, ...]
    contributions: tuple[tuple[str, float], ...]
    examined: tuple[str, ...]
    warnings: tuple[str, ...]
    statement: str | None
    database: str | None = None

    def of(self, role: Role) -> tuple[str, ...]:
        """Return the columns that the role is proposed for."""
        return tuple(column.name for column in self.columns if column.role is role)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; no value of the table is in it."""
        data = asdict(self)
        for column, own in zip(data["columns"], self.columns, strict=True):
            column["role"] = own.role.value
        for found, own_set in zip(data["sets"], self.sets, strict=True):
            found["unique_share"] = own_set.unique_share
        if self.together is not None:
            data["together"]["unique_share"] = self.together.unique_share
        return {**data, "contributions": dict(self.contributions), "limits": LIMITS}

    def to_json(self) -> str:
        """Return JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2)

    def to_text(self) -> str:
        """Return the columns, the sets, the special uniques, warnings, limits and the statement."""
        return text_of(self)


def ranked(columns: Sequence[ColumnSuggestion]) -> tuple[ColumnSuggestion, ...]:
    """Columns in the order in which they single out records.

    Parameters
    ----------
    columns : sequence of ColumnSuggestion
        In the order of the source, which decides between equals.

    Returns
    -------
    tuple of ColumnSuggestion
        By the share of unique records, then by the share of different values.
    """
    return tuple(sorted(columns, key=lambda own: (-own.unique_share, -own.distinct_ratio, -own.values)))
