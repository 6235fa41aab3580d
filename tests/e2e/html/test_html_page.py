"""The HTML report: its form, what users may put into it, and how it fails."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.audits.html.report import html_report
from duckanon.database import engine
from duckanon.errors import MissingExtra, PolicyError, SourceError
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages
from tests.e2e.html_scene import (
    NOW,
    POLICY,
    SETUP,
    assert_self_contained,
    beside_original,
    one_of,
    page_of,
    percents,
)
from tests.e2e.scenes import ROOT
from tests.examples import slowly

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator
    from pathlib import Path

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


def test_it_is_one_well_formed_accessible_page(root: ET.Element) -> None:
    assert root.get("lang") == "en"
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids)), [name for name, n in Counter(ids).items() if n > 1]
    levels = [int(e.tag[1]) for e in root.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), levels
    for element in root.iter():
        if element.tag == "a":
            assert element.get("href", "").removeprefix("#") in ids
        if element.tag == "svg":
            assert element.get("role") == "img"
            assert all(name in ids for name in element.get("aria-labelledby", "none").split())
            assert all(len(pages.text(part)) > 3 for part in element if part.tag in {"title", "desc"})
        if element.tag == "th":
            assert element.get("scope") in {"col", "row", "rowgroup"}
        if element.tag == "table":
            assert list(element.iter("th"))
        for value in element.attrib.values():
            assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", value))
    charts = list(root.iter("svg"))
    assert len(charts) >= 1 + 2 * 3 + 2 + 2 + 1
    assert len(charts) == len(list(root.iter("figure"))) == len(list(root.iter("figcaption")))


def test_nothing_is_loaded_and_nothing_runs(made: tuple[str, Report], root: ET.Element) -> None:
    """No script, no link out, no style from elsewhere; a policy in the head forbids it as well."""
    assert_self_contained(made[0], root)


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(
    con: duckdb.DuckDBPyConnection, made: tuple[str, Report]
) -> None:
    """Whatever the order of the rows and the number of threads; only the time stamp is the caller's."""
    con.execute("CREATE OR REPLACE TABLE released AS FROM released ORDER BY hash(income + age)")
    con.execute("SET threads = 1")
    assert page_of(con, "released", POLICY, original="original") == made[0]
    report = duckanon.audit(con, "released", POLICY)
    later = NOW + timedelta(days=1)
    other = html_report(con, "released", report, POLICY, original="original", now=later)
    assert other.replace("2026-11-22", "2026-11-21") == made[0]
    zone = timezone(timedelta(hours=2))
    same = html_report(con, "released", report, POLICY, original="original", now=NOW.astimezone(zone))
    assert same == made[0]


def contrast(one: str, other: str) -> float:
    """WCAG 2.1, relative luminance and contrast ratio."""

    def luminance(colour: str) -> float:
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme: int) -> None:
    """4.5 for text, 3 for bars, in both themes (WCAG 2.1, success criteria 1.4.3 and 1.4.11)."""
    css = (ROOT / "duckanon" / "templates" / "report.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
    for ink in ("ink", "muted", "link", "good", "bad"):
        for ground in ("page", "surface", "panel"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for ink, ground in (
        ("good", "good-panel"),
        ("bad", "bad-panel"),
        ("ink", "note-panel"),
        ("muted", "bad-panel"),
    ):
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for level in range(9):
        assert contrast(colours["ink"], colours[f"corr-{level}"]) >= 4.5, level
    for bar in ("one", "two", "bad"):
        assert contrast(colours[bar], colours["surface"]) >= 3, bar


def test_every_colour_of_a_chart_follows_the_theme(made: tuple[str, Report]) -> None:
    """A colour that matplotlib wrote and CSS cannot change would be lost in the dark."""
    charts = "".join(re.findall(r"<svg.*?</svg>", made[0], re.DOTALL))
    assert not re.findall(r"#[0-9a-f]{6}\b", charts)


# What users may put in


def test_hostile_names_and_values_stay_text(con: duckdb.DuckDBPyConnection) -> None:
    script = "<script>alert(1)</script>"
    con.execute(f"""
        CREATE TABLE "a""b<i>'" AS SELECT i // 16 AS "{script}", '</style>{script}$x^2$ &amp; ' || i // 32 AS "my ""col'",
            CASE i % 5 WHEN 0 THEN '{script}' WHEN 1 THEN '</svg></details>' WHEN 2 THEN chr(1) || chr(8238) WHEN 3 THEN ''
            ELSE '漢字 مرحبا' END AS "<img src=x onerror=alert(2)>"
        FROM range(80) AS r(i)
    """)
    policy = AuditPolicy(
        quasi_identifiers=[script, "my \"col'"], sensitive=["<img src=x onerror=alert(2)>"], k=50, t=0.9
    )
    relation = '"a""b<i>\'"'
    report = duckanon.audit(con, relation, policy)
    page = html_report(con, relation, report, policy, original=relation, title=f"{script}&", now=NOW)
    root = pages.tree(page)
    assert_self_contained(page, root)
    words = pages.text(root)
    for shown in (
        f"{script}&",
        "</style>",
        "</svg></details>",
        "<img src=x onerror=alert(2)>",
        "漢字 مرحبا",
        "$x^2$",
    ):
        assert shown in words, shown
    assert "\x01" not in page
    assert "\u202e" not in page
    names = {text for svg in root.iter("svg") for text in (pages.text(t) for t in svg.iter("text"))}
    assert any(name.startswith("<script>") for name in names), "a category on an axis"


@pytest.mark.slow
def test_ranges_sets_dates_and_what_is_not_finite(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        CREATE TABLE before AS SELECT i AS a, i % 30 AS b, DATE '2020-01-01' + CAST(i * 9 AS INTEGER) AS day,
            TIMESTAMPTZ '2020-01-01 00:00:00+00' + INTERVAL (i) HOUR AS moment,
            CASE WHEN i % 10 = 0 THEN 'nan'::DOUBLE WHEN i % 10 = 1 THEN 'inf'::DOUBLE WHEN i % 10 = 2 THEN NULL
                WHEN i % 10 = 3 THEN 1e300 ELSE i / 7 END AS x,
            CASE WHEN i % 50 = 0 THEN DATE 'infinity' ELSE DATE '0001-01-01' END AS odd
        FROM range(100) AS r(i);
        CREATE TABLE after AS SELECT {'low': a // 10 * 10, 'high': a // 10 * 10 + 9} AS a, [b % 3, b] AS b,
            day, moment, x, odd FROM before
    """)
    policy = AuditPolicy(quasi_identifiers=["a", "b", "day", "moment"], sensitive=["x", "odd"])
    root = pages.tree(page_of(con, "after", policy, original="before"))
    rows = {row[0]: row[1:] for row in pages.cells(root, "Numbers: a")[1:]}
    assert sum(percents([row[1] for row in rows.values()])) == pytest.approx(100, abs=0.1)
    assert "a range counts evenly over its values" in pages.text(root)
    assert "each value of a set counts as an equal part of the record" in pages.text(root)
    figures = pages.cells(root, "Figures of every column")
    assert next(row for row in figures if row[0] == "x")[2:4] == ["100", "40"]
    assert "2020-" in pages.text(one_of(root, "utility"))
    assert "Not judged" in pages.text(one_of(root, "verdict"))


@pytest.mark.parametrize(
    "rows",
    slowly(
        [
            "SELECT 1 AS q, 2 AS s",
            "SELECT NULL::INTEGER AS q, NULL::DOUBLE AS s FROM range(3)",
            "SELECT 5 AS q, i AS s FROM range(99) AS r(i)",
        ],
        one_of=3,
    ),
    ids=["one row", "nothing but NULL", "one class"],
)
def test_degenerate_tables(con: duckdb.DuckDBPyConnection, rows: str) -> None:
    con.execute(f"CREATE TABLE tiny AS {rows}")
    policy = AuditPolicy(quasi_identifiers="q", sensitive="s", k=2, t=0.5)
    root = pages.tree(page_of(con, "tiny", policy, original="tiny"))
    assert "Every class has the distribution of the whole table." in pages.text(root)


@pytest.mark.slow
def test_large_and_skewed_tables_are_aggregated_in_sql(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No query of the report gives more rows than bars and bins need; the fingerprint reads digests only."""
    con.execute("""
        CREATE TABLE large AS SELECT CAST(floor(sqrt(i)) AS INTEGER) AS q, 'z' || i % 7919 AS z, i % 4001 AS s, 'u' || i AS u
        FROM range(40000) AS r(i)
    """)
    seen: list[int] = []
    rows = engine.rows

    def counted(*arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
        found = rows(*arguments, **options)
        seen.append(len(found))
        return found

    monkeypatch.setattr(engine, "rows", counted)
    policy = AuditPolicy(quasi_identifiers=["q"], sensitive=["s", "u"], k=3, t=0.4)
    report = duckanon.audit(con, "large", policy)
    seen.clear()
    root = pages.tree(html_report(con, "large", report, policy, now=NOW))
    assert len(seen) > 10
    assert max(seen) <= 2 * 200, "sizes are at most sqrt 2n, here 200"
    for region in root.iter("div"):
        if region.get("aria-label", "").startswith("Numbers: "):
            assert len(list(region.iter("tr"))) <= 65
    sizes = pages.cells(root, "Numbers: Class sizes")[1:]
    assert sum(int(row[1]) + int(row[2]) for row in sizes) == 200


# Failures


@pytest.mark.slow
def test_nothing_is_left_in_the_database(con: duckdb.DuckDBPyConnection) -> None:
    report = duckanon.audit(con, "released", POLICY)
    before = con.execute("SELECT count(*) FROM duckdb_tables()").fetchone()
    html_report(con, "released", report, POLICY, original="original", now=NOW)
    with pytest.raises(SourceError):
        html_report(con, "released", report, POLICY, original="(SELECT 1 AS other)", now=NOW)
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == before
    import matplotlib as mpl

    assert mpl.rcParams["text.parse_math"], "the settings of the caller are as they were"


@pytest.mark.slow
def test_it_works_in_a_transaction_and_on_a_read_only_file(tmp_path: Any) -> None:
    file = tmp_path / "own.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(SETUP)
    with duckdb.connect(str(file), read_only=True) as connection:
        report = duckanon.audit(connection, "own.released", POLICY)
        connection.execute("BEGIN")
        page = html_report(connection, '"own"."main"."released"', report, POLICY, now=NOW)
        connection.execute("COMMIT")
    assert "The original table was not given" in page


def test_a_report_about_other_rows_or_thresholds_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    report = duckanon.audit(con, "released", POLICY)
    with pytest.raises(PolicyError, match=r"k_anonymity was judged by 5\.0, but the policy says 4"):
        html_report(con, "released", report, POLICY.override(k=4))
    con.execute("DELETE FROM released WHERE income = (SELECT max(income) FROM released)")
    with pytest.raises(SourceError, match="not about these rows"):
        html_report(con, "released", report, POLICY)


def test_errors_say_what_is_wrong(con: duckdb.DuckDBPyConnection) -> None:
    report = duckanon.audit(con, "released", POLICY)
    with pytest.raises(PolicyError, match="agee"):
        html_report(con, "released", report, AuditPolicy(quasi_identifiers="agee"))
    with pytest.raises(SourceError, match="nowhere"):
        html_report(con, "nowhere", report, POLICY)
    with pytest.raises(SourceError, match="none of the columns"):
        html_report(con, "released", report, POLICY, original="(SELECT 1 AS other)")
    with pytest.raises(SourceError, match="original is empty"):
        html_report(con, "released", report, POLICY, original="(FROM original LIMIT 0)")
    con.execute("DELETE FROM released")
    with pytest.raises(SourceError, match="table is empty"):
        html_report(con, "released", report, POLICY)


def test_without_matplotlib_it_names_the_command(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = duckanon.audit(con, "released", POLICY)
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'duckanon\[report\]'"):
        html_report(con, "released", report, POLICY)


@pytest.mark.slow
def test_plan_and_warnings(con: duckdb.DuckDBPyConnection) -> None:
    report = duckanon.audit(con, "released", POLICY).extended((), ("mind <this>",), "mdav & why")
    words = pages.text(pages.tree(html_report(con, "released", report, POLICY, now=NOW)))
    assert "Warning: mind <this>" in words
    assert "Method mdav & why" in words


# The documentation


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    root = pages.tree((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "✓ Passed" in pages.text(root)
    # The metadata of a view have the method, not the reason for it.
    assert names["release"].method in pages.text(root)
