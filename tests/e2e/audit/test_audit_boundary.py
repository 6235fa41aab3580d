"""A class at exactly t passes and one step of 10^-12 above fails, by every distance and every way to ask.

Source, by hand: classes {a, a, a, b} and {a, b, b, b} of eight records with one half each are |3/4 - 1/2| = 1/4
away, both by the equal distance and, a and b being the only values, by the ordered one. In a tree where they meet
at the root it is 1/4 too; where they meet halfway up, one half of that: 1/8 (Li et al. 2007, section 5).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from tests.e2e.scenes import command

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
CREATE TABLE quarter AS
SELECT i // 4 AS qi, CASE WHEN i < 3 OR i = 4 THEN 'a' ELSE 'b' END AS s FROM range(8) AS r(i);
CREATE TABLE far AS FROM (VALUES ('a', 'left', 'all'), ('b', 'right', 'all')) AS path(leaf, side, root);
CREATE TABLE near AS
FROM (VALUES ('a', 'left', 'all'), ('b', 'left', 'all'), ('c', 'right', 'all')) AS path(leaf, side, root);
"""
STEP = Decimal("0.000000000001")
CASES = [
    ("equal", None, Decimal("0.25")),
    ("ordered", None, Decimal("0.25")),
    ("hierarchical", "far", Decimal("0.25")),
    ("hierarchical", "near", Decimal("0.125")),
]
each_case = pytest.mark.parametrize(("distance", "tree", "t"), CASES)
each_side = pytest.mark.parametrize("kept", [True, False], ids=["at t", "one step above"])


@each_case
@each_side
def test_in_python(distance: str, tree: str | None, t: Decimal, kept: bool) -> None:
    with duckanon.connect() as con:
        con.duckdb.execute(TABLES)
        policy = duckanon.AuditPolicy(
            quasi_identifiers=["qi"],
            sensitive=["s"],
            t=t if kept else t - STEP,
            distance={"s": distance},  # type: ignore[dict-item]
            hierarchies=None if tree is None else {"s": tree},
        )
        report = duckanon.audit(con, "quarter", policy)
    (row,) = [measure for measure in report.measures if measure.measure == "t_closeness"]
    assert (row.value, row.passed, row.violations, row.records) == (
        float(t), kept, 0 if kept else 2, 0 if kept else 8,
    )  # fmt: skip


@each_case
@each_side
def test_in_sql(distance: str, tree: str | None, t: Decimal, kept: bool) -> None:
    trees = "" if tree is None else f", hierarchies = {{s: '{tree}'}}"
    with duckanon.connect() as con:
        con.duckdb.execute(TABLES)
        options = f"quasi_identifiers = (qi), sensitive = (s), t = {t if kept else t - STEP}"
        (outcome,) = con.run_script(
            f"AUDIT TABLE quarter WITH ({options}, distance = {{s: '{distance}'}}{trees})"
        )
    assert outcome.report is not None
    assert outcome.report.passed is kept


@each_side
def test_on_the_command_line(tmp_path: Path, kept: bool) -> None:
    database = tmp_path / "quarter.duckdb"
    with duckdb.connect(str(database)) as con:
        con.execute(TABLES)
        con.execute(f"COPY near TO '{tmp_path / 'near.csv'}'")
    t = Decimal("0.125") if kept else Decimal("0.125") - STEP
    flags = ("--distance", "s=hierarchical", "--hierarchies", f"s={tmp_path / 'near.csv'}", "-t", str(t))
    done = command("audit", f"{database}:quarter", "--qi", "qi", "--sensitive", "s", *flags)
    assert done.returncode == (0 if kept else 1), done.stderr
