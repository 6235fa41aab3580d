"""Helpers that write hierarchies: rows worked out by hand, the same in SQL and Python, and each a tree."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon import hierarchies
from duckanon.database import templates
from duckanon.errors import PolicyError
from tests.e2e.scenes import command
from tests.examples import examples
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ZIPS = {
    "012": ["012*", "012**", "01***", "0****", "*****"],
    "01234": ["0123*", "012**", "01***", "0****", "*****"],
    "9": ["9*", "9**", "9***", "9****", "*****"],
}
AGES = {
    "-3": ["[-5, 0)", "[-20, 0)", "*"],
    "0": ["[0, 5)", "[0, 20)", "*"],
    "19": ["[15, 20)", "[0, 20)", "*"],
    "20": ["[20, 25)", "[20, 40)", "*"],
}
TENTHS = {
    "-0.1": ["[-0.1, 0)", "[-0.5, 0)", "*"],
    "0.3": ["[0.3, 0.4)", "[0, 0.5)", "*"],
    "0.5": ["[0.5, 0.6)", "[0.5, 1)", "*"],
}
DAYS = {
    "0987-01-01": ["0987-01", "0987-Q1", "0987", "*"],
    "2024-02-29": ["2024-02", "2024-Q1", "2024", "*"],
    "2024-04-01": ["2024-04", "2024-Q2", "2024", "*"],
    "2024-12-31": ["2024-12", "2024-Q4", "2024", "*"],
}
MOMENTS = {
    "1999-12-31 23:59:59": ["1999-12-31", "1999", "1990s", "*"],
    "2000-01-01 00:00:00": ["2000-01-01", "2000", "2000s", "*"],
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        duckanon.register(connection)
        yield connection


def in_sql(
    con: duckdb.DuckDBPyConnection, call: str, values: Sequence[object], kind: str
) -> dict[str, list[str]]:
    """Give the rows that a macro makes of a column of these values."""
    con.execute(f"CREATE OR REPLACE TABLE given(id INTEGER, v {kind})")
    con.executemany(
        "INSERT INTO given VALUES (?, ?)", [(i, value) for i, value in enumerate([*values, None, *values])]
    )
    rows = con.execute(f"SELECT CAST(value AS VARCHAR), labels FROM {call}").fetchall()
    assert len(rows) == len(dict(rows))
    return dict(rows)


@pytest.mark.parametrize(
    ("python", "call", "kind", "values", "expected"),
    [
        (hierarchies.prefixes, "prefix_hierarchy('given', 'v')", "VARCHAR", ["012", "01234", "9"], ZIPS),
        (
            lambda values: hierarchies.intervals(values, [5, 20]),
            "interval_hierarchy('given', 'v', [5, 20])", "INTEGER", [-3, 0, 19, 20], AGES,
        ),
        (
            lambda values: hierarchies.intervals(values, [0.1, "0.5"]),
            "interval_hierarchy('given', 'v', [0.1, 0.5])", "DOUBLE", [-0.1, 0.3, 0.5], TENTHS,
        ),
        (
            lambda values: hierarchies.intervals(values, [10], origin=5),
            "interval_hierarchy('given', 'v', [10], origin := 5)", "DECIMAL(9, 2)", [Decimal("4.99"), Decimal("5.00")],
            {"4.99": ["[-5, 5)", "*"], "5.00": ["[5, 15)", "*"]},
        ),
        (
            hierarchies.dates, "date_hierarchy('given', 'v')", "DATE",
            [date(987, 1, 1), date(2024, 2, 29), date(2024, 4, 1), date(2024, 12, 31)], DAYS,
        ),
        (
            lambda values: hierarchies.dates(values, levels=["day", "year", "decade"]),
            "date_hierarchy('given', 'v', levels := ['day', 'year', 'decade'])", "TIMESTAMP",
            [datetime(1999, 12, 31, 23, 59, 59), datetime(2000, 1, 1)], MOMENTS,
        ),
    ],
)  # fmt: skip
def test_rows_worked_out_by_hand(
    con: duckdb.DuckDBPyConnection,
    python: Any,
    call: str,
    kind: str,
    values: list[Any],
    expected: dict[str, list[str]],
) -> None:
    assert python([None, *values, *values]) == expected
    assert in_sql(con, call, values, kind) == expected


def is_tree(rows: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether all rows are of one height and end in one root, and each node has one parent."""
    parents: dict[tuple[int, str], str] = {}
    for leaf, above in rows.items():
        for level, (child, parent) in enumerate(zip([leaf, *above], above, strict=False)):
            if parents.setdefault((level, child), parent) != parent:
                return False
    return (
        len({len(above) for above in rows.values()}) <= 1 and len({above[-1] for above in rows.values()}) <= 1
    )


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1),
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    unit=st.sampled_from(["1", "0.1", "0.003"]),
    origin=st.decimals(-100, 100, places=2),
)
def test_intervals_hold_their_numbers_in_sql_as_in_python(
    con: duckdb.DuckDBPyConnection, values: list[Decimal], widths: list[int], unit: str, origin: Decimal
) -> None:
    """Each label is low <= value < high, as wide as asked, and begins whole widths from the origin."""
    steps = [Decimal(unit)]
    for factor in widths:
        steps.append(steps[-1] * (factor + 1))
    made = hierarchies.intervals(values, steps, origin=origin)
    assert is_tree(made)
    for value, labels in made.items():
        for label, step in zip(labels, steps, strict=False):
            low, high = (Decimal(end) for end in label[1:-1].split(", "))
            assert low <= Decimal(value) < high
            assert high - low == step
            assert (low - origin) % step == 0
    shown = ", ".join(map(str, steps))
    found = in_sql(
        con, f"interval_hierarchy('given', 'v', [{shown}], origin := {origin})", values, "DECIMAL(18, 3)"
    )
    assert found == {str(Decimal(value).quantize(Decimal("0.001"))): labels for value, labels in made.items()}


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=6), min_size=1
    )
)
def test_prefixes_are_a_tree_in_sql_as_in_python(con: duckdb.DuckDBPyConnection, values: list[str]) -> None:
    made = hierarchies.prefixes(values)
    assert is_tree(made)
    assert in_sql(con, "prefix_hierarchy('given', 'v')", values, "VARCHAR") == made


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.dates(), min_size=1))
def test_dates_are_a_tree_in_sql_as_in_python(con: duckdb.DuckDBPyConnection, values: list[date]) -> None:
    made = hierarchies.dates(values)
    assert is_tree(made)
    assert in_sql(con, "date_hierarchy('given', 'v')", values, "DATE") == made


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hierarchies.prefixes(["a"], mask=""), "mask = '': use one character, as *"),
        (lambda: hierarchies.intervals([1], []), "widths = []: use numbers above 0, each a multiple of the one before"),
        (lambda: hierarchies.intervals([1], [5, 7]), "widths = [5, 7]: use numbers above 0"),
        (lambda: hierarchies.intervals([1], [5, 5]), "widths = [5, 5]: use numbers above 0"),
        (lambda: hierarchies.intervals([1], [0]), "widths = [0]: use numbers above 0"),
        (lambda: hierarchies.intervals([1], [-5]), "widths = [-5]: use numbers above 0"),
        (lambda: hierarchies.intervals([1], ["wide"]), "widths: 'wide' is no number"),
        (lambda: hierarchies.intervals([1], [5], origin=float("nan")), "origin: nan is no number"),
        (lambda: hierarchies.intervals([float("inf")], [5]), "values: inf is no number"),
        (lambda: hierarchies.intervals([True], [5]), "values: True is no number"),
        (lambda: hierarchies.dates([], levels=["year", "month"]), "levels = ['year', 'month']: use some of day"),
        (lambda: hierarchies.dates([], levels=["week"]), "levels = ['week']: use some of day"),  # type: ignore[list-item]
        (lambda: hierarchies.dates([], levels=[]), "levels = []: use some of day"),
    ],
)  # fmt: skip
def test_wrong_arguments_say_what_to_write(call: Any, words: str) -> None:
    with pytest.raises(PolicyError) as wrong:
        call()
    assert words in str(wrong.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("prefix_hierarchy('given', 'v', mask := '**')", "prefix_hierarchy: mask is one character, as *"),
        ("interval_hierarchy('given', 'id', [5, 7])", "interval_hierarchy: widths are numbers above 0"),
        ("interval_hierarchy('given', 'id', [5, 5])", "interval_hierarchy: widths are numbers above 0"),
        ("interval_hierarchy('given', 'id', [5, NULL])", "interval_hierarchy: widths are numbers above 0"),
        ("interval_hierarchy('given', 'id', [0])", "interval_hierarchy: widths are numbers above 0"),
        ("interval_hierarchy('given', 'id', [-5])", "interval_hierarchy: widths are numbers above 0"),
        (
            "date_hierarchy('given', 'v', levels := ['year', 'month'])",
            "date_hierarchy: levels are some of day, month",
        ),
        ("date_hierarchy('given', 'v', levels := ['week'])", "date_hierarchy: levels are some of day, month"),
        ("prefix_hierarchy('given', 'w')", '"w"'),
        ("prefix_hierarchy('nowhere', 'w')", "nowhere"),
    ],
)
def test_wrong_arguments_in_sql_say_what_to_write(
    con: duckdb.DuckDBPyConnection, call: str, words: str
) -> None:
    con.execute("CREATE OR REPLACE TABLE given AS SELECT 1 AS id, DATE '2024-01-01' AS v")
    with pytest.raises(duckdb.Error) as wrong:
        con.execute(f"FROM {call}").fetchall()
    assert words in str(wrong.value)


@pytest.mark.parametrize("macro", ["prefix", "interval", "date"])
def test_a_table_may_have_any_name(con: duckdb.DuckDBPyConnection, macro: str) -> None:
    """A name of a part of the query, too: query_table() would find that."""
    text = templates.read(f"hierarchy/{macro}_hierarchy.sql")
    names = re.findall(r"^(?:WITH )?(\w+) AS \($", text, re.MULTILINE)
    assert len(names) > 1
    more = ", [5]" if macro == "interval" else ""
    for name in (*names, "tbl", "col", "value", "labels", "select", 'we"ird'):
        table = '"' + name.replace('"', '""') + '"'
        con.execute(
            f"CREATE OR REPLACE TABLE {table} AS SELECT {'DATE ' if macro == 'date' else ''}'2024-01-01' AS {table}"
            if macro != "interval"
            else f"CREATE OR REPLACE TABLE {table} AS SELECT 7 AS {table}"
        )
        quoted = table.replace("'", "''")
        found = con.execute(f"FROM {macro}_hierarchy('{quoted}', '{name}'{more})").fetchall()
        con.execute(f"DROP TABLE {table}")
        assert len(found) == 1


def test_a_script_builds_a_hierarchy_and_releases_with_it() -> None:
    """By hand: 23 and 24 share five years, 31 and 38 ten; labels are in a list."""
    with duckanon.connect() as con:
        con.run_script("""
            CREATE TABLE people AS FROM (VALUES (23, 1), (24, 1), (31, 2), (38, 2)) AS v(age, n);
            CREATE TABLE age_tree AS FROM interval_hierarchy('people', 'age', [5, 10]);
            CREATE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = (age, n), k = 2,
                weights = {n: 1000}, hierarchies = {age: 'age_tree'}, recode = {age: 'hierarchy'});
        """)
        assert con.duckdb.execute("SELECT DISTINCT * FROM v ORDER BY n").fetchall() == [
            ("[20, 25)", 1),
            ("[30, 40)", 2),
        ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("labels = ['one']", "has an empty cell at level 2 of 2"),
        ("labels = []", "has an empty cell at level 1 of 2"),
        ("labels = NULL", "has an empty cell at level 1 of 2"),
        ("labels = ['one', NULL]", "has an empty cell at level 2 of 2"),
    ],
)
def test_lists_of_labels_are_as_long_for_every_leaf(change: str, words: str) -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t AS FROM (VALUES (1), (2), (3)) AS v(a)")
        con.execute(
            "CREATE TABLE tree AS FROM (VALUES (1, ['one', '*']), (2, ['one', '*']), (3, ['two', '*'])) AS v(leaf, labels)"
        )
        con.execute(f"UPDATE tree SET {change} WHERE leaf = 2")
        with pytest.raises(PolicyError) as wrong:
            con.execute(
                "CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = a, k = 2, hierarchies = {a: 'tree'}, recode = {a: 'hierarchy'})"
            )
        assert words in str(wrong.value)


def test_python_rows_go_into_a_policy() -> None:
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT lpad(CAST(i AS VARCHAR), 3, '0') AS zip, i // 10 AS n FROM range(20) AS r(i)"
        )
        zips = [row[0] for row in con.duckdb.execute("SELECT zip FROM t").fetchall()]
        policy = duckanon.Policy(
            quasi_identifiers=["zip", "n"], k=10, weights={"n": 1000}, recode={"zip": "hierarchy"},
            hierarchies={"zip": hierarchies.prefixes(zips)},
        )  # fmt: skip
        duckanon.anonymize(con, "t", policy, name="v")
        assert con.duckdb.execute("SELECT DISTINCT * FROM v ORDER BY n").fetchall() == [
            ("00*", 0),
            ("01*", 1),
        ]


def test_unregister_takes_the_macros_away() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT '1' AS zip")
        duckanon.register(con)
        assert con.execute("FROM prefix_hierarchy('t', 'zip')").fetchall() == [("1", ["*"])]
        duckanon.unregister(con)
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM prefix_hierarchy('t', 'zip')")


def test_the_stock_command_line_reads_the_files() -> None:
    files = sorted((templates.folder() / "hierarchy").glob("*.sql"))
    script = [
        "CREATE TABLE t AS FROM (VALUES ('012'), ('9')) AS v(zip);",
        *(f".read '{path}'" for path in files),
        ".mode json",
        "FROM prefix_hierarchy('t', 'zip');",
    ]
    command = [str(stock_command()), "-batch"]
    done = subprocess.run(
        command, input="\n".join(script), capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [
        {"value": "012", "labels": ["01*", "0**", "***"]},
        {"value": "9", "labels": ["9*", "9**", "***"]},
    ]


def test_an_error_of_a_helper_in_a_script_says_where(tmp_path: Path) -> None:
    script = tmp_path / "trees.sql"
    script.write_text(
        "CREATE TABLE t AS SELECT 1 AS age;\n\nCREATE TABLE tree AS\n  FROM interval_hierarchy('t', 'age', [5, 7]);\n",
        encoding="utf-8",
    )
    done = command("run", str(script))
    assert done.returncode == 2
    assert "interval_hierarchy: widths are numbers above 0, each a multiple of the one before" in done.stderr
    assert "(line 3, column 1 of trees.sql)" in done.stderr
    assert len(done.stderr.splitlines()) <= 2


MISSING = [None, float("nan"), np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT")]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("first", [True, False])
def test_missing_values_have_no_row(missing: object, first: bool) -> None:
    """NULL is a leaf of its own for whoever reads the tree; as text it would lengthen every prefix."""

    def with_missing(value: object) -> list[object]:
        return [missing, value, missing] if first else [value, missing]

    assert hierarchies.prefixes(with_missing("01")) == {"01": ["0*", "**"]}
    assert hierarchies.intervals(with_missing(7), [5]) == {"7": ["[5, 10)", "*"]}
    day = date(2024, 2, 29)
    assert hierarchies.dates(with_missing(day)) == {"2024-02-29": ["2024-02", "2024-Q1", "2024", "*"]}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "column",
    [
        lambda values: values,
        lambda values: pd.Series(values, dtype="object"),
        lambda values: pd.Series(values).convert_dtypes(),
        lambda values: pd.Series(values, dtype="category"),
        lambda values: pl.Series(values),
        lambda values: pa.array(values),
        lambda values: pa.chunked_array([values]),
        lambda values: list(pa.array(values)),
        lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.array(values).type)),
    ],
)  # fmt: skip
def test_columns_of_every_library_have_the_rows_of_a_list(column: Any) -> None:
    assert hierarchies.prefixes(column(["012", None, "9"])) == hierarchies.prefixes(["012", "9"])
    assert hierarchies.intervals(column([38, None, 23]), [5, 20]) == hierarchies.intervals([23, 38], [5, 20])
    days = [date(2024, 2, 29), None, date(2023, 1, 1)]
    assert hierarchies.dates(column(days)) == hierarchies.dates(days)


def test_dates_of_numpy_and_pandas_are_dates() -> None:
    expected = {"2024-02-29": ["2024-02", "2024-Q1", "2024", "*"]}
    assert hierarchies.dates(np.array(["2024-02-29", "NaT"], dtype="datetime64[D]")) == expected
    moments = {"2024-02-29 10:00:00": ["2024-02", "2024-Q1", "2024", "*"]}
    assert hierarchies.dates(np.array(["2024-02-29T10:00:00", "NaT"], dtype="datetime64[ns]")) == moments
    assert hierarchies.dates(pd.Series(pd.to_datetime(["2024-02-29 10:00:00", None]))) == moments


@pytest.mark.parametrize("value", ["2024-02-29", 5, 1.5])
def test_what_is_no_date_is_an_error(value: Any) -> None:
    with pytest.raises(PolicyError, match=f"values: {value!r} is no date: convert"):
        hierarchies.dates([value])


def test_date_hierarchy_of_a_text_says_that_it_is_cast(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE TABLE given AS SELECT '2024-02-29' AS v")
    with pytest.raises(duckdb.Error, match=r"the column is text: give a table or view that has it as CAST"):
        con.execute("FROM date_hierarchy('given', 'v')")
    con.execute("CREATE OR REPLACE TABLE cast_given AS SELECT CAST(v AS DATE) AS v FROM given")
    assert con.execute("SELECT labels[1] FROM date_hierarchy('cast_given', 'v')").fetchall() == [("2024-02",)]
