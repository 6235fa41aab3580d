"""Charts of ranges, sets and labels of a hierarchy, and `duckanon.report`, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.errors import ReleaseError
from tests.e2e import pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREE = [("Paris", "France", "*"), ("Lyon", "France", "*"), ("Ulm", "Germany", "*"), ("Bonn", "Germany", "*")]
POLICY = duckanon.Policy(
    quasi_identifiers=["town", "job", "age"], sensitive="pay", k=2, recode={"town": "hierarchy", "job": "set", "age": "range"},
    hierarchies={"town": TREE},
)  # fmt: skip


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Eight persons: two of each town, except that one of Ulm is shown as of Germany, and one of Bonn as of '*'."""
    with duckdb.connect() as connection:
        connection.execute("""
            CREATE TABLE old AS SELECT * FROM (VALUES
                ('Lyon', 'cook', 30, 0), ('Lyon', 'cook', 31, 1), ('Paris', 'cook', 32, 2), ('Paris', 'cook', 33, 3),
                ('Ulm', 'smith', 30, 4), ('Ulm', 'smith', 31, 5), ('Bonn', 'smith', 32, 6), ('Bonn', 'smith', 33, 7)
            ) AS rows(town, job, age, pay);
            CREATE TABLE new AS SELECT
                CASE pay WHEN 4 THEN 'Germany' WHEN 6 THEN '*' ELSE town END AS town,
                CASE WHEN pay < 6 THEN ['cook', 'smith'] ELSE ['smith'] END AS job,
                {'low': 30, 'high': CASE WHEN pay < 4 THEN 33 ELSE 31 END} AS age, pay
            FROM old
        """)
        yield connection


def numbers(page: str, column: str) -> list[list[str]]:
    return pages.cells(pages.tree(page), f"Numbers: {column}")[1:]


@pytest.mark.slow
def test_labels_stand_in_the_order_of_the_hierarchy_beside_the_original(
    con: duckdb.DuckDBPyConnection,
) -> None:
    page = duckanon.report(con, "new", POLICY, original="old").html
    assert numbers(page, "town") == [
        ["*", "0 %", "12.5 %"], ["Germany", "0 %", "12.5 %"], ["Bonn", "25 %", "12.5 %"],
        ["Ulm", "25 %", "12.5 %"], ["Lyon", "25 %", "25 %"], ["Paris", "25 %", "25 %"],
    ]  # fmt: skip


def test_a_set_counts_evenly_over_its_values_and_a_range_over_its_numbers(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """By hand: six of eight records are cook or smith, so 6 / 2 are cooks; four have 30 to 33, four 30 to 31.

    The last bar holds 32 and 33, since k records lie there.
    """
    page = duckanon.report(con, "new", POLICY, original="old").html
    assert sorted(numbers(page, "job")) == [["cook", "50 %", "37.5 %"], ["smith", "50 %", "62.5 %"]]
    assert [row[1:] for row in numbers(page, "age")] == [
        ["25 %", "37.5 %"],
        ["25 %", "37.5 %"],
        ["50 %", "25 %"],
    ]


@pytest.mark.slow
def test_many_leaves_stand_at_the_lowest_level_that_a_chart_has_room_for(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """By hand: a hundred codes in ten tens; a row for each ten in the order of numbers, and no row of all others."""
    con.execute("CREATE TABLE codes AS SELECT 'c' || i % 100 AS code, i AS pay FROM range(1000) AS r(i)")
    tree = [(f"c{i}", f"tens {i // 10}", "*") for i in range(100)]
    con.execute("CREATE TABLE tens AS SELECT 'tens ' || (pay % 100) // 10 AS code, pay FROM codes")
    policy = duckanon.Policy(
        quasi_identifiers="code",
        sensitive="pay",
        k=2,
        recode={"code": "hierarchy"},
        hierarchies={"code": tree},
    )
    page = duckanon.report(con, "tens", policy, original="codes").html
    assert numbers(page, "code") == [[f"tens {i}", "10 %", "10 %"] for i in range(10)]
    assert "all others" not in page


def test_the_report_of_a_view_says_the_loss_that_its_release_recorded(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """By hand: ages 30, 31 and 32, 33 become their means: SSE = 8 / 4, SST = 4 (1.5^2 + .5^2), so 20 %."""
    policy = duckanon.Policy(quasi_identifiers="age", sensitive="pay", identifiers=["town", "job"], k=4)
    release = duckanon.anonymize(con, "old", policy, name="v")
    file = tmp_path / "v.html"
    page = duckanon.report(con, "v", path=str(file), original="old")
    assert release.information_loss == pytest.approx(20)
    assert "Information loss 20 % as the release measured it" in pages.text(pages.tree(page.html))
    assert file.read_text(encoding="utf-8") == page.html
    with pytest.raises(ReleaseError, match="exists"):
        duckanon.report(con, "v", path=str(file))
    with pytest.raises(ReleaseError, match=r"ends in \.html"):
        duckanon.report(con, "v", path=str(tmp_path / "v.txt"))


def test_a_page_is_a_frame_in_a_notebook_and_short_in_a_terminal(con: duckdb.DuckDBPyConnection) -> None:
    page = duckanon.report(con, "new", POLICY)
    frame = pages.one(pages.tree(page._repr_html_()), "iframe")
    assert frame.get("srcdoc") == page.html
    assert len(repr(page)) < 100
    assert str(page) == page.report.to_text()


def test_a_suggestion_is_a_table_in_a_notebook(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""CREATE TABLE "<b>" AS SELECT i AS "<i>", i % 50 AS age FROM range(500) AS r(i)""")
    found = duckanon.suggest(con, '"<b>"')
    root = pages.tree(found._repr_html_())
    assert not [element for element in root.iter() if element.tag in {"b", "i"}]
    cells = [pages.text(cell) for cell in root.iter("td")]
    assert [cells[0], cells[6], cells[9], cells[15]] == ["<i>", "identifier", "age", "quasi-identifier"]
    assert "CREATE ANONYMIZED VIEW" in pages.text(pages.one(root, "pre"))
