"""alpha, delta and beta in AUDIT, on the command line and in its documents, by hand.

Class A holds flu twice, a cold and HIV, class B flu three times and a cold: p / q is 4/5, 1 and 2, or 6/5, 1 and 0.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf, log
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.audits.columns import share_options
from duckanon.audits.evidence import canonical, read_canonical
from duckanon.cli.main import main
from duckanon.errors import DuckanonWarning, PolicyError
from duckanon.policy.policy import AuditPolicy
from duckanon.testing import assert_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = (
    "FROM (VALUES ('A', 'flu'), ('A', 'flu'), ('A', 'cold'), ('A', 'HIV'), "
    "('B', 'flu'), ('B', 'flu'), ('B', 'flu'), ('B', 'cold')) AS v(zip, d)"
)
ROLES = "quasi_identifiers = zip, sensitive = d"


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.duckdb.execute(f"CREATE TABLE ward AS {ROWS}")
        yield connection


def test_a_statement_reports_the_worst_class_of_every_measure(con: duckanon.Connection) -> None:
    asked = "alpha = {d: {HIV: 0.2, flu: 0.75, hiv: 1}}, delta = 0.7, beta = 1, enhanced_beta = {d: 0.5}"
    with pytest.warns(DuckanonWarning, match="alpha names a value that no record has: d = hiv"):
        rows = con.sql(f"AUDIT TABLE ward WITH ({ROLES}, {asked})").fetchall()
    shares = [(row[0], row[1], row[2], row[3], row[5], row[7]) for row in rows[3:-3]]
    assert shares == [
        ("alpha_k_anonymity", "d = HIV", 0.2, 0.25, 1, False),
        ("alpha_k_anonymity", "d = flu", 0.75, 0.75, 0, True),
        ("alpha_k_anonymity", "d = hiv", 1.0, 0.0, 0, True),
        ("delta_disclosure", "d", 0.7, inf, 1, False),
        ("delta_disclosure_present", "d", None, pytest.approx(log(2)), None, None),
        ("beta_likeness", "d", 1.0, 1.0, 0, True),
        ("enhanced_beta_likeness", "d", 0.5, 1.0, 1, False),
    ]
    policy = AuditPolicy(
        quasi_identifiers="zip", sensitive="d", alpha={"d": {"hiv": 1, "HIV": 0.2}}, delta=0.7
    )
    report = duckanon.audit(con, "ward", policy)
    assert [(one.measure, one.attribute, one.class_values["zip"]) for one in report.violations] == [
        ("alpha_k_anonymity", "d = HIV", "A"), ("delta_disclosure", "d", "B"),
    ]  # fmt: skip
    assert report.warnings == ("alpha names a value that no record has: d = hiv",)


def test_a_table_without_these_thresholds_is_reported_as_before(con: duckanon.Connection) -> None:
    rows = con.sql(f"AUDIT TABLE ward WITH ({ROLES}, k = 2)").fetchall()
    assert [row[0] for row in rows] == [
        "k_anonymity", "distinct_l_diversity", "t_closeness", "average_class_size", "discernibility", "prosecutor_risk",
    ]  # fmt: skip


def test_evidence_has_the_thresholds_of_every_column() -> None:
    columns = [("zip", "VARCHAR"), ("d", "VARCHAR"), ("e", "INTEGER")]
    policy = AuditPolicy(
        quasi_identifiers="ZIP",
        sensitive=["e", "D"],
        alpha={"D": {"b": "0.50", "a=b": 1}},
        delta=2,
        beta={"e": 1},
    )
    text = canonical(policy, columns, {})
    assert 'alpha = {d = {"a=b" = 1, b = 0.5}}\ndelta = {d = 2, e = 2}\nbeta = {e = 1}\n' in text
    assert canonical(read_canonical(text), columns, {}) == text
    assert policy.override(alpha=0.5).alpha == Decimal("0.5")


def test_assert_private_judges_them(con: duckanon.Connection) -> None:
    given = {"quasi_identifiers": "zip", "sensitive": "d"}
    assert assert_private("ward", con=con, **given, beta=1).passed
    with pytest.raises(
        AssertionError, match="beta_likeness of d is 1 in the class of 4 records with zip = A"
    ):
        assert_private("ward", con=con, **given, beta=0.999999999999)
    with pytest.raises(PolicyError, match="nothing to judge: give k, l, t, alpha, delta or beta"):
        assert_private("ward", con=con, **given)


@pytest.mark.slow
def test_the_command_line_writes_every_document(
    con: duckanon.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ward.csv"
    con.duckdb.execute(f"COPY ward TO '{file}'")
    call = ["audit", str(file), "--qi", "zip", "--sensitive", "d", "--alpha", "d.HIV=0.25", "--delta", "0.7"]
    said = {}
    for form in ("text", "json", "junit", "sarif", "html"):
        with pytest.raises(SystemExit) as ended:
            main([*call, "--format", form, "-o", str(tmp_path / form)])
        assert ended.value.code == 1
        said[form] = (tmp_path / form).read_text(encoding="utf-8")
    assert "ward.csv: VIOLATED: delta_disclosure of d" in capsys.readouterr().out
    assert '"value": "inf"' in said["json"]
    assert 'name="alpha_k_anonymity of d = HIV"' in said["junit"]
    assert (
        "delta_disclosure of d is inf, the policy asks for 0.7: violated by 1 of 2 classes" in said["junit"]
    )
    assert "sql/audit/verdict_delta_disclosure.sql" in said["sarif"]
    for words in (
        "asked for: delta below 0.7",
        "asked for: alpha at most 0.25",
        "alpha of HIV ≤ 0.25; delta &lt; 0.7",
    ):
        assert words in said["html"]
    # The page says what to type into the stock command line.
    assert "alpha := {&#39;d&#39;: MAP {&#39;HIV&#39;: 0.25}}" in said["html"]


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"dx": "0.2"}, "beta is recorded for 'dx', which is no sensitive column"),
        ({None: "0.2"}, "beta is recorded for None, which is no sensitive column"),
        ({"d = HIV": "0.2", "d": "0.9"}, "beta of 'd' is recorded twice"),
        ({"d": "0.9", "d = HIV": "0.2"}, "beta of 'd' is recorded twice"),
    ],
)
def test_a_forged_record_of_a_threshold_is_told(labels: dict[str, str], told: str) -> None:
    """A file's own table of thresholds may say anything; no threshold of it may vanish behind another."""
    thresholds = {"beta_likeness": {label: Decimal(value) for label, value in labels.items()}}
    with pytest.raises(PolicyError, match=told):
        share_options(thresholds, ["d"])


def test_two_columns_that_a_report_could_not_tell_apart_are_refused(con: duckanon.Connection) -> None:
    """`dx = HIV` is a column, and the label of the value HIV of `dx`; HIV and hiv are two values."""
    con.execute(
        "CREATE TABLE two AS SELECT i // 2 AS age, 'HIV' AS dx, 'x' AS \"dx = HIV\" FROM range(8) AS r(i)"
    )
    asked = 'quasi_identifiers = (age), sensitive = (dx, "dx = HIV"), k = 2'
    with pytest.raises(PolicyError, match="reported as 'dx = HIV', and so is another"):
        con.execute(f"AUDIT TABLE two WITH ({asked}, alpha = {{dx: {{HIV: 0.5}}}})")
    with pytest.warns(DuckanonWarning, match="no record has: dx = hiv"):
        con.execute(f"AUDIT TABLE two WITH ({asked}, alpha = {{dx: {{hiv: 0.5}}}})")
