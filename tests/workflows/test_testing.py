"""assert_private: passes, fails with the report, and never passes where nothing was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon
from duckanon.testing import assert_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb

# By hand: zip 01 has 2 records, zip 02 has 3; one disease in 01.
ROWS = """CREATE TABLE people AS FROM (VALUES
    ('01', 'flu'), ('01', 'flu'), ('02', 'flu'), ('02', 'cold'), ('02', NULL)) AS v(zip, disease)"""

Given = tuple[object, dict[str, Any]]


@pytest.fixture
def con(fresh_db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    fresh_db.execute(ROWS)
    return fresh_db


def _file(con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str) -> Given:
    path = tmp_path / name
    con.execute(f"COPY people TO '{path}'")
    return path, {}


FORMS: dict[str, Callable[[duckdb.DuckDBPyConnection, Path], Given]] = {
    "relation": lambda con, _: (con.sql("FROM people"), {}),
    "name": lambda con, _: ("main.people", {"con": con}),
    "our connection": lambda con, _: ("people", {"con": duckanon.Connection(con)}),
    "arrow": lambda con, _: (con.sql("FROM people").to_arrow_table(), {}),
    "pandas": lambda con, _: (con.sql("FROM people").df().iloc[::-1], {}),
    "polars": lambda con, _: (con.sql("FROM people").pl(), {}),
    "parquet": lambda con, folder: _file(con, folder, "people.parquet"),
    "csv": lambda con, folder: _file(con, folder, "people.csv"),
}


@pytest.fixture(params=FORMS)
def given(request: pytest.FixtureRequest, con: duckdb.DuckDBPyConnection, tmp_path: Path) -> Given:
    """The same table in every form."""
    return FORMS[request.param](con, tmp_path)


def test_a_private_table_gives_its_report(given: Given) -> None:
    table, where = given
    report = assert_private(table, quasi_identifiers=["zip"], sensitive="disease", k=2, l=1, **where)
    assert report.passed
    assert [m.value for m in report.measures if m.measure == "k_anonymity"] == [2]
    assert report.measures[0].classes == 2


def test_a_violation_fails_with_the_worst_classes(given: Given) -> None:
    table, where = given
    with pytest.raises(AssertionError) as failed:
        assert_private(table, quasi_identifiers=["zip"], sensitive=["disease"], k=3, l=2, **where)
    text = str(failed.value)
    assert "is not private" in text
    assert "violation: k_anonymity is 2 in the class of 2 records with zip = 01" in text
    assert "violation: distinct_l_diversity of disease is 1 in the class of 2 records with zip = 01" in text


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quasi_identifiers": ["zpi"], "k": 2}, "did you mean 'zip'"),
        ({"quasi_identifiers": ["zip"], "sensitive": ["diseas"], "t": 0.5}, "did you mean 'disease'"),
        ({"quasi_identifiers": [], "k": 2}, "quasi_identifiers is empty"),
        ({"quasi_identifiers": ["zip"]}, "nothing to judge"),
        ({"quasi_identifiers": ["zip"], "sensitive": ["disease"]}, "nothing to judge"),
        ({"quasi_identifiers": ["zip"], "t": 0.5}, "needs sensitive columns"),
        ({"quasi_identifiers": ["zip"], "sensitive": ["zip"], "k": 2}, "one role"),
        ({"quasi_identifiers": ["zip"], "sensitive": ["disease"], "t": 0}, "above 0"),
    ],
)
def test_what_is_wrong_is_an_error(given: Given, options: dict[str, Any], words: str) -> None:
    table, where = given
    with pytest.raises(duckanon.DuckanonError, match=words):
        assert_private(table, **options, **where)


def test_an_empty_table_is_an_error(con: duckdb.DuckDBPyConnection) -> None:
    empty = con.sql("FROM people WHERE zip = '03'")
    for table in (empty, empty.df(), empty.pl(), empty.to_arrow_table()):
        with pytest.raises(duckanon.SourceError, match="empty"):
            assert_private(table, quasi_identifiers="zip", k=2)


@pytest.mark.parametrize(
    ("table", "where", "words"),
    [
        ("people", {}, "give con="),
        ("nowhere.csv", {}, "does not exist"),
        (5, {}, "cannot read a table from int"),
        (pa.table({"zip": ["01"]}), {"con": True}, "con goes with the name of a table"),
        ("nowhere", {"con": True}, "nowhere"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    con: duckdb.DuckDBPyConnection, table: object, where: dict[str, Any], words: str
) -> None:
    options = {"con": con} if where else {}
    with pytest.raises(duckanon.SourceError, match=words):
        assert_private(table, quasi_identifiers="zip", k=2, **options)


FRAMES: dict[str, Callable[[], object]] = {
    "a column twice": lambda: pd.DataFrame([[1, 2], [1, 3]], columns=["zip", "zip"]),
    "a column twice but for case": lambda: pd.DataFrame([[1, 2], [1, 3]], columns=["zip", "ZIP"]),
    "Arrow": lambda: pa.table([[1, 1], [1, 2]], names=["zip", "Zip"]),
    "a RecordBatch": lambda: pa.record_batch([pa.array([1, 1]), pa.array([1, 2])], names=["zip", "zip"]),
    "mixed objects": lambda: pd.DataFrame({"zip": [1, "1", 1, "1"]}),
    "objects": lambda: pd.DataFrame({"zip": [object(), object()]}),
    "complex numbers": lambda: pd.DataFrame({"zip": [1j, 1j]}),
    "a Series": lambda: pd.Series([1, 1], name="zip"),
    "a polars Series": lambda: pl.Series("zip", [1, 1]),
    "a LazyFrame": lambda: pl.LazyFrame({"zip": [1, 1]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_table_in_memory_that_cannot_be_judged_is_our_error(kind: str) -> None:
    """By hand: of two columns of one name the first alone would give k = 2."""
    with pytest.raises(duckanon.SourceError):
        assert_private(FRAMES[kind](), quasi_identifiers="zip", k=2)
    with pytest.raises(duckanon.SourceError):
        duckanon.anonymize_table(FRAMES[kind](), duckanon.Policy(quasi_identifiers="zip", k=2))


def test_a_relation_that_cannot_be_read_is_our_error(con: duckdb.DuckDBPyConnection) -> None:
    twice = con.sql("SELECT 1 AS zip, 2 AS ZIP UNION ALL SELECT 1, 3")
    gone = con.table("people")
    con.execute("DROP TABLE people")
    closed = con.cursor()
    lost = closed.sql("SELECT 1 AS zip")
    closed.close()
    for relation, words in ((twice, "twice"), (gone, "people"), (lost, "closed")):
        with pytest.raises(duckanon.SourceError, match=words):
            assert_private(relation, quasi_identifiers="zip", k=1 + 1)


def test_a_relation_keeps_its_types_and_its_transaction(con: duckdb.DuckDBPyConnection) -> None:
    """HUGEINT values that are one and the same number as DOUBLE are two classes; uncommitted rows are seen."""
    con.execute("BEGIN")
    con.execute(
        "CREATE TEMP TABLE big AS SELECT 170141183460469231731687303715884105720 + i // 2 AS n FROM range(4) r(i)"
    )
    relation = con.sql("FROM big")
    assert assert_private(relation, quasi_identifiers="n", k=2).measures[0].classes == 2
    con.execute("ROLLBACK")
    left = con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert left == []


def test_hierarchies_are_found_where_the_relation_is(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: whole flu 3/5, cold 1/5, NULL 1/5; one level, so zip 01 is at 2/5 and zip 02 at 4/15."""
    con.execute("CREATE TABLE tree AS FROM (VALUES ('flu', 'all'), ('cold', 'all')) AS v(disease, root)")
    tree = {"distance": {"disease": "hierarchical"}, "hierarchies": {"disease": "tree"}}
    for table, where in ((con.sql("FROM people"), {}), ("people", {"con": con})):
        options = {"quasi_identifiers": "zip", "sensitive": "disease", **tree, **where}
        assert assert_private(table, t=0.4, **options).passed
        with pytest.raises(AssertionError, match=r"is 0\.4 in the class of 2 records"):
            assert_private(table, t=0.39, **options)


def test_names_that_need_quotes(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""CREATE TABLE "a""b'c" AS SELECT zip AS "my col" FROM people""")
    assert_private('"a""b\'c"', quasi_identifiers="my col", k=2, con=con)
    assert_private(con.sql("""FROM "a""b'c" """), quasi_identifiers="my col", k=2)
