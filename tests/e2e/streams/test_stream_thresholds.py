"""Entropy and recursive l, alpha, and t in a hierarchy: by the command and by a connection, with their evidence."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.errors import PolicyError
from tests.e2e.scenes import command
from tests.oracle import counts, reaches_l

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

VISITS = """CREATE TABLE visits AS SELECT (i * 37 % 71)::INTEGER AS age,
    ['flu', 'cold', 'acne', 'rash', 'hiv'][1 + i * i % 5] AS ill
FROM range(400) AS r(i)"""
TREE = """CREATE TABLE tree AS FROM (VALUES ('flu', 'lung', 'any'), ('cold', 'lung', 'any'), ('acne', 'skin', 'any'),
    ('rash', 'skin', 'any'), ('hiv', 'blood', 'any')) AS v(ill, organ, root)"""
"""i * i modulo 5 is 0, 1 or 4, so flu has 1/5 of the tuples, and cold and hiv have 2/5 each."""


def classes(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Tuples by class."""
    found = defaultdict(list)
    for row in rows:
        found[row["class_id"]].append(row)
    return list(found.values())


def test_a_connection_streams_with_every_threshold() -> None:
    """The oracle judges l and alpha of each class of the table; so does the audit in the report."""
    with duckanon.connect() as con:
        con.execute(VISITS)
        con.execute(TREE)
        report = con.stream(
            "FROM visits", "released", quasi_identifiers="age", k=3, delay=60, sensitive="ill", l=2,
            l_diversity="recursive", c="1.6", t="0.4", alpha={"ill": {"hiv": "0.5"}}, class_id=True,
            distance={"ill": "hierarchical"}, hierarchies={"ill": "tree"},
        )  # fmt: skip
        rows = con.duckdb.sql("FROM released").to_arrow_table().to_pylist()
    assert report.written == len(rows) > 350
    assert Counter(row["ill"] for row in rows) <= Counter({"flu": 80, "cold": 160, "hiv": 160})
    for members in classes(rows):
        held = counts(members, "ill")
        assert reaches_l(held, Fraction(2), "recursive", Fraction(8, 5))
        assert 2 * sum(row["ill"] == "hiv" for row in members) <= len(members)
    assert report.closeness is not None
    told = report.closeness["columns"]["ill"]
    assert (told["distance"], told["l_diversity"], told["c"], told["alpha"]) == (
        "hierarchical", "recursive", 1.6, {"hiv": 0.5},
    )  # fmt: skip
    assert 0 < told["largest_emd"] <= 0.4
    assert 0 < told["largest_share"] <= 0.5
    assert report.audit is not None
    measures = {measure.measure: measure for measure in report.audit.measures}
    assert measures["recursive_l_diversity"].passed
    assert measures["alpha_k_anonymity"].passed
    assert measures["t_closeness"].passed is None


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_command_streams_with_every_threshold(tmp_path: Path, ending: str) -> None:
    with duckanon.connect() as con:
        con.execute(VISITS)
        con.execute(TREE)
        for name in ("visits", "tree"):
            con.execute(f"COPY {name} TO '{tmp_path / name}.csv'")
    run = command(
        "stream", tmp_path / "visits.csv", tmp_path / f"out.{ending}", "--qi", "age", "-k", "3", "--delay", "60",
        "--sensitive", "ill", "-l", "2.2", "--l-diversity", "entropy", "--alpha", "ill.hiv=0.5", "-t", "0.4",
        "--distance", "ill=hierarchical", "--hierarchies", f"ill={tmp_path / 'tree.csv'}", "--class-id",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    with duckanon.connect() as con:
        rows = con.duckdb.sql(f"FROM '{tmp_path / 'out'}.{ending}'").to_arrow_table().to_pylist()
    assert len(rows) > 350
    for members in classes(rows):
        assert reaches_l(counts(members, "ill"), Fraction("2.2"), "entropy", None)
        assert 2 * sum(row["ill"] == "hiv" for row in members) <= len(members)
    evidence = json.loads((tmp_path / f"out.{ending}.json").read_text("utf-8"))
    assert evidence["closeness"]["columns"]["ill"]["l_diversity"] == "entropy"
    judged = {measure["measure"]: measure["passed"] for measure in evidence["audit"]["measures"]}
    assert judged["entropy_l_diversity"]
    assert judged["t_closeness"] is None


def test_castle_refuses_them_with_the_reason() -> None:
    with duckanon.connect() as con, pytest.raises(PolicyError, match="alpha is for method = 'steered'"):
        con.stream(
            "SELECT 1 AS age, 'a' AS ill",
            "t",
            quasi_identifiers="age",
            sensitive="ill",
            alpha=0.5,
            method="castle",
        )


def test_a_stream_that_writes_nothing_says_so(tmp_path: Path) -> None:
    """Two values, and 3 are asked for: no class can leave, and every tuple is dropped but the last."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(
        "age,ill\n" + "".join(f"{age},{'ab'[age % 2]}\n" for age in range(20)), encoding="utf-8"
    )
    done = command(
        "stream", source, target, "--qi", "age", "-k", "2", "--sensitive", "ill", "-l", "3", "--delay", "10"
    )
    assert done.returncode == 0
    assert "20 tuples read: 0 written, 19 dropped, 1 held" in done.stderr
    said = "warning: no tuple was written: ask a smaller k, a longer delay or weaker thresholds\n"
    assert done.stderr.count(said) == 1
