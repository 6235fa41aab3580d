"""`FROM anonymize(...)` and `equivalence_classes(...)` answer from the data, trees and session of the moment.

A call may be answered from an earlier one only where nothing that the answer depends on has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from tests.e2e.scenes import emptied
from tests.e2e.tables.test_functions import dictionaries
from tests.examples import slowly
from tests.oracle import class_emds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The tables are small, so that columns single records out, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


@pytest.fixture
def alone() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that a test may put into any state."""
    with duckdb.connect() as connection:
        duckanon.register(connection)
        yield connection


@pytest.fixture(scope="module")
def registered() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        duckanon.register(connection)
        yield connection


@pytest.fixture
def con(registered: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """One connection with our functions, which are long to parse; what a test makes is gone after it."""
    yield registered
    emptied(registered)


def released(con: duckdb.DuckDBPyConnection, relation: str, others: str = "insensitive := '*'") -> list[Any]:
    """Give the texts of all released rows; `a` is the quasi-identifier."""
    return con.execute(
        f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM anonymize('{relation}', quasi_identifiers := ['a'], k := 2, {others})"
    ).fetchall()


def test_a_replaced_hierarchy_is_the_one_that_counts(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: x, y, z, w in equal shares, neighbours are x, y or z, w, and the tree has height 2.

    With x and z below one node, y and w below the other, a quarter moves from x to z and one from y to w, half the
    height each: EMD 1/4 for neighbours, which t = 0.25 allows. With x and y below one node, half of all moves
    over the root: EMD 1/2, so neighbours may not be released then.
    """
    con.execute("CREATE TABLE p AS SELECT i // 2 AS a, substr('xyzw', i % 4 + 1, 1) AS s FROM range(16) r(i)")
    trees = {
        "deep": "SELECT unnest(['x', 'y', 'z', 'w']) AS leaf, unnest(['m', 'm', 'n', 'n']) AS parent, 'any' AS root",
        "other": "SELECT unnest(['x', 'z', 'y', 'w']) AS leaf, unnest(['m', 'm', 'n', 'n']) AS parent, 'any' AS root",
    }
    rows = {
        "deep": [("x", "m", "any"), ("y", "m", "any"), ("z", "n", "any"), ("w", "n", "any")],
        "other": [("x", "m", "any"), ("z", "m", "any"), ("y", "n", "any"), ("w", "n", "any")],
    }
    call = "anonymize('p', quasi_identifiers := ['a'], sensitive := ['s'], k := 2, t := 0.25, distance := {s: 'hierarchical'}, hierarchies := {s: 'tree'})"
    for name in ("other", "deep", "other"):
        con.execute(f"CREATE OR REPLACE TABLE tree AS {trees[name]}")
        found = dictionaries(con, f"FROM {call}")
        assert max(class_emds(found, ["a"], "s", distance="hierarchical", tree=rows[name])) <= 0.25, name


def test_a_hierarchy_in_a_file_that_was_rewritten(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.execute("CREATE TABLE p AS SELECT i // 2 AS a, substr('xy', i % 2 + 1, 1) AS s FROM range(8) r(i)")
    file = tmp_path / "tree.csv"
    call = f"SELECT count(*) FROM anonymize('p', quasi_identifiers := ['a'], sensitive := ['s'], k := 2, t := 0.5, distance := {{s: 'hierarchical'}}, hierarchies := {{s: '{file}'}})"
    file.write_text("leaf,root\nx,any\ny,any\n")
    assert con.execute(call).fetchall() == [(8,)]
    file.write_text("leaf,root\nx,any\nz,any\n")
    with pytest.raises(duckdb.Error, match="no row for the value y"):
        con.execute(call)


@pytest.mark.parametrize(
    ("before", "after"),
    slowly([
        ("SELECT i AS a, i % 2 AS b FROM range(6) r(i)", "SELECT i AS b, i % 2 AS a FROM range(6) r(i)"),
        ("SELECT i AS a, 7 AS b FROM range(6) r(i)", "SELECT i::DOUBLE AS a, 7 AS b FROM range(6) r(i)"),
        ("SELECT i AS a, 7 AS b FROM range(6) r(i)", "SELECT i AS a, '7' AS b FROM range(6) r(i)"),
        ("SELECT i AS a, INTERVAL 1 MONTH AS b FROM range(6) r(i)", "SELECT i AS a, INTERVAL 30 DAY AS b FROM range(6) r(i)"),
        ("SELECT i AS a, 0.0::DOUBLE AS b FROM range(6) r(i)", "SELECT i AS a, -0.0::DOUBLE AS b FROM range(6) r(i)"),
        pytest.param("SELECT i AS a, [0.0::DOUBLE] AS b FROM range(6) r(i)", "SELECT i AS a, [-0.0::DOUBLE] AS b FROM range(6) r(i)", marks=pytest.mark.long),
        pytest.param("SELECT i AS a, 'nan'::DOUBLE AS b FROM range(6) r(i)", "SELECT i AS a, '-nan'::DOUBLE AS b FROM range(6) r(i)", marks=pytest.mark.long),
        ("SELECT i AS a, '2020-01-01'::DATE::VARIANT AS b FROM range(6) r(i)", "SELECT i AS a, '2020-01-01'::VARIANT AS b FROM range(6) r(i)"),
        pytest.param("SELECT i AS a, NULL::VARCHAR AS b FROM range(6) r(i)", "SELECT i AS a, '' AS b FROM range(6) r(i)", marks=pytest.mark.long),
        pytest.param("SELECT i AS a, 1::UNION(x INTEGER, y VARCHAR) AS b FROM range(6) r(i)", "SELECT i AS a, '1'::UNION(x INTEGER, y VARCHAR) AS b FROM range(6) r(i)", marks=pytest.mark.long),
        pytest.param("SELECT i AS a, 1 AS b FROM range(6) r(i)", "SELECT i AS a, 1 AS b FROM range(6) r(i) UNION ALL SELECT 5, 1", marks=pytest.mark.long),
    ], one_of=3),
)  # fmt: skip
def test_what_changed_in_a_way_that_is_easily_overlooked_gives_another_answer(
    con: duckdb.DuckDBPyConnection, before: str, after: str
) -> None:
    """Swapped names, other types, values that compare equal but differ: expected is what a fresh connection says."""
    query = "SELECT typeof(COLUMNS(*)), CAST(COLUMNS(*) AS VARCHAR), CAST(to_json(COLUMNS(*)) AS VARCHAR) FROM anonymize('p', quasi_identifiers := ['a'], insensitive := '*', k := 2)"
    expected = {}
    for text in (before, after):
        with duckdb.connect() as other:
            other.execute(f"CREATE TABLE p AS {text}")
            duckanon.register(other)
            expected[text] = other.execute(query).fetchall()
    for text in (before, after, before):
        con.execute(f"CREATE OR REPLACE TABLE p AS {text}")
        assert con.execute(query).fetchall() == expected[text]
        described = con.execute(
            "DESCRIBE FROM anonymize('p', quasi_identifiers := ['a'], insensitive := '*', k := 2)"
        ).fetchall()
        assert [row[:2] for row in described] == [
            row[:2]
            for row in con.execute("DESCRIBE p").fetchall()
        ]  # fmt: skip


def test_a_type_inside_a_variant_is_seen(con: duckdb.DuckDBPyConnection) -> None:
    """Two values of a VARIANT can have one text and one JSON, as a date and its text have: nothing is kept then."""
    types = []
    for value in ("'2020-01-01'::DATE", "'2020-01-01'::VARCHAR", "'2020-01-01'::DATE"):
        con.execute(f"CREATE OR REPLACE TABLE p AS SELECT i AS a, ({value})::VARIANT AS b FROM range(4) r(i)")
        types += con.execute(
            "SELECT DISTINCT variant_typeof(b) FROM anonymize('p', quasi_identifiers := ['a'], insensitive := '*', k := 2)"
        ).fetchall()
    assert types == [("DATE",), ("VARCHAR",), ("DATE",)]


def test_the_order_of_the_source_is_followed_by_equivalence_classes(con: duckdb.DuckDBPyConnection) -> None:
    call = (
        "SELECT id FROM equivalence_classes('p', quasi_identifiers := ['a'], identifiers := ['id'], k := 2)"
    )
    for order in ("ASC", "DESC", "ASC"):
        con.execute(
            f"CREATE OR REPLACE TABLE p AS SELECT i AS id, i // 2 AS a FROM range(6) r(i) ORDER BY i {order}"
        )
        assert con.execute(call).fetchall() == con.execute("SELECT id FROM p").fetchall()


def test_committed_changes_and_a_view_over_a_changed_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE p AS SELECT 1 AS a FROM range(4); CREATE VIEW w AS FROM p")
    for relation in ("p", "w"):
        con.execute("UPDATE p SET a = 1")
        assert released(con, relation) == [("1",)] * 4
        with con.cursor() as other:
            other.execute("UPDATE p SET a = 2")
        assert released(con, relation) == [("2",)] * 4


def test_a_file_that_was_rewritten(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for ending in ("parquet", "csv"):
        file = tmp_path / f"p.{ending}"
        for value in (3, 4, 3):
            con.execute(f"COPY (SELECT {value} AS a FROM range(4)) TO '{file}'")
            assert released(con, str(file)) == [(str(value),)] * 4


def test_the_time_zone_of_the_session_is_that_of_the_answer(alone: duckdb.DuckDBPyConnection) -> None:
    """23:00 in London on the first of January is the second of January in Tokyo (UTC+9)."""
    alone.execute(
        "CREATE TABLE p AS SELECT TIMESTAMPTZ '2020-01-01 23:00:00+00' AS moment FROM range(4); CREATE VIEW w AS SELECT moment::DATE AS a FROM p"
    )
    for zone, day in (("UTC", "2020-01-01"), ("Asia/Tokyo", "2020-01-02"), ("UTC", "2020-01-01")):
        alone.execute(f"SET TimeZone = '{zone}'")
        assert alone.execute("SELECT DISTINCT a::VARCHAR FROM w").fetchall() == [(day,)]
        assert set(released(alone, "w")) == {(day,)}


def test_a_name_means_what_it_means_to_the_caller(alone: duckdb.DuckDBPyConnection) -> None:
    alone.execute("CREATE SCHEMA other; ATTACH ':memory:' AS away")
    places = {"main": 1, "other": 2, "away.main": 3}
    for place, value in places.items():
        alone.execute(f"CREATE TABLE {place}.p AS SELECT {value} AS a FROM range(4)")
    for place in ("main", "other", "away.main", "memory.main"):
        alone.execute(f"USE {place}")
        value = places[place.replace("memory.", "")]
        assert alone.execute("SELECT DISTINCT a FROM p").fetchall() == [(value,)]
        assert set(released(alone, "p")) == {(str(value),)}, place
    alone.execute("SET search_path = 'memory.other,memory.main'")
    assert set(released(alone, "p")) == {("2",)}


def test_a_temporary_relation_that_hides_another_is_not_passed_over(alone: duckdb.DuckDBPyConnection) -> None:
    """`FROM p` means the temporary table; the function would see the other one."""
    alone.execute("CREATE TABLE p AS SELECT 1 AS a FROM range(4)")
    alone.execute("CREATE TEMP TABLE P AS SELECT 2 AS a FROM range(4)")
    with pytest.raises(duckdb.Error, match="has a temporary one called"):
        released(alone, "p")
    assert set(released(alone, "main.p")) == {("1",)}
    alone.execute("DROP TABLE temp.p; CREATE TEMP VIEW p AS SELECT 2 AS a FROM range(4)")
    with pytest.raises(duckdb.Error, match="has a temporary one called"):
        released(alone, '"p"')


def test_a_prepared_statement_has_rows_that_were_audited(alone: duckdb.DuckDBPyConnection) -> None:
    """It may keep the rows of its preparation or have new ones, never those of other data under its name."""
    alone.execute("CREATE TABLE p AS SELECT 1 AS a FROM range(4)")
    alone.execute("PREPARE kept AS FROM anonymize('p', quasi_identifiers := ['a'], k := 2)")
    alone.execute("UPDATE p SET a = 2")
    assert released(alone, "p") == [("2",)] * 4
    assert alone.execute("EXECUTE kept").fetchall() in ([(1,)] * 4, [(2,)] * 4)


def test_settings_of_the_connection_are_left_alone(alone: duckdb.DuckDBPyConnection) -> None:
    alone.execute("CREATE TABLE p AS SELECT i AS a, i::HUGEINT AS b FROM range(6) r(i)")
    alone.execute("SET TimeZone = 'Asia/Tokyo'; CREATE SCHEMA other; USE other")
    query = "SELECT name, value FROM duckdb_settings()"
    with alone.cursor() as cursor:
        before = alone.execute(query).fetchall(), cursor.execute(query).fetchall()
        released(alone, "main.p")
        call = "FROM equivalence_classes('main.p', quasi_identifiers := ['a'], insensitive := '*', k := 2)"
        assert len(alone.sql(call).fetchall()) == 6
        assert (alone.execute(query).fetchall(), cursor.execute(query).fetchall()) == before


def test_one_call_is_answered_once(con: duckdb.DuckDBPyConnection, caplog: pytest.LogCaptureFixture) -> None:
    """DuckDB binds a query of `con.sql` twice: the pipeline, which logs its statements, runs once."""
    con.execute("CREATE TABLE p AS SELECT i AS a, {'x': i, 'y': [NULL, i]} AS b FROM range(6) r(i)")
    call = "FROM anonymize('p', quasi_identifiers := ['a'], insensitive := '*', k := 2)"
    caplog.set_level("DEBUG", "duckanon")
    assert len(con.sql(call).fetchall()) == 6
    assert sum("-- recode: candidate" in record.getMessage() for record in caplog.records) == 1


def test_a_configuration_that_is_locked(alone: duckdb.DuckDBPyConnection) -> None:
    """Nothing can be set then: types that need it are refused by name, the others leave."""
    alone.execute(
        "CREATE TABLE p AS SELECT i AS a, i::UHUGEINT AS b, TIMETZ '01:02:03+04' AS c FROM range(6) r(i)"
    )
    alone.execute(
        "CREATE VIEW w AS SELECT a, b::VARCHAR AS b, c::VARCHAR AS c FROM p; SET lock_configuration = true"
    )
    assert len(released(alone, "w")) == 6
    with pytest.raises(duckdb.Error, match=r"column 'c' of type TIME WITH TIME ZONE .*CAST it to VARCHAR"):
        released(alone, "p")


def test_a_source_with_a_class_id_is_told(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE p AS SELECT i AS a, i AS Class_ID FROM range(6) r(i)")
    with pytest.raises(duckdb.Error, match="has a column 'Class_ID'"):
        con.execute("FROM equivalence_classes('p', quasi_identifiers := ['a'], insensitive := '*', k := 2)")
    assert len(released(con, "p")) == 6
