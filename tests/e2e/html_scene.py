"""A release that is made by hand, beside its original, and its HTML report.

The original is sixty persons in twelve classes; the release holds, for every class, the mean of the ages and the
most frequent town, so that every figure of the report can be computed beside it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

import duckanon
from duckanon.audits.html.report import html_report
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from duckanon.audits.report import Report

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)

# Class c of twelve; its members' ages differ, its towns mostly agree, its incomes lean with c.
PEOPLE = """
    SELECT i, i // 5 AS c, (i // 5) * 6 + (i * i) % 5 + 20 AS age,
        CASE WHEN i = 7 THEN 'Hamlet' ELSE 'town ' || (i // 5 % 3) END AS town,
        ((i // 5) * 3 + i * 7 % 13) AS income,
        CASE i % 3 WHEN 0 THEN 'flu' WHEN 1 THEN 'cold' END AS illness
    FROM range(60) AS r(i)
"""
SETUP = f"""
    CREATE TABLE original AS SELECT age, town, income, illness FROM ({PEOPLE});
    CREATE TABLE released AS
    SELECT avg(age) OVER (PARTITION BY c) AS age, mode(town) OVER (PARTITION BY c) AS town, income, illness
    FROM ({PEOPLE});
"""
POLICY = AuditPolicy(
    quasi_identifiers=["age", "town"],
    sensitive=["income", "illness"],
    k=5,
    l=2,
    t={"income": 0.3, "illness": 0.4},
)


def beside_original() -> tuple[str, Report]:
    """Give the page of the release beside its original, and the report."""
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        report = duckanon.audit(connection, "released", POLICY)
        return html_report(connection, "released", report, POLICY, original="original", now=NOW), report


def page_of(con: duckdb.DuckDBPyConnection, table: str, policy: AuditPolicy, **options: Any) -> str:
    """Give the page of any table."""
    report = duckanon.audit(con, table, policy)
    return html_report(con, table, report, policy, now=NOW, **options)


def percents(cells: list[str]) -> list[float]:
    """Give the numbers of cells in per cent."""
    return [float(cell.removesuffix(" %").replace("<", "")) for cell in cells]


def one_of(root: ET.Element, name: str) -> ET.Element:
    """Give the element with an id."""
    (found,) = [element for element in root.iter() if element.get("id") == name]
    return found


def assert_self_contained(page: str, root: ET.Element) -> None:
    """Fail where a page runs or loads something, or leads out of itself."""
    for element in root.iter():
        assert element.tag not in {"script", "link", "iframe", "object", "embed", "img", "form", "base"}
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            if name in {"src", "href", "xlink:href", "action", "srcset", "data"}:
                assert value.startswith("#"), (element.tag, name, value)
            assert "url(" not in value.replace("url(#", ""), value
    style = "".join(pages.text(element) for element in root.iter("style"))
    assert "@import" not in style
    assert "url(" not in style
    assert "<script" not in page.lower()
    policy = pages.one(root, "meta", http_equiv="Content-Security-Policy").get("content", "")
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
