"""Workload check: errors by hand, rows matched by their keys, and what is refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError, SourceError, StatementError
from duckanon.evaluation.workload import cell, compare, read_queries, summary

if TYPE_CHECKING:
    import duckdb

BY_TOWN = "SELECT town, count(*) AS n, avg(pay) AS pay FROM data GROUP BY town ORDER BY town"


@pytest.fixture
def con(fresh_db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    fresh_db.execute("""
        CREATE TABLE original AS FROM (VALUES
            ('a', 2020, 10.0), ('a', 2020, 20.0), ('b', 2021, 30.0), ('c', 2021, 40.0), (NULL, 2022, 50.0)
        ) AS t(town, year, pay);
        CREATE TABLE released AS FROM (VALUES
            ('a', 2020, 18.0), ('a', 2020, 18.0), ('a', 2021, 18.0), ('d', 2021, 45.0), (NULL, 2022, 45.0)
        ) AS t(town, year, pay);
        CREATE TABLE empty AS FROM original WHERE FALSE;
        CREATE SCHEMA "my schema";
        CREATE TABLE "my schema".data AS FROM original;
        CREATE TABLE data AS FROM released""")
    return fresh_db


def test_errors_by_hand(con: duckdb.DuckDBPyConnection) -> None:
    """Town a: n 2 -> 3, pay 15 -> 18; NULL matches NULL: n 1 -> 1, pay 50 -> 45. b and c missing, d extra."""
    (query,) = compare(con, "original", "released", BY_TOWN).queries
    assert (query.name, query.line, query.keys, query.groups) == ("query 1", 1, ("town",), 2)
    assert query.missing == ({"town": "b"}, {"town": "c"})
    assert query.extra == ({"town": "d"},)
    assert [(one.group["town"], one.column, one.absolute, one.relative) for one in query.cells] == [
        ("a", "n", 1.0, 0.5),
        ("a", "pay", 3.0, 0.2),
        (None, "n", 0.0, 0.0),
        (None, "pay", 5.0, 0.1),
    ]
    pay = query.columns["pay"]
    assert (pay.cells, pay.undefined, pay.mean_absolute, pay.max_absolute) == (2, 0, 4.0, 5.0)
    assert (pay.mean_relative, pay.max_relative) == (pytest.approx(0.15), 0.2)
    assert query.overall.cells == 4
    assert query.overall.max_relative == 0.5


def test_text_and_json_say_the_same(con: duckdb.DuckDBPyConnection) -> None:
    found = compare(
        con, "original", "released", f"-- name: by town\n{BY_TOWN};\nSELECT sum(pay) AS s FROM data"
    )
    text = found.to_text()
    assert "by town (line 2): 2 groups in both, 2 missing, 1 extra" in text
    assert "worst n: 2 became 3 in town = a" in text
    assert "missing: town = b" in text
    plain = json.loads(found.to_json())
    assert [query["name"] for query in plain["queries"]] == ["by town", "query 2"]
    assert plain["queries"][1]["cells"][0] == {
        "group": {},
        "column": "s",
        "original": 150.0,
        "release": 144.0,
        "absolute": 6.0,
        "relative": 0.04,
    }


def test_a_numeric_key_is_named_in_a_comment(con: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT year, count(*) AS n FROM data GROUP BY year"
    with pytest.raises(
        SourceError, match=r"query 1 \(line 1\) gives several rows with equal keys \(no column\)"
    ):
        compare(con, "original", "released", text)
    (query,) = compare(con, "original", "released", f"-- Keys: YEAR\n{text}").queries
    assert query.keys == ("year",)
    assert {one.group["year"]: one.absolute for one in query.cells} == {2020: 0.0, 2021: 0.0, 2022: 0.0}


def test_the_same_table_has_no_error(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever is asked: decimals, huge integers, booleans, NaN, infinity, NULL, lists and dates as keys."""
    script = """
        SELECT town, [town] AS list, {'t': town} AS struct, DATE '2020-01-01' AS day, year > 2020 AS late,
            sum(pay)::DECIMAL(18, 3) AS d, sum(year::HUGEINT) AS h, 'nan'::DOUBLE AS nan,
            '-inf'::DOUBLE AS inf, NULL::INTEGER AS nothing
        FROM data GROUP BY ALL;
        WITH x AS (FROM data) FROM x SELECT count(*);
        (SELECT count(*) FROM "DATA")"""
    for query in compare(con, "original", "original", script).queries:
        assert query.missing == query.extra == ()
        assert query.overall.max_absolute == 0.0
        assert query.overall.max_relative == 0.0
        assert query.overall.undefined == 0


def test_two_columns_of_one_name_are_two_columns(con: duckdb.DuckDBPyConnection) -> None:
    (query,) = compare(con, "original", "released", "SELECT sum(pay) AS n, count(*) AS N FROM data").queries
    assert [one.absolute for one in query.cells] == [6.0, 0.0]
    assert len(query.columns) == 2


def test_relations_called_data_and_other_schemas(con: duckdb.DuckDBPyConnection) -> None:
    """The user's own table `data` is meant by its name only, inside a query `data` is the one compared."""
    found = compare(con, '"my schema".data', "data", "SELECT sum(pay) AS s FROM data").queries[0].cells[0]
    assert (found.original, found.release) == (150.0, 144.0)
    con.execute('USE memory."my schema"')
    found = compare(con, "data", "main.data", "SELECT sum(pay) AS s FROM data").queries[0].cells[0]
    assert (found.original, found.release) == (150.0, 144.0)


def test_a_quoted_name_a_file_and_an_attached_database(con: duckdb.DuckDBPyConnection, tmp_path: Any) -> None:
    con.execute(f"COPY original TO '{tmp_path}/it''s.csv'")
    con.execute(f"ATTACH '{tmp_path}/other.duckdb' AS other")
    con.execute('CREATE TABLE other."my ""release" AS FROM released')
    text = "SELECT sum(pay) AS s FROM data"
    quoted = str(tmp_path / "it's.csv").replace("'", "''")
    found = compare(con, f"'{quoted}'", 'other."my ""release"', text)
    assert found.queries[0].cells[0].absolute == 6.0


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("INSERT INTO data VALUES ('x', 1, 2)", "query 1 is no SELECT"),
        ("SELECT count(*) FROM data; DROP TABLE original -- data", "query 2 is no SELECT"),
        ("CREATE TABLE x AS FROM data", "is no SELECT"),
        ("COPY data TO 'x.csv'", "is no SELECT"),
        ("SET threads = 1 -- data", "is no SELECT"),
        ("DESCRIBE data", "is no SELECT"),
        ("SUMMARIZE data", "is no SELECT"),
        ("EXPLAIN SELECT 1 FROM data", "is no SELECT"),
        ("PIVOT data ON town USING count(*)", "is no SELECT"),
        ("-- name: wages\nSELECT 1 AS one", r"wages does not read the relation 'data'.*line 2"),
        ("", "no query"),
        ("-- nothing", "no query"),
    ],
)
def test_what_is_no_query_is_refused(con: duckdb.DuckDBPyConnection, script: str, words: str) -> None:
    with pytest.raises(StatementError, match=words):
        compare(con, "original", "released", script)
    assert con.execute("SELECT count(*) FROM original").fetchall() == [(5,)]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("SELECT nope FROM data", r"query 1 \(line 1\) on original: Binder Error.*nope"),
        (
            "SELECT count(*) AS n FROM data;\n\n-- name: bad\nSELECT FROM data",
            r"bad \(line 4\): Parser Error",
        ),
        ("SELECT sum(pay) AS s, error('boom') AS e FROM data", "boom"),
        ("SELECT town FROM data GROUP BY town", "no number to compare"),
        ("SELECT count(*) AS n FROM data GROUP BY town HAVING false", "no row on either table"),
        ("SELECT pay FROM data", "several rows with equal keys"),
        ("-- keys: yaer\nSELECT year, count(*) AS n FROM data GROUP BY year", "did you mean 'year'"),
        (
            "WITH x AS (INSERT INTO main.original VALUES ('x', 1, 2) RETURNING pay) SELECT sum(pay) AS s FROM x, data",
            "data-modifying",
        ),
    ],
)
def test_a_query_that_fails_is_named(con: duckdb.DuckDBPyConnection, script: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        compare(con, "original", "released", script)
    assert con.execute("SELECT count(*) FROM original").fetchall() == [(5,)]
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal").fetchall() == [
        (0,)
    ]


def test_a_failure_on_the_release_alone_is_named(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE other AS SELECT town, year, pay::VARCHAR AS pay FROM released")
    with pytest.raises(SourceError, match=r"query 1 \(line 1\) on other"):
        compare(con, "original", "other", "SELECT avg(pay) AS pay FROM data")
    with pytest.raises(SourceError, match=r"'pay' is DECIMAL.* on the original and VARCHAR on the release"):
        compare(con, "original", "other", "SELECT min(pay) AS pay, count(*) AS n FROM data")
    con.execute("CREATE TABLE narrow AS SELECT town, pay FROM released")
    with pytest.raises(SourceError, match="other columns on the release"):
        compare(con, "original", "narrow", "-- keys: year, pay\nFROM data")


@pytest.mark.parametrize(("original", "release"), [("empty", "released"), ("original", "empty")])
def test_an_empty_table_is_an_error(con: duckdb.DuckDBPyConnection, original: str, release: str) -> None:
    with pytest.raises(SourceError, match="empty is empty"):
        compare(con, original, release, BY_TOWN)


def test_what_a_cursor_does_not_see_is_an_error_that_says_so(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TEMP TABLE passing AS FROM original")
    with pytest.raises(SourceError, match="only committed relations that are not temporary"):
        compare(con, "passing", "released", BY_TOWN)
    with pytest.raises(DuckanonError, match="nowhere"):
        compare(con, "nowhere", "released", BY_TOWN)


def test_a_connection_of_ours_will_do() -> None:
    with duckanon.connect() as ours:
        ours.execute("CREATE TABLE t AS SELECT 1 AS a")
        assert compare(ours, "t", "t", "SELECT a FROM data").queries[0].cells[0].absolute == 0.0


@pytest.mark.parametrize(
    ("original", "release", "absolute", "relative"),
    [
        (0, 0, 0.0, 0.0),
        (0, 3, 3.0, None),
        (-4, 4, 8.0, 2.0),
        (None, None, 0.0, 0.0),
        (None, 1, None, None),
        (1, None, None, None),
        (math.nan, math.nan, 0.0, 0.0),
        (math.nan, 1.0, None, None),
        (math.inf, math.inf, 0.0, 0.0),
        (math.inf, -math.inf, None, None),
        (math.inf, 1.0, None, None),
        (10**38, 10**38 + 1, 1.0, 1e-38),
        (Decimal("0.1"), Decimal("0.3"), 0.2, 2.0),
        (1e308, -1e308, 1.7976931348623157e308, 2.0),
    ],
)
def test_cells_by_hand(original: Any, release: Any, absolute: float | None, relative: float | None) -> None:
    found = cell({}, "x", original, release)
    assert (found.absolute, found.relative) == (absolute, relative)


NUMBERS = st.none() | st.integers(-(10**20), 10**20) | st.floats() | st.decimals(allow_nan=False, places=3)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_means_against_exact_fractions(pairs: list[tuple[Any, Any]]) -> None:
    cells = [cell({}, "x", *pair) for pair in pairs]
    exact = []
    for before, after in pairs:
        finite = all(value is not None and math.isfinite(value) for value in (before, after))
        if finite and before:
            exact.append(abs(Fraction(after) - Fraction(before)) / abs(Fraction(before)))
        elif (finite and not after) or (
            not finite and (before == after or (before != before and after != after))
        ):
            exact.append(Fraction(0))
    found = summary(cells)
    assert found.cells == len(pairs)
    assert found.undefined == len(pairs) - len(exact)
    if not exact:
        assert found.mean_relative is found.max_relative is None
    elif max(exact) < 10**300:
        assert found.max_relative == pytest.approx(float(max(exact)))
        assert found.mean_relative == pytest.approx(float(sum(exact) / len(exact)))


def test_names_lines_and_keys_of_a_script() -> None:
    script = (
        '\n-- name: first one\n-- keys: a, "my col"\nSELECT a FROM data;;\nFROM\n  data -- name: not this\n'
    )
    first, second = read_queries(script)
    assert (first.name, first.line, first.keys) == ("first one", 4, ("a", "my col"))
    assert (second.name, second.line, second.keys) == ("query 2", 5, ())
    assert first.title == "first one (line 4)"
