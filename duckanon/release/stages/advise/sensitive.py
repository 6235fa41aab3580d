"""Advice on sensitive columns: values that classes reveal or an attack finds, and effects that are lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import arrow, engine, templates
from duckanon.measures.definetti import Held, binned, by_counts, definetti, share_right
from duckanon.policy.kinds import NUMBERS
from duckanon.release.stages.recode import labelled_relation

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.release.stages.stage import Field, Staged


COUNTED_COLUMNS_PER_STATEMENT = 16
"""Columns whose distinct values one statement counts."""

EFFECT_MIN_SHARE = 0.05
"""Share of a sensitive column's variance between groups from which groups count as different."""

KEPT_MIN_SHARE = 0.1
"""Part of that share which a release must keep; below it there is a warning."""

CHANCE_DEVIATIONS = 3.0
"""Standard deviations by which a share must exceed the share by chance, for a warning."""

EFFECT_RECORDS = 100_000
"""Records that are read; from a larger table every second, third ... record in the order of the values."""

ATTACK_MIN_GAIN_SHARE = 0.05
"""Share of the records by which the attack must beat a guess from the counts of classes, for a warning."""

ATTACK_RECORDS = 10_000
"""Records, about, on which the attack is tried; they form whole classes."""

ATTACK_MAX_PAIRS = 5_000_000
"""Pairs of a record and a value of its class above which the attack is not tried: it holds them in memory."""


def revealed(
    con: duckdb.DuckDBPyConnection, staged: Staged, candidate: str, classes_by: Sequence[Field]
) -> list[str]:
    """Warnings of sensitive columns without a threshold that have a single value in some classes."""
    free = [field for field in staged.sensitive if not field.attribute.limited]
    if not free:
        return []
    query = templates.render("advice/revealed.sql.j2", candidate=candidate, sensitive=free, quasi=classes_by)
    *counts, classes, records = engine.rows(con, query, "advice")[0]
    warnings = []
    for field, alike, members in zip(free, counts[::2], counts[1::2], strict=True):
        if members == records and values_of(con, staged, [field])[0][1] <= 1:
            warnings.append(one_value(field.name, records))
        elif alike:
            warnings.append(reveals(field.name, alike, classes, members, records))
    return warnings


def one_value(name: str, records: int) -> str:
    """Warning of a sensitive column with a single value in the whole table."""
    return (
        f"sensitive column {name!r} has one value in all {records} records: whoever is in the release has it"
    )


def reveals(name: str, alike: int, classes: int, members: int, records: int) -> str:
    """Warning of a sensitive column with a single value in some classes."""
    return (
        f"{alike} of {classes} classes, {members} of {records} records reveal {name!r}: all "
        "records of such a class have the same value; set l or t"
    )


def values_of(
    con: duckdb.DuckDBPyConnection, staged: Staged, fields: Sequence[Field]
) -> list[tuple[int, int]]:
    """Number of records with a value in each field, and of its distinct values."""
    counts: list[tuple[int, int]] = []
    for part in engine.in_parts(fields, COUNTED_COLUMNS_PER_STATEMENT):
        query = templates.render("advice/columns.sql.j2", records=staged.records, fields=part)
        counts += [(values, different) for _, values, different in engine.rows(con, query, "advice")]
    return counts


def flattened(con: duckdb.DuckDBPyConnection, staged: Staged, *, candidate: str) -> tuple[str, ...]:
    """Warnings of sensitive columns whose thresholds made groups of people alike. O(n) a pair of columns.

    There is one line for each sensitive column with t or l that lost nearly all variance between the groups
    of a quasi-identifier. The line names the quasi-identifier with the greatest effect.
    """
    # A record that is released with a list of values belongs to no single group.
    quasi = [field for field in staged.quasi if field.rule.shows != "all"]
    warnings = []
    for field in staged.sensitive:
        asked = [name for name in ("t", "l") if getattr(field.attribute, name) is not None]
        if quasi and asked:
            warnings += _line(field, _shares(con, staged, field, quasi, candidate), " and ".join(asked))
    return tuple(warnings)


def _shares(
    con: duckdb.DuckDBPyConnection, staged: Staged, sensitive: Field, quasi: list[Field], candidate: str
) -> list[tuple[str, float, float]]:
    """Quasi-identifiers with an effect, the greatest first: its share in the source and in the release."""
    query = templates.render(
        "advice/effects.sql.j2",
        records=staged.records,
        candidate=candidate,
        quasi=quasi,
        numbers=[field for field in quasi if not field.nominal],
        sensitive=sensitive,
        means=_averaged(sensitive),
        step=-(-staged.size // EFFECT_RECORDS),
    )
    return [
        (quasi[place].name, source, released)
        for place, source, chance, released in engine.rows(con, query, "advice")
        if source is not None
        and released is not None
        and source >= max(EFFECT_MIN_SHARE, CHANCE_DEVIATIONS * chance)
    ]


def _line(field: Field, shares: list[tuple[str, float, float]], asked: str) -> list[str]:
    gone = [one for one in shares if one[2] < KEPT_MIN_SHARE * one[1]]
    if not gone:
        return []
    name, source, released = gone[0]
    what, spread = ("means", "variance") if _averaged(field) else ("shares", "variation")
    others = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
    text = (
        f"{asked} of {field.name!r} took what {name!r}{others} tells of it: its groups hold "
        f"{100 * source:.1f} % of its {spread} in the source and {100 * released:.1f} % in the release, so "
        f"{what} by group are nearly equal there"
    )
    return [text]


def _averaged(field: Field) -> bool:
    """Tell whether a sensitive column has means; DuckDB has no epoch() of TIMESTAMPTZ_NS."""
    return field.kind in NUMBERS and field.type != "TIMESTAMPTZ_NS"


def guessed(con: duckdb.DuckDBPyConnection, staged: Staged) -> list[str]:
    """Warnings of sensitive columns that a deFinetti attack finds, if quasi-identifiers are exact."""
    warnings = []
    for field in staged.sensitive:
        found = _found(con, staged, field)
        if found is None:
            continue
        right, counts, records = found
        if right - counts > max(
            ATTACK_MIN_GAIN_SHARE, CHANCE_DEVIATIONS * math.sqrt(counts * (1 - counts) / records)
        ):
            warnings.append(told(field.name, right, counts))
    return warnings


def told(name: str, right: float, counts: float) -> str:
    """Warning of a sensitive column that depends on the quasi-identifiers."""
    return (
        f"{name!r} goes with the quasi-identifiers, which are released exactly: a deFinetti attack finds it "
        f"for {right:.0%} of the records, where counts of their classes tell {counts:.0%}; take a larger l "
        "or k, fewer quasi-identifiers, or release = 'table' with t"
    )


def _found(con: duckdb.DuckDBPyConnection, staged: Staged, field: Field) -> tuple[float, float, int] | None:
    """Return the share that the attack finds, the share by counts alone, and the number of records.

    None if no class is examined, or a class is too large for the attack.
    """
    query = templates.render(
        "advice/guessed.sql.j2",
        labelled=labelled_relation(staged),
        quasi=staged.quasi,
        sensitive=field,
        step=-(-staged.size // ATTACK_RECORDS),
    )
    rows = engine.table(con, query, "advice")
    if not len(rows):
        return None
    numbers = {name: arrow.numbers(rows.column(name)).astype(np.int64) for name in rows.column_names}
    classes = np.unique(numbers["class"], return_inverse=True)[1].astype(np.int64)
    known = np.stack(
        [
            numbers[f"c{place}"] if one.nominal else binned(numbers[f"c{place}"])
            for place, one in enumerate(staged.quasi, start=1)
        ],
        axis=1,
    )
    pairs, records = np.unique(np.stack([classes, numbers["value"]]), axis=1, return_counts=True)
    if int(np.bincount(classes)[pairs[0]].sum()) > ATTACK_MAX_PAIRS:
        return None
    held = Held(pairs[0], pairs[1], records.astype(np.int64))
    guesses = definetti(classes, known, held)
    right = share_right(numbers["person"], guesses, numbers["person"], numbers["value"])
    return right, by_counts(classes, held), len(rows)
