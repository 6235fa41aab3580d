"""Flattened: whether groups of a quasi-identifier still differ in a sensitive column after the release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.policy.kinds import NUMBERS

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.stages.stage import Field, Staged

EFFECT_MIN_SHARE = 0.05
"""Share of a sensitive column's variance between groups from which groups count as different."""

KEPT_MIN_SHARE = 0.1
"""Part of that share which a release must keep; below it there is a warning."""

CHANCE_DEVIATIONS = 3.0
"""Standard deviations by which the share in the source must exceed the share by chance."""

EFFECT_RECORDS = 100_000
"""Records that are read; from a larger table every second, third ... record in the order of the values."""


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
