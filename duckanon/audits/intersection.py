"""Audit of two releases of the same data together: ``sql/audit/release_intersection.sql``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.report import Measure, Report
from duckanon.database import engine, templates
from duckanon.database.engine import temporary
from duckanon.database.relations import columns_of
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.names import fold, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    Columns = Sequence[tuple[str, str]]

_MACRO = "release_intersection"
_DIGITS_OF_INTEGERS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 39,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}  # fmt: skip
"""Digits of a whole number by its type, without UHUGEINT, whose values no other type holds."""

_FLOATING_TYPES = {"FLOAT", "DOUBLE"}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_MAX_DECIMAL_DIGITS = 38
"""Digits of the widest DECIMAL."""


@dataclass(frozen=True)
class Intersection:
    """Report on two releases together, and whether every column of both was compared."""

    report: Report
    complete: bool


def intersection(
    con: duckdb.DuckDBPyConnection,
    releases: tuple[str, str],
    names: tuple[str, str],
    *,
    quasi_identifiers: Sequence[str],
    sensitive: Sequence[str] = (),
    others: Sequence[str] = (),
    k: int | None = None,
    l: int | None = None,  # noqa: E741 - l-diversity has this name everywhere
) -> Intersection:
    """Report on two releases (older, newer; SQL text after FROM) together, by a temporary macro. O(n log n).

    `others` are insensitive columns with values of single records, compared for changes if both releases have
    them. PolicyError: a column is missing. SourceError: no records, or no common type.
    """
    stage = f"comparison of {names[0]} and {names[1]}"
    found = [columns_of(con, relation, stage) for relation in releases]
    for name, columns in zip(names, found, strict=True):
        _check_columns(name, columns, (*quasi_identifiers, *sensitive))
    known = [{fold(column) for column, _ in columns} for columns in found]
    values = (*sensitive, *(name for name in others if fold(name) in known[0] & known[1]))
    wanted = (*quasi_identifiers, *values)
    types = _types(con, releases, names, found, wanted)
    # This import takes a tenth of the start of every command, and few commands need it.
    from duckanon.audits.macros import macro_statement

    engine.run(con, macro_statement(_MACRO, temporary=True), stage)
    with temporary(con) as prefix:
        copies = [f"{prefix}_{age}" for age in ("older", "newer")]
        for copy, relation, columns in zip(copies, releases, found, strict=True):
            kept = [(name, kind, types[fold(name)]) for name, kind in columns if fold(name) in types]
            given = {"copy": copy, "relation": relation, "columns": kept}
            engine.run(con, templates.render("audit_bind/release_copy.sql.j2", **given), stage)
        asked = {"older": copies[0], "newer": copies[1], "qi": quasi_identifiers, "sensitive": values}
        query = templates.render("audit_bind/release_intersection.sql.j2", **asked, k=k, l=l)
        measures = tuple(Measure(*row) for row in engine.rows(con, query, stage, error=SourceError))
    measures = tuple(one for one in measures if _is_asked(one, sensitive))
    uncompared = tuple(_not_compared(names, found, wanted))
    warnings = (*uncompared, *_not_followed(measures))
    report = Report(f"{names[0]} and {names[1]}", measures, warnings=warnings)
    return Intersection(report, complete=not uncompared)


def _is_asked(measure: Measure, sensitive: Sequence[str]) -> bool:
    """Whether a measure concerns a sensitive column, or is defined for other columns, too."""
    return measure.measure != "common_values" or fold(measure.attribute or "") in set(map(fold, sensitive))


def _types(
    con: duckdb.DuckDBPyConnection,
    releases: tuple[str, str],
    names: tuple[str, str],
    found: Sequence[Columns],
    wanted: Sequence[str],
) -> dict[str, str]:
    """Type for the comparison of each column, by folded name; SourceError if no type holds both exactly."""
    sides = [{fold(column[0]): column for column in columns} for columns in found]
    types = {}
    for key in map(fold, wanted):
        pair = [side[key] for side in sides]
        one, other = (kind for _, kind in pair)
        kind = _common(one, other)
        if one != other and kind in {None, "DOUBLE"}:
            kind = _by_values([_facts(con, *of, kind) for of in zip(releases, pair, strict=True)], pair, kind)
        if kind is None:
            raise SourceError(
                f"column {pair[0][0]!r} is {one} in {names[0]} and {other} in {names[1]}, and no type holds "
                "the values of both: export both as .duckdb or .parquet"
            )
        types[key] = kind
    return types


def _common(one: str, other: str) -> str | None:
    """Type that holds the values of both types, DOUBLE if the values permit; None if there is none.

    >>> _common("INTEGER", "BIGINT"), _common("DECIMAL(9,2)", "DECIMAL(12,1)"), _common("DATE", "BIGINT")
    ('HUGEINT', 'DECIMAL(13,2)', None)
    """
    if one == other:
        return one
    if all(kind == "VARCHAR" or kind.startswith("ENUM(") for kind in (one, other)):
        return "VARCHAR"
    if one in _DIGITS_OF_INTEGERS and other in _DIGITS_OF_INTEGERS:
        return "HUGEINT"
    sizes = [_digits(kind) for kind in (one, other)]
    if None not in sizes:
        whole, decimals = (max(part) for part in zip(*filter(None, sizes), strict=True))
        return f"DECIMAL({whole + decimals},{decimals})" if whole + decimals <= _MAX_DECIMAL_DIGITS else None
    numbers = all(size or kind in _FLOATING_TYPES for size, kind in zip(sizes, (one, other), strict=True))
    return "DOUBLE" if numbers else None


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point of an exact type; None for other types."""
    found = _DECIMAL.fullmatch(kind)
    if found:
        return int(found[1]) - int(found[2]), int(found[2])
    return (_DIGITS_OF_INTEGERS[kind], 0) if kind in _DIGITS_OF_INTEGERS else None


def _facts(
    con: duckdb.DuckDBPyConnection, relation: str, column: tuple[str, str], kind: str | None
) -> tuple[int, int]:
    """Number of values in a column of a release, and of values that another type cannot hold."""
    name, own = column
    given = {"relation": relation, "column": name, "type": own, "kind": kind}
    query = templates.render("audit_bind/release_types.sql.j2", **given)
    ((values, lost),) = engine.rows(con, query, f"column {name!r}", error=SourceError)
    return values, lost


def _by_values(facts: Sequence[tuple[int, int]], pair: Columns, kind: str | None) -> str | None:
    """Type that holds the actual values: a column of NULL fits any type."""
    for side in (0, 1):
        if facts[side][0] == 0:
            return pair[1 - side][1]
    return None if any(lost for _, lost in facts) else kind


def _check_columns(name: str, columns: Columns, wanted: Sequence[str]) -> None:
    known = [column for column, _ in columns]
    for column in wanted:
        if fold(column) not in map(fold, known):
            hint = suggestion(column, known) or f": it has {', '.join(known)}"
            raise PolicyError(f"{name} has no column {column!r}{hint}")


def _not_compared(names: tuple[str, str], found: Sequence[Columns], wanted: Sequence[str]) -> Iterator[str]:
    """Tell which columns were not compared, because their values may have changed as well."""
    compared = {fold(column) for column in wanted}
    sides = [
        {fold(column): column for column, _ in columns if fold(column) not in compared} for columns in found
    ]
    both = [column for key, column in sides[0].items() if key in sides[1]]
    if both:
        yield (
            f"not compared: {', '.join(both)}; a change of few of their values is told, too: "
            "--sensitive compares them"
        )
    for name, side, other in zip(names, sides, sides[::-1], strict=True):
        alone = [column for key, column in side.items() if key not in other]
        if alone:
            yield f"only {name} has {', '.join(alone)}, which cannot be compared"


def _not_followed(measures: Sequence[Measure]) -> Iterator[str]:
    gone = next((one.value for one in measures if one.measure == "classes_removed"), None)
    if gone:
        yield (
            f"classes of the older release that the newer has not: {gone:.0f}; whether the old and the new "
            "class of a person have values in common is not judged, since files do not tell who is where"
        )
