"""The first release of an installation: small tables are released without a compiler, and as with one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from duckanon.kernels import plain
from duckanon.kernels.compiled import COMPILING
from tests.e2e.scenes import ROOT
from tests.e2e.small_tables import classes

if TYPE_CHECKING:
    from pathlib import Path


def without_a_compiler(
    program: list[str], cache: Path, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Python with an empty compiler cache and warnings as errors, other than our own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", *program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=check)


RELEASE = """
import sys, time
import duckanon
from duckanon.kernels import plain
from duckanon.kernels.compiled import COMPILING
plain.RELEASE = plain.PATIENCE = float("inf")
con = duckanon.connect()
con.execute("CREATE TABLE p AS SELECT hash(i) % 6000 / 7 AS a, hash(i + 900) % 50 AS b, hash(i + 1800) % 9 AS s FROM range(300) r(i)")
print("go", flush=True)
begun = time.monotonic()
con.execute("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a, b), sensitive = s, k = 3{more})")
print(time.monotonic() - begun, "numba" in sys.modules)
"""


def compare(seeds: range, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Require the same classes of plain Python and of compiled code, and that the one compiles nothing."""
    program = ["-m", "tests.e2e.small_tables", str(seeds.start), str(seeds.stop)]
    found, numba = json.loads(without_a_compiler(program, cache).stdout)
    assert not numba
    assert not list(cache.rglob("*.nb?"))
    monkeypatch.setattr(plain, "PATIENCE", 0.0)
    assert found == classes(seeds)


def test_plain_python_makes_the_classes_of_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(8), tmp_path, monkeypatch)


@pytest.mark.long
def test_plain_python_makes_the_classes_of_compiled_code_for_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(100, 220), tmp_path, monkeypatch)


def test_plain_python_asks_whether_time_is_up_within_a_second(tmp_path: Path) -> None:
    """CPU seconds between two questions of the largest table for each effort, whoever else uses the machine."""
    program = """
import json, sys, time
from fractions import Fraction
import numpy as np
from duckanon.kernels import plain
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import compose, recipes

plain.RELEASE = plain.PATIENCE = float("inf")
gaps, before = [], time.process_time()

def stop():
    global before
    now = time.process_time()
    gaps.append(now - before)
    before = now
    return False

for effort in ("fast", "balanced"):
    n = plain.ROWS[effort]
    draw = np.random.default_rng(5)
    points, codes = draw.normal(size=(n, 4)), draw.integers(0, 20, (1, n))
    table = Threshold(reference(np.bincount(codes[0]), "ordered"), t=Fraction(1, 5))
    with plain.small(n, effort):
        for thresholds in ([], [table]):
            recipe = recipes(n, 4, thresholds, effort, largest=n, columns=4)[0]
            before = time.process_time()
            compose(points, codes[: len(thresholds)], 4, thresholds, recipe, stop=stop)
            stop()
print(max(gaps), "numba" in sys.modules)
"""
    longest, numba = without_a_compiler(["-c", program], tmp_path).stdout.split()
    assert 0 < float(longest) < 1
    assert numba == "False"


@pytest.mark.parametrize("more", ["", ", t = 0.2"])
def test_ctrl_c_ends_plain_python_within_a_second(more: str, tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", RELEASE.format(more=more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        printed, told = process.communicate()
        assert time.monotonic() - begun < 2, "one second, and what it takes to end the process"
    assert "KeyboardInterrupt" in told
    assert printed == ""
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_table_that_is_not_small_is_compiled(tmp_path: Path) -> None:
    """After `RELEASE` or `PATIENCE` seconds too; the message says so, and it is told in no other case."""
    program = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import numpy as np
from duckanon.kernels import plain
from duckanon.kernels.compiled import COMPILING
from duckanon.kernels.logarithm import logarithm
with plain.small(5, "fast"):
    print(logarithm(2.0), "numba" in sys.modules, flush=True)
plain.PATIENCE = 0.0
with plain.small(5, "fast"):
    print(logarithm(2.0), "numba" in sys.modules)
"""
    printed = without_a_compiler(["-c", program], tmp_path).stdout.splitlines()
    assert printed == ["0.6931471805599453 False", COMPILING, "0.6931471805599453 True"]
    # Compiled code that is there is taken, by the next process too.
    printed = without_a_compiler(["-c", program], tmp_path).stdout.splitlines()
    assert printed == ["0.6931471805599453 True"] * 2


def test_what_plain_python_costs_is_known_to_the_next_process(tmp_path: Path) -> None:
    program = """
from duckanon.kernels import plain
from duckanon.kernels.compiled import COMPILING
for seconds in (20, 11):
    with plain.small(5, None):
        print(plain._until.get() > plain._spent)
        plain._spent += seconds
"""
    allowed = [without_a_compiler(["-c", program], tmp_path).stdout.split() for _ in range(2)]
    assert allowed == [["True", "True"], ["False", "False"]]
