"""From the facts of all columns to the proposed columns: roles, recoding, distances, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.policy.bind import Role
from duckanon.policy.kinds import NUMBERS
from duckanon.suggestion.model import ColumnSuggestion
from duckanon.suggestion.names import named
from duckanon.suggestion.roles import Proposal, is_code, propose

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.suggestion.profile import Facts

ORDERED_T, EQUAL_T, MANY_L = 0.2, 0.3, 3
"""Thresholds to start from: t for an order, t without one, l where there are too many texts for t."""

MANY_TEXTS = 50
"""Different values of a sensitive text above which small classes cannot look like the whole table."""

LINK_LEAST = 20
"""Different values of a key from which a column that stands one to one with it is no chance."""

LINK_SLACK = 1.02
"""Combinations of two columns, for each value of the larger one, up to which they stand one to one."""


def column_suggestions(
    con: duckdb.DuckDBPyConnection, records: str, facts: Sequence[Facts]
) -> tuple[tuple[ColumnSuggestion, ...], tuple[str, ...]]:
    """Columns with their proposed roles, and warnings about them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    records : str
        Temporary table of all records.
    facts : sequence of Facts
        What was counted, in the order of the source.

    Returns
    -------
    tuple of ColumnSuggestion and tuple of str
        In the order of the source.
    """
    proposals = [propose(own) for own in facts]
    keys = [
        own
        for own, proposal in zip(facts, proposals, strict=True)
        if proposal.role is Role.IDENTIFIER and own.column.kind != "other" and _repeats(own)
    ]
    proposals = [
        _linked(con, records, own, keys) or proposal
        if proposal.role is Role.QUASI_IDENTIFIER and _linkable(own)
        else proposal
        for own, proposal in zip(facts, proposals, strict=True)
    ]
    warnings = [proposal.warning for proposal in proposals if proposal.warning]
    warnings += [_several_records(own) for own in keys]
    warnings += [warning for own, p in zip(facts, proposals, strict=True) for warning in _of_values(own, p)]
    columns = tuple(_column(own, proposal) for own, proposal in zip(facts, proposals, strict=True))
    return columns, tuple(warnings)


def _column(facts: Facts, proposal: Proposal) -> ColumnSuggestion:
    name, type_text, role = facts.column.name, facts.column.shown, proposal.role
    recode = distance = t = diversity = None
    ordered = facts.column.kind in NUMBERS and not is_code(facts)
    if role is Role.QUASI_IDENTIFIER:
        recode = "mean" if ordered else "mode"
    if role is Role.SENSITIVE:
        distance = "ordered" if ordered else "equal"
        if not ordered and facts.values > MANY_TEXTS:
            diversity = MANY_L
        elif facts.values > 1 or (facts.values and facts.nulls):
            t = ORDERED_T if ordered else EQUAL_T
    return ColumnSuggestion(
        name, type_text, role, proposal.reason, facts.values, facts.distinct_ratio,
        facts.nulls / facts.records, facts.unique_share, recode, distance, t, diversity,
    )  # fmt: skip


def _of_values(facts: Facts, proposal: Proposal) -> list[str]:
    """Return what the values of a column ask its owner to look at."""
    name, found = repr(facts.column.name), []
    if facts.unusable and proposal.role is Role.QUASI_IDENTIFIER:
        found.append(
            f"{name} is NaN or infinite in {_records(facts.unusable)}, which a release does not take: "
            "the statement turns them into NULL"
        )
    if facts.repair == "double" and proposal.role is Role.QUASI_IDENTIFIER and not is_code(facts):
        found.append(f"{name} has numbers too large for an exact mean: the statement makes them DOUBLE")
    if proposal.role is Role.SENSITIVE and facts.values == 1 and not facts.nulls:
        found.append(
            f"sensitive column {name} has one value: who is known to be in the table has it, whatever k is"
        )
    if proposal.role is Role.SENSITIVE and facts.values > MANY_TEXTS and facts.column.kind not in NUMBERS:
        found.append(
            f"sensitive column {name} has {facts.values} different texts, too many for t without an order: "
            "l is proposed; a tree (distance = 'hierarchical') makes t possible"
        )
    if proposal.role is Role.QUASI_IDENTIFIER and is_code(facts) and facts.values > 2:
        found.append(
            f"{name} holds codes as numbers, which are near each other where the numbers are: CAST it to "
            "VARCHAR in the query if their order means nothing"
        )
    return found


def _several_records(facts: Facts) -> str:
    return (
        f"{facts.column.name!r} has {facts.values} values in {facts.records} records: if it names persons, "
        "they have several records each, and k counts records, not persons; keep one record a person in the "
        "query"
    )


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _repeats(facts: Facts) -> bool:
    """Tell whether a key stands for something with several records."""
    return facts.values >= LINK_LEAST and facts.distinct_ratio <= 0.5


def _linkable(facts: Facts) -> bool:
    """Tell whether a column can be a second name of a key: texts or whole numbers with no telling name."""
    countable = facts.column.kind == "text" or (facts.column.kind == "integer" and bool(facts.whole))
    return countable and named(facts.column.name) is None


def _linked(
    con: duckdb.DuckDBPyConnection, records: str, facts: Facts, keys: Sequence[Facts]
) -> Proposal | None:
    for key in keys:
        most, least = max(facts.values, key.values), min(facts.values, key.values)
        if most > LINK_SLACK * least:
            continue
        columns = [facts.column.code, key.column.code]
        query = templates.render("relation/combinations.sql.j2", records=records, columns=columns)
        combinations = engine.rows(con, query, "suggest")[0][1]
        if combinations <= LINK_SLACK * most + 1:
            return Proposal(Role.IDENTIFIER, f"stands one to one with {key.column.name!r}")
    return None
