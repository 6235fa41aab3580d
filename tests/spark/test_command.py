"""The commands of Spark in processes of their own, as somebody types them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import command
from tests.engines.spark import find
from tests.spark.running import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.running import Running

SALARIES = ROOT / "fixtures" / "li_2007_table_3.csv"
ASKED = ("--qi", "zip_code,age", "--sensitive", "salary")


def typed(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the Python that has pyspark; what Spark says of itself is left out."""
    done = subprocess.run(
        [str(find()), "-m", "duckanon", "spark", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=200, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if line.startswith(("error:", "interrupted"))]
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout, "\n".join(ours))


@pytest.mark.slow
def test_a_release_and_its_audits(running: Running, tmp_path: Path) -> None:
    out = tmp_path / "released"
    more = ("--identifiers", "record", "--insensitive", "disease", "-k", 2, "-t", 0.3, "--master", "local[2]")
    done = typed("anonymize", SALARIES, out, *ASKED, *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"-- wrote {out}"
    assert json.loads((out / "_duckanon.json").read_text())["records"] == 9
    again = typed("audit", out, *ASKED, "-k", 2, "-t", 0.3, "--master", "local[1]")
    assert again.returncode == 0
    assert again.stdout.splitlines() == done.stdout.splitlines()[1:]
    done = typed("anonymize", SALARIES, out, *ASKED, *more)
    assert (done.returncode, done.stderr) == (
        2, f"error: {str(out)!r} exists and a release never overwrites: remove it or choose another path",
    )  # fmt: skip


@pytest.mark.slow
def test_records_that_are_left_out_are_counted(running: Running, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "released"
    source.write_text("age,ill\n1,flu\n,flu\n2,cold\n3,cold\n,flu\n4,flu\n")
    rule = ("--insensitive", "*", "-k", 2, "--nulls", "suppress", "--suppression-limit", 0.2)
    done = typed("anonymize", source, out, "--qi", "age", *rule, "--master", "local[1]")
    assert done.stdout.splitlines()[0] == f"-- wrote {out}, without 2 suppressed records"
    assert done.returncode == 0
    assert json.loads((out / "_duckanon.json").read_text())["suppressed"] == 2


@pytest.mark.slow
def test_tasks_without_duckanon_are_told_what_they_lack(running: Running, tmp_path: Path) -> None:
    """The Python of the system has none of its packages."""
    out = tmp_path / "released"
    done = typed(
        "anonymize", SALARIES, out, *ASKED, "--insensitive", "*", "-k", 2, PYSPARK_PYTHON="/usr/bin/python3"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 0
    assert "Spark stopped: " in done.stderr
    assert "PYSPARK_PYTHON names the Python of the tasks" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_violation_is_exit_code_1(running: Running, tmp_path: Path) -> None:
    """Of the paper: three classes of three in its anonymous table 4, and an EMD of .375 in the first."""
    table = ROOT / "fixtures" / "li_2007_table_4.csv"
    asked = ("audit", table, *ASKED, "--master", "local[1]")
    done = typed(*asked, "-k", 3, "-t", 0.375)
    assert done.returncode == 0, done.stderr + done.stdout
    done = typed(*asked, "-k", 3, "-t", 0.37)
    assert done.returncode == 1
    assert " 0.375 " in done.stdout
    assert typed("audit", tmp_path / "nothing", *ASKED, "-k", 3).returncode == 2


def test_without_pyspark_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = command("spark", "audit", SALARIES, *ASKED, "-k", 2)
    assert done.returncode == 2
    assert "pyspark" in done.stderr
    assert "pip install 'duckanon[spark]'" in done.stderr


def test_what_is_typed_wrongly() -> None:
    for words, message in (
        (("audit", SALARIES), "--qi is missing"),
        (("anonymize", SALARIES, "out", "--qi", "age"), "-k is missing"),
        (("audit", SALARIES, "--qi", "age", "--qii", "x"), "no option --qii, did you mean --qi?"),
    ):
        done = command("spark", *words)
        assert done.returncode == 2
        assert message in done.stderr
