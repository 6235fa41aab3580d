"""The audit of a candidate reads its columns and nothing else: whatever the partition meant, what fails stays hidden.

The tables are tampered with after recoding, as a fault of the kernels would: by hand, so that the expected
verdicts follow from counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.database import engine
from duckanon.errors import AuditFailure, InfeasibleError
from duckanon.release import pipeline
from duckanon.release.stages.audit import audit
from duckanon.release.stages.embed import embed
from duckanon.release.stages.limit import limit
from duckanon.release.stages.recode import recode
from duckanon.release.stages.stage import stage

if TYPE_CHECKING:
    import duckdb

QUERY = "SELECT i AS a, i % 2 AS s, (i // 2) % 2 AS u FROM range(8) AS r(i)"
"""Four neighbours are one class, with both values of s and of u twice: EMD 0, two values each."""

POLICY = {"quasi_identifiers": "a", "sensitive": ["s", "u"], "k": 4}


def outcome(con: duckdb.DuckDBPyConnection, tampering: str, **options: object) -> duckanon.Report:
    """Recode, tamper with the released table `{table}`, audit."""
    policy = duckanon.Policy(**{**POLICY, **options})  # type: ignore[arg-type]  # the options of a test
    with engine.temporary(con) as workspace:
        staged = stage(con, QUERY, policy, workspace)
        embedded = embed(con, staged, policy)
        limits = limit(con, staged, embedded, policy)
        way = pipeline.least_loss(con, staged, embedded, limits, policy)
        recoded = recode(con, staged, embedded, way.classes, way.plan.levels, policy)
        con.execute(tampering.format(table=recoded.table))
        return audit(con, staged, embedded, recoded, way.plan, policy)


def test_what_nobody_touched_passes(fresh_db: duckdb.DuckDBPyConnection) -> None:
    report = outcome(fresh_db, "SELECT 1", t="0.1", l=2)
    assert report.passed
    assert {(m.measure, m.attribute, m.value) for m in report.measures if m.passed} == {
        ("k_anonymity", None, 4), ("distinct_l_diversity", "s", 2), ("distinct_l_diversity", "u", 2),
        ("t_closeness", "s", 0), ("t_closeness", "u", 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tampering", "words"),
    [
        # One record in a class of its own, three in the other.
        ("UPDATE {table} SET a = 99 WHERE rowid = 0", "k_anonymity is 1 where the policy asks for 4"),
        # One class has one value of the first, or of the second sensitive column.
        ("UPDATE {table} SET s = 0 WHERE a < 3", "distinct_l_diversity of 's' is 1 where the policy asks for 2"),
        ("UPDATE {table} SET u = 0 WHERE a < 3", "distinct_l_diversity of 'u' is 1 where the policy asks for 2"),
    ],
)  # fmt: skip
def test_what_fails_is_not_released(fresh_db: duckdb.DuckDBPyConnection, tampering: str, words: str) -> None:
    with pytest.raises(AuditFailure, match="nothing was released: " + words) as failed:
        outcome(fresh_db, tampering, l=2)
    assert failed.value.report is not None
    assert not failed.value.report.passed


def test_each_sensitive_column_has_its_t(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """With u = 0 in one class of four: 6 zeros and 2 ones in all, so EMD is 1/4 there and in the other class."""
    tampering = "UPDATE {table} SET u = 0 WHERE a < 3"
    assert outcome(fresh_db, tampering, t="0.25").passed
    with pytest.raises(AuditFailure, match=r"t_closeness of 'u' is 0\.25 where the policy asks for 0\.2$"):
        outcome(fresh_db, tampering, t="0.2")


def test_a_method_without_repair_says_so(fresh_db: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(
        InfeasibleError, match="'tcloseness_first' has no repair and misses a threshold: t_clos"
    ):
        outcome(fresh_db, "UPDATE {table} SET u = 0 WHERE a < 3", t="0.2", method="tcloseness_first")
