"""Result of the role finder: proposals with reasons, as data, as text, and as a statement that runs."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from duckanon.audits.legible import legible
from duckanon.audits.report import html_table, in_notebook, text_table
from duckanon.database import templates
from duckanon.database.templates import ident
from duckanon.policy.bind import Role
from duckanon.policy.kinds import NUMBERS, default_rule, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Repair = Literal["finite", "double"]
"""Repair of a quasi-identifier by the statement: NaN and infinity to NULL, or large numbers to DOUBLE."""


@dataclass(frozen=True)
class ColumnSuggestion:
    """A column, how far it identifies records, and its proposed role.

    Attributes
    ----------
    name, type : str
        Name and type in the source.
    role : Role
        Proposed role.
    reason : str
        Reason for the role, in words.
    values : int
        Number of different values, without NULL.
    distinct_ratio, null_share, unique_share : float
        Different values divided by records with a value; share of records with NULL; share of records whose
        value no other record has (NULL is a value). Each 0 to 1, over all records.
    recode : str or None
        Recode rule, for a quasi-identifier.
    distance : str or None
        Ground distance, for a sensitive column.
    t : float or None
        Threshold to start from, for a sensitive column.
    l : int or None
        Threshold to start from, for a sensitive column with too many texts for t.
    subject : bool
        Whether the column identifies the person of a record, so that k should count its values.
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
    subject: bool = False


@dataclass(frozen=True)
class ColumnSet:
    """A set of quasi-identifiers, and how far it identifies records.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.
    records : int
        Records counted: all records, or the sample.
    unique_records : int
        Counted records whose combination of values no other counted record has.
    special_records : int or None
        Unique records that no part of the set makes unique: the set is a minimal key of these records. None
        if not counted.
    unique_in_table : int or None
        Unique records among all records; None if only the sample was counted.
    """

    columns: tuple[str, ...]
    records: int
    unique_records: int
    special_records: int | None
    unique_in_table: int | None

    @property
    def unique_share(self) -> float:
        """Share of the counted records that are unique."""
        return self.unique_records / self.records


@dataclass(frozen=True)
class SpecialUniques:
    """Records that `size` columns identify, and fewer columns do not.

    Attributes
    ----------
    size : int
        1, 2 or 3 columns.
    records : int
        Records whose smallest minimal key has this size.
    sets : int
        Number of minimal keys of this size, summed over all records.
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
        Name of the table.
    records, sampled : int
        Number of all records, and of the records in which sets of columns were counted.
    columns : tuple of ColumnSuggestion
        All columns, in descending order of unique records.
    sets : tuple of ColumnSet
        Pairs and triples of quasi-identifiers, in descending order of unique records.
    together : ColumnSet or None
        Set of all quasi-identifiers, over all records.
    special_uniques : tuple of SpecialUniques
        Counts by size; empty with fewer than two quasi-identifiers.
    contributions : tuple of (str, float)
        Share of all minimal keys that contain a column, in descending order.
    examined : tuple of str
        Quasi-identifiers among which minimal keys were searched.
    warnings : tuple of str
        Problems, each with a remedy.
    statement : str or None
        CREATE ANONYMIZED VIEW with the proposed roles; None if there is nothing to release.
    database : str or None
        File on which the statement runs; None if it runs on any connection.
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
        """Return the columns with this proposed role."""
        return tuple(column.name for column in self.columns if column.role is role)

    def to_dict(self) -> dict[str, Any]:
        """Return the suggestion as plain data, without values of the table."""
        data = asdict(self)
        for column, suggested in zip(data["columns"], self.columns, strict=True):
            column["role"] = suggested.role.value
        for plain, column_set in zip(data["sets"], self.sets, strict=True):
            plain["unique_share"] = column_set.unique_share
        if self.together is not None:
            data["together"]["unique_share"] = self.together.unique_share
        return {**data, "contributions": dict(self.contributions), "limits": LIMITS}

    def to_json(self) -> str:
        """Return JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2)

    def to_text(self) -> str:
        """Return the suggestion as text: columns, sets, special uniques, warnings, limits, statement."""
        return text_of(self)

    def __str__(self) -> str:
        """Return `to_text`, for a reader."""
        return self.to_text()

    def _repr_html_(self) -> str:
        """Columns with proposed roles, warnings, limits and statement as HTML for a notebook."""
        told = [*_warnings(self), LIMITS]
        statement = [] if self.statement is None else [f"<pre>{html.escape(self.statement)}</pre>"]
        parts = [
            f"<p><strong>{html.escape(legible(self.name))}</strong> {_counts(self)}</p>",
            html_table(COLUMN_HEADS, _column_rows(self)),
            *(f"<p>{html.escape(line)}</p>" for line in told),
            *statement,
        ]
        return in_notebook(parts)


def ranked(columns: Sequence[ColumnSuggestion]) -> tuple[ColumnSuggestion, ...]:
    """Columns by share of unique records, then by share of different values, then in source order."""
    return tuple(
        sorted(columns, key=lambda column: (-column.unique_share, -column.distinct_ratio, -column.values))
    )


SHOWN_SETS = 6
"""Largest number of pairs, and of triples, in the text."""

SHOWN_WARNINGS = 20
"""Largest number of warnings in the text."""

LIMITS = (
    "This is a proposal from names, types and counts. It cannot know what outsiders know, what harms the "
    "people in the data, or whether two records are of one person. Columns it could not place are "
    "quasi-identifiers. Check every role; k, t and l are starting values, not findings."
)
"""Limits that every suggestion states."""

_SAMPLED = (
    "A sample overstates uniqueness: a record alone in it may have company in the table, while one that is "
    "alone in the table is alone in every sample it is in."
)

_LABELS = {role: role.value.replace("_", "-") for role in Role}


def text_of(suggestion: Suggestion) -> str:
    """Text of a suggestion for a reader, without values of the table."""
    parts = [
        _columns(suggestion),
        _sets(suggestion),
        _special(suggestion),
        _sampled(suggestion),
        _warnings(suggestion),
        [LIMITS],
    ]
    return "\n\n".join("\n".join(part) for part in [*parts, _statement(suggestion)] if part)


def advice_of(suggestion: Suggestion) -> list[str]:
    """Lines that a reader of the statement alone needs: warnings, limits, and where the statement runs."""
    return [*_warnings(suggestion), LIMITS, *_home(suggestion)]


COLUMN_HEADS = ("column", "type", "values", "distinct", "NULL", "unique", "role", "proposal", "reason")
"""Heads of the table of columns."""


def _column_rows(suggestion: Suggestion) -> list[tuple[object, ...]]:
    return [
        (
            legible(column.name),
            column.type if len(column.type) <= 24 else f"{column.type[:21]}...",
            column.values,
            percent(column.distinct_ratio),
            percent(column.null_share),
            percent(column.unique_share),
            _LABELS[column.role],
            _proposal(column),
            legible(column.reason),
        )
        for column in suggestion.columns
    ]


def _counts(suggestion: Suggestion) -> str:
    return f"{number_of(suggestion.records, 'record')}, {number_of(len(suggestion.columns), 'column')}"


def _columns(suggestion: Suggestion) -> list[str]:
    head = f"{legible(suggestion.name)}: {_counts(suggestion)}"
    return [head, *text_table(COLUMN_HEADS, _column_rows(suggestion))]


def _sets(suggestion: Suggestion) -> list[str]:
    lines = []
    if suggestion.sets:
        by_size = [[one for one in suggestion.sets if len(one.columns) == size] for size in (2, 3)]
        shown = [one for sets in by_size for one in sets[:SHOWN_SETS]]
        heads = ["columns", "unique", "records", "on no part"]
        rows = [
            [
                ", ".join(map(legible, one.columns)),
                percent(one.unique_share),
                one.unique_records,
                one.special_records,
            ]
            for one in shown
        ]
        if suggestion.sampled < suggestion.records:
            heads = ["columns", "unique in the sample", "records", "on no part", "unique in the table"]
            for row, one in zip(rows, shown, strict=True):
                row.append(percent((one.unique_in_table or 0) / suggestion.records))
        lines = [
            f"pairs and triples of quasi-identifiers that single out most, of {len(suggestion.sets)} counted"
        ]
        lines += text_table(heads, rows)
    every = suggestion.together
    if every is not None:
        share = f"{percent(every.unique_share)} of all records are alone"
        counts = f"({every.unique_records} of {every.records})"
        lines.append(f"{number_of(len(every.columns), 'quasi-identifier')} together: {share} {counts}")
    return lines


def _special(suggestion: Suggestion) -> list[str]:
    if not suggestion.special_uniques:
        return []
    rows = [
        (special.size, special.records, percent(special.records / suggestion.sampled), special.sets)
        for special in suggestion.special_uniques
    ]
    examined = number_of(len(suggestion.examined), "column")
    lines = [f"special uniques: records that so many of {examined}, and no fewer, single out"]
    lines += text_table(("columns", "records", "share", "minimal sets"), rows)
    shares = [f"{legible(name)} {percent(share)}" for name, share in suggestion.contributions[:5] if share]
    return (
        [*lines, f"share of the minimal sets that a column is in: {', '.join(shares)}"] if shares else lines
    )


def _sampled(suggestion: Suggestion) -> list[str]:
    if suggestion.sampled == suggestion.records or not suggestion.sets:
        return []
    where = (
        "Pairs, triples and special uniques are of a sample of "
        f"{suggestion.sampled} of {suggestion.records} records."
    )
    return [f"{where} {_SAMPLED}"]


def _warnings(suggestion: Suggestion) -> list[str]:
    lines = [f"warning: {legible(warning)}" for warning in suggestion.warnings[:SHOWN_WARNINGS]]
    left = len(suggestion.warnings) - len(lines)
    return [*lines, f"and {number_of(left, 'warning')} more, in --format json"] if left else lines


def _statement(suggestion: Suggestion) -> list[str]:
    if suggestion.statement is None:
        return []
    if not printable(suggestion):
        return ["Names have characters that no terminal shows: --sql -o FILE writes the statement."]
    return [*_home(suggestion), suggestion.statement]


def printable(suggestion: Suggestion) -> bool:
    """Whether a terminal shows the statement without loss: all names in it are legible."""
    names = [suggestion.name, *(column.name for column in suggestion.columns)]
    return all(legible(name) == name for name in names)


def _home(suggestion: Suggestion) -> list[str]:
    """Lines on the file of the statement; none if it runs on any connection."""
    if suggestion.statement is None or suggestion.database is None:
        return []
    return [f"Run it on the database: duckanon run FILE.sql --database {legible(suggestion.database)}"]


def _proposal(column: ColumnSuggestion) -> str:
    limits = [f"{name} = {value}" for name, value in (("t", column.t), ("l", column.l)) if value]
    return ", ".join([word for word in (column.recode, column.distance) if word] + limits)


def percent(share: float) -> str:
    """Share as per cent, ``12.5 %``; only 0 is shown as 0 %, and only 1 as 100 %."""
    if 0 < share < 0.001:
        return "<0.1 %"
    return ">99.9 %" if 0.999 < share < 1 else f"{100 * share:.1f} %"


def number_of(number: int, what: str) -> str:
    """Number with its noun, in the singular or plural."""
    return f"{number} {what}{'' if number == 1 else 's'}"


K = 5
"""Proposed k."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED = frozenset(["as", "with", "to", "true", "false", "null", "e", "select", "from"])


def statement_of(
    columns: Sequence[ColumnSuggestion], records: int, view: str, query: str, repairs: Mapping[str, Repair]
) -> tuple[str | None, tuple[str, ...]]:
    """CREATE ANONYMIZED VIEW with the proposed roles, columns in source order; or None with the reasons."""
    # `repairs` holds the columns that have no mean without a repair.
    by_role = {role: [column for column in columns if column.role is role] for role in Role}
    quasi, sensitive = by_role[Role.QUASI_IDENTIFIER], by_role[Role.SENSITIVE]
    if records < 2:
        return None, ("a table of one record cannot be anonymized: there is no statement",)
    if not quasi:
        return None, (
            "no column is left that a class could share: there is no statement; name a quasi-identifier",
        )
    lists = [
        (Role.SENSITIVE, "sensitive"),
        (Role.IDENTIFIER, "identifiers"),
        (Role.INSENSITIVE, "insensitive"),
    ]
    subjects = [column for column in columns if column.subject]
    averaged = {column.name for column in quasi if column.recode == "mean"}
    taken = averaged | {column.name for column in quasi if repairs.get(column.name) == "finite"}
    repaired = {name: repair for name, repair in repairs.items() if name in taken}
    text = templates.render(
        "suggest/statement.sql.j2:statement",
        word=word,
        view=view,
        query=query,
        repairs=repaired,
        quasi_identifiers=[column.name for column in quasi],
        lists={
            **{option: [column.name for column in by_role[role]] for role, option in lists},
            "subject": [column.name for column in subjects],
        },
        k=max(2, min(K, min([records, *(column.values for column in subjects)]) // 3)),
        maps=_maps(quasi, sensitive),
    )
    return text.strip(), ()


def _maps(
    quasi: Sequence[ColumnSuggestion], sensitive: Sequence[ColumnSuggestion]
) -> dict[str, dict[str, object]]:
    """Return the options with a value by column, without default values."""
    maps: dict[str, dict[str, object]] = {
        "t": {column.name: column.t for column in sensitive if column.t is not None},
        "l": {column.name: column.l for column in sensitive if column.l is not None},
        "distance": {
            column.name: "equal"
            for column in sensitive
            if kind_of(column.type) in NUMBERS and column.distance == "equal"
        },
        "recode": {
            column.name: column.recode
            for column in quasi
            if column.recode != default_rule(kind_of(column.type), column.name)
        },
    }
    return {option: values for option, values in maps.items() if values}


def word(name: str) -> str:
    """Name as a person would write it: in quotes only if it needs them."""
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in _RESERVED else ident(name)
