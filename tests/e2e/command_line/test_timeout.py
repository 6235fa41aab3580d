"""--timeout ends all of a command: what it reads before its work, and what it writes behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT, command
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no clock interrupts there")

TO_A_PIPE = {
    "audit": ["audit", "plain.csv", "--qi", "x"],
    "suggest": ["suggest", "plain.csv"],
    "compare": ["compare", "plain.csv", "plain.csv", "--queries", "queries.sql"],
    "linkage": ["linkage", "plain.csv", "plain.csv", "--qi", "x"],
    "compare-releases": ["compare-releases", "plain.csv", "plain.csv", "--qi", "x", "-k", "2"],
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", slowly(TO_A_PIPE, one_of=3))
def test_a_timeout_ends_waiting_for_who_reads_the_document(tmp_path: Path, name: str) -> None:
    """The work was done in time, and the pipe of -o was opened when the clock had been taken off."""
    (tmp_path / "plain.csv").write_text("x,s\n1,1\n1,2\n2,1\n2,2\n")
    (tmp_path / "queries.sql").write_text("SELECT count(x) AS n FROM data")
    os.mkfifo(tmp_path / "pipe")
    done = command(*TO_A_PIPE[name], "-o", "pipe", "--timeout", "1.5", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: stopped after --timeout: nothing was written\n")


PRINTING = """
import sys, time
from duckanon.cli import anonymize, main

anonymize.show = lambda *given, **named: time.sleep(60)
main.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_timeout_while_a_release_is_printed_says_that_its_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x\n1\n1\n2\n2\n")
    words = ["anonymize", "p.csv", "out.csv", "--qi", "x", "-k", "2", "--timeout", "10"]
    done = subprocess.run(
        [sys.executable, "-c", PRINTING, *words], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={"PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "stopped after --timeout, when its file was written" in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.csv", "p.csv"]


def test_a_timeout_ends_waiting_for_a_policy(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("x\n1\n1\n")
    there, given = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "duckanon", "audit", "plain.csv", "--policy", "-", "--timeout", "1"],
            stdin=there, capture_output=True, text=True, cwd=tmp_path, check=False,
            env={"PYTHONPATH": str(ROOT)}, timeout=120,
        )  # fmt: skip
    finally:
        os.close(there)
        os.close(given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: stopped after --timeout: nothing was written\n"
