"""Kernels compiled in processes beside a command: all that it needs, only where it pays, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.cli.main import main
from duckanon.kernels.compiled import COMPILING
from duckanon.kernels.exchange.exchange import sweep
from duckanon.release import ahead
from duckanon.release.stages.partition import workers
from tests.e2e.scenes import ROOT, uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator

linux = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="/proc, which names children, is missing"
)

MANY = """CREATE TABLE p AS SELECT {columns}, hash(i + 7) % 90 AS ill FROM range({n}) AS r(i);
CREATE ANONYMIZED VIEW v AS FROM p WITH ({policy}, insensitive = *)"""


def script(n: int, policy: str, columns: int = 3) -> str:
    """Give statements that make a table and release it."""
    named = ", ".join(f"hash(i * {columns} + {j}) % 1000 AS c{j}" for j in range(columns))
    quasi = ", ".join(f"c{j}" for j in range(columns))
    return MANY.format(n=n, columns=named, policy=f"quasi_identifiers = ({quasi}), {policy}")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Give the processes that are begun, as if nothing was compiled; none of them does anything."""
    found: list[tuple[str, dict[str, Any]]] = []

    def process(part: str, told: dict[str, Any]) -> subprocess.Popen[bytes]:
        found.append((part, told))
        return subprocess.Popen([sys.executable, "-S", "-c", ""], stdin=subprocess.PIPE)

    monkeypatch.setattr(ahead, "_process", process)
    monkeypatch.setattr(ahead, "stored", lambda _: False)
    monkeypatch.setattr(ahead, "_cores", lambda: 2)
    return found


FAST = "k = 3, effort = 'fast'"
WITH_T = f"sensitive = (ill), t = 0.3, {FAST}"


@pytest.mark.parametrize(
    ("n", "policy", "starts", "rebuilds"),
    [
        (9000, FAST, ["blocks"], True),
        (60_000, FAST, ["blocks"], False),
        (500, "k = 3", ["mdav"], True),
        (500, WITH_T, ["mdav", "k_alone", "tcloseness_first"], True),
        pytest.param(
            *(12_000, WITH_T.replace("fast", "balanced"), ["tcloseness_first", "k_alone", "blocks"], True),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_a_release_is_sure_to_need_is_begun_once(
    begun: list[Any], n: int, policy: str, starts: list[str], rebuilds: bool
) -> None:
    statements = script(n, policy)
    with ahead.allowed(later=["anatomy"]), duckanon.connect() as con:
        con.execute(statements)
        con.execute("REFRESH ANONYMIZED VIEW v")
    rest = {"starts": starts, "columns": 3, "limited": "t = 0.3" in policy, "later": ("anatomy",)}
    assert begun == [("exchange", {"rebuilds": rebuilds}), ("rest", rest)]


def test_a_command_that_is_sure_of_it_begins_the_exchange_at_once(begun: list[Any]) -> None:
    """What it releases first may be small, or need no exchange: the process is begun all the same."""
    first = ("exchange", {"rebuilds": True})
    with ahead.allowed(sure=True), duckanon.connect() as con:
        assert begun == [first]
        con.execute(script(500, "k = 3"))
    rest = {"starts": ["mdav"], "columns": 3, "limited": False, "later": ()}
    assert begun == [first, ("rest", rest)]


def test_the_demo_is_sure_of_it(begun: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckanon.cli.demo.run_demo", lambda _: None)
    with pytest.raises(SystemExit) as left:
        main(["demo"])
    assert left.value.code == 0
    assert begun == [("exchange", {"rebuilds": True})]


@pytest.mark.parametrize(
    ("n", "policy", "columns"),
    [
        (200, FAST, 3),
        (500, f"{FAST}, refine = false", 3),
        (500, f"{FAST}, method = 'mdav'", 3),
        (500, FAST, 1),
    ],
    ids=["as plain Python", "unrefined", "by name", "optimal in one column"],
)
def test_no_process_where_it_does_not_pay(
    begun: list[Any], monkeypatch: pytest.MonkeyPatch, n: int, policy: str, columns: int
) -> None:
    monkeypatch.setattr("duckanon.kernels.plain.stored", lambda _: False)
    with ahead.allowed(), duckanon.connect() as con:
        con.execute(script(n, policy, columns))
    assert begun == []


def test_no_process_where_all_records_are_equal_or_nothing_is_written(begun: list[Any]) -> None:
    with ahead.allowed(), duckanon.connect() as con:
        con.execute(script(9000, FAST).replace("% 1000", "% 2"))
        con.execute("CREATE TABLE q AS SELECT i AS a, i + 1 AS b FROM range(9000) AS r(i)")
        con.sql(f"EXPLAIN CREATE ANONYMIZED VIEW w AS FROM q WITH (quasi_identifiers = (a, b), {FAST})")
    assert begun == []


@pytest.mark.parametrize("why", ["a program", "compiled already", "one core"])
def test_no_process_of_whom_it_does_not_help(
    begun: list[Any], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Who imports duckanon is not surprised by processes."""
    if why == "compiled already":
        monkeypatch.setattr(ahead, "stored", lambda _: True)
    if why == "one core":
        monkeypatch.setattr(ahead, "_cores", lambda: 1)
    with nullcontext() if why == "a program" else ahead.allowed(sure=True), duckanon.connect() as con:
        con.execute(script(500, FAST))
    assert begun == []


@pytest.mark.parametrize("command", ["sql", "run", "anonymize"])
def test_commands_that_release_allow_it(begun: list[Any], tmp_path: Path, command: str) -> None:
    (tmp_path / "s.sql").write_text(script(500, FAST))
    rows = "\n".join(f"{i * 37 % 1000},{i * 53 % 1000}" for i in range(500))
    (tmp_path / "t.csv").write_text(f"a,b\n{rows}\n")
    arguments = {
        "sql": [script(500, FAST)],
        "run": [str(tmp_path / "s.sql")],
        "anonymize": [str(tmp_path / "t.csv"), str(tmp_path / "o.csv"), "--qi", "a,b", "-k", "3"],
    }[command]
    with pytest.raises(SystemExit) as left:
        main([command, *arguments])
    assert left.value.code == 0
    assert [part for part, _ in begun] == ["exchange", "rest"]
    assert ahead._command is None


def test_a_process_that_does_nothing_is_no_harm(begun: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """As one that fails: what is missing is compiled here, and the release is the same."""
    fingerprints = []
    for allowed in (ahead.allowed(), nullcontext()):
        with allowed, duckanon.connect() as con:
            con.execute(script(500, WITH_T))
            fingerprints.append(
                con.execute("SELECT md5(string_agg(v::VARCHAR, '' ORDER BY ALL)) FROM v").fetchone()
            )
    assert len(begun) == 2
    assert fingerprints[0] == fingerprints[1]


# What this process itself compiles, by numba's own word.
PROGRAM = """
import sys
import numba.core.event as event
import duckanon
from duckanon.release import ahead

class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__name__}")
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
with ahead.allowed(later=sys.argv[2:]), duckanon.connect() as con:
    con.execute(sys.argv[1])
    print(con.execute("SELECT md5(string_agg(v::VARCHAR, '' ORDER BY ALL)) FROM v").fetchone()[0])
    print("ended", *[process.wait() for process in ahead._command.processes.values()])
"""


def cold(arguments: list[str], cache: Path, **given: Any) -> subprocess.Popen[str]:
    """Start Python with an empty compiler cache."""
    environment = {**os.environ, **uncompiled(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **given,
    )


@pytest.mark.skipif(
    ahead._cores() < 2, reason="there is one core, on which no process compiles beside another"
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "policy", "columns", "later"),
    [
        (9000, FAST, 14, ["tcloseness_first"]),
        (60_000, FAST, 3, []),
        (450, "k = 3", 3, []),
        (450, WITH_T, 3, []),
    ],
    ids=["k alone, later t", "k alone, many", "k alone, balanced", "t"],
)
def test_a_command_compiles_nothing_itself(
    tmp_path: Path, n: int, policy: str, columns: int, later: list[str]
) -> None:
    with cold(["-c", PROGRAM, script(n, policy, columns), *later], tmp_path / "cache") as process:
        printed, told = process.communicate(timeout=600)
    with duckanon.connect() as con:
        con.execute(script(n, policy, columns))
        here = con.execute("SELECT md5(string_agg(v::VARCHAR, '' ORDER BY ALL)) FROM v").fetchone()
    assert here is not None
    assert (printed, told) == (f"{here[0]}\nended 0 0\n", ""), "the same classes, whoever compiles"
    kept = {path.name.split("-")[0] for path in (tmp_path / "cache").rglob("*.nbc")}
    assert {"exchange.sweep", "mdav._run"} <= kept
    assert ("partner.merge_all" in kept) == (policy == WITH_T or bool(later))
    assert ("rebuild.rebuild" in kept) == (n < 60_000), "up to 1,024 records 'fast' is 'balanced'"
    assert not list((tmp_path / "cache").rglob("*.tmp*"))


def children(process: int) -> list[int]:
    """Give the processes that a process has started."""
    return [
        int(child)
        for thread in Path(f"/proc/{process}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


def gone(process: int) -> bool:
    """Tell whether a process has ended, if nobody has asked yet how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_worker_compiles_nothing_once_the_work_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel after kernel: the processes are gone by the second, which was compiled then, for seconds."""
    monkeypatch.setattr(ahead, "stored", lambda _: False)
    waits, outcomes = threading.Semaphore(0), list[str]()

    def work(_: Any) -> None:
        for _ in range(20):
            waits.release()
            try:
                ahead._wait(sweep.py_func)
            except RuntimeError as failure:
                outcomes.append(str(failure))
            else:
                outcomes.append("compiles")

    def records() -> Iterator[Any]:
        yield from (None, None)
        assert waits.acquire(timeout=30)
        assert waits.acquire(timeout=30)
        raise KeyboardInterrupt

    waiting = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with ahead.allowed():
        assert ahead._command is not None
        ahead._command.processes[ahead.EXCHANGE] = subprocess.Popen(waiting, stdin=subprocess.PIPE)
        with pytest.raises(KeyboardInterrupt):
            list(workers.on_all_cores(work, records(), threading.Event()))
    assert outcomes == 40 * [ahead.OVER]


class EndsWhenAsked(threading.Event):
    """The end of a work that comes just after a worker has asked for it: the processes go at once."""

    def is_set(self) -> bool:
        """Tell that it had not come, and let it come."""
        before = super().is_set()
        self.set()
        ahead.end()
        return before


def test_a_worker_compiles_nothing_where_the_work_ends_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is gone a moment after it was asked whether the work is over: it has not done its part."""
    monkeypatch.setattr(ahead, "stored", lambda _: False)
    waiting = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with ahead.allowed(), ahead.until(EndsWhenAsked()):
        assert ahead._command is not None
        ahead._command.processes[ahead.EXCHANGE] = subprocess.Popen(waiting, stdin=subprocess.PIPE)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=ahead.OVER):
                ahead._wait(sweep.py_func)


@linux
@pytest.mark.skipif(
    ahead._cores() < 2, reason="there is one core, on which no process compiles beside another"
)
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("columns", [3, 14])
def test_no_process_is_left_when_a_command_is_ended(
    tmp_path: Path, how: signal.Signals, columns: int
) -> None:
    """While it waits for a kernel; only the command gets the signal."""
    arguments = ["-m", "duckanon", "sql", script(9000, FAST, columns)]
    with cold(arguments, tmp_path / "cache", cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{COMPILING} ...\n"
        started = children(process.pid)
        assert len(started) == 2
        assert not any(map(gone, started))
        process.send_signal(how)
        begun = time.monotonic()
        _, told = process.communicate(timeout=60)
        took = time.monotonic() - begun
    if how == signal.SIGINT:
        assert process.returncode == 2
        assert told.startswith("interrupted in statement 2: it released nothing")
        assert all(map(gone, started))
    assert took < 10, "a kernel takes longer to compile"
    while not all(map(gone, started)):
        time.sleep(0.05)
        assert time.monotonic() - begun < 30
    assert not list((tmp_path / "cache").rglob("*.tmp*"))
