"""The fast texts of sql/audit/fast give the rows of the audits in sql/audit, which read as the papers."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from duckanon.audits import headers
from duckanon.database import templates
from tests.examples import examples, slowly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUDITS = templates.folder() / "audit"
FAST = sorted((AUDITS / "fast").glob("*.sql"))
DEFINITIONS = [AUDITS / path.name for path in FAST]
HEADER = ["audit", "question", "reads", "returns", "violation", "formula", "source"]
TREE = [("a", "left"), ("b", "left"), ("c", "right"), ("d", "right")]
VALUES = {
    "INTEGER": [0, 1, 2, 5, None],
    "DOUBLE": [0.0, -0.0, float("nan"), 1.5, None],
    "VARCHAR": ["a", "b", "c", "d", None],
}
each_definition = pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE tree (value VARCHAR, level INTEGER, node VARCHAR)")
        for leaf, side in TREE:
            paths = [(leaf, 0, leaf), (leaf, 1, side), (leaf, 2, "*")]
            connection.executemany("INSERT INTO tree VALUES (?, ?, ?)", paths)
        yield connection


def rows(con: duckdb.DuckDBPyConnection, path: Path) -> list[Any]:
    """Rows of a text, with names and types in front."""
    text = path.read_text(encoding="utf-8")
    described = [row[:2] for row in con.execute(f"DESCRIBE {text}").fetchall()]
    return [described, *sorted(con.execute(text).fetchall(), key=repr)]


def test_every_optimised_distance_has_a_definition() -> None:
    distances = {path.stem for path in AUDITS.glob("*t_closeness_*.sql")}
    assert {path.stem for path in FAST} == distances
    assert [path.stem for path in (AUDITS / "fast" / "few_values").iterdir()] == ["t_closeness_ordered"]


@each_definition
def test_a_definition_is_short_and_says_what_it_computes(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [found[1] for line in lines if (found := re.match(r"-- (\w+): \S", line))] == HEADER
    assert lines[0] == f"-- audit: {path.stem}"
    fast = (AUDITS / "fast" / path.name).read_text(encoding="utf-8")
    said = headers.entries("\n".join(lines))
    assert {
        key: text for key, text in headers.entries(fast).items() if key != "source"
    }.items() <= said.items()
    (query,) = sqlglot.parse("\n".join(lines), read="duckdb")
    ours = {cte.alias for cte in query.find_all(exp.CTE)}
    read = {table.name for table in query.find_all(exp.Table)} - ours
    assert read <= {"class_member", "class_superset", "tree"}


@each_definition
@pytest.mark.parametrize("kind", slowly(VALUES, one_of=3))
@settings(max_examples=examples(6), deadline=None)
@given(data=st.data())
def test_the_fast_text_gives_the_rows_of_the_audit(
    con: duckdb.DuckDBPyConnection, path: Path, kind: str, data: st.DataObject
) -> None:
    """Fractions are compared as they are, numerator and denominator, so no verdict can differ at the boundary."""
    kind = "VARCHAR" if "hierarchical" in path.stem else kind
    record = st.tuples(st.integers(1, 6), st.sampled_from(VALUES[kind]))
    members = data.draw(st.lists(record, min_size=1, max_size=40))
    con.execute(f"CREATE OR REPLACE TABLE class_member (class INTEGER, value {kind})")
    con.execute(
        "INSERT INTO class_member SELECT unnest($1), unnest($2)",
        [[number for number, _ in members], [value for _, value in members]],
    )
    con.execute(
        "CREATE OR REPLACE TABLE class_superset AS SELECT DISTINCT class, 0 AS superset FROM class_member"
    )
    con.execute("INSERT INTO class_superset SELECT DISTINCT class, class // 2 + 1 FROM class_member")
    definition = rows(con, path)
    assert rows(con, AUDITS / "fast" / path.name) == definition
    for text in (AUDITS / "fast" / "few_values").glob(path.name):
        names, *found = rows(con, text)
        assert names == [*definition[0], ("distinct_l", "BIGINT")]
        assert [row[:-1] for row in found] == definition[1:]
        held = "SELECT class, count(*) FROM (SELECT DISTINCT class, value FROM class_member) GROUP BY class"
        assert {row[0]: row[-1] for row in found} == dict(con.execute(held).fetchall())


def test_definition_of_the_ordered_distance_gives_what_the_paper_prints(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """Li et al. 2007, section 5.3: salaries 3 to 11 thousand; {3, 4, 5} is 3/8 = 0.375 away, {6, 8, 11} 1/6 = 0.167."""
    con.execute("CREATE OR REPLACE TABLE class_member (class INTEGER, value INTEGER)")
    salaries = {1: (3, 4, 5), 2: (6, 11, 8), 3: (7, 9, 10)}
    con.executemany(
        "INSERT INTO class_member VALUES (?, ?)",
        [(key, v) for key, values in salaries.items() for v in values],
    )
    text = (AUDITS / "t_closeness_ordered.sql").read_text(encoding="utf-8")
    found = {row[0]: Fraction(row[2], row[3]) for row in con.execute(text).fetchall()}
    assert found[1] == Fraction(3, 8)
    assert found[2] == Fraction(1, 6)


def test_definition_of_the_hierarchical_distance_by_hand(con: duckdb.DuckDBPyConnection) -> None:
    """Classes {a, a} and {c, d} of one table, H = 2: half of the mass crosses to the other side at distance 1.

    P - Q of the first class: a +1/2, c and d -1/4 each; left +1/2, right -1/2. Sum of absolute values 2, by 2 H = 4: 1/2.
    """
    con.execute(
        "CREATE OR REPLACE TABLE class_member AS FROM (VALUES (1, 'a'), (1, 'a'), (2, 'c'), (2, 'd')) m(class, value)"
    )
    text = (AUDITS / "t_closeness_hierarchical.sql").read_text(encoding="utf-8")
    assert {row[0]: Fraction(row[2], row[3]) for row in con.execute(text).fetchall()} == {
        1: Fraction(1, 2),
        2: Fraction(1, 2),
    }
