"""What the HTML report says of every released column, against pandas: roles, uniqueness, change, loss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd
import pytest

import duckanon
from duckanon.audits.html.report import html_report
from duckanon.database import templates
from duckanon.policy.policy import AuditPolicy, Policy
from tests.e2e import pages
from tests.e2e.html_scene import NOW, one_of, page_of

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator

QUASI = ["age", "personal_status", "housing"]
SENSITIVE = ["amount"]
POLICY = AuditPolicy(quasi_identifiers=QUASI, sensitive=SENSITIVE, k=5, t={"amount": 0.9})


def lent() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A thousand credits of 21 columns, and a release of them in other order: classes of five by age."""
    random = np.random.default_rng(11)
    n = 1000
    table = pd.DataFrame({
        "age": np.clip(random.gamma(9, 4, n).round(), 19, 75).astype(int),
        "personal_status": random.choice(["single", "married", "divorced", "widowed"], n, p=[0.5, 0.3, 0.15, 0.05]),
        "housing": random.choice(["own", "rent", "free"], n, p=[0.7, 0.2, 0.1]),
        "amount": np.exp(random.normal(7.8, 0.8, n)).round().astype(int),
        "risk": random.choice(["good", "bad"], n, p=[0.9, 0.1]),
        "duration": random.integers(4, 73, n),
        **{f"attribute_{i}": random.choice(list("abcde"), n, p=[0.6, 0.2, 0.1, 0.05, 0.05]) for i in range(6)},
        **{f"flag_{i}": random.random(n) < 0.9 for i in range(9)},
    })  # fmt: skip
    table = table.sort_values(["age", "personal_status"], ignore_index=True)
    released = table.copy()
    blocks = np.arange(n) // 5
    released["age"] = table.groupby(blocks)["age"].transform("mean")
    for name in ("personal_status", "housing"):
        released[name] = table.groupby(blocks)[name].transform(lambda own: own.mode().iloc[0])
    return table, released.iloc[random.permutation(n)].reset_index(drop=True)


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return lent()


@pytest.fixture(scope="module")
def root(tables: tuple[pd.DataFrame, pd.DataFrame]) -> ET.Element:
    with duckdb.connect() as con:
        for name, frame in zip(("original", "released"), tables, strict=True):
            con.register("frame", frame)
            con.execute(f"CREATE TABLE {name} AS FROM frame")
        return pages.tree(page_of(con, "released", POLICY, original="original"))


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            'CREATE TABLE six AS SELECT 1 AS q, i % 2 AS s, i % 4 AS "o\'x", i AS id FROM range(6) r(i)'
        )
        yield connection


def unique(table: pd.DataFrame, columns: list[str]) -> int:
    return int((~table.duplicated(columns, keep=False)).sum())


def test_a_green_verdict_says_of_which_columns_it_says_nothing(
    root: ET.Element, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    released = tables[1]
    others = [name for name in released if name not in {*QUASI, *SENSITIVE}]
    alone = unique(released, others)
    assert 900 < alone < 1000
    verdict = one_of(root, "verdict")
    assert pages.text(verdict[0]).startswith(
        "✓ Passed The table keeps all 2 thresholds of its policy. They speak of only 4 of its 21 columns"
    )
    note = pages.text(one_of(root, "unaudited"))
    assert note.startswith(f"17 of 21 released columns are not audited: {', '.join(others)}.")
    assert f"{alone} of 1,000 records ({alone / 10:g} %) are unique on them together." in note
    rows = {row[0]: row[1:] for row in pages.cells(root, "Unique records")[1:]}
    assert rows["17 columns: not audited"] == [str(alone), f"{alone / 10:g} %"]
    both = unique(released, [*SENSITIVE, *others])
    assert rows["18 columns: no quasi-identifier, sensitive ones included"] == [
        f"{both:,}",
        f"{both / 10:g} %",
    ]


def test_every_released_column_stands_beside_the_verdict(
    root: ET.Element, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    released = tables[1]
    head, *rows = pages.cells(one_of(root, "verdict"), "Every released column")
    assert head == ["Column", "Role", "Type", "Judged by", "Different values", "Alone"]
    assert [row[0] for row in rows] == [
        *QUASI,
        *SENSITIVE,
        *(n for n in released if n not in {*QUASI, *SENSITIVE}),
    ]
    roles = ["quasi-identifier"] * 3 + ["sensitive"] + ["not audited"] * 17
    assert [row[1] for row in rows] == roles
    assert [row[3] for row in rows] == ["k ≥ 5"] * 3 + ["t ≤ 0.9"] + ["nothing"] * 17
    for name, *_, distinct, alone in rows:
        assert int(distinct.replace(",", "")) == released[name].nunique()
        assert int(alone.replace(",", "")) == unique(released, [name])


def test_what_changed_is_what_changed_in_the_records(
    root: ET.Element, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    """Records are put side by side by all columns that are no quasi-identifiers, which are unique together."""
    key = [name for name in tables[0] if name not in QUASI]
    assert unique(tables[0], key) == 1000
    before, after = (table.sort_values(key, ignore_index=True) for table in tables)
    words = pages.text(one_of(root, "loss"))
    assert "every released record fits exactly one record of the original, so every figure is exact" in words
    rows = {row[0]: row[1:] for row in pages.cells(root, "What changed")[1:]}
    losses = []
    for name in ("personal_status", "housing"):
        changed = float((before[name] != after[name]).mean())
        losses.append(changed)
        assert number(rows[name][0]) == number(rows[name][-1]) == pytest.approx(100 * changed, abs=0.006)
        # What the report said before: half of the distance of the shares, which hides most changes.
        apart = (
            before[name]
            .value_counts(normalize=True)
            .sub(after[name].value_counts(normalize=True), fill_value=0)
        )
        assert changed > apart.abs().sum() / 2
    change = before["age"] - after["age"]
    losses.append(float((change**2).mean() / before["age"].var(ddof=0)))
    shown = [number(rows["age"][place]) for place in (0, 1, 4, 5)]
    assert shown == pytest.approx([
        100 * (change != 0).mean(), change.abs().mean(),
        100 * after["age"].var(ddof=0) / before["age"].var(ddof=0), 100 * losses[-1],
    ], abs=0.006)  # fmt: skip
    low, high = before["age"].sort_values().iloc[[4, -5]]
    assert rows["age"][2:4] == [f"{low} to {high}", f"{after['age'].min():.10g} to {after['age'].max():.10g}"]
    assert all(rows[name][0] == "0 %, matched by it" for name in key)
    overall = re.search(r"Information loss ([0-9.]+ %) mean of the losses of 3", pages.text(root))
    assert overall is not None
    assert number(overall[1]) == pytest.approx(100 * np.mean(losses), abs=0.006)


def number(text: str) -> float:
    return float(text.removesuffix(" %"))


def test_shares_of_the_charts_are_shares(root: ET.Element) -> None:
    """Every percentage of the page but the kept variance lies in [0, 100], and those of the release add up."""
    for element in root.iter("td"):
        shown = re.fullmatch(r"[<>]?([-−0-9.,]+) %", pages.text(element))
        assert shown is None or 0 <= float(shown[1]) <= 100.5, pages.text(element)
    for name in QUASI:
        rows = pages.cells(root, f"Numbers: {name}")[1:]
        assert sum(number(row[2].lstrip("<")) for row in rows) == pytest.approx(100, abs=0.3)
    sizes = pages.cells(root, "Numbers: Class sizes")[1:]
    assert sum(int(row[1]) + int(row[2]) for row in sizes) == int(
        re.search(r"1,000 in (\d+) classes", pages.text(root))[1]  # type: ignore[index]
    )


def test_t_of_columns_together_is_told_in_words_and_judges_each(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE wards AS SELECT 1 AS q, i % 2 AS a, i % 3 AS b, i % 5 AS c FROM range(30) AS r(i)"
    )
    policy = AuditPolicy(quasi_identifiers="q", sensitive=("a", "b", "c"), k=5, t={("A", "b"): 0.3})
    root = pages.tree(html_report(con, "wards", duckanon.audit(con, "wards", policy), policy, now=NOW))
    judged = {row[0]: row[3] for row in pages.cells(root, "Every released column")[1:]}
    assert judged == {
        "q": "k ≥ 5",
        "a": "t of (A, b) together ≤ 0.3",
        "b": "t of (A, b) together ≤ 0.3",
        "c": "nothing",
    }
    words = pages.text(root)
    assert "joint t-closeness of a, b 0 asked for: t at most 0.3" in words
    assert re.findall(r"tells? too much of (\w)", words) == ["c"]


def test_t_from_supersets_is_told_in_words(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE halves AS SELECT i // 10 AS q, i // 20 AS a FROM range(40) AS r(i)")
    policy = AuditPolicy(quasi_identifiers="q", sensitive="a", k=5, t=0.3, n=20)
    root = pages.tree(html_report(con, "halves", duckanon.audit(con, "halves", policy), policy, now=NOW))
    judged = {row[0]: row[3] for row in pages.cells(root, "Every released column")[1:]}
    assert judged == {"q": "k ≥ 5", "a": "t ≤ 0.3 from 20 or more records"}
    # Each half of the table has one value, as its classes have.
    assert "(n, t)-closeness of a 0 asked for: t at most 0.3" in pages.text(root)


def test_a_policy_tells_its_insensitive_columns_and_those_that_it_drops(
    con: duckdb.DuckDBPyConnection,
) -> None:
    policy = Policy(quasi_identifiers="q", sensitive="s", k=5, identifiers="id", insensitive="*")
    report = duckanon.audit(con, "six", policy)
    assert report.warnings == (
        "2 of 4 released columns are not audited: o'x (insensitive), id (identifier); 6 of 6 records are unique on them together",
        "the policy drops id, and the audited table still has it",
    )
    root = pages.tree(html_report(con, "six", report, policy, now=NOW))
    rows = {row[0]: row[1] for row in pages.cells(root, "Every released column")[1:]}
    assert (rows["o'x"], rows["id"]) == ("insensitive: not audited", "identifier: should not be here")
    words = pages.text(root)
    assert "Whether the classes tell too much of s: neither t nor l was asked for." in words
    assert "Warning: the policy drops id" in words
    assert words.count("released columns are not audited") == 1
    # The statements to copy ask the same of the stock command line.
    statement = "".join(next(one_of(root, "sql").iter("pre")).itertext())
    con.execute(templates.read("install.sql"))
    last = statement.split(";")[-2]
    assert con.execute(last).fetchall() == [(6, 6, 1.0)]


def test_a_name_in_a_warning_stays_one_name_in_one_line(con: duckdb.DuckDBPyConnection) -> None:
    con.execute('CREATE TABLE odd AS SELECT q, s, 1 AS "a, b", 2 AS "x\x1b[31m\ny", 3 AS """" FROM six')
    report = duckanon.audit(con, "odd", AuditPolicy(quasi_identifiers="q", sensitive="s", k=5))
    (warning,) = report.warnings
    assert warning.endswith(
        'are not audited: "a, b", x\\x1b[31m\\ny, """"; 0 of 6 records are unique on them together'
    )
    assert len([line for line in report.to_text().splitlines() if line.startswith("warning: ")]) == 1


def test_a_class_of_one_sensitive_value_is_told_though_t_is_kept(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: of three classes of four records one holds only NULL, one only b, one both."""
    con.execute("""
        CREATE TABLE known AS
        SELECT i // 4 AS q, CASE WHEN i < 4 THEN NULL WHEN i < 10 THEN 'b' END AS s FROM range(12) AS r(i)
    """)
    root = pages.tree(page_of(con, "known", AuditPolicy(quasi_identifiers="q", sensitive="s", k=4, t=0.5)))
    words = pages.text(one_of(root, "verdict"))
    assert "✓ Passed" in words
    assert "That s stays unknown: in 2 of 3 classes, with 8 records, all records have the same value" in words


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("q, s", None),
        ('q, s, "o\'x"', "1 of 3 released columns is not audited: o'x; 2 of 6 records are unique on it"),
        ("q, s, NULL AS n", "1 of 3 released columns is not audited: n; 0 of 6 records are unique on it"),
        ("q, s, id, 0.0 * (id - 2) AS z", "2 of 4 released columns are not audited: id, z; 6 of 6 records are unique"),
        ("q, s, CASE WHEN id < 3 THEN 0.0::DOUBLE ELSE -0.0 END AS z", "0 of 6 records are unique on it"),
        ("q, s, [id // 2] AS l, {'a': id // 2} AS r, (id // 2)::VARIANT AS v", "l, r, v; 0 of 6 records are unique"),
    ],
)  # fmt: skip
def test_an_audit_of_a_table_names_what_it_did_not_look_at(
    con: duckdb.DuckDBPyConnection, columns: str, told: str | None
) -> None:
    """By hand: of 0, 1, 2, 3, 0, 1 two values are alone."""
    con.execute(f"CREATE TABLE t AS SELECT {columns} FROM six")
    warnings = duckanon.audit(con, "t", AuditPolicy(quasi_identifiers="q", sensitive="s", k=5)).warnings
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
