"""`equivalence_classes(...)` names the classes of the release, identifiers or not."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.release.unpublished import owners_copy
from tests.e2e.tables.test_functions import dictionaries

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        duckanon.register(connection)
        yield connection


def check(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Compare the labelled source with the release: the same records share a class, and classes have one order.

    Quasi-identifiers tie often, identifiers come first in the source and sort against the order of the rest, and
    text is released by its mode, so that several classes of the partition are one in the release.
    """
    draw = random.Random(seed)
    size = draw.randrange(6, 60)
    rows = [
        (
            size - number,
            draw.choice(["x", "y", "z", None]),
            draw.randrange(3),
            draw.choice([1.5, 2.5, None]),
            draw.choice("abc"),
            draw.randrange(100),
        )
        for number in range(size)
    ]
    con.execute(
        "CREATE OR REPLACE TABLE p(id INTEGER, name VARCHAR, zip INTEGER, pay DOUBLE, s VARCHAR, other INTEGER)"
    )
    con.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", rows)
    quasi = draw.choice([["name", "zip"], ["pay"], ["zip", "pay"], ["name"]])
    identifiers = ["id", *(one for one in ("name", "other") if one not in quasi and draw.random() < 0.5)]
    nulls = draw.choice(["category", "suppress"])
    k = draw.randrange(2, 4)
    share = draw.choice([0, 0.3])
    policy = duckanon.Policy(
        quasi_identifiers=quasi, sensitive="s", identifiers=identifiers, insensitive="*", k=k, l=2,
        nulls=nulls, suppression_limit=share, effort="fast",
    )  # fmt: skip
    try:
        duckanon.anonymize(con, "p", policy, name="released", or_replace=True)
    except duckanon.DuckanonError:
        # Too few values for l, or too few records for k: no release to compare with.
        return
    call = f"equivalence_classes('p', quasi_identifiers := {quasi}, sensitive := 's', identifiers := {identifiers}, insensitive := '*', k := {k}, l := 2, nulls := '{nulls}', suppression_limit := {share}, effort := 'fast')"
    same = ", ".join(f'"{row[0]}"' for row in con.execute("DESCRIBE released").fetchall())
    with owners_copy(con, "FROM p", policy) as copy:
        differing = f"FROM (SELECT {same} FROM {copy}) EXCEPT ALL FROM released"
        assert con.execute(differing).fetchall() == []
        assert con.execute(f"SELECT count(*) FROM {copy}").fetchall() == con.execute("SELECT count(*) FROM released").fetchall()  # fmt: skip
    labelled = dictionaries(con, f"FROM {call}")
    assert [row["id"] for row in labelled] == [row[0] for row in rows], "rows in the order of the source"
    kept = [name for name in labelled[0] if name not in (*quasi, *identifiers, "class_id")]
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    for row in labelled:
        if row["class_id"] is not None:
            found[row["class_id"]][tuple(row[name] for name in kept)] += 1
    order = ", ".join(f'"{name}" NULLS LAST' for name in quasi)
    released: dict[Any, Counter[Any]] = defaultdict(Counter)
    for row in dictionaries(con, f"FROM released ORDER BY {order}"):
        released[tuple(row[name] for name in quasi)][tuple(row[name] for name in kept)] += 1
    assert [found[number] for number in range(len(found))] == list(released.values())


@pytest.mark.slow
def test_the_classes_are_those_of_the_release_with_identifiers(con: duckdb.DuckDBPyConnection) -> None:
    for seed in range(5):
        check(con, seed)


@pytest.mark.long
def test_the_classes_of_many_releases(con: duckdb.DuckDBPyConnection) -> None:
    for seed in range(100, 400):
        check(con, seed)


def test_records_with_equal_values_share_a_class(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: one value of the quasi-identifier, so one equivalence class, however the records were grouped."""
    con.execute("CREATE TABLE p AS SELECT i AS id, 'x' AS a FROM range(9) r(i)")
    call = "equivalence_classes('p', quasi_identifiers := ['a'], identifiers := ['id'], k := 2)"
    assert con.execute(f"SELECT DISTINCT class_id FROM {call}").fetchall() == [(0,)]


def test_every_row_of_the_source_is_there_as_it_was(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: NULL is left out by nulls = 'suppress'; an ENUM, -0.0 and a collation are the source's."""
    con.execute("""CREATE TABLE p AS SELECT i AS rowid, CASE WHEN i < 8 THEN -0.0::DOUBLE END AS a,
        'b'::ENUM('a', 'b') AS e, row(i, 'x') AS t FROM range(10) r(i)""")
    call = "equivalence_classes('p', quasi_identifiers := ['a'], identifiers := ['rowid', 't', 'e'], k := 2, nulls := 'suppress')"
    found = con.execute(f"SELECT rowid, a::VARCHAR, typeof(e), typeof(t), class_id FROM {call}").fetchall()
    kinds = ("ENUM('a', 'b')", "TUPLE(BIGINT, VARCHAR)")
    assert found == [(i, "-0.0", *kinds, 0) for i in range(8)] + [(i, None, *kinds, None) for i in (8, 9)]
