"""A table of persons that changes, and what two releases of it say together, by sets of persons and nothing else."""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckanon
from duckanon.release.unpublished import equivalence_classes

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = {
    "quasi_identifiers": ["age", "zip"],
    "sensitive": ["charge"],
    "subject": "id",
    "k": 4,
    "recode": {"zip": "mean"},
}
MEANS = ", recode = {zip: mean}"
"""The zip is a number here, and no code."""

WITH = "quasi_identifiers = (age, zip), sensitive = charge, subject = id, k = 4, effort = 'fast'" + MEANS


def persons(count: int = 60) -> duckanon.Connection:
    """Give a connection with persons of two quasi-identifiers and a sensitive value."""
    con = duckanon.connect()
    con.execute(
        f"""CREATE TABLE persons AS
        SELECT i AS id, 20 + i * 7 % 50 AS age, i * 11 % 23 AS zip, i * 13 % 11 AS charge FROM range({count}) r(i)"""
    )
    return con


def warned(con: duckanon.Connection, statement: str) -> list[str]:
    """Run a statement, and give what was told of it and other releases."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        con.sql(statement)
    texts = [str(one.message) for one in caught]
    return [text for text in texts if text.startswith(("together with", "of release")) or "not known" in text]


@dataclass(frozen=True)
class Snapshot:
    """Whose record is in which class of a release, and which sensitive values a class has."""

    classes: dict[Any, set[Any]]  # persons by class
    values: dict[Any, set[Any]]  # sensitive values by class
    records: dict[Any, tuple[Any, ...]]  # all that is released of a person, sorted


def snapshot(con: duckanon.Connection, source: str = "FROM persons", **policy: Any) -> Snapshot:
    """What the owner is told of a release that is made of today's rows."""
    asked = duckanon.Policy(**POLICY | {"effort": "fast"} | policy)
    rows = equivalence_classes(con.duckdb, source, asked).table.to_pylist()
    classes: dict[Any, set[Any]] = defaultdict(set)
    values: dict[Any, set[Any]] = defaultdict(set)
    records: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        classes[row["class_id"]].add(row["id"])
        values[row["class_id"]].add(row["charge"])
        records[row["id"]].append((row["age"], row["zip"], row["charge"]))
    told = {person: tuple(sorted(found)) for person, found in records.items()}
    return Snapshot(dict(classes), dict(values), told)


@dataclass(frozen=True)
class Said:
    """What two releases say together, number by number."""

    came: int
    left: int
    changed: int
    came_few: int  # classes that fewer than k came to, but some
    left_few: int
    changed_few: int  # pairs of classes
    pairs: int
    small: int
    fewest: int
    narrowed: int


def said(old: Snapshot, new: Snapshot, *, k: int, least: int) -> Said:
    """What two releases say together, from sets: the slow way."""
    common = {
        (a, b): len(members & others)
        for a, members in old.classes.items()
        for b, others in new.classes.items()
        if members & others
    }
    narrowed = [
        pair
        for pair in common
        if len(old.values[pair[0]]) >= least
        and len(new.values[pair[1]]) >= least
        and len(old.values[pair[0]] & new.values[pair[1]]) < least
    ]
    both = old.records.keys() & new.records.keys()
    changed = {one for one in both if old.records[one] != new.records[one]}
    came, left = new.records.keys() - old.records.keys(), old.records.keys() - new.records.keys()

    def few(groups: Iterable[set[Any]], which: set[Any]) -> int:
        return sum(0 < len(group & which) < k for group in groups)

    return Said(
        came=len(came),
        left=len(left),
        changed=len(changed),
        came_few=few(new.classes.values(), came),
        left_few=few(old.classes.values(), left),
        changed_few=few(
            (members & others for members in old.classes.values() for others in new.classes.values()), changed
        ),
        pairs=len(common),
        small=sum(count < k for count in common.values()),
        fewest=min(common.values(), default=0),
        narrowed=len(narrowed),
    )
