"""Counts of the role finder: columns over all records, patterns of values, and small sets of columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon import progress
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import named
from duckanon.policy.kinds import kind_of
from duckanon.suggestion.model import SHOWN_SETS, ColumnSet, SpecialUniques

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.kinds import Kind
    from duckanon.suggestion.model import Repair

EXACT_MAX_SUM = 2**125
"""Largest sum of whole numbers, or of units of a DECIMAL, for an exact mean as HUGEINT."""

PATTERN_MAX_VALUES = 10_000
"""Largest number of values of a column that are compared with the patterns."""

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
"""Regular expression by kind of value; ``email`` also matches inside longer texts."""

_ENUM = re.compile(r"ENUM\((?:'[^']*'(?:, )?)*\)")


@dataclass(frozen=True)
class SourceColumn:
    """A column of the source, with its name c1, c2, ... inside the role finder."""

    name: str
    type: str
    code: str

    @property
    def shown(self) -> str:
        """Type as shown to a reader: without the values of an ENUM, which are values of the table."""
        return _ENUM.sub("ENUM", self.type)

    @property
    def scale(self) -> int:
        """Digits after the point of a DECIMAL; 0 for other types."""
        return int(self.type.rstrip(")").rpartition(",")[2]) if self.kind == "decimal" else 0

    @property
    def kind(self) -> Kind:
        """Kind of the type; ``other`` if no quasi-identifier can have it."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Facts:
    """Counts of a column over all records, and figures of at most `PATTERN_MAX_VALUES` values as text."""

    column: SourceColumn
    records: int
    nulls: int
    values: int  # different values, without NULL
    alone: int  # records whose value no other record has; NULL is a value
    unusable: int = 0  # records with NaN or infinity
    low: float | None = None  # least number, or year of a date
    high: float | None = None
    whole: bool | None = None
    length: float = 0.0  # mean, in characters
    words: float = 0.0  # mean
    shortest: int = 0
    longest: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)  # of matching values, by name in `PATTERNS`

    @property
    def present(self) -> int:
        """Records with a value other than NULL."""
        return self.records - self.nulls

    @property
    def distinct_ratio(self) -> float:
        """Different values divided by records with a value, 0 to 1."""
        return self.values / self.present if self.present else 0.0

    @property
    def unique_share(self) -> float:
        """Share of all records whose value no other record has."""
        return self.alone / self.records

    @property
    def own_share(self) -> float:
        """Share of the records with a value whose value no other record has."""
        return (self.alone - (self.nulls == 1)) / self.present if self.present else 0.0

    @property
    def repair(self) -> Repair | None:
        """Repair that a release by the mean needs; None if it accepts the column."""
        if self.unusable:
            return "finite"
        if self.column.kind not in {"integer", "decimal"}:
            return None
        largest = max(abs(self.low or 0), abs(self.high or 0)) * 10.0**self.column.scale
        return "double" if largest * self.records > EXACT_MAX_SUM else None

    def share(self, pattern: str) -> float:
        """Share of the values that match the pattern."""
        return self.shares.get(pattern, 0.0)


def profile(
    con: duckdb.DuckDBPyConnection, records: str, sample: str, columns: Sequence[SourceColumn]
) -> tuple[Facts, ...]:
    """Facts of all columns: one GROUP BY a column over all records, and patterns over a sample."""
    facts = []
    with progress.step("columns", len(columns), "columns") as step:
        for column in columns:
            query = templates.render("suggest/columns.sql.j2:column", records=records, column=column)
            size, nulls, values, alone, unusable, low, high, whole = engine.rows(con, query, "suggest")[0]
            counted = Facts(column, size, nulls, values, alone, unusable, low, high, whole)
            facts.append(counted if column.kind == "other" else _shaped(con, sample, counted))
            step.advance()
    return tuple(facts)


def _shaped(con: duckdb.DuckDBPyConnection, sample: str, facts: Facts) -> Facts:
    query = templates.render(
        "suggest/columns.sql.j2:shapes",
        sample=sample,
        column=facts.column,
        limit=PATTERN_MAX_VALUES,
        patterns=PATTERNS,
    )
    looked_at, length, words, shortest, longest, *matched = engine.rows(con, query, "suggest")[0]
    shares = {name: count / max(looked_at, 1) for name, count in zip(PATTERNS, matched, strict=True)}
    return replace(
        facts,
        length=length,
        words=words,
        shortest=shortest,
        longest=longest,
        shares=shares,
    )


PAIRS_MAX_COLUMNS = 24
"""Largest number of columns whose pairs are all counted: at most 276 pairs."""

TRIPLES_MAX_COLUMNS = 12
"""Largest number of columns whose triples (at most 220) are counted, and searched for minimal keys."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Uniqueness(NamedTuple):
    """Sets in descending order of unique records, special uniques, contributions and examined columns."""

    sets: tuple[ColumnSet, ...]
    special: tuple[SpecialUniques, ...]
    contributions: tuple[tuple[str, float], ...]
    examined: tuple[str, ...]


def uniqueness_of_sets(
    con: duckdb.DuckDBPyConnection, workspace: str, records: str, sample: str, candidates: Sequence[Facts]
) -> Uniqueness:
    """Uniqueness of pairs and triples of columns, and minimal keys of records (SUDA)."""
    # A set is a minimal key of a record that is unique on the set and on no part of it: a minimal sample
    # unique of Elliot, Manning and Ford (2002), here of up to three columns. Pairs are of the
    # `PAIRS_MAX_COLUMNS` candidates with the most values, triples of the first `TRIPLES_MAX_COLUMNS` of
    # these. Cost: one GROUP BY over small integers a set, at most 520 in the sample and a dozen over all
    # records.
    chosen = sorted(candidates, key=lambda facts: -facts.values)[:PAIRS_MAX_COLUMNS]
    if len(chosen) < 2:
        return Uniqueness((), (), (), ())
    codes = f"{workspace}_codes"
    columns = [facts.column.code for facts in chosen]
    engine.run(
        con,
        templates.render("suggest/records.sql.j2:codes", codes=codes, sample=sample, columns=columns),
        "suggest",
    )
    query = templates.render("relation.sql.j2:count", relation=named("temp", codes))
    size = int(engine.rows(con, query, "suggest")[0][0])
    examined = min(len(chosen), TRIPLES_MAX_COLUMNS)
    # A set comes after its parts.
    sizes = ((1, len(chosen)), (2, len(chosen)), (3, examined))
    subsets = [members for size_of, among in sizes for members in combinations(range(among), size_of)]
    alone: dict[tuple[int, ...], Flags] = {}
    special: dict[tuple[int, ...], Flags] = {}
    with progress.step("sets of columns", len(subsets), "sets") as step:
        for members in subsets:
            flags = _alone(con, codes, [columns[member] for member in members], size)
            part = _any((alone[part] for part in combinations(members, len(members) - 1) if part), size)
            special[members] = flags & ~part
            alone[members] = flags
            step.advance()
    names = [facts.column.name for facts in chosen]
    sets = [
        _set(tuple(names[m] for m in members), flags, special[members], total=chosen[0].records)
        for members, flags in alone.items()
        if len(members) > 1
    ]
    inside = {members: flags for members, flags in special.items() if max(members) < examined}
    places = dict(zip(names, columns, strict=True))
    return Uniqueness(
        _in_table(con, records, sorted(sets, key=_place), places),
        _by_size(inside, size),
        _contributions(inside, names[:examined]),
        tuple(names[:examined]),
    )


def _set(names: tuple[str, ...], alone: Flags, special: Flags, *, total: int) -> ColumnSet:
    unique = int(alone.sum())
    return ColumnSet(names, len(alone), unique, int(special.sum()), unique if len(alone) == total else None)


def _in_table(
    con: duckdb.DuckDBPyConnection, records: str, sets: Sequence[ColumnSet], codes: Mapping[str, str]
) -> tuple[ColumnSet, ...]:
    """Count the first pairs and triples over all records, if they were counted in a sample."""
    first = {
        each.columns
        for size in (2, 3)
        for each in [one for one in sets if len(one.columns) == size][:SHOWN_SETS]
        if each.unique_in_table is None
    }
    return tuple(_recounted(con, records, each, codes) if each.columns in first else each for each in sets)


def _recounted(
    con: duckdb.DuckDBPyConnection, records: str, column_set: ColumnSet, codes: Mapping[str, str]
) -> ColumnSet:
    columns = [codes[name] for name in column_set.columns]
    query = templates.render("relation.sql.j2:combinations", records=records, columns=columns)
    return replace(column_set, unique_in_table=engine.rows(con, query, "suggest")[0][2])


def _place(column_set: ColumnSet) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the sort key of a set: by unique records, then by records that no part of the set shows."""
    return (
        -column_set.unique_records,
        len(column_set.columns),
        -(column_set.special_records or 0),
        column_set.columns,
    )


def _alone(con: duckdb.DuckDBPyConnection, codes: str, columns: list[str], size: int) -> Flags:
    query = templates.render("suggest/records.sql.j2:alone", codes=codes, columns=columns)
    flags = np.zeros(size, dtype=np.bool_)
    flags[arrow.numbers(engine.table(con, query, "suggest").column(0))] = True
    return flags


def _any(parts: Iterator[Flags], size: int) -> npt.NDArray[np.bool_]:
    union = np.zeros(size, dtype=np.bool_)
    for flags in parts:
        union |= flags
    return union


def _by_size(special: Mapping[tuple[int, ...], Flags], size: int) -> tuple[SpecialUniques, ...]:
    """Return by size the records whose smallest minimal key has this size, and the number of minimal keys."""
    fewer = np.zeros(size, dtype=np.bool_)
    rows = []
    for columns in sorted({len(members) for members in special}):
        sets = [flags for members, flags in special.items() if len(members) == columns]
        here = _any(iter(sets), size)
        rows.append(
            SpecialUniques(columns, int((here & ~fewer).sum()), sum(int(flags.sum()) for flags in sets))
        )
        fewer |= here
    return tuple(rows)


def _contributions(
    special: Mapping[tuple[int, ...], Flags], names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return the share of all minimal keys that contain each column."""
    counts = {members: int(flags.sum()) for members, flags in special.items()}
    total = max(sum(counts.values()), 1)
    shares = [
        (name, sum(count for members, count in counts.items() if place in members) / total)
        for place, name in enumerate(names)
    ]
    return tuple(sorted(shares, key=lambda share: -share[1]))
