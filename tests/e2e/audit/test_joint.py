"""Joint t-closeness through AUDIT TABLE and the command line, judged by the definition as a linear program."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import duckanon
from duckanon import AuditPolicy, PolicyError, SourceError
from duckanon.audits import joint
from duckanon.audits.certificate import Certificate
from duckanon.audits.run import audit_attributes
from duckanon.cli.main import main
from duckanon.kernels.closeness.joint import distances, joint_distance
from duckanon.policy.bind import bind_audit
from tests.examples import examples
from tests.kernels.test_joint import by_program

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    ("1", 20, "flu"),
    ("1", 20, "cold"),
    ("2", 30, "flu"),
    ("2", 30, "cold"),
    ("3", 40, "flu"),
    ("3", 40, "cold"),
]
"""Three ages and two diseases, one record each, a class of each age: EMD 1/2, 1/3, 1/2 by hand, see tests/sql."""


@pytest.fixture
def con() -> duckanon.Connection:
    connection = duckanon.connect()
    connection.execute("CREATE TABLE visits (zip VARCHAR, age INTEGER, diagnosis VARCHAR)")
    connection.execute(f"INSERT INTO visits VALUES {', '.join(str(row) for row in ROWS)}")
    return connection


def line(con: duckanon.Connection, t: str, more: str = "") -> tuple[Any, ...]:
    """Row of the measure by AUDIT TABLE."""
    rows = con.execute(
        f"AUDIT TABLE visits WITH (quasi_identifiers = zip, sensitive = (age, diagnosis), k = 2, t = {t}{more})"
    ).fetchall()
    (row,) = [row for row in rows if row[0] == "joint_t_closeness"]
    return row


def by_definition(rows: list[tuple[Any, ...]], *, ordered: list[bool], largest: bool) -> dict[Any, Fraction]:
    """EMD of each class: places from sorted values with NULL last, and the linear program of the definition."""
    values = sorted({row[1:] for row in rows}, key=repr)
    places = []
    for column in range(len(ordered)):
        known = sorted(
            {v[column] for v in values}, key=lambda one: (one is None, one if one is not None else 0)
        )
        places.append([known.index(v[column]) for v in values])
    distance = joint_distance(places, ordered, largest=largest)
    every = np.arange(len(values))
    costs = distances(distance, every, every)
    table = Counter(row[1:] for row in rows)
    emd = {}
    for group in {row[0] for row in rows}:
        own = Counter(row[1:] for row in rows if row[0] == group)
        n, s = len(rows), sum(own.values())
        supply = np.array([n * own[v] for v in values])
        demand = np.array([s * table[v] for v in values])
        emd[group] = Fraction(by_program(costs, supply, demand), n * s * distance.denominator)
    return emd


def test_the_statement_gives_the_emd_by_hand(con: duckanon.Connection) -> None:
    at = line(con, "{(age, diagnosis): 0.5}")
    assert at == ("joint_t_closeness", "age, diagnosis", 0.5, 0.5, 3, 0, 0, True)
    below = line(con, "{(age, diagnosis): 0.499999999999}")
    assert below[3:] == (0.5, 3, 2, 4, False)
    mean = line(con, "{(age, diagnosis): 0.25, age: 0.5}", ", joint_distance = 'sum'")
    assert mean[3:] == (0.25, 3, 0, 0, True)


def test_random_tables_by_the_definition() -> None:
    rng = np.random.default_rng(17)
    con = duckanon.connect()
    for _ in range(examples(60)):
        rows = [
            (
                int(rng.integers(0, 4)),
                None if rng.random() < 0.1 else int(rng.integers(0, 6)) * 7,
                ["a", "b", "C", "ä"][rng.integers(0, 4)],
            )
            for _ in range(rng.integers(2, 40))
        ]
        con.execute("CREATE OR REPLACE TABLE visits (zip INTEGER, age INTEGER, diagnosis VARCHAR)")
        values = ", ".join("(?, ?, ?)" for _ in rows)
        con.execute(f"INSERT INTO visits VALUES {values}", [cell for row in rows for cell in row])
        largest = bool(rng.integers(0, 2))
        emd = by_definition(rows, ordered=[True, False], largest=largest)
        t = sorted(emd.values())[len(emd) // 2] or Fraction(1, 10)
        policy = AuditPolicy(
            quasi_identifiers="zip",
            sensitive=["age", "diagnosis"],
            t={("diagnosis", "age"): str(float(t))},
            joint_distance="maximum" if largest else "sum",
        )
        report = duckanon.audit(con, "visits", policy)
        (found,) = [one for one in report.measures if one.measure == "joint_t_closeness"]
        assert policy.joint_t is not None
        limit = Fraction(policy.joint_t["age", "diagnosis"])
        assert found.value == float(max(emd.values()))
        assert found.violations == sum(one > limit for one in emd.values())
        named = {
            None if one.class_values["zip"] is None else int(one.class_values["zip"]): one.value
            for one in report.violations
        }
        assert named == {group: float(one) for group, one in emd.items() if one > limit}


def test_a_report_carries_the_certificate_as_evidence(con: duckanon.Connection) -> None:
    policy = AuditPolicy(
        quasi_identifiers="zip", sensitive=["age", "diagnosis"], t={("age", "diagnosis"): 0.4}
    )
    report = duckanon.audit(con, "visits", policy)
    (certificate,) = report.certificates
    assert certificate.denominator == 2
    # The classes above t have potentials, and prove by them that they are.
    assert set(certificate.potentials["class"].to_pylist()) == {1, 3}
    assert "certificates" not in json.loads(report.to_json())


def test_a_wrong_certificate_violates(con: duckanon.Connection) -> None:
    policy = AuditPolicy(quasi_identifiers="zip", sensitive=["age", "diagnosis"], t={("age", "diagnosis"): 1})
    columns = [("zip", "VARCHAR"), ("age", "INTEGER"), ("diagnosis", "VARCHAR")]
    (good,) = duckanon.audit(con, "visits", policy).certificates
    bad = Certificate(good.name, good.denominator, good.flows.slice(1), good.potentials)
    for certificate, passed in ((good, True), (bad, False)):
        report = audit_attributes(
            con.duckdb, "visits", bind_audit(policy, columns), policy, {}, name="visits",
            certificates={certificate.name: certificate},
        )  # fmt: skip
        assert report.passed is passed


def test_the_command_line_asks_for_several_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("zip,age,diagnosis\n" + "".join(f"{','.join(map(str, row))}\n" for row in ROWS))
    command = ["audit", str(file), "--qi", "zip", "--sensitive", "age,diagnosis", "-t"]
    for t, code in (("(age,diagnosis)=0.5", 0), ("age=0.6,(diagnosis, age)=0.4", 1)):
        with pytest.raises(SystemExit) as left:
            main([*command, t])
        assert left.value.code == code
        assert "joint_t_closeness" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("t", "told"),
    [
        ({("age", "zip"): 0.3}, "not in sensitive"),
        ({("age", "age"): 0.3}, "twice"),
        ({("age", "diagnosis"): 0.3, ("diagnosis", "age"): 0.3}, "twice"),
        ({("age", "diagnosis"): 1.5}, "at most 1"),
        ({"(age, ": 0.3}, "not in sensitive"),
    ],
)
def test_wrong_thresholds_are_refused(t: Any, told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        AuditPolicy(quasi_identifiers="zip", sensitive=["age", "diagnosis"], t=t)


def test_a_hierarchical_column_is_refused() -> None:
    with pytest.raises(PolicyError, match="'hierarchical'"):
        AuditPolicy(
            quasi_identifiers="zip", sensitive=["age", "diagnosis"], t={("age", "diagnosis"): 0.3},
            distance={"diagnosis": "hierarchical"}, hierarchies={"diagnosis": "icd"},
        )  # fmt: skip


def test_too_many_joint_values_are_refused(con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "JOINT_VALUES_MAX", 5)
    with pytest.raises(SourceError, match="6 joint values"):
        line(con, "{(age, diagnosis): 0.5}")


def test_another_t_replaces_that_of_several_columns() -> None:
    policy = AuditPolicy(
        quasi_identifiers="zip",
        sensitive=["age", "diagnosis"],
        t={("age", "diagnosis"): 0.3},
        joint_distance="sum",
    )
    assert policy.override(k=3).joint_t == policy.joint_t
    assert policy.override(t=0.2).joint_t is None
    assert policy.override(t={("age", "diagnosis"): 0.1}).joint_distance == "sum"
