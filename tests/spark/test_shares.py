"""alpha, delta and beta on Spark, in one part, in several, and in steps: as DuckDB finds them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.audits.run import audit_relation
from duckanon.policy.policy import AuditPolicy

if TYPE_CHECKING:
    from tests.spark.running import Running

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {
    "quasi_identifiers": ["a"], "sensitive": ["s2", "s1"], "k": 2,
    "alpha": {"s2": {"it's \\ one": 0.3, "none": 0.5}, "s1": 0.6},
    "delta": 0.3, "beta": {"s2": 0.2}, "enhanced_beta": 0.2,
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"part": 20}, {"steps": True}], ids=["whole", "parts", "steps"])
def test_the_report_is_that_of_duckdb(running: Running, more: dict[str, Any]) -> None:
    draw = random.Random(7)
    classes = [draw.randrange(6) for _ in range(90)]
    columns = {
        "a": classes,
        "s2": [draw.choice(["it's \\ one", "x", None]) for _ in classes],
        "s1": [draw.randrange(2) for _ in classes],
    }
    table = pa.table(columns)
    answer = running.audit(table, ASKED, **more)
    assert "error" not in answer, answer
    with duckdb.connect() as con:
        con.register("t", table)
        wanted = audit_relation(con, "t", AuditPolicy(**ASKED), name="t")
    assert [row[:2] for row in answer["report"]] == [list(one.row()[:2]) for one in wanted.measures]
    for found, one in zip(answer["report"], wanted.measures, strict=True):
        assert found[3] == pytest.approx(one.value, abs=1e-12), found
        assert found[4:7] == list(one.row()[4:7]), found
        assert str(found[7]) == str(one.passed), found
    judged = {row[0] for row in answer["report"] if row[6]}
    assert {"alpha_k_anonymity", "delta_disclosure", "beta_likeness", "enhanced_beta_likeness"} <= judged
