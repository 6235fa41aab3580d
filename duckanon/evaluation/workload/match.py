"""Two results of one query: rows are matched by their keys, and numbers compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from duckanon.errors import SourceError
from duckanon.evaluation.workload.report import QueryError, cell, summary
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import fold, suggestion

ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"})
"""Types of moments, read as text: DuckDB hands them to Python only where the package pytz is installed."""

_NUMBER = "number"


@dataclass(frozen=True)
class Query:
    """A query of a workload."""

    name: str  # of ``-- name:``, or its number
    text: str  # with its comments
    line: int  # of its first word, from 1
    keys: tuple[str, ...] = ()  # numeric columns of ``-- keys:``
    column: int = 1  # of its first word, from 1

    @property
    def title(self) -> str:
        """Name of the query in errors."""
        return f"{self.name} (line {self.line})"


class Result(NamedTuple):
    """Name and DuckDB type of each column, and the rows."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]


def query_error(query: Query, original: Result, release: Result) -> QueryError:
    """Match the rows of two results of one query, and measure the error of every number. O(rows x columns).

    SourceError if the results differ in their columns, hold no number, or have several rows with equal keys.
    """
    names = [name for name, _ in original.columns]
    if names != [name for name, _ in release.columns]:
        raise SourceError(f"{query.title} gives other columns on the release than on the original")
    if not original.rows and not release.rows:
        raise SourceError(f"{query.title} gives no row on either table: there is nothing to compare")
    keys, values = _parts(query, original, release)
    groups, left = ({_key(row, keys): row for row in result.rows} for result in (original, release))
    for result, rows in ((original, groups), (release, left)):
        if len(rows) < len(result.rows):
            by = ", ".join(names[at] for at in keys) or "no column"
            raise SourceError(
                f"{query.title} gives several rows with equal keys ({by}): group by them, or name numeric "
                "keys in a comment before the query, as in -- keys: year"
            )
    shared = [key for key in groups if key in left]

    def described(row: tuple[Any, ...]) -> dict[str, Any]:
        return {names[at]: row[at] for at in keys}

    cells = tuple(
        cell(described(groups[key]), names[at], groups[key][at], left[key][at])
        for key in shared
        for at in values
    )
    return QueryError(
        query.name,
        query.line,
        query.text,
        tuple(names[at] for at in keys),
        len(shared),
        tuple(described(row) for key, row in groups.items() if key not in left),
        tuple(described(row) for key, row in left.items() if key not in groups),
        {names[at]: summary(one for one in cells if one.column == names[at]) for at in values},
        summary(cells),
        cells,
    )


def _parts(query: Query, original: Result, release: Result) -> tuple[list[int], list[int]]:
    """Return the numbers of the key columns, and of the columns that are compared."""
    names = [name for name, _ in original.columns]
    for name in query.keys:
        if fold(name) not in map(fold, names):
            hint = suggestion(name, names)
            raise SourceError(f"{query.title}: -- keys names {name!r}, which the query does not give{hint}")
    named = {fold(name) for name in query.keys}
    keys: list[int] = []
    values: list[int] = []
    for at, ((name, before), (_, after)) in enumerate(zip(original.columns, release.columns, strict=True)):
        kinds = {_comparable_type(before), _comparable_type(after)}
        if len(kinds) > 1:
            raise SourceError(
                f"{query.title}: column {name!r} is {before[:40]} on the original and {after[:40]} on the "
                "release: CAST it in the query"
            )
        (values if kinds == {_NUMBER} and fold(name) not in named else keys).append(at)
    if not values:
        raise SourceError(f"{query.title} gives no number to compare: add an aggregate, as in count(*)")
    return keys, values


def _comparable_type(type_text: str) -> str:
    """Return one text for all types whose values can be equal: numbers, texts, times without a zone."""
    kind = kind_of(type_text)
    if kind in {"integer", "decimal", "float"}:
        return _NUMBER
    if type_text == "JSON" or type_text.startswith("ENUM("):
        return "VARCHAR"
    return "TIMESTAMP" if kind == "timestamp" and type_text not in ZONED else type_text


def _key(row: tuple[Any, ...], keys: list[int]) -> tuple[Any, ...]:
    """Return the values of the keys such that NULL equals NULL, and NaN equals NaN."""
    return tuple(_comparable(row[at]) for at in keys)


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN", float
    return repr(value) if isinstance(value, dict | list) else value
