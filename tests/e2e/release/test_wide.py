"""Wide tables: no statement grows with all columns, and --timeout ends commands that nothing else can stop.

Expected audits are those of single columns, which are one statement each and tested elsewhere.
"""

from __future__ import annotations

import json
import logging
import random
import re
import subprocess
import sys
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.audits.report import VIOLATIONS_LISTED
from duckanon.audits.run import COLUMNS_PER_STATEMENT, audit_relation
from duckanon.database import engine
from duckanon.policy.policy import AuditPolicy
from duckanon.release.stages.advise import advise as advice
from tests.e2e.scenes import ROOT, command

if TYPE_CHECKING:
    from pathlib import Path

    from duckanon.audits.report import Report

LATEST = 30
"""Seconds within which a command ends, of which the timeout is half a one: machines of tests are slow."""


def wide(con: duckdb.DuckDBPyConnection, columns: int, rows: int, *, seed: int = 0) -> list[str]:
    """Make a table `t` with two quasi-identifiers and sensitive columns of several types; gives their names."""
    source = random.Random(seed)
    kinds = [source.choice(["INTEGER", "VARCHAR", "DOUBLE", "DATE"]) for _ in range(columns)]
    names = [f"s{place}" for place in range(columns)]
    stated = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    con.execute(f"CREATE TABLE t (q INTEGER, r VARCHAR, {stated})")
    values = {"INTEGER": int, "VARCHAR": "v{}".format, "DOUBLE": lambda n: n / 3, "DATE": "2020-01-{}".format}
    for _ in range(rows):
        drawn = [values[kind](source.randrange(1, 5)) if source.random() > 0.1 else None for kind in kinds]
        row = [source.choice([1, 2, 3, None]), source.choice("ab"), *drawn]
        con.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    return names


def audit_of(con: duckdb.DuckDBPyConnection, sensitive: list[str], kind: str) -> Report:
    policy = AuditPolicy(
        quasi_identifiers=["q", "r"], sensitive=sensitive, k=12, l=5, t=Decimal("0.05"), l_diversity=kind,
        c=2 if kind == "recursive" else None,
    )  # fmt: skip
    return audit_relation(con, "t", policy, name="t")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distinct", "recursive"])
def test_many_sensitive_columns_are_audited_as_each_alone(kind: str) -> None:
    with duckdb.connect() as con:
        names = wide(con, 2 * COLUMNS_PER_STATEMENT + 5, 90)
        whole = audit_of(con, names, kind)
        alone = [audit_of(con, [name], kind) for name in names]
    k, diversity, closeness = zip(*[report.measures[:3] for report in alone], strict=True)
    assert set(k) == {whole.measures[0]}
    assert whole.measures == (k[0], *diversity, *closeness, *alone[0].measures[3:])
    # The worst class of every measure comes first, then the second of each: k, l of the columns, t of the columns.
    own = [[one for one in report.violations if one.attribute] for report in alone]
    of_size = [one for one in alone[0].violations if one.attribute is None]
    lists = [of_size]
    for wanted in (False, True):
        lists += [[one for one in each if (one.measure == "t_closeness") is wanted] for each in own]
    ranked = [each[rank] for rank in range(VIOLATIONS_LISTED) for each in lists if rank < len(each)]
    assert len(ranked) > VIOLATIONS_LISTED, "the limit is met"
    assert list(whole.violations) == ranked[:VIOLATIONS_LISTED]


@pytest.mark.slow
def test_two_hundred_sensitive_columns() -> None:
    """One statement for all was refused: Max expression depth limit of 1000 exceeded."""
    with duckdb.connect() as con:
        names = wide(con, 200, 30)
        assert len(audit_of(con, names, "distinct").measures) == 1 + 2 * 200 + 3


def test_parts_of_an_audit_that_find_other_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect() as con:
        names = wide(con, COLUMNS_PER_STATEMENT + 1, 40)
        read = engine.rows

        def with_a_change(*given: Any, **named: Any) -> list[tuple[Any, ...]]:
            found = read(*given, **named)
            if found and found[0][0] == "k_anonymity":
                # The measures of the first part were read.
                con.execute("DELETE FROM t WHERE q = 1")
            return found

        monkeypatch.setattr(engine, "rows", with_a_change)
        with pytest.raises(duckanon.SourceError, match="other rows each time it is read"):
            audit_of(con, names, "distinct")


def test_no_statement_of_a_release_counts_the_values_of_all_columns(caplog: pytest.LogCaptureFixture) -> None:
    """DuckDB plans 800 count(DISTINCT) of one statement for half a minute."""
    columns = 3 * advice.COUNTED_COLUMNS_PER_STATEMENT + 2
    with duckanon.connect() as con:
        stated = ", ".join(f"i * {place} % 7 AS c{place}" for place in range(columns))
        alone = "greatest(i, 47) AS fifth, greatest(i, 48) AS less"
        con.execute(
            f"CREATE TABLE t AS SELECT i % 10 AS age, i AS own, {alone}, {stated} FROM range(60) AS r(i)"
        )
        with (
            caplog.at_level(logging.DEBUG, logger="duckanon"),
            pytest.warns(duckanon.DuckanonWarning) as told,
        ):
            con.sql(
                "CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = (age), insensitive = *, k = 3)"
            )
    most = max(len(re.findall(r"count\(DISTINCT \w", record.getMessage())) for record in caplog.records)
    assert 1 <= most <= advice.COUNTED_COLUMNS_PER_STATEMENT
    said = "\n".join(str(one.message) for one in told)
    assert "insensitive column 'own' has 60 values in 60 records" in said
    # By hand: the values 48 to 59 of 60 records are those of one record each, a fifth; 49 to 59 are fewer.
    assert "insensitive column 'fifth' singles out 12 of 60 records" in said
    assert "'less'" not in said


@pytest.mark.slow
def test_formulas_are_found_in_every_column(tmp_path: Path) -> None:
    """By hand: a text in the last of many columns, and the name of a column of numbers."""
    columns = 450
    with duckanon.connect() as con:
        stated = ", ".join(f"'x' AS c{place}" for place in range(columns))
        con.execute(
            f"""CREATE TABLE t AS SELECT 1 AS age, {stated}, '@sum' AS last, 2 AS "=two" FROM range(6) AS r(i)"""
        )
        con.sql("CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = (age), insensitive = *, k = 3)")
        with pytest.warns(
            duckanon.DuckanonWarning, match="takes texts of columns: 'last', '=two' for formulas"
        ):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.csv'}'")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [10, 40])
def test_texts_of_many_quasi_identifiers_are_kept_apart(tmp_path: Path, columns: int) -> None:
    """By hand: 1 and 1.0 are two values of the last column, and would be one number."""
    names = [f"q{place}" for place in range(columns)]
    lines = [
        ",".join(names),
        *[",".join(["1"] * (columns - 1) + [last]) for last in ("1", "1", "1.0", "1.0")],
    ]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n")
    for some, k in ((names, 2), (names[:-1], 4)):
        done = command("audit", "p.csv", "--qi", ",".join(some), "--format", "json", cwd=tmp_path)
        assert json.loads(done.stdout)["measures"][0]["value"] == k


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a view that DuckDB plans for half a minute, in which it looks at no signal."""
    folder = tmp_path_factory.mktemp("endless")
    with duckdb.connect(str(folder / "w.duckdb")) as con:
        con.execute(
            "CREATE TABLE wide AS SELECT "
            + ", ".join(f"i AS c{place}" for place in range(700))
            + " FROM range(9) r(i)"
        )
        counts = ", ".join(f"count(DISTINCT c{place}) AS d{place}" for place in range(700))
        con.execute(
            f"CREATE VIEW v AS SELECT c0 AS x, c1 AS s FROM wide, (SELECT {counts} FROM wide) AS found WHERE d1 + d699 > 0"
        )
    (folder / "plain.csv").write_text("x,s\n1,1\n1,2\n2,1\n2,2\n")
    (folder / "queries.sql").write_text("SELECT count(x) AS n FROM data")
    return folder


COMMANDS = {
    "audit": ["audit", "w.duckdb:v", "--qi", "x", "-k", "2"],
    "suggest": ["suggest", "w.duckdb:v"],
    "anonymize": ["anonymize", "w.duckdb:v", "out.csv", "--qi", "x", "--sensitive", "s", "-k", "2"],
    "compare": ["compare", "w.duckdb:v", "plain.csv", "--queries", "queries.sql"],
    "linkage": ["linkage", "plain.csv", "w.duckdb:v", "--qi", "x"],
    "compare-releases": ["compare-releases", "w.duckdb:v", "plain.csv", "--qi", "x", "-k", "2"],
}


@pytest.mark.sampled
@pytest.mark.skipif(sys.platform == "win32", reason="no clock interrupts there")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_timeout_ends_what_duckdb_only_plans(endless: Path, name: str) -> None:
    begun = time.monotonic()
    done = command(*COMMANDS[name], "--trust", "--timeout", "0.5", cwd=endless)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: stopped after --timeout: nothing was written\n"
    assert time.monotonic() - begun < LATEST
    assert {file.name for file in endless.iterdir()} == {"w.duckdb", "plain.csv", "queries.sql"}


STUCK = """
import sys, threading
from pathlib import Path
from duckanon.database import drafts, interrupts

@interrupts.interruptible
def work():
    with interrupts.within(0.2), drafts.draft(Path("out.csv")) as draft:
        draft.write_text("half of it")
        signals = __import__("signal")
        signals.pthread_sigmask(signals.SIG_BLOCK, [signals.SIGALRM])  # as where nothing looks at them
        {settled}
        threading.Event().wait({seconds})

work()
print("done")
"""


@pytest.mark.sampled
@pytest.mark.skipif(sys.platform == "win32", reason="no clock interrupts there")
@pytest.mark.parametrize("settled", [False, True])
def test_what_is_stuck_leaves_no_draft_and_what_is_as_good_as_done_is_done(
    tmp_path: Path, settled: bool
) -> None:
    program = STUCK.format(settled="interrupts.settle()" if settled else "", seconds=3 if settled else 600)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={"PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    told = (0, "done\n", "") if settled else (2, "", "error: stopped after --timeout: nothing was written\n")
    assert (done.returncode, done.stdout, done.stderr) == told


EXPORTING = """
import sys, time
from duckanon.cli import anonymize, main

anonymize.export = lambda *given, **named: time.sleep(600)
main.main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no clock interrupts there")
def test_a_timeout_ends_the_export_of_a_release_that_is_made(endless: Path) -> None:
    """The view in memory was taken for the end of the command, and nothing stopped what followed."""
    words = [
        "anonymize",
        "plain.csv",
        "out.csv",
        "--qi",
        "x",
        "--insensitive",
        "s",
        "-k",
        "2",
        "--timeout",
        "8",
    ]
    done = subprocess.run(
        [sys.executable, "-c", EXPORTING, *words], capture_output=True, text=True, cwd=endless, check=False,
        env={"PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: stopped after --timeout: nothing was written\n")
