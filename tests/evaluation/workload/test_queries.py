"""Which queries a workload may hold: they read ``data``, their keys keep their types, and errors say where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duckanon.errors import SourceError, StatementError
from duckanon.evaluation.workload import compare, compared, read_queries

if TYPE_CHECKING:
    import duckdb

    from duckanon.evaluation.workload import Workload

READING = [
    'SELECT sum(pay) AS n FROM "DATA"',
    "WITH data AS (FROM data WHERE pay > 5) SELECT sum(pay) AS n FROM data",
    "WITH x AS (WITH y AS (FROM data) FROM y) SELECT sum(pay) AS n FROM x",
    "SELECT (SELECT sum(pay) FROM data) AS n",
    "SELECT sum(pay) AS n FROM query_table('data')",
    "SELECT sum(COLUMNS('pa.')) AS n FROM data, unnest([1]) AS u(one)",
    "SELECT sum(pay) AS n FROM all_of_it()",
    "VALUES ((SELECT sum(pay) FROM data))",
    "SELECT sum(pay) AS n FROM data -- the end",
]
"""Queries that read the relation, in every way in which SQL can."""

NOT_READING = [
    "SELECT 1 AS data",
    "SELECT count(*) AS n, avg(pay) AS data FROM original",
    "SELECT sum(data.pay) AS n FROM original AS data",
    "WITH data AS (SELECT 5 AS x) SELECT sum(x) AS n FROM data",
    "WITH RECURSIVE data AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM data WHERE x < 3) SELECT sum(x) AS n FROM data",
    "SELECT sum(data) AS n FROM unnest([1, 2]) AS data(data)",
    "SELECT sum(x) AS n FROM (VALUES (1)) AS data(x)",
    "SELECT 1 AS n -- FROM data",
    "SELECT length('FROM data') AS n",
]
"""Queries that say the word and read another thing, or nothing."""


@pytest.fixture
def con(fresh_db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Give a sum of 30 in the original, of 27 in the release, and of 99 in a table of the user called data."""
    fresh_db.execute("""
        CREATE TABLE original AS FROM (VALUES (10.0), (20.0)) AS t(pay);
        CREATE TABLE released AS FROM (VALUES (13.5), (13.5)) AS t(pay);
        CREATE TABLE data AS SELECT 99.0 AS pay;
        CREATE MACRO all_of_it() AS TABLE FROM data""")
    return fresh_db


@pytest.mark.parametrize("query", READING)
def test_a_query_that_reads_data_in_any_way_is_compared(con: duckdb.DuckDBPyConnection, query: str) -> None:
    (cell,) = compare(con, "original", "released", query).queries[0].cells
    assert (cell.original, cell.release) == (30, 27)
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal").fetchall() == [
        (0,)
    ]


@pytest.mark.parametrize("query", NOT_READING)
def test_a_query_that_says_data_and_reads_another_thing_is_refused(
    con: duckdb.DuckDBPyConnection, query: str
) -> None:
    """Its error would be 0 whatever the release is: a false "no loss"."""
    with pytest.raises(StatementError, match="query 1 does not read the relation 'data'"):
        compare(con, "original", "released", query)


@pytest.mark.parametrize(
    "beside",
    [
        "(SELECT sum(pay) FROM original)",
        "(SELECT sum(pay) FROM memory.main.original)",
        "(SELECT sum(pay) FROM query_table('original'))",
        "(SELECT sum(pay) FROM query('FROM original'))",
        "(SELECT sum(column0) FROM read_csv('{file}'))",
        "(SELECT sum(column0) FROM '{file}')",
    ],
)
def test_alone_a_query_reads_nothing_beside_data(
    con: duckdb.DuckDBPyConnection, beside: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As on the command line: a number of the original on both sides would be no error either."""
    file = tmp_path_factory.mktemp("beside") / "x.csv"
    file.write_text("1\n2\n", encoding="utf-8")
    text = f"SELECT sum(pay) AS n, {beside.format(file=file)} AS other FROM data"
    assert len(both(con, text).queries[0].cells) == 2, "from Python tables beside it may be read"
    with pytest.raises(StatementError, match=r"query 1 reads something beside .*: .* Error"):
        both(con, text, alone=True)


def test_alone_a_query_reads_columns_of_any_type_and_functions(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        CREATE TABLE wide AS SELECT 5 AS pay, 'a'::ENUM('a', 'it''s') AS "my ""e", {'a b': [1]} AS s, NULL AS n,
            MAP {1: 2} AS m, '{}'::JSON AS j, uuid() AS u, union_value(k := 'x') AS v, 1.5::DECIMAL(38, 9) AS d,
            TIMESTAMPTZ '2020-01-01' AS z, [1, 2]::INTEGER[2] AS a, ''::BLOB AS b, INTERVAL 1 DAY AS i""")
    text = 'SELECT "my ""e", s."a b"[1] AS x, sum(pay + one) AS n FROM data, range(2) AS r(one) GROUP BY ALL'
    relations = ("memory.main.wide", "memory.main.wide")
    found = compared(con, relations, ("wide", "wide"), read_queries(text), alone=True)
    assert found.queries[0].overall.max_absolute == 0.0


def both(con: duckdb.DuckDBPyConnection, text: str, *, alone: bool = False) -> Workload:
    relations = ("memory.main.original", "memory.main.released")
    return compared(con, relations, ("original", "released"), read_queries(text), alone=alone)


@pytest.mark.parametrize(
    ("before", "after", "meet"),
    [
        ("DATE '2020-01-01'", "TIMESTAMP '2020-01-01'", False),
        ("'1'", "TRUE", False),
        ("TIMESTAMP '2020-01-01'", "TIMESTAMPTZ '2020-01-01'", False),
        ("UUID '00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000001'", False),
        ("[1]", "['1']", False),
        ("TIME '10:00'", "INTERVAL 10 HOUR", False),
        ("'a'", "'a'::ENUM('a', 'b')", True),
        ("TIMESTAMP '2020-01-01'", "'2020-01-01'::TIMESTAMP_S", True),
        ("TIMESTAMPTZ '2020-01-01'", "TIMESTAMPTZ '2020-01-01'", True),
        ("'2020-01-01'::TIMESTAMP::TIMESTAMPTZ_NS", "'2020-01-01'::TIMESTAMP::TIMESTAMPTZ_NS", True),
    ],
)
def test_a_key_that_changes_its_type_is_an_error(
    con: duckdb.DuckDBPyConnection, before: str, after: str, meet: bool
) -> None:
    """In Python a date is no timestamp, so all groups would be missing and extra; texts and moments may meet."""
    con.execute(f"CREATE TABLE o AS SELECT {before} AS d; CREATE TABLE r AS SELECT {after} AS d")
    text = "SELECT d, count(*) AS n FROM data GROUP BY d ORDER BY d"
    if meet:
        (query,) = compare(con, "o", "r", text).queries
        assert (query.groups, query.missing, query.extra) == (1, (), ())
        return
    with pytest.raises(SourceError, match=r"column 'd' is .* on the original and .* on the release: CAST it"):
        compare(con, "o", "r", text)


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("SELECT count(*) AS n FROM data; DROP TABLE data", (1, 33)),
        ("SELECT count(*) AS n FROM data;\n  -- name: x\n    DROP TABLE data", (3, 5)),
        ("SELECT count(*) AS n FROM data; /* a\nb */ SELECT 1 AS n", (2, 6)),
        ("FROM data SELECT pay; FROM data PIVOT (count(*) FOR pay IN (1)); WITH x AS (FROM data) DELETE FROM x", (1, 66)),
        ("", (1, 1)),
    ],
)  # fmt: skip
def test_an_error_points_at_the_first_word_of_its_query(
    con: duckdb.DuckDBPyConnection, script: str, place: tuple[int, int]
) -> None:
    """Line and column counted by hand."""
    with pytest.raises(StatementError) as caught:
        compare(con, "original", "released", script)
    assert (caught.value.line, caught.value.column) == place


def test_one_query_and_one_group_are_called_so(con: duckdb.DuckDBPyConnection) -> None:
    text = compare(con, "original", "released", "SELECT sum(pay) AS n FROM data").to_text()
    assert text.startswith("1 query on original and on released\n")
    assert "query 1 (line 1): 1 group in both, 0 missing, 0 extra" in text
    two = "SELECT count(*) AS n FROM data; SELECT sum(pay) AS n FROM data"
    assert compare(con, "original", "released", two).to_text().startswith("2 queries on")
