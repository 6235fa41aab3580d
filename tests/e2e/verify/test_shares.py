"""alpha, delta and beta in the record of a release: exported, checked, verified and judged without Python."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.database import templates
from duckanon.errors import DuckanonWarning
from duckanon.policy.names import ByColumn
from duckanon.release.verify.record import read_releases
from tests.e2e.evidence_scene import copied, verified
from tests.e2e.scenes import stock_script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ASKED = (
    "alpha = {d: {'it''s': 0.6, flu: 0.5}, \"d = e\": 0.9}, delta = {d: 1.5}, beta = {d: 3}, "
    'enhanced_beta = {"d = e": 3}'
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose second sensitive column has a name that looks like a value of the first."""
    file = tmp_path_factory.mktemp("shares") / "release.duckdb"
    with duckanon.connect() as con, warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        con.duckdb.execute(
            "CREATE TABLE t AS SELECT i % 40 AS age, ['flu', 'it''s', NULL][1 + i % 3] AS d, i % 2 AS \"d = e\" "
            "FROM range(240) AS r(i)"
        )
        con.sql(
            'CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = age, sensitive = (d, "d = e"), k = 5, '
            f"{ASKED})"
        )
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    return file


def test_every_threshold_is_recorded_and_read_back(exported: Path) -> None:
    with duckdb.connect(str(exported), read_only=True) as con:
        (release,) = read_releases(con, "release")
        recorded = con.execute("FROM duckanon.check").fetchall()
    asked = release.asked()
    assert isinstance(asked.alpha, ByColumn)
    assert dict(asked.alpha) == {
        "d": {"it's": Decimal("0.6"), "flu": Decimal("0.5")},
        "d = e": Decimal("0.9"),
    }
    assert [(row[1], row[2], float(row[3]), row[5]) for row in recorded] == [
        ("k_anonymity", None, 5, True), ("alpha_k_anonymity", "d = flu", 0.5, True), ("alpha_k_anonymity", "d = it's", 0.6, True),
        ("delta_disclosure", "d", 1.5, True), ("beta_likeness", "d", 3, True), ("alpha_k_anonymity", "d = e", 0.9, True),
        ("enhanced_beta_likeness", "d = e", 3, True),
    ]  # fmt: skip


def test_verify_and_the_gate_judge_them(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified(exported, capsys)[0] == 0
    gate = templates.folder() / "gate.sql"
    kept = stock_script(exported, f".read {gate}\n")
    assert kept.returncode == 0, kept.stderr
    for part in (
        "alpha_k_anonymity of d = flu",
        "alpha_k_anonymity of d = e ",
        "enhanced_beta_likeness of d = e",
    ):
        assert part in kept.stdout
    broken = copied(
        exported, tmp_path, "UPDATE duckanon.thresholds SET threshold = 0.1 WHERE attribute = 'd = flu'"
    )
    assert verified(broken, capsys)[0] == 1
    refused = stock_script(broken, f".read {gate}\n")
    assert refused.returncode == 1
    assert "violates alpha_k_anonymity of d = flu" in refused.stderr
