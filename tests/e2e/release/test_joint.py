"""Releases under t of several sensitive columns together: the definition finds no violation."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon import Policy, PolicyError
from duckanon.kernels.closeness.joint import joint_distance
from duckanon.kernels.closeness.reference import class_histograms
from duckanon.kernels.merge_joint import JointLimit, merge_together, violation
from duckanon.release.folders import not_yet
from duckanon.release.verify.verify import verify
from duckanon.streams.policy import stream_options
from tests.e2e.audit.test_joint import by_definition
from tests.examples import examples, slowly
from tests.sql.gates import runs
from tests.sql.stock import stock_command

OPTIONS = "quasi_identifiers = (age), sensitive = (pay, ward), k = 3, t = {(pay, ward): 0.3}"


def staff(rng: np.random.Generator, records: int) -> list[tuple[Any, ...]]:
    """Rows age, pay, ward; both sensitive columns follow the age."""
    rows = []
    for _ in range(records):
        age = int(rng.integers(20, 60))
        pay = None if rng.random() < 0.05 else age // 10 + int(rng.integers(0, 3))
        rows.append((age, pay, "ABC"[(age // 15 + int(rng.integers(0, 2))) % 3]))
    return rows


def opened(rows: list[tuple[Any, ...]], file: Path | None = None) -> duckanon.Connection:
    con = duckanon.connect() if file is None else duckanon.connect(str(file))
    con.execute("CREATE TABLE staff (age INTEGER, pay INTEGER, ward VARCHAR)")
    values = ", ".join("(?, ?, ?)" for _ in rows)
    con.execute(f"INSERT INTO staff VALUES {values}", [cell for row in rows for cell in row])
    return con


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", slowly(range(6), one_of=3))
@pytest.mark.parametrize("release", ["table", "swap"])
def test_no_class_of_a_release_violates(seed: int, release: str) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(examples(12, few=1)):
        con = opened(staff(rng, int(rng.integers(12, 120))))
        largest = bool(rng.integers(0, 2))
        t = Fraction(int(rng.integers(1, 10)), 20)
        suppressed = 0.1 if rng.random() < 0.3 else 0
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM staff WITH (quasi_identifiers = (age), sensitive = (pay, ward), k = 3, "
            f"t = {{(pay, ward): {float(t)}, ward: 0.9}}, joint_distance = '{'maximum' if largest else 'sum'}', "
            f"release = '{release}', suppression_limit = {suppressed})"
        )
        name = "class_id" if release == "swap" else "age"
        rows = con.execute(f"SELECT {name}, pay, ward FROM v").fetchall()
        emd = by_definition(rows, ordered=[True, False], largest=largest)
        assert max(emd.values()) <= t


def test_merging_ends_and_never_adds_violation() -> None:
    rng = np.random.default_rng(2)
    for _ in range(examples(30)):
        places = np.unravel_index(np.arange(12), (4, 3))
        distance = joint_distance(places, [True, False], largest=True)
        members = rng.integers(0, 3, (8, 12))
        members[:, 0] += 1
        counts, t = members.sum(axis=0), Fraction(int(rng.integers(0, 30)), 100)
        codes, records = np.repeat([range(12)] * 8, members.ravel()), members.sum(axis=1)
        held = class_histograms(codes, np.append(0, np.cumsum(records)))
        limit = JointLimit(distance, t, counts, held)
        own = [violation(limit, one) for one in members]
        assert violation(limit, members[0] + members[1]) <= own[0] + own[1]
        points = rng.normal(size=(8, 2)) * members.sum(axis=1)[:, None]
        merged = merge_together(points, members.sum(axis=1), [limit])
        for one in range(merged.max() + 1):
            assert violation(limit, members[merged == one].sum(axis=0)) == 0
        if not any(own):
            assert merged.tolist() == list(range(8))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_release_is_verified_wherever_it_lies(tmp_path: Path) -> None:
    con = opened(staff(np.random.default_rng(4), 60), tmp_path / "staff.duckdb")
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM staff WITH ({OPTIONS}, joint_distance = 'sum')")
    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
    con.execute("AUDIT VIEW v WITH (t = {(ward, pay): 0.2})")
    con.execute("AUDIT VIEW v WITH (t = 0.9)")
    con.close()
    for file in ("staff.duckdb", "v.duckdb"):
        with duckanon.connect(str(tmp_path / file), read_only=True) as again:
            found = verify(again.duckdb)
        assert found.differences == ()
        (release,) = found.releases
        assert release.differences == ()
        assert release.report is not None
        (joint,) = [one for one in release.report.measures if one.measure == "joint_t_closeness"]
        assert (joint.attribute, joint.threshold, joint.passed) == ("pay, ward", 0.3, True)


FORGERIES = {
    "less mass": "UPDATE duckanon.proof_1_1 SET amount = amount - 1 WHERE part = 'flow'",
    "no flow": "DELETE FROM duckanon.proof_1_1 WHERE part = 'flow'",
    "a steeper potential": "UPDATE duckanon.proof_1_1 SET amount = 2 * amount + 1 WHERE part = 'potential' AND from_value = 1",
    "a smaller denominator": "UPDATE duckanon.proof_1_1 SET amount = 1 WHERE part = 'denominator'",
    "two denominators": "INSERT INTO duckanon.proof_1_1 VALUES ('denominator', NULL, NULL, NULL, 12)",
    "swapped classes": "UPDATE duckanon.proof_1_1 SET class = CASE class WHEN 1 THEN 2 ELSE 1 END WHERE class < 3",
    "other rows": "UPDATE v SET ward = 'A' WHERE ward = 'B'",
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exported") / "v.duckdb"
    con = opened(staff(np.random.default_rng(4), 60))
    with warnings.catch_warnings(action="ignore"):
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM staff WITH ({OPTIONS})")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    return file


def checked(file: Path) -> dict[str, bool]:
    """Verdicts of the view of an exported file, by DuckDB alone."""
    with duckdb.connect(str(file), read_only=True) as con:
        return dict(con.execute("SELECT measure, passed FROM duckanon.check").fetchall())


def test_an_exported_file_proves_its_audit_by_sql_alone(exported: Path) -> None:
    assert checked(exported) == {"k_anonymity": True, "joint_t_closeness": True}
    with duckdb.connect(str(exported), read_only=True) as con:
        parts = con.execute("SELECT part, count(*) > 0 FROM duckanon.proof_1_1 GROUP BY part").fetchall()
    assert sorted(parts) == [("denominator", True), ("flow", True), ("potential", True)]


def test_the_stock_command_line_reads_the_proof(exported: Path) -> None:
    query = "SELECT measure, passed FROM duckanon.check WHERE column_name = 'pay, ward'"
    done = subprocess.run(
        [str(stock_command()), "-readonly", "-csv", "-noheader", str(exported), "-c", query],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "joint_t_closeness,true\n"


def test_the_gate_refuses_what_it_does_not_audit(exported: Path) -> None:
    with (
        duckdb.connect(str(exported), read_only=True) as con,
        pytest.raises(duckdb.Error, match="gate: the release has t of several columns"),
    ):
        runs(con, {})


@pytest.mark.parametrize("forgery", slowly(FORGERIES, one_of=4))
def test_a_forged_file_is_refused_by_its_check_and_by_verify(
    exported: Path, tmp_path: Path, forgery: str
) -> None:
    file = Path(shutil.copy(exported, tmp_path / "v.duckdb"))
    with duckdb.connect(str(file)) as con:
        con.execute(FORGERIES[forgery])
    assert checked(file)["joint_t_closeness"] is False
    with duckanon.connect(str(file), read_only=True) as again:
        found = verify(again.duckdb)
    (release,) = found.releases
    assert any("joint_t_closeness" in told for told in release.differences)


@pytest.mark.parametrize(
    "hidden",
    [
        "INSERT INTO duckanon.proof_1_1 VALUES ('secret', 1, 1, 2, 3)",
        "INSERT INTO duckanon.proof_1_1 VALUES ('flow', 999, 1, 2, 1987)",
        "INSERT INTO duckanon.proof_1_1 VALUES ('flow', 1, 1, 1, 1987)",
        (
            "ALTER TABLE duckanon.proof_1_1 RENAME TO x;"
            "CREATE TABLE duckanon.proof_1_1 AS SELECT *, 'Bob' AS name FROM duckanon.x; DROP TABLE duckanon.x"
        ),
    ],
)
def test_a_certificate_hides_nothing(exported: Path, tmp_path: Path, hidden: str) -> None:
    """What no proof needs changes no verdict, so verify has to tell it."""
    file = Path(shutil.copy(exported, tmp_path / "v.duckdb"))
    with duckdb.connect(str(file)) as con:
        con.execute(hidden)
    assert checked(file)["joint_t_closeness"] is True
    with duckanon.connect(str(file), read_only=True) as again:
        (release,) = verify(again.duckdb).releases
    assert any("a release does not store" in told for told in release.differences)


def test_a_file_without_its_certificate_cannot_be_audited(exported: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(exported, tmp_path / "v.duckdb"))
    with duckdb.connect(str(file)) as con:
        con.execute('DROP VIEW duckanon."check"; DROP TABLE duckanon.proof_1_1')
    with duckanon.connect(str(file), read_only=True) as again:
        (release,) = verify(again.duckdb).releases
    assert any("proof_1_1" in told for told in release.differences)


@pytest.mark.filterwarnings("ignore")
def test_a_dropped_or_replaced_release_leaves_no_certificate() -> None:
    con = opened(staff(np.random.default_rng(4), 40))
    query = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'proof%'"
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM staff WITH ({OPTIONS})")
    assert con.execute(query).fetchall() == [("proof_1_1",)]
    con.execute("REFRESH ANONYMIZED VIEW v")
    assert con.execute(query).fetchall() == [("proof_2_1",)]
    con.execute("DROP ANONYMIZED VIEW v")
    assert con.execute(query).fetchall() == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"method": "full_domain", "hierarchies": {"age": "tree"}}, "same levels"),
        ({"release": "anatomy"}, "anatomy"),
    ],
)
def test_combinations_that_are_not_built_are_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        Policy(quasi_identifiers="age", sensitive=["pay", "ward"], k=3, t={("pay", "ward"): 0.3}, **more)


def test_spark_and_streams_refuse_t_of_several_columns() -> None:
    policy = Policy(quasi_identifiers="age", sensitive=["pay", "ward"], k=3, t={("pay", "ward"): 0.3})
    assert not_yet(policy) == ["t of several columns"]
    for t in ({"t": {("pay", "ward"): 0.3}}, {"t": {"(pay, ward)": 0.3}}, {"joint_t": {"(pay, ward)": 0.3}}):
        with pytest.raises(PolicyError, match="not yet for streams"):
            stream_options({"quasi_identifiers": "age", "sensitive": ["pay", "ward"], **t})


@pytest.mark.filterwarnings("ignore")
def test_statements_that_are_not_built_are_refused() -> None:
    con = opened(staff(np.random.default_rng(4), 40))
    with pytest.raises(PolicyError, match="FRONTIER"):
        con.execute(f"EXPLAIN CREATE ANONYMIZED VIEW v AS FROM staff WITH ({OPTIONS}) FRONTIER")
    plan = con.execute(f"EXPLAIN CREATE ANONYMIZED VIEW v AS FROM staff WITH ({OPTIONS})").fetchall()
    assert ("distance", "pay, ward", "maximum", "t = 0.3") in plan
    con.execute("CREATE TABLE visits AS SELECT *, row_number() OVER () AS id FROM staff")
    con.execute(f"CREATE ANONYMIZED VIEW w AS FROM visits WITH ({OPTIONS}, subject = (id))")
    with pytest.raises(PolicyError, match="append"):
        con.execute("REFRESH ANONYMIZED VIEW w WITH (mode = 'append')")
