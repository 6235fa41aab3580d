"""The measures of arrays beside the audit macros of sql/audit, class by class, on random tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon import measures
from duckanon.audits.macros import macro_statements
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

LETTERS = "abcdef"
TREE = [(letter, "left" if letter in "abc" else "right", "all") for letter in LETTERS]

TABLES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.none() | st.integers(0, 6),
        st.none() | st.sampled_from(LETTERS),
    ),
    min_size=1,
    max_size=40,
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckanon.connect() as connection:
        for statement in macro_statements(temporary=True):
            connection.duckdb.execute(statement)
        connection.duckdb.execute("CREATE TABLE tree (leaf VARCHAR, side VARCHAR, root VARCHAR)")
        connection.duckdb.executemany("INSERT INTO tree VALUES (?, ?, ?)", TREE)
        yield connection.duckdb


class Both:
    """A random table in the database and as arrays."""

    def __init__(self, con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
        self.con = con
        con.execute("CREATE OR REPLACE TABLE t (q INTEGER, s INTEGER, d VARCHAR)")
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", table)
        self.keys, self.labels = np.unique([row[0] for row in table], return_inverse=True)
        self.values = {name: [row[at] for row in table] for name, at in (("s", 1), ("d", 2))}

    def by_class(self, call: str, *columns: str) -> dict[Any, Any]:
        """Give the columns of a macro by (quasi-identifier, sensitive column)."""
        found = self.con.execute(f"SELECT class.q, attribute, {', '.join(columns)} FROM {call}").fetchall()
        return {row[:2]: row[2] if len(columns) == 1 else row[2:] for row in found}

    def expected(self, name: str, numbers: Any) -> dict[Any, Any]:
        """Give what an array of a measure says, in the same form."""
        return {(int(key), name): number for key, number in zip(self.keys, numbers.tolist(), strict=True)}

    def paths(self) -> list[tuple[int, ...]]:
        """Give the tree over the letters that occur; NULL is a child of the root without relatives."""
        found = sorted({letter for letter in self.values["d"] if letter is not None})
        rows = [(LETTERS.index(letter), int(letter in "abc"), 0) for letter in found]
        return [*rows, (99, 99, 0)] if None in self.values["d"] else rows


@settings(max_examples=examples(15))
@given(table=TABLES, k=st.integers(1, 5))
def test_sizes(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]], k: int) -> None:
    both = Both(con, table)
    labels = both.labels
    (row,) = con.execute("SELECT k, classes, records FROM k_anonymity('t', ['q'])").fetchall()
    assert row == (measures.minimum_class_size(labels), len(both.keys), len(table))
    (row,) = con.execute(
        f"SELECT discernibility, c_avg, minimum_class_size, average_class_size FROM class_metrics('t', ['q'], {k})"
    ).fetchall()
    assert row == (
        measures.discernibility(labels),
        pytest.approx(measures.c_avg(labels, k), rel=1e-15),
        measures.minimum_class_size(labels),
        measures.average_class_size(labels),
    )


@settings(max_examples=examples(15))
@given(table=TABLES, l=st.integers(1, 4))
def test_diversity(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]], l: int) -> None:  # noqa: E741
    both = Both(con, table)
    rows = both.by_class(
        "l_diversity('t', ['q'], ['s', 'd'])", "distinct_l", "entropy_l", f"recursive_c[{l}]"
    )
    assert len(rows) == 2 * len(both.keys)
    for name, values in both.values.items():
        distinct = both.expected(name, measures.distinct_l(both.labels, values))
        entropy = both.expected(name, measures.entropy_l(both.labels, values))
        recursive = both.expected(name, measures.recursive_c(both.labels, values, l))
        for key, least in recursive.items():
            assert rows[key] == (
                distinct[key],
                pytest.approx(entropy[key], rel=1e-12),
                None if least == np.inf else least,
            )


@settings(max_examples=examples(15))
@given(table=TABLES, l=st.integers(1, 4), hundredths=st.integers(1, 400))
def test_recursive_verdicts(
    con: duckdb.DuckDBPyConnection,
    table: list[tuple[Any, ...]],
    l: int,  # noqa: E741
    hundredths: int,
) -> None:
    both = Both(con, table)
    c = f"{hundredths / 100:.2f}"
    arguments = f"l := {l}, l_diversity := 'recursive', c := {c}"
    rows = con.execute(
        f"SELECT attribute, violations FROM audit('t', ['q'], ['s', 'd'], {arguments}) WHERE violations IS NOT NULL"
    ).fetchall()
    reached = {name: measures.recursive_l(both.labels, values, c) for name, values in both.values.items()}
    assert dict(rows) == {name: int((found < l).sum()) for name, found in reached.items()}


@settings(max_examples=examples(10))
@given(table=TABLES)
def test_emd(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
    both = Both(con, table)
    calls = [
        ("ordered", "s", None),
        ("equal", "s", None),
        ("equal", "d", None),
        ("hierarchical", "d", both.paths()),
    ]
    for distance, name, paths in calls:
        tree = ", 'tree'" if paths else ""
        rows = both.by_class(f"t_closeness_{distance}('t', ['q'], ['{name}']{tree})", "emd")
        found = measures.emd(both.labels, both.values[name], distance, paths=paths)  # type: ignore[arg-type]
        assert rows == both.expected(name, found)


@settings(max_examples=examples(15))
@given(table=TABLES, level=st.integers(0, 2))
def test_similarity(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]], level: int) -> None:
    both = Both(con, table)
    rows = both.by_class(f"similarity('t', ['q'], ['d'], 'tree', {level})", "class_size")
    assert sum(rows.values()) == measures.similarity_attack(
        both.labels, both.values["d"], both.paths(), level
    )
    similar = both.expected("d", measures.similar_classes(both.labels, both.values["d"], both.paths(), level))
    assert set(rows) == {key for key, attacked in similar.items() if attacked}
