"""Effects: whether the groups of a quasi-identifier still differ in a sensitive column after the release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.policy.kinds import NUMBERS

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.stages.stage import Field, Staged

EFFECT = 0.05
"""Share of the variance of a sensitive column between groups from which they differ at all."""

LEFT = 0.1
"""Part of that share that a release keeps at least, unless the effect is said to have collapsed."""

CERTAIN = 3.0
"""Standard deviations by which an effect in the source exceeds what chance puts between groups."""

LOOKED_AT = 100_000
"""Records from which on one of several is looked at, evenly spread over the order of their values."""


def flattened(con: duckdb.DuckDBPyConnection, staged: Staged, *, candidate: str) -> tuple[str, ...]:
    """Warnings about sensitive columns whose thresholds made groups of people alike.

    A line for each one with t or l whose variance between the groups of some quasi-identifier is all but
    gone; it names the one that told the most. O(n) for each pair of columns, with n at most `LOOKED_AT`, of
    which are the tenths by which numbers are grouped, too; and one pass over all records.
    """
    # A list of values is in no group.
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
        step=-(-staged.size // LOOKED_AT),
    )
    return [
        (quasi[place].name, source, released)
        for place, source, chance, released in engine.rows(con, query, "advice")
        if source is not None and released is not None and source >= max(EFFECT, CERTAIN * chance)
    ]


def _line(field: Field, shares: list[tuple[str, float, float]], asked: str) -> list[str]:
    gone = [one for one in shares if one[2] < LEFT * one[1]]
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
