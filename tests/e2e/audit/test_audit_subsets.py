"""k of subsets in every audit: statement, command line, gate, dbt, assert_private, files and their evidence."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon import AuditPolicy, SourceError
from duckanon.audits import run
from duckanon.audits.subsets import subset_measures, subset_values
from duckanon.policy.subsets import subset_thresholds
from duckanon.testing import assert_private
from tests.e2e.scenes import ROOT, command, stock_script
from tests.examples import examples
from tests.sql.gates import failed, gate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUASI = ["age", "sex", "zip"]

# By hand: (30, f) twice, (30, NULL) once; sex f 3, NULL 2; zip 1 twice, 2 three times.
ROWS = """CREATE OR REPLACE TABLE people AS FROM (VALUES
    (30, 'f', 1), (30, 'f', 2), (30, NULL, 2), (40, 'f', 1), (40, NULL, 2)) AS v(age, sex, zip)"""

WITH = "(quasi_identifiers = (age, sex, zip), k = {(age, sex): 2, zip: 3, sex: 2})"


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.execute(ROWS)
        yield connection


def test_the_worst_subset_comes_first_and_its_rarest_values_are_named(con: duckanon.Connection) -> None:
    report = duckanon.audit(
        con, "people", AuditPolicy(quasi_identifiers=QUASI, k={("sex", "age"): 2, "zip": 3, "sex": 2})
    )
    lines = [one for one in report.measures if one.measure == "k_anonymity_subset"]
    assert [(one.attribute, one.threshold, one.value, one.classes, one.violations, one.records) for one in lines] == [
        ("age, sex", 2, 1, 4, 3, 3), ("zip", 3, 2, 2, 1, 2), ("sex", 2, 2, 2, 0, 0),
    ]  # fmt: skip
    assert [one.passed for one in lines] == [False, False, True]
    first, second = report.violations[:2]
    assert (first.attribute, first.class_values) == ("age, sex", {"sex": None, "age": "30"})
    assert (second.attribute, second.class_values, second.value) == ("zip", {"zip": "1"}, 2)
    assert report.measures[0].passed is None
    rows = con.execute(f"AUDIT TABLE people WITH {WITH}").fetchall()
    assert [row[:4] for row in rows[1:3]] == [
        ("k_anonymity_subset", "age, sex", 2, 1),
        ("k_anonymity_subset", "zip", 3, 2),
    ]


@pytest.mark.parametrize("seed", range(examples(500, 20)))
def test_every_subset_is_counted_as_a_counter_counts(con: duckanon.Connection, seed: int) -> None:
    draw = random.Random(seed)
    names = [f"q{number}" for number in range(draw.randint(1, 5))]
    values = [None, 0.0, float("nan"), 1.5, 2.0]
    rows = [tuple(draw.choice(values) for _ in names) for _ in range(draw.randint(1, 40))]
    con.execute(f"CREATE TABLE t ({', '.join(f'{name} DOUBLE' for name in names)})")
    con.duckdb.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
    size, k = draw.randint(1, len(names)), draw.randint(1, 6)
    report = duckanon.audit(con, "t", AuditPolicy(quasi_identifiers=names, k_subsets={size: k}))
    found = {one.attribute: one for one in report.measures if one.measure == "k_anonymity_subset"}
    for subset in combinations(range(len(names)), size):
        counts = Counter(tuple(str(row[place]) for place in subset) for row in rows)
        rare = [count for count in counts.values() if count < k]
        one = found.pop(", ".join(names[place] for place in subset))
        assert (one.value, one.classes, one.violations, one.records) == (
            min(counts.values()), len(counts), len(rare), sum(rare)
        )  # fmt: skip
    assert not found
    own = con.execute("FROM k_anonymity_subset('t', ?, ?)", [names, size]).fetchall() if not seed % 10 else []
    assert all(line[1] == next(o.value for o in report.measures if o.attribute == line[0]) for line in own)


def test_without_subsets_no_text_of_subsets_runs(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit without subsets runs what it ran before."""
    seen: list[str] = []
    rows = run.engine.rows
    monkeypatch.setattr(
        run.engine, "rows", lambda con, sql, *more, **how: (seen.append(sql), rows(con, sql, *more, **how))[1]
    )
    duckanon.audit(con, "people", AuditPolicy(quasi_identifiers=QUASI, k=2))
    assert seen
    assert not any("GROUPING" in sql or "subset" in sql for sql in seen)


def test_other_rows_at_the_second_look_are_an_error(con: duckanon.Connection) -> None:
    """k is of six records, or of five records in one class; the subsets are of five records in five classes."""
    subsets = subset_thresholds({1: 2}, QUASI, None)
    con.execute("CREATE TABLE six AS FROM people UNION ALL VALUES (50, 'm', 9)")
    con.execute("CREATE TABLE alike AS SELECT 30 AS age, 'f' AS sex, 1 AS zip FROM range(5)")
    for table in ("six", "alike"):
        measures = duckanon.audit(con, table, AuditPolicy(quasi_identifiers=QUASI)).measures
        with pytest.raises(SourceError, match="other rows each time it is read"):
            subset_measures(con.duckdb, subset_values("people", subsets, ()), measures, "audit")


def test_the_command_line_and_its_formats(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute(f"COPY people TO '{tmp_path / 'p.parquet'}'")
    asked = ["audit", tmp_path / "p.parquet", "--qi", "age,sex,zip", "-k", "(age,sex)=2,zip=3", "--format"]
    done = command(*asked, "text")
    assert (done.returncode, done.stderr) == (1, "")
    assert "violation: k_anonymity_subset of age, sex is 1 in the class of 1 records with " in done.stdout
    junit = command(*asked, "junit").stdout
    assert '<testcase classname="' in junit
    assert 'name="k_anonymity_subset of age, sex"' in junit
    sarif = json.loads(command(*asked, "sarif").stdout)["runs"][0]
    rules = {rule["id"]: rule for rule in sarif["tool"]["driver"]["rules"]}
    assert "class_size &lt; k of the subset" in json.dumps(rules["k_anonymity_subset"]).replace("<", "&lt;")
    pairs = command("audit", tmp_path / "p.parquet", "--qi", "age,sex,zip", "--k-subsets", "2=1")
    assert (pairs.returncode, pairs.stdout.count("k_anonymity_subset")) == (0, 3)
    for flags, words in (
        (("-k", "x"), "-k takes a whole number"),
        (("--k-subsets", "4"), "--k-subsets has subsets of 4 columns, and --qi names 3: use 3 at most"),
        (("-k", "2,(age,age)=3"), "names column 'age' twice in (age, age)"),
        (("-k", "2,(age,ag)=3"), "k of (age, ag) names 'ag', which is not in --qi, did you mean 'age'?"),
        (("-k", "2,()=3"), "has a subset without a column"),
        (("-k", "2,(age)=0"), "k of (age) = 0: use an integer of at least 1"),
        (("-k", "2,3"), "two values for all columns"),
    ):
        wrong = command("audit", tmp_path / "p.parquet", "--qi", "age,sex,zip", *flags)
        assert wrong.returncode == 2
        assert words in wrong.stderr
        assert wrong.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_release_its_file_and_its_evidence(con: duckanon.Connection, tmp_path: Path) -> None:
    """The exported file audits itself, the gate takes its thresholds, and verify repeats its audits."""
    con.execute(
        "CREATE TABLE p AS SELECT i AS id, i % 40 AS age, 'z' || i % 3 AS \"zip, code\" FROM range(240) AS r(i)"
    )
    con.execute(
        'CREATE ANONYMIZED VIEW v AS SELECT * FROM p WITH (quasi_identifiers = ("zip, code", age), subject = id, '
        'k = {*: 3, age: 20, ("zip, code"): 60})'
    )
    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'release.duckdb'}'")
    done = stock_script(
        tmp_path / "release.duckdb",
        '.mode csv\nSELECT measure, column_name, threshold, passed FROM duckanon."check";',
    )
    assert [line for line in done.stdout.splitlines() if "k_anonymity_subset" in line] == [
        'k_anonymity_subset,age,20.0,true', 'k_anonymity_subset,"""zip, code""",60.0,true',
    ]  # fmt: skip
    assert command("verify", tmp_path / "release.duckdb").returncode == 0
    with duckdb.connect(tmp_path / "release.duckdb") as file:
        file.execute("UPDATE main.v SET age = 1000 WHERE rowid = 0")
    broken = command("verify", tmp_path / "release.duckdb")
    assert broken.returncode == 1


def test_the_gate(tmp_path: Path, con: duckanon.Connection) -> None:
    con.execute(f"COPY people TO '{tmp_path / 'p.parquet'}'")
    given: dict[str, Any] = {"table": "p.parquet", "quasi_identifiers": QUASI}
    shutil.copytree(ROOT / "sql", tmp_path / "sql")
    done = gate(tmp_path, **given, k=1, subsets={"sex": 2, "zip": 2})
    assert done.returncode == 0, done.stderr
    assert (
        "keeps k_anonymity 1 (asked 1), k_anonymity_subset of sex 2 (asked 2), k_anonymity_subset of zip 2"
        in done.stdout
    )
    failed(
        gate(tmp_path, **given, subsets={'"age", sex': 2}),
        'violates k_anonymity_subset of "age", sex 1 (asked 2) in 3 of 4',
    )
    failed(
        gate(tmp_path, **given, subsets={"age, pay": 2}),
        "gate_subsets names a column that is not in gate_quasi",
    )
    failed(gate(tmp_path, **given, subsets={"age": 0}), "gate_subsets must be whole numbers from 1 on: age")


def test_assert_private(con: duckanon.Connection) -> None:
    given: dict[str, Any] = {"quasi_identifiers": QUASI, "con": con}
    assert assert_private("people", k_subsets={1: 2}, **given).passed
    with pytest.raises(AssertionError, match="k_anonymity_subset of age, sex is 1"):
        assert_private("people", k_subsets={("age", "sex"): 2}, **given)
    with pytest.raises(duckanon.PolicyError, match="nothing to judge"):
        assert_private("people", k_subsets=2, **given)
