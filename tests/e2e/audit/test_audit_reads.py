"""An audit sees what a reader of the file sees, and sees it once: text by its bytes, the same rows every time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.errors import SourceError

if TYPE_CHECKING:
    import duckdb

NAMES = (
    "('Smith', 'hiv', 1), ('Smith', 'flu', 2), ('smith', 'HIV', 3), ('Jones', 'hiv', 4), ('JONES', 'HIV', 5)"
)


@pytest.mark.parametrize("way", ["column", "session"])
def test_text_is_compared_by_its_bytes_whatever_its_collation(way: str) -> None:
    """By hand: four names as a file shows them, one of them twice; folded by NOCASE two, of three and two records."""
    with duckanon.connect() as con:
        collation = "COLLATE NOCASE" if way == "column" else ""
        con.execute(f"CREATE TABLE t (name VARCHAR {collation}, illness VARCHAR {collation}, id INTEGER)")
        con.execute(f"INSERT INTO t VALUES {NAMES}")
        if way == "session":
            con.execute("SET default_collation = 'nocase'")
        policy = duckanon.AuditPolicy(quasi_identifiers="name", sensitive="illness", k=2)
        report = duckanon.audit(con, "t", policy)
        by_id = duckanon.AuditPolicy(quasi_identifiers="illness", sensitive="name", k=2)
        other = duckanon.audit(con, "t", by_id)
    (k,) = [m for m in report.measures if m.measure == "k_anonymity"]
    assert (k.value, k.classes, k.violations, k.passed) == (1, 4, 3, False)
    assert {violation.class_values["name"] for violation in report.violations} == {"smith", "Jones", "JONES"}
    assert [m.classes for m in other.measures if m.measure == "k_anonymity"] == [3]


def test_a_release_of_collated_text_is_audited_by_its_bytes(fresh_db: duckdb.DuckDBPyConnection) -> None:
    fresh_db.execute("CREATE TABLE t (zip VARCHAR COLLATE NOCASE, charge INTEGER)")
    fresh_db.execute(
        "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN 'ab' ELSE 'AB' END, i FROM range(20) AS r(i)"
    )
    policy = duckanon.Policy(quasi_identifiers="zip", sensitive="charge", k=5)
    release = duckanon.anonymize(fresh_db, "t", policy, name="v")
    assert release.report.passed
    assert fresh_db.execute(
        "SELECT count(*), min(n) FROM (SELECT count(*) AS n FROM v GROUP BY zip COLLATE C)"
    ).fetchall() == [(2, 10)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i AS a, i % 3 AS s FROM range(1000) AS r(i) ORDER BY random() LIMIT 30",
        "SELECT CAST(floor(random() * 200) AS INTEGER) AS a, i % 3 AS s FROM range(1000) AS r(i)",
    ],
)
def test_a_view_that_gives_other_rows_each_time_is_an_error(query: str) -> None:
    """k would speak of other records than l and t: the join of both loses most of them."""
    with duckanon.connect() as con:
        con.execute(f"CREATE VIEW v AS {query}")
        policy = duckanon.AuditPolicy(quasi_identifiers="a", sensitive="s", l=1, t="0.9")
        with pytest.raises(SourceError, match="other rows each time"):
            duckanon.audit(con, "v", policy)
