"""The first release of an installation: small tables are released without a compiler, and as with one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from duckanon.kernels import plain
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold, work_of
from duckanon.kernels.compiled import COMPILING
from duckanon.kernels.logarithm import logarithm
from duckanon.kernels.plain import carried
from tests.e2e.scenes import ROOT, uncompiled
from tests.e2e.small_tables import classes


def without_a_compiler(
    program: list[str], cache: Path, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Python with an empty compiler cache and warnings as errors, other than our own."""
    environment = {**os.environ, **uncompiled(cache), "PYTHONPATH": str(ROOT)}
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


def test_the_first_release_loads_what_it_needs(tmp_path: Path) -> None:
    """Each of the others takes a tenth of a second or more, at the start of every process."""
    program = RELEASE.format(more="") + (
        "con.execute('EXPLAIN ANONYMIZED VIEW v').fetchall()\n"
        "print([name for name in ('numba', 'pandas', 'pyarrow.compute', 'rich', 'scipy.spatial', 'duckanon.streams')"
        " if name in sys.modules])"
    )
    assert without_a_compiler(["-c", program], tmp_path).stdout.splitlines()[-1] == "[]"


def compare(seeds: range, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Require the same classes of plain Python and of compiled code, and that the one compiles nothing."""
    program = ["-m", "tests.e2e.small_tables", str(seeds.start), str(seeds.stop)]
    found, numba = json.loads(without_a_compiler(program, cache).stdout)
    assert not numba
    assert not list(cache.rglob("*.nb?"))
    monkeypatch.setattr(plain, "PATIENCE", 0.0)
    assert found == classes(seeds)


@pytest.mark.slow
def test_plain_python_makes_the_classes_of_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(4), tmp_path, monkeypatch)


@pytest.mark.long
def test_plain_python_makes_the_classes_of_compiled_code_for_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(100, 220), tmp_path, monkeypatch)


@pytest.mark.long
def test_plain_python_asks_often_whether_time_is_up(tmp_path: Path) -> None:
    """CPU between two questions of the largest tables, measured in loops of 0.1 s on a usual machine.

    Below 20 where two workers run; a machine with more to do took 27, so the bound is for worse faults only.

    These are the rules that take longest for each `work_of`, refined and not.
    """
    program = """
import sys, time
from decimal import Decimal
import numpy as np
from duckanon.kernels import plain
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold, work_of
from duckanon.kernels.compose import compose
from duckanon.kernels.recipes import recipes

plain.RELEASE = plain.PATIENCE = float("inf")
gaps, before = [], 0.0
paths = np.stack([np.arange(20), np.arange(20) // 5, np.zeros(20, dtype=int)], axis=1)
entropy = dict(t=Decimal("0.1"), l=Decimal(12), l_kind="entropy")
RULES = (
    (0, "ordered", {}),
    (1, "ordered", dict(t=Decimal("0.2"))),
    (1, "hierarchical", dict(t=Decimal("0.3"))),
    (1, "ordered", entropy),
    (3, "ordered", entropy),
)

def loop():
    begun, total = time.process_time(), 0
    for i in range(1_500_000):
        total += i * i
    return time.process_time() - begun

def stop():
    global before
    now = time.process_time()
    gaps.append(now - before)
    before = now
    return False

usual = min(loop() for _ in range(3))
for effort in (None, "fast", "balanced"):
    for count, distance, given in RULES:
        draw = np.random.default_rng(5)
        tree = paths if distance == "hierarchical" else None
        n = plain.ROWS[effort] // work_of([Threshold(reference([1] * 20, distance, tree), **given)] * count)
        points = draw.normal(size=(n, 4))
        codes = np.array([draw.permutation(n) % 20 for _ in range(count)]).reshape(count, n)
        thresholds = [Threshold(reference(np.bincount(each), distance, tree), **given) for each in codes]
        with plain.small(n, effort, work_of(thresholds)):
            for recipe in recipes(n, 2, thresholds, effort, largest=n, columns=4):
                before = time.process_time()
                compose(points, codes, 2, thresholds, recipe, stop=stop)
                stop()
print(max(gaps) / usual, "numba" in sys.modules)
"""
    longest, numba = without_a_compiler(["-c", program], tmp_path).stdout.split()
    assert 0 < float(longest) < 100
    assert numba == "False"


@pytest.mark.parametrize("more", ["", ", t = 0.2"])
def test_ctrl_c_ends_plain_python_within_a_second(more: str, tmp_path: Path) -> None:
    environment = {**os.environ, **uncompiled(tmp_path), "PYTHONPATH": str(ROOT)}
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


@pytest.mark.parametrize("effort", list(plain.ROWS))
def test_records_that_are_few(effort: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as `ROWS` has, fewer with more work; and the disk is not looked at for more."""
    for name, value in uncompiled(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plain, "_spent", 0.0)
    most = plain.ROWS[effort]
    for records, work, few in ((most + 1, 1, False), (most // 4 + 1, 4, False), (most // 4, 4, most > 0)):
        with plain.small(max(records, 1), effort, work):
            assert plain.preferred(logarithm.py_func) is few  # type: ignore[attr-defined]
            assert bool(list(tmp_path.iterdir())) is few
    with plain.small(max(most, 1), effort):
        assert plain.preferred(logarithm.py_func) is (most > 0)  # type: ignore[attr-defined]


def test_work_of_thresholds() -> None:
    """One of ordered distance is counted once, also with distinct l; others, and l of shares, six times."""

    def threshold(distance: Literal["ordered", "equal"], **given: Any) -> Threshold:
        return Threshold(reference([3, 2], distance), **given)

    t, entropy = Decimal("0.2"), {"l": Decimal("1.5"), "l_kind": "entropy"}
    cheap = [threshold("ordered", t=t), threshold("ordered", t=t, l=Decimal(2))]
    dear = [threshold("equal", t=t), threshold("ordered", t=t, **entropy), threshold("equal", **entropy)]
    assert [work_of([each]) for each in (*cheap, *dear)] == [1, 1, 6, 6, 6]
    assert (work_of([]), work_of(cheap), work_of([*cheap, *dear])) == (1, 2, 20)


@pytest.mark.slow
def test_a_larger_table_is_compiled(tmp_path: Path) -> None:
    """After `RELEASE` or `PATIENCE` seconds too; the message says so, and it is told in no other case."""
    program = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
from duckanon.kernels import plain
from duckanon.kernels.logarithm import logarithm
with plain.small(5, "fast"):
    print(logarithm(2.0), "numba" in sys.modules, flush=True)
with plain.small(401, "fast"):
    print(logarithm(2.0), "numba" in sys.modules)
"""
    printed = without_a_compiler(["-c", program], tmp_path).stdout.splitlines()
    assert printed == ["0.6931471805599453 False", COMPILING, "0.6931471805599453 True"]
    # Compiled code that is there is taken, by the next process too.
    printed = without_a_compiler(["-c", program], tmp_path).stdout.splitlines()
    assert printed == ["0.6931471805599453 True"] * 2


def test_release_and_patience_end_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release has `RELEASE` of its own, whatever others spend meanwhile, and all have `PATIENCE`."""
    for name, value in uncompiled(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plain, "_spent", 0.0)

    def goes_on(seconds: float) -> bool:
        budget = plain._budget.get()
        assert budget is not None
        budget.spent += seconds
        return plain.preferred(logarithm.py_func)  # type: ignore[attr-defined]

    with plain.small(5, None):
        assert goes_on(18)
        assert carried(goes_on)(1)
        with plain.small(5, None):
            assert goes_on(18)
            assert not goes_on(6), "more than RELEASE, less than PATIENCE"
        assert goes_on(0.5)
    assert plain._noted(0.0) == plain._spent == 43.5
    with plain.small(5, None):
        assert goes_on(16)
        assert not goes_on(1), "more than PATIENCE"


@pytest.mark.slow
def test_what_plain_python_costs_is_known_to_the_next_process(tmp_path: Path) -> None:
    """Short processes add up, whatever the times of the files: here the source is newer than the notes."""
    program = """
from duckanon.kernels import plain
with plain.small(5, None):
    budget = plain._budget.get()
    print(budget.allowed)
    budget.spent += 0.001
"""
    allowed = []
    for spent in (0, 5990, 7):
        for notes in tmp_path.rglob(plain.SPENT):
            notes.write_bytes(notes.read_bytes() + b"." * spent)
            os.utime(notes, (1, 1))
        allowed.append(float(without_a_compiler(["-c", program], tmp_path).stdout))
    assert allowed == pytest.approx([20, 0.09, 0.01])


@pytest.mark.skipif(sys.platform == "win32", reason="no links without rights, no FIFO")
@pytest.mark.parametrize("kind", ["link", "FIFO", "folder", "no folder"])
def test_notes_never_fail_and_go_to_a_file_of_their_own(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in uncompiled(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plain, "_spent", 0.0)
    file, other = Path(plain._folder(plain.__file__)) / plain.SPENT, tmp_path / "other"
    other.write_text("mine")
    file.parent.mkdir()
    if kind == "link":
        file.symlink_to(other)
    elif kind == "FIFO":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.parent.rmdir()
        file.parent.write_text("")
    with plain.small(5, None):
        assert carried(lambda _: plain.preferred(logarithm.py_func))(0)  # type: ignore[attr-defined]
        budget = plain._budget.get()
        assert budget is not None
        budget.spent += 61
    assert other.read_text() == "mine"
    with plain.small(5, None):
        assert not plain.preferred(logarithm.py_func)  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="the home folder is found in another way")
def test_a_home_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user without a name: "~" stays as it is, and nothing fails."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "~")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plain, "__file__", str(tmp_path / "nowhere" / "plain.py"))
    monkeypatch.setattr(plain, "_spent", 0.0)
    assert plain._folder(plain.__file__).startswith("~/")
    with plain.small(5, None):
        budget = plain._budget.get()
        assert budget is not None
        budget.spent += 1
    assert plain._noted(0.0) == 1
