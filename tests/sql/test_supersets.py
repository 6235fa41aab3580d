"""The audits of (n, t)-closeness take boxes of quasi-identifiers, and none that is forged, by SQL alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from duckanon.database import templates
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Bound = tuple[int | None, int | None, int | None, int | None]

# Two quasi-identifiers of three values each; class 10 a + b has the ranks (a, b). By hand:
ALL = {11, 12, 13, 21, 22, 23, 31, 32, 33}
BOXES: list[tuple[str, list[Bound], set[int]]] = [
    ("both places", [(1, 1, 1, 2), (1, 2, 2, 3)], {12, 13, 22, 23}),
    ("one class", [(1, 1, 3, 3), (1, 2, 1, 1)], {31}),
    ("a place without a row is free", [(7, 2, 2, 2)], {12, 22, 32}),
    ("alternatives", [(1, 1, 1, 1), (1, 1, 3, 3), (1, 2, 1, 2)], {11, 12, 31, 32}),
    ("overlapping alternatives, and one twice", [(1, 1, 1, 2), (1, 1, 2, 3), (1, 1, 2, 3), (1, 2, 3, 3)], {13, 23, 33}),
    ("wider than the ranks", [(1, 1, -5, 2**62), (1, 1, -9, -8), (1, 2, 3, 99)], {13, 23, 33}),
    ("outside of the ranks", [(1, 1, 4, 9), (1, 2, 1, 3)], set()),
    ("no box of superset 0", [(0, 1, 1, 1)], set()),
    ("no box of a negative superset", [(-1, 1, 1, 1)], set()),
    ("no box without a number", [(None, 1, 1, 1)], set()),
    ("first above last", [(1, 1, 1, 3), (1, 2, 2, 1)], set()),
    ("first above last beside a good row", [(1, 1, 1, 3), (1, 1, 2, 1)], set()),
    ("an unknown place", [(1, 1, 1, 3), (1, 3, 1, 3)], set()),
    ("place 0", [(1, 0, 1, 3)], set()),
    ("no place", [(1, 1, 1, 3), (1, None, 1, 3)], set()),
    ("no first", [(1, 1, None, 3)], set()),
    ("no last", [(1, 1, 1, 3), (1, 2, 1, None)], set()),
]  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE near_class (class BIGINT, rank_1 BIGINT, rank_2 BIGINT)")
        connection.execute(
            "CREATE VIEW class_rank AS SELECT class, 1 AS place, rank_1 AS rank FROM near_class "
            "UNION ALL SELECT class, 2, rank_2 FROM near_class"
        )
        connection.execute(
            'CREATE TABLE superset_bound (superset BIGINT, place BIGINT, "first" BIGINT, "last" BIGINT)'
        )
        yield connection


def supersets(
    con: duckdb.DuckDBPyConnection, classes: Sequence[tuple[int, int]], bounds: Sequence[Bound]
) -> list[tuple[int, int]]:
    """Rows (superset, class) of the audit, which the text that runs in audits gives, too."""
    con.execute("DELETE FROM near_class")
    con.execute("DELETE FROM superset_bound")
    con.executemany("INSERT INTO near_class VALUES (?, ?, ?)", [(10 * a + b, a, b) for a, b in classes])
    if bounds:
        con.executemany("INSERT INTO superset_bound VALUES (?, ?, ?, ?)", list(bounds))
    definition = rows_of(con, templates.read("audit/natural_supersets.sql"))
    text = {"workspace": "near", "qi": ["a", "b"], "bounds": "superset_bound"}
    con.execute(templates.render("audit_bind/near.sql.j2:supersets", **text))
    assert rows_of(con, "FROM near_superset") == definition
    return definition


def rows_of(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[int, int]]:
    """Rows (superset, class) of a query, in order."""
    return sorted((row[1], row[0]) for row in con.execute(query).fetchall())


@pytest.mark.parametrize(("bounds", "held"), [case[1:] for case in BOXES], ids=[case[0] for case in BOXES])
def test_boxes_by_hand(con: duckdb.DuckDBPyConnection, bounds: list[Bound], held: set[int]) -> None:
    """Superset 0 is the whole table, whatever the bounds."""
    rows = supersets(con, [divmod(one, 10) for one in ALL], bounds)
    (number,) = {row[0] for row in bounds}
    assert rows == [*((0, one) for one in sorted(ALL)), *((number, one) for one in sorted(held))]


def test_a_forged_box_takes_none_of_the_others_away(con: duckdb.DuckDBPyConnection) -> None:
    rows = supersets(con, [(1, 1), (2, 1)], [(1, 1, 2, 1), (2, 1, 2, 2), (3, 9, 1, 1)])
    assert rows == [(0, 11), (0, 21), (2, 21)]


def test_random_boxes_by_the_definition(con: duckdb.DuckDBPyConnection) -> None:
    rng = np.random.default_rng(5)

    def whole(low: int, high: int) -> int | None:
        return None if rng.random() < 0.01 else int(rng.integers(low, high))

    for _ in range(examples(60)):
        classes = sorted({(int(a), int(b)) for a, b in rng.integers(1, 7, (12, 2))})
        bounds = [
            (whole(0, 6), whole(0, 4) if rng.random() < 0.1 else whole(1, 3), whole(0, 5), whole(3, 8))
            for _ in range(12)
        ]
        expected = [(0, 10 * a + b) for a, b in classes]
        for superset in {row[0] for row in bounds}:
            expected += [(superset, 10 * a + b) for a, b in classes if inside(superset, (a, b), bounds)]
        assert supersets(con, classes, bounds) == sorted(expected)


def inside(superset: int | None, ranks: tuple[int, int], bounds: Sequence[Any]) -> bool:
    """Tell whether a class is in a box, as the header of the audit says."""
    rows = [row for row in bounds if row[0] == superset]
    if any(None in row for row in rows) or superset is None or superset < 1:
        return False
    if any(place not in {1, 2} or first > last for _, place, first, last in rows):
        return False
    return all(
        any(first <= ranks[place - 1] <= last for _, of, first, last in rows if of == place)
        for place in {row[1] for row in rows}
    )
