"""The HTML report: its figures against numpy, hand calculation and the files of sql/audit."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from duckanon.audits import headers
from duckanon.database import templates
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages
from tests.e2e.html_scene import PEOPLE, POLICY, SETUP, beside_original, one_of, page_of, percents

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator

    from duckanon.audits.report import Report


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        yield connection


@pytest.fixture(scope="module")
def made() -> tuple[str, Report]:
    return beside_original()


@pytest.fixture(scope="module")
def root(made: tuple[str, Report]) -> ET.Element:
    return pages.tree(made[0])


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray[Any, Any]]:
    with duckdb.connect() as connection:
        return connection.execute(f"{PEOPLE} ORDER BY i").fetchnumpy()


def emd_ordered(values: list[int], whole: list[int]) -> float:
    """Li et al. 2007, section 5.1, by its definition."""
    domain = sorted(set(whole))
    gaps = [values.count(v) / len(values) - whole.count(v) / len(whole) for v in domain]
    return float(np.abs(np.cumsum(gaps)).sum() / (len(domain) - 1))


@pytest.mark.slow
def test_verdicts_come_first_and_are_those_of_the_report(root: ET.Element, made: tuple[str, Report]) -> None:
    main = next(root.iter("main"))
    assert main[0].get("id") == "verdict"
    judged = [measure for measure in made[1].measures if measure.passed is not None]
    cards = [element for element in main.iter("li") if "card" in element.get("class", "")]
    assert len(cards) == len(judged) == 5
    for card, measure in zip(cards, judged, strict=True):
        words = pages.text(card)
        assert ("✓ passed" if measure.passed else "✗ violated") in words
        assert measure.attribute is None or f"of {measure.attribute}" in words
        assert measure.passed or f"violated by {measure.violations} of 12 classes" in words
    banner = pages.text(main[0][0])
    assert banner.startswith("✗ Failed The table violates ")
    assert f"{sum(not m.passed for m in judged)} of the 5 thresholds" in banner


def test_class_sizes(root: ET.Element) -> None:
    assert pages.cells(root, "Numbers: Class sizes")[1:] == [["5", "12", "0"]]


def test_distances_and_worst_classes(root: ET.Element, people: dict[str, Any]) -> None:
    whole = people["income"].tolist()
    members = {c: people["income"][people["c"] == c].tolist() for c in range(12)}
    emd = {c: emd_ordered(values, whole) for c, values in members.items()}
    rows = pages.cells(root, "Numbers: Distance of the classes from the whole table in income")[1:]
    assert sum(int(row[1]) for row in rows) == sum(value <= 0.3 for value in emd.values())
    assert sum(int(row[2]) for row in rows) == sum(value > 0.3 for value in emd.values()) > 0
    for low, high, good, bad in [
        (*map(float, row[0].split(" to ")), int(row[1]), int(row[2])) for row in rows
    ]:
        inside = [value for value in emd.values() if low - 5e-4 < value <= high + 5e-4]
        assert len(inside) >= good + bad
    worst = sorted(emd, key=lambda c: -emd[c])[0]
    shares = {row[0]: percents(row[1:]) for row in pages.cells(root, "Numbers: income: worst class")[1:]}
    assert sum(share[1] for share in shares.values()) == pytest.approx(100, abs=0.2)
    drawn = Counter()
    for value in members[worst]:
        (label,) = [label for label in shares if in_bin(label, value)]
        drawn[label] += 20
    assert {label: share[1] for label, share in shares.items() if share[1]} == pytest.approx(dict(drawn))
    age = people["age"][people["c"] == worst].mean()
    assert f"EMD {emd[worst]:.4g}, 5 records: age = {age}" in pages.text(root)


def in_bin(label: str, value: float) -> bool:
    if label.startswith("below "):
        return value < float(label.removeprefix("below "))
    if label.endswith(" and more"):
        return value >= float(label.removesuffix(" and more"))
    low, _, high = label.partition(" to ")
    return float(low) <= value < float(high) if high else value == float(low)


def test_missing_is_a_value_among_the_sensitive(root: ET.Element) -> None:
    rows = {row[0]: row[1:] for row in pages.cells(root, "Numbers: illness: worst class")[1:]}
    assert set(rows) == {"flu", "cold", "missing"}
    assert percents([row[0] for row in rows.values()]) == pytest.approx([100 / 3] * 3, abs=0.01)


def test_risk_by_hand(root: ET.Element) -> None:
    """Twelve classes of five: 1 / 5 for everybody, which is above 5 and 9 and not above 20 %."""
    values = [row[1] for row in pages.cells(root, "Risks")[1:]]
    assert values == ["20 %", "20 %", "20 %", "100 %", "100 %", "0 %", "0 %", "0 %"]


def test_information_loss_is_sse_over_sst(root: ET.Element, people: dict[str, Any]) -> None:
    """With the records side by side, which the report does not have: classes release their means."""
    ages = people["age"].astype(float)
    means = np.array([ages[people["c"] == c].mean() for c in people["c"]])
    expected = 100 * ((ages - means) ** 2).sum() / ((ages - ages.mean()) ** 2).sum()
    rows = {row[0]: row[1] for row in pages.cells(root, "Numbers: Information loss per column")[1:]}
    assert float(rows["age"].removesuffix(" %")) == pytest.approx(expected, abs=0.006)
    # One of sixty towns changed, from Hamlet to what the class has.
    assert float(rows["town"].removesuffix(" %")) == pytest.approx(100 / 60, abs=0.006)


def test_losses_agree_with_the_audit_files(con: duckdb.DuckDBPyConnection, root: ET.Element) -> None:
    numbers = """
        WITH released AS (SELECT row_number() OVER () AS record, 'age' AS attribute, CAST(age AS DOUBLE) AS value FROM main.released),
        original AS (SELECT row_number() OVER () AS record, 'age' AS attribute, CAST(age AS DOUBLE) AS value FROM main.original)
        SELECT information_loss FROM ({}) WHERE attribute = 'age'
    """
    words = numbers.replace("CAST(age AS DOUBLE)", "town").replace(
        "information_loss", "100 * total_variation"
    )
    rows = {row[0]: row[1] for row in pages.cells(root, "Numbers: Information loss per column")[1:]}
    for column, query, name in (("age", numbers, "information_loss"), ("town", words, "utility_categorical")):
        (value,) = con.execute(query.format(templates.read(f"audit/{name}.sql"))).fetchone() or ()
        assert float(rows[column].removesuffix(" %")) == pytest.approx(value, abs=0.006)


def test_columns_before_and_after(root: ET.Element, people: dict[str, Any]) -> None:
    rows = pages.cells(root, "Figures of every column")[1:]
    before, after = rows[0], rows[1]
    ages = people["age"].astype(float)
    assert before[:5] == ["age", "original", "60", "0", str(len(set(ages)))]
    assert after[:4] == ["release", "60", "0", "12"]
    assert float(before[5]) == pytest.approx(ages.mean(), rel=1e-3)
    assert float(before[6]) == pytest.approx(ages.std(), rel=1e-3)
    assert [float(q) for q in before[7].split(", ")] == pytest.approx(
        np.quantile(ages, [0.25, 0.5, 0.75]), rel=1e-3
    )
    assert rows[6][:4] == ["illness", "original", "60", "20"]


def test_correlations(root: ET.Element, people: dict[str, Any]) -> None:
    means = np.array([people["age"][people["c"] == c].mean() for c in people["c"]])
    for name, ages in (("original", people["age"]), ("release", means)):
        rows = pages.cells(root, f"Numbers: Correlations in the {name}")
        assert rows[0] == ["Column", "age", "income"]
        assert float(rows[1][2]) == pytest.approx(np.corrcoef(ages, people["income"])[0, 1], abs=1e-3)


def test_distribution_before_and_after(root: ET.Element, people: dict[str, Any]) -> None:
    rows = pages.cells(root, "Numbers: age")
    assert rows[0] == ["age", "share, original", "share, release"]
    means = [people["age"][people["c"] == c].mean() for c in people["c"]]
    for label, *shares in rows[1:]:
        before, after = (sum(in_bin(label, value) for value in values) for values in (people["age"], means))
        # What fewer than k = 5 of the original share is not drawn.
        expected = [100 * (before if before >= 5 else 0) / 60, 100 * after / 60]
        assert percents(shares) == pytest.approx(expected, abs=0.01)


def test_what_few_of_the_original_share_is_not_shown(made: tuple[str, Report]) -> None:
    """Only one person lives in Hamlet; the release does not say so, and the report must not."""
    assert "Hamlet" not in made[0]
    assert "all others" in made[0]
    assert "For internal use." in made[0]


def test_extremes_of_the_original_are_not_shown(con: duckdb.DuckDBPyConnection) -> None:
    """Ages of four are far out; k = 5 records must lie beyond the outermost edges."""
    con.execute(
        "UPDATE original SET age = 987654 WHERE age IN (SELECT age FROM original ORDER BY age DESC LIMIT 1)"
    )
    (far,) = con.execute("SELECT count(*) FROM original WHERE age = 987654").fetchone() or (0,)
    assert 0 < far < 5
    page = page_of(con, "released", POLICY, original="original")
    assert not re.search(r"987.?6", page)
    head, *rows = pages.cells(pages.tree(page), "Numbers: age")
    assert max(float(part) for row in rows for part in re.findall(r"\d+", row[0])) < 120, head


def test_policy_method_hashes_and_sql_are_there(made: tuple[str, Report], root: ET.Element) -> None:
    from duckanon.audits.evidence import evidence_of

    words = pages.text(root)
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        evidence = evidence_of(connection, "released", POLICY)
    assert evidence.fingerprint in words
    assert evidence.policy_hash in words
    assert f"DuckDB {duckdb.__version__}" in words
    policy = [e for e in root.iter("details") if pages.text(e).startswith("The policy as TOML")]
    assert evidence.policy == "".join(next(policy[0].iter("code")).itertext())
    assert "2026-11-21 12:30:00 UTC" in words
    texts = {"".join(code.itertext()) for code in root.iter("code")}
    for name in headers.audit_names():
        assert templates.read(headers.audit_file(name)) in texts


def test_the_sql_of_the_page_repeats_the_verdicts(
    con: duckdb.DuckDBPyConnection, root: ET.Element, made: tuple[str, Report]
) -> None:
    section = one_of(root, "sql")
    statement = "".join(next(section.iter("pre")).itertext())
    first, _, rest = statement.partition("\n")
    assert first == ".read sql/install.sql"
    con.execute(templates.read("install.sql"))
    rows = con.execute(rest.split(";")[0]).fetchall()
    assert [row[7] for row in rows if row[7] is not None] == [
        m.passed for m in made[1].measures if m.passed is not None
    ]
    assert con.execute(rest.split(";")[1]).fetchone() == (0.2, 0.2, 0.2, 1.0, 1.0, 0.0, 0.0)


def test_a_class_at_exactly_t_stands_left_of_the_line(con: duckdb.DuckDBPyConnection) -> None:
    """Two classes of ten, values apart: EMD 1/2 each by equal distance (Li et al. 2007, 5.2)."""
    con.execute("CREATE TABLE halves AS SELECT i // 10 AS q, 'v' || (i // 10) AS s FROM range(20) AS r(i)")
    for t, kept in (("0.5", True), ("0.499999999999", False)):
        policy = AuditPolicy(quasi_identifiers="q", sensitive="s", t=t)
        root = pages.tree(page_of(con, "halves", policy))
        rows = pages.cells(root, "Numbers: Distance of the classes from the whole table in s")[1:]
        assert [row[1:] for row in rows] == [["2", "0"] if kept else ["0", "2"]]
        words = pages.text(one_of(root, "verdict"))
        assert f"0.5 asked for: t at most {t}" in words
        assert ("✓ passed" in words) is kept


def test_hierarchical_distance(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        CREATE TABLE tree AS FROM (VALUES ('flu', 'lungs', 'any'), ('cold', 'lungs', 'any'), ('ulcer', 'stomach', 'any')) v(a, b, c);
        CREATE TABLE sick AS SELECT i % 4 AS q, ['flu', 'cold', 'ulcer'][1 + i % 3] AS s FROM range(50) r(i)
    """)
    policy = AuditPolicy(
        quasi_identifiers="q",
        sensitive="s",
        k=2,
        t=0.3,
        distance={"s": "hierarchical"},
        hierarchies={"s": "tree"},
    )
    page = page_of(con, "sick", policy)
    assert "distance hierarchical by tree" in page
    assert "FROM t_closeness_hierarchical(&#39;sick&#39;" in page
