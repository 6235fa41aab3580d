"""Texts that an engine has of its own give the rows of the definitions, on random tables, whatever cuts and blocks are.

They are written in SQL that DuckDB reads, too, so this needs no other engine; tests/engines/test_spark.py runs them there.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.database import templates
from tests.examples import slowly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

AUDITS = templates.folder() / "audit"
OWN = sorted((AUDITS / "fast" / "spark").glob("*.sql"))
CUT = re.compile(r"^cut AS \(.*\),$", re.MULTILINE)
BLOCKS = re.compile(r"// 200 \+ 1 AS width")
VALUES = {
    "INTEGER": [*range(-3, 30), None],
    "DOUBLE": [float("-inf"), -1.5, -0.0, 0.0, 1e-300, 7.25, float("inf"), float("nan"), None],
    "VARCHAR": ["", "a", "A", "ä", "a'b", "b", "zebra", None],
}
each_own = pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
each_kind = pytest.mark.parametrize("kind", slowly(VALUES, one_of=3))


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def fill(con: duckdb.DuckDBPyConnection, kind: str, members: Sequence[tuple[int, Any]]) -> None:
    """Make class_member, and class_superset: the whole table, pairs of classes, and the odd classes."""
    con.execute(f"CREATE OR REPLACE TABLE class_member (class INTEGER, value {kind})")
    con.execute(
        "INSERT INTO class_member SELECT unnest($1), unnest($2)",
        [[number for number, _ in members], [value for _, value in members]],
    )
    con.execute(
        "CREATE OR REPLACE TABLE class_superset AS SELECT DISTINCT class, unnest([0, class // 2 + 1, 99]) AS superset "
        "FROM class_member"
    )
    con.execute("DELETE FROM class_superset WHERE superset = 99 AND class % 2 = 0")


def rows(con: duckdb.DuckDBPyConnection, text: str, cuts: Sequence[Any] | None = None) -> list[Any]:
    """Give names and types of the columns, then the rows."""
    described = [row[:2] for row in con.execute(f"DESCRIBE {text}", cuts).fetchall()]
    return [described, *sorted(con.execute(text, cuts).fetchall(), key=repr)]


def definition(path: Path) -> str:
    """Give the definition of an audit, which reads as the paper and is as slow."""
    return (AUDITS / path.name).read_text(encoding="utf-8")


def random_table(data: st.DataObject, kind: str) -> list[tuple[int, Any]]:
    """Draw a table: of few values or many, of few classes or many; it may be empty."""
    # Lists of hypothesis are short, and classes then so small that they face whole values only.
    rng = random.Random(data.draw(st.integers(0, 2**32 - 1)))
    values = rng.choices(VALUES[kind], k=data.draw(st.integers(1, 40)))
    classes = data.draw(st.integers(1, 9))
    return [(rng.randrange(classes), rng.choice(values)) for _ in range(data.draw(st.integers(0, 90)))]


@each_own
@each_kind
@given(data=st.data())
def test_it_gives_the_rows_of_the_definition(
    con: duckdb.DuckDBPyConnection, path: Path, kind: str, data: st.DataObject
) -> None:
    fill(con, kind, random_table(data, kind))
    assert rows(con, path.read_text(encoding="utf-8")) == rows(con, definition(path))


@each_own
@each_kind
@given(data=st.data())
def test_any_cuts_and_blocks_give_the_same_rows(
    con: duckdb.DuckDBPyConnection, path: Path, kind: str, data: st.DataObject
) -> None:
    """No cut, equal ones, NULL, values that the table does not have: they only decide which task does what.

    So do the blocks, of which a table of less than 200 records has one a position.
    """
    fill(con, kind, random_table(data, kind))
    cuts = data.draw(st.lists(st.sampled_from(VALUES[kind]), max_size=20))
    text = path.read_text(encoding="utf-8")
    for pattern, other in (
        (CUT, f"cut AS (SELECT unnest(CAST($1 AS {kind}[])) AS value),"),
        (BLOCKS, f"// {data.draw(st.integers(1, 9))} + 1 AS width"),
    ):
        text, replaced = pattern.subn(other, text)
        assert replaced == 1
    assert rows(con, text, [cuts]) == rows(con, definition(path))
