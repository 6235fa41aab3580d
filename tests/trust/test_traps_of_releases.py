"""Traps 1, 4, 11 to 13, 15 and 18 to 21: what a release, a policy and the documents must do about them.

The numbers are those of docs/trust.md. Expected values are reckoned by hand or by tests/oracle.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duckanon
from duckanon.errors import DuckanonError, InfeasibleError, PolicyError
from tests.e2e.scenes import CREATE, OPTIONS, QI, patients
from tests.e2e.scenes import rows as records
from tests.oracle import classes, k_anonymity

ROOT = Path(__file__).resolve().parents[2]
TREE = "('flu', 'lung', 'all'), ('cold', 'lung', 'all'), ('ulcer', 'gut', 'all')"


def release(source: str, options: str) -> list[dict[str, Any]]:
    """Give the rows of an anonymized view of a query."""
    with duckanon.connect() as con:
        con.sql(f"CREATE ANONYMIZED VIEW v AS {source} WITH ({options})")
        return records(con, "FROM v")


def test_trap_01_records_with_null_are_released_in_classes_of_k() -> None:
    source = "SELECT nullif(i % 7, 3) AS a, CASE WHEN i % 5 < 2 THEN 'x' END AS b, i AS s FROM range(70) r(i)"
    rows = release(source, "quasi_identifiers = (a, b), sensitive = (s), k = 4")
    assert sorted(row["s"] for row in rows) == list(range(70))
    assert k_anonymity(rows, ["a", "b"]) >= 4
    assert sum(row["a"] is None for row in rows) <= 10
    assert any(row["b"] is None for row in rows)


def test_trap_04_every_record_gets_the_mean_of_its_own_class() -> None:
    """An insensitive number tells which record it was; the source is in no order."""
    source = "SELECT hash(i) % 900 AS a, i AS who FROM range(300) r(i) ORDER BY hash(i + 1)"
    with duckanon.connect() as con:
        was = {row["who"]: row["a"] for row in records(con, source)}
        with pytest.warns(duckanon.DuckanonWarning, match="who"):
            con.sql(
                f"CREATE ANONYMIZED VIEW v AS {source} WITH (quasi_identifiers = (a), insensitive = *, k = 5)"
            )
        for group in classes(records(con, "FROM v"), ["a"]):
            mean = sum(was[row["who"]] for row in group) / len(group)
            assert abs(group[0]["a"] - mean) <= 0.5


def test_trap_11_no_column_comes_along_unasked_and_rows_are_in_the_order_of_their_values() -> None:
    with patients() as con:
        con.sql(CREATE)
        rows = records(con, "FROM v")
        with pytest.raises(PolicyError, match="diagnosis"):
            con.sql(CREATE.replace("VIEW v", "VIEW w").replace("charge, diagnosis", "charge"))
    assert list(rows[0]) == ["age", "zip", "charge", "diagnosis"]
    shown = [tuple(row.values()) for row in rows]
    assert shown == sorted(shown)


def test_trap_11_a_mean_shows_no_extreme_value_and_ranges_must_be_asked_for() -> None:
    """By hand: k = 3 of 0, 10, 20, 30, 40, 1000 gives means 10 and 357 (356.67), and a warning: 1000 is 1070 less 0 to 80."""
    source = "SELECT unnest([0, 10, 20, 30, 40, 1000]) AS a"
    with pytest.warns(duckanon.DuckanonWarning, match="the mean of 'a' tells one record within 10 %"):
        rows = release(source, "quasi_identifiers = (a), k = 3, method = 'univariate'")
    assert [row["a"] for row in rows] == [10, 10, 10, 357, 357, 357]


@pytest.mark.sampled
@pytest.mark.parametrize("threads", [1, 2])
def test_trap_12_a_class_has_one_mean_to_the_last_bit(threads: int) -> None:
    """Tenths and thirds sum up differently in another order; the audit reads what is stored."""
    with duckanon.connect(threads=threads) as con:
        source = "SELECT (i * 7919 % 5000) / 3 AS a, (i * 104729 % 997) / 10 AS b FROM range(5000) r(i)"
        con.sql(f"CREATE ANONYMIZED VIEW v AS {source} WITH (quasi_identifiers = (a, b), k = 7)")
        rows = records(con, "FROM v")
        audited = [row for row in records(con, "AUDIT VIEW v") if row["measure"] == "k_anonymity"]
    sizes = Counter((row["a"].hex(), row["b"].hex()) for row in rows)
    assert min(sizes.values()) >= 7
    assert (audited[0]["value"], audited[0]["classes"]) == (min(sizes.values()), len(sizes))


def test_trap_12_classes_that_rounding_merges_are_audited_as_one() -> None:
    """DECIMAL(9, 0) means of 10, 11 and 10, 11: the reader sees one class of four, and so does the audit."""
    source = "SELECT (10 + i % 2)::DECIMAL(9, 0) AS a, i AS s FROM range(4) r(i)"
    with duckanon.connect() as con:
        con.sql(
            f"CREATE ANONYMIZED VIEW v AS {source} WITH (quasi_identifiers = (a), sensitive = (s), k = 2)"
        )
        (audited,) = [row for row in records(con, "AUDIT VIEW v") if row["measure"] == "k_anonymity"]
        assert audited["value"] == k_anonymity(records(con, "FROM v"), ["a"])


def test_trap_13_k_counts_persons_where_a_column_tells_them() -> None:
    """Four visits of each of six patients, at one age: by rows each patient is a class of k = 3."""
    source = "SELECT i // 4 AS patient, i // 4 * 10 AS age, i AS charge FROM range(24) r(i)"
    options = "quasi_identifiers = age, sensitive = charge, insensitive = patient, k = 3"
    fewest = "SELECT min(n) AS n FROM (SELECT count(DISTINCT patient) AS n FROM v GROUP BY age)"
    for subject, persons in (("", 1), (", subject = patient", 3)):
        with duckanon.connect() as con:
            con.sql(f"CREATE ANONYMIZED VIEW v AS {source} WITH ({options}{subject})")
            assert records(con, fewest) == [{"n": persons}]


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("SELECT i AS a FROM range(3) r(i)", "quasi_identifiers = (a), k = 5", "3"),
        ("SELECT i AS a FROM range(9) r(i)", "quasi_identifiers = (a), k = 0", "k"),
        ("SELECT i AS a FROM range(9) r(i)", "quasi_identifiers = (a), k = 1", "k"),
        ("SELECT i AS a FROM range(0) r(i)", "quasi_identifiers = (a), k = 2", "no records"),
    ],
)
def test_trap_15_what_cannot_be_is_an_error(source: str, options: str, words: str) -> None:
    with pytest.raises(DuckanonError, match=words):
        release(source, options)


def test_trap_15_an_l_out_of_reach_names_the_best() -> None:
    """Three values, 2 : 1 : 1 in the whole table."""
    with pytest.raises(InfeasibleError) as refused:
        release(
            "SELECT i AS a, [1, 1, 2, 3][i % 4 + 1] AS s FROM range(12) r(i)",
            "quasi_identifiers = (a), sensitive = (s), k = 2, l = 4",
        )
    assert refused.value.best == 3


@pytest.mark.parametrize("column", ["NULL::INTEGER", "NULL::VARCHAR", "7", "'x'"])
def test_trap_15_a_column_of_one_value_or_of_none(column: str) -> None:
    rows = release(f"SELECT i AS a, {column} AS b FROM range(20) r(i)", "quasi_identifiers = (a, b), k = 3")
    assert len(rows) == 20
    assert k_anonymity(rows, ["a", "b"]) >= 3
    assert len({row["b"] for row in rows}) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", ""),
        (", ('flu', 'gut', 'all')", "leaf"),
        (", ('measles', 'skin', 'none')", "root"),
        (", ('measles', NULL, 'all')", "empty"),
        (", ('measles', 'lung', 'all'), ('mumps', 'lung', 'none')", "parent|root"),
    ],
)
def test_trap_18_a_hierarchy_is_total_functional_and_nested(more: str, message: str) -> None:
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE tree AS FROM (VALUES {TREE}{more}) AS v(leaf, organ, root)")
        con.execute(
            "CREATE TABLE p AS SELECT i AS a, ['flu', 'cold', 'ulcer'][i % 3 + 1] AS s FROM range(12) r(i)"
        )
        create = (
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), sensitive = (s), k = 3, t = 0.5, "
            "distance = {s: 'hierarchical'}, hierarchies = {s: 'tree'})"
        )
        if message:
            with pytest.raises(DuckanonError, match=f"(?i){message}"):
                con.sql(create)
            return
        con.sql(create)
        con.execute("INSERT INTO p VALUES (12, 'measles')")
        with pytest.raises(DuckanonError, match=r"measles|value"):
            con.sql("REFRESH ANONYMIZED VIEW v")


def test_trap_18_both_ends_of_a_range_are_within_it() -> None:
    """Every record lies in its own range, also 10 and 20, at which other tools cut."""
    rows = release(
        "SELECT i AS a, i AS was FROM range(0, 41, 5) r(i)",
        "quasi_identifiers = (a), sensitive = (was), k = 3, recode = {a: 'range'}",
    )
    assert sorted(row["was"] for row in rows) == list(range(0, 41, 5))
    for row in rows:
        low, high = row["a"].values()
        assert low <= row["was"] <= high
    for group in classes(rows, ["a"]):
        values = [row["was"] for row in group]
        assert tuple(group[0]["a"].values()) == (min(values), max(values))


@pytest.mark.parametrize("method", ["mdav", "mdav1", "mdav2", "mdav_generic"])
@pytest.mark.parametrize("n", [7, 8, 9, 10, 11, 12])
def test_trap_19_ties_remainders_and_constant_columns_leave_no_record_outside(method: str, n: int) -> None:
    """k = 3 and any remainder; many equal records; one column without any spread."""
    points = np.column_stack([np.arange(n) // 4, np.zeros(n), np.arange(n) % 2])
    sizes = np.bincount(duckanon.partition(points, k=3, method=method))
    assert sizes.sum() == n
    assert sizes.min() >= 3
    assert sizes.max() <= 5


def test_trap_20_columns_one_by_one_are_not_the_columns_together() -> None:
    """Every value of a and of b is that of three records, every pair of one."""
    with duckanon.connect() as con:
        con.execute("CREATE TABLE p AS SELECT i // 3 AS a, i % 3 AS b FROM range(9) r(i)")
        found = {
            columns: duckanon.audit(
                con, "p", duckanon.AuditPolicy(quasi_identifiers=list(columns), k=3)
            ).passed
            for columns in (("a",), ("b",), ("a", "b"))
        }
        assert found == {("a",): True, ("b",): True, ("a", "b"): False}
        con.sql("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a, b), k = 3)")
        assert k_anonymity(records(con, "FROM v"), ["a", "b"]) >= 3


def test_trap_20_univariate_takes_one_column_only() -> None:
    with patients() as con, pytest.raises(DuckanonError, match="one"):
        con.sql(CREATE.replace(OPTIONS, OPTIONS + ", method = 'univariate'"))
    assert len(QI) == 2


@pytest.mark.parametrize(
    "attack", ["skewness", "similarity", "minimality", "downcoding", "intersect", "differencing"]
)
def test_trap_21_the_documents_name_the_attacks_that_remain(attack: str) -> None:
    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8").lower()
    section = text.partition("## what no audit here tells")[2]
    assert attack in section


def test_trap_21_the_readme_says_what_is_not_promised() -> None:
    threat = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Limits and threat model")[2]
    for words in ("intersected", "differential privacy", "Quasi-identifiers that you do not name"):
        assert words in threat
