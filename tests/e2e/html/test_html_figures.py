"""Figures of the HTML report where a reader would be misled first: missing values, few records, one class size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.audits.html.report import html_report
from duckanon.audits.run import audit_relation
from duckanon.database import templates
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages
from tests.e2e.html_scene import NOW, SETUP, one_of, page_of, percents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        yield connection


@pytest.mark.slow
def test_what_is_no_number_is_missing_and_in_no_bin(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: every second of 1,000 is a hole, the others spread over 50 odd numbers, ten of each, twice."""
    holes = {"absent": "NULL", "nan": "'NaN'::DOUBLE", "infinite": "'inf'::DOUBLE"}
    ages = ", ".join(
        f"CASE WHEN i % 2 = 0 THEN {hole} ELSE i % 100 END::DOUBLE AS {name}" for name, hole in holes.items()
    )
    con.execute(f"CREATE TABLE holes AS SELECT {ages}, i % 7 AS s FROM range(1000) AS r(i)")
    root = pages.tree(page_of(con, "holes", AuditPolicy(quasi_identifiers=list(holes), sensitive="s", k=2)))
    for name in holes:
        rows = {row[0]: percents(row[1:])[0] for row in pages.cells(root, f"Numbers: {name}")[1:]}
        assert rows.pop("missing") == 50
        assert sum(rows.values()) == pytest.approx(50)
        # Every odd number has 1 % of the records, and a bin of width 5 holds at most three.
        assert max(rows.values()) == 3
    # Each says so below its chart and to a screen reader.
    assert pages.text(root).count("50 % of the release missing") == 2 * len(holes)


def test_the_figures_of_every_column_stand_without_an_original(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE four AS FROM (VALUES (1, 'a'), (1, 'b'), (3, 'a'), (3, 'b')) AS r(age, s)")
    root = pages.tree(page_of(con, "four", AuditPolicy(quasi_identifiers="age", sensitive="s", k=2)))
    head, age, s = pages.cells(root, "Figures of every column")
    assert head == [
        "Column",
        "Table",
        "Records",
        "Missing",
        "Different values",
        "Mean",
        "Deviation",
        "Quartiles",
    ]
    assert age[:7] == ["age", "release", "4", "0", "2", "2", "1"]
    assert s == ["s", "release", "4", "0", "2", "–", "–", "–"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distinct", "entropy", "recursive"])
def test_a_report_of_other_rows_is_refused_whatever_changed(
    con: duckdb.DuckDBPyConnection, kind: str
) -> None:
    """By hand: sizes stay 5 and the largest EMD stays that of class 3, but class 1 comes to hold one value."""
    rows = {1: "aabbb", 2: "aabbb", 3: "ccccd"}
    values = ", ".join(f"({q}, '{s}')" for q, text in rows.items() for s in text)
    con.execute(f"CREATE TABLE t AS FROM (VALUES {values}) AS r(q, s)")
    options = {"l_diversity": kind, "c": 9} if kind == "recursive" else {"l_diversity": kind}
    policy = AuditPolicy(
        quasi_identifiers="q", sensitive="s", k=5, l="1.5" if kind == "entropy" else 2, t=1, **options
    )  # type: ignore[arg-type]
    report = duckanon.audit(con, "t", policy)
    assert html_report(con, "t", report, policy, now=NOW)
    con.execute("CREATE TABLE u AS SELECT q, CASE q WHEN 1 THEN 'b' WHEN 2 THEN 'a' ELSE s END AS s FROM t")
    with pytest.raises(SourceError, match="not about these rows"):
        html_report(con, "u", report, policy, now=NOW)
    other = AuditPolicy(quasi_identifiers="q", sensitive="s", k=5, t=1)
    with pytest.raises(PolicyError, match="give the policy of the audit"):
        html_report(con, "t", report, other, now=NOW)


@pytest.mark.slow
def test_single_persons_of_the_original_are_in_no_chart(con: duckdb.DuckDBPyConnection) -> None:
    """One of 1,001 is 80 years old and one lives alone; the release has both values, from nobody's own record."""
    con.execute("""
        CREATE TABLE before AS
        SELECT CASE WHEN i = 1000 THEN 80 WHEN i % 2 = 0 THEN 20 + i % 40 ELSE 100 + i % 40 END AS age,
            CASE WHEN i = 1000 THEN 'rare' ELSE 'z' || i % 3 END AS zip, i % 50 AS charge
        FROM range(1001) AS r(i)
    """)
    con.execute("CREATE TABLE after AS SELECT CASE WHEN i < 10 THEN 80 ELSE age END AS age, "
                "CASE WHEN i < 10 THEN 'rare' ELSE zip END AS zip, charge "
                "FROM (SELECT *, row_number() OVER (ORDER BY charge, age, zip) AS i FROM before)")  # fmt: skip
    policy = AuditPolicy(quasi_identifiers=["age", "zip"], sensitive="charge", k=5)
    root = pages.tree(page_of(con, "after", policy, original="before"))
    places = {row[0]: percents(row[1:]) for row in pages.cells(root, "Numbers: zip")[1:]}
    assert places["rare"][0] == 0
    assert places["rare"][1] > 0.8
    ages = {row[0]: percents(row[1:]) for row in pages.cells(root, "Numbers: age")[1:]}
    (middle,) = [label for label in ages if label.startswith("80 to")]
    assert ages[middle][0] == 0
    assert ages[middle][1] > 0.8
    assert "shares of too few records of the original are left out" in pages.text(root)


def test_a_constant_column_correlates_with_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE flat AS SELECT 1 AS a, i % 5 AS b, i AS s FROM range(20) AS r(i)")
    policy = AuditPolicy(quasi_identifiers=["a", "b"], sensitive="s")
    rows = pages.cells(pages.tree(page_of(con, "flat", policy)), "Numbers: Correlations in the release")
    assert rows[1] == ["a", "–", "–", "–"]
    assert rows[2][2] == "1"


@pytest.mark.slow
@pytest.mark.parametrize(("k", "shown"), [(5, "k = 5"), (9, "k = 9")])
def test_the_axis_of_class_sizes_has_whole_sizes_and_k(
    con: duckdb.DuckDBPyConnection, k: int, shown: str
) -> None:
    con.execute("CREATE TABLE even AS SELECT i // 5 AS q, i AS s FROM range(20) AS r(i)")
    root = pages.tree(page_of(con, "even", AuditPolicy(quasi_identifiers="q", sensitive="s", k=k)))
    chart = next(e for e in one_of(root, "sizes").iter("svg"))
    words = [pages.text(element) for element in chart.iter("text")]
    assert shown in words
    numbers = [word for word in words if re.fullmatch(r"[\d.]+", word)]
    assert all(re.fullmatch(r"\d+", word) for word in numbers), numbers
    assert len(numbers) >= 5
    assert "4 classes of 5 records." in pages.text(root)


@pytest.mark.slow
def test_many_quasi_identifiers_are_named_one_by_one(con: duckdb.DuckDBPyConnection) -> None:
    columns = [f"a long name of a quasi-identifier {n}" for n in range(8)]
    con.execute("CREATE TABLE wide AS SELECT i AS s, " + ", ".join(f'i AS "{name}"' for name in columns)
                + " FROM range(3) AS r(i)")  # fmt: skip
    root = pages.tree(page_of(con, "wide", AuditPolicy(quasi_identifiers=columns, sensitive="s", k=2)))
    head, *rows = pages.cells(root, "Violating classes")
    assert head == ["Measure", "Column", "Value", "Records", "Class"]
    assert rows[0][4] == ", ".join(f"{name} = {rows[0][4][-1]}" for name in columns)


def test_no_character_turns_the_direction_of_others(con: duckdb.DuckDBPyConnection) -> None:
    con.execute('CREATE TABLE turned AS SELECT 1 AS "a\u202eb", 2 AS s FROM range(4)')
    page = page_of(con, "turned", AuditPolicy(quasi_identifiers="a\u202eb", sensitive="s", k=2))
    assert "\u202e" not in page
    assert "a\\u202eb" in page


def test_a_variance_that_grew_is_no_negative_loss(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: 0, 2 becomes -1, 3: all moved by 1, the variance was 1, so SSE / SST = 100 %; never -300 %."""
    con.execute("CREATE TABLE narrow AS SELECT 2 * (i % 2) AS q, i AS s FROM range(4) AS r(i)")
    con.execute("CREATE TABLE broad AS SELECT 2 * q - 1 AS q, s FROM narrow")
    policy = AuditPolicy(quasi_identifiers="q", sensitive="s", k=2)
    root = pages.tree(page_of(con, "broad", policy, original="narrow"))
    assert pages.cells(root, "Numbers: Information loss per column")[1][1] == "100 %"
    assert pages.cells(root, "What changed")[1] == [
        "q", "100 %", "1", "0 to 2", "-1 to 3", "400 %", "100 %",
    ]  # fmt: skip
    assert "Information loss 100 %" in pages.text(root)


def test_the_sql_to_copy_names_the_file_and_no_pattern(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would read r1.csv for r[1].csv."""
    monkeypatch.chdir(tmp_path)
    con.execute("COPY (FROM range(4) AS r(i)) TO 'r[1].csv'")
    con.execute("COPY (FROM range(9) AS r(i)) TO 'r1.csv'")
    policy = AuditPolicy(quasi_identifiers="i", k=2)
    report = audit_relation(con, "read_csv('r[[]1].csv')", policy, name="r[1].csv")
    root = pages.tree(html_report(con, "read_csv('r[[]1].csv')", report, policy, now=NOW))
    statement = "".join(next(one_of(root, "sql").iter("pre")).itertext())
    con.execute(templates.read("install.sql"))
    assert con.execute(statement.partition("\n")[2].split(";")[0]).fetchall() == [(1, 4, 4)]
