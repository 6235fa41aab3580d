"""Sentences for the owner: what the difference of two releases reveals about fewer than k subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.policy.names import shortened
from duckanon.release.stages.recode import classes_relation

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from duckanon.release.pipeline import Candidate

STAGE = "compare"

_SHOWN_LENGTH = 40
"""Characters of a released value that a sentence shows."""

_SHOWN_COLUMNS = 4
"""Quasi-identifiers that a sentence shows."""


@dataclass(frozen=True)
class Difference:
    """Difference of two releases."""

    came: int  # subjects in the new release only
    gone: int  # subjects in the earlier release only
    changed: int  # subjects with other released values or another number of records
    came_few: int  # classes that fewer than k subjects joined
    came_class: int | None  # one of these classes
    gone_few: int  # earlier classes that fewer than k subjects left
    changed_few: int  # pairs of classes in which fewer than k subjects changed
    pairs: int  # pairs of an earlier and a new class with common subjects
    small: int  # pairs with fewer than k common subjects
    fewest: int | None  # least number of common subjects of a pair
    new_class: int | None  # of the pair with the fewest
    narrowed: int  # pairs with too few common sensitive values
    narrowed_attribute: str | None


def sentences(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    difference: Difference,
    *,
    k: int,
    by_subject: bool,
    least: Mapping[str, int],
    published: int,
) -> list[str]:
    """What a candidate and an earlier release reveal about fewer than k subjects; empty if nothing.

    `by_subject`: subjects are known by columns of their own, else by their released values. `least`: required
    number of common values, by sensitive column. `published`: number of classes that stay.
    """
    return [
        *_of_the_whole(difference, k),
        *([] if by_subject else _of_the_net_count(difference, k)),
        *_of_each_class(con, candidate, difference, k, published),
        *_of_the_classes(con, candidate, difference, least, published),
    ]


def _of_the_whole(difference: Difference, k: int) -> list[str]:
    """What sums and counts of all records reveal."""
    said = []
    for number, what, way in (
        (difference.came, "came", "wait for {} more"),
        (difference.gone, "left", "keep them, or leave {} more out"),
        (difference.changed, "changed", "wait for {} more"),
    ):
        if 0 < number < k:
            said.append(f"{number} {what} ({way.format(k - number)})")
    return said


def _of_the_net_count(difference: Difference, k: int) -> list[str]:
    """What sums of all records reveal if changed records look like departures and arrivals."""
    net = difference.came - difference.gone
    if min(difference.came, difference.gone) < k or not 0 < abs(net) < k:
        return []
    more = f"{abs(net)} {'more' if net > 0 else 'fewer'} than before"
    told = f"if the others only have other values, sums tell of {abs(net)} (wait for {k - abs(net)} more)"
    return [f"{difference.came} came and {difference.gone} left, {more}: {told}"]


def _of_each_class(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, difference: Difference, k: int, published: int
) -> list[str]:
    """What sums and counts of a class reveal if at least k subjects came, left or changed in all."""
    said = []
    if difference.came >= k and difference.came_class is not None:
        where = _class(con, candidate, difference.came_class - published)
        said.append(
            f"{difference.came} came, but fewer to each of {difference.came_few} classes, as to that {where}"
        )
    if difference.gone >= k and difference.gone_few:
        said.append(f"{difference.gone} left, but fewer from each of {difference.gone_few} earlier classes")
    if difference.changed >= k and difference.changed_few:
        said.append(
            f"{difference.changed} changed, but fewer in each of {difference.changed_few} pairs of an "
            "earlier and a new class"
        )
    return said


def _of_the_classes(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    difference: Difference,
    least: Mapping[str, int],
    published: int,
) -> list[str]:
    """What an earlier and a new class reveal about their common subjects."""
    said = []
    if difference.small and difference.new_class is not None:
        where = _class(con, candidate, difference.new_class - published)
        said.append(
            f"{difference.small} of {difference.pairs} pairs of an earlier and a new class share fewer, the "
            f"least {difference.fewest}, as the class {where} with an earlier one"
        )
    if difference.narrowed and difference.narrowed_attribute is not None:
        name = difference.narrowed_attribute
        said.append(
            f"{difference.narrowed} pairs have fewer than {least[name]} values of a sensitive column in "
            f"common, as of {name!r}"
        )
    return said


def _class(con: duckdb.DuckDBPyConnection, candidate: Candidate, number: int) -> str:
    """Released quasi-identifiers of a class, or its number if they are released unchanged."""
    staged = candidate.staged
    if number < 0:
        return "that is published already,"
    if candidate.policy.release != "table":
        return f"with class_id = {number}"
    query = templates.render(
        "successive/append.sql.j2:class", quasi=staged.quasi, classes=classes_relation(staged), number=number
    )
    values = engine.rows(con, query, STAGE)[0]
    shown = [f"{field.name} = {_short(value)}" for field, value in zip(staged.quasi, values, strict=True)]
    return f"({', '.join(shown[:_SHOWN_COLUMNS])}{', ...' if len(shown) > _SHOWN_COLUMNS else ''})"


def _short(value: str | None) -> str:
    return shortened("NULL" if value is None else " ".join(value.split()), _SHOWN_LENGTH)
