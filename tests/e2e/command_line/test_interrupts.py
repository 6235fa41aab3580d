"""Ctrl-C through the Python API: KeyboardInterrupt, and nothing is left.

Of 34 interrupts 14 raised ResourceInUseException and left four temporary tables with original values.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.database import interrupts
from duckanon.release import publish
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKS = (
    "anonymize", "create", "refresh", "audit", "audit table", "explain",
    "export duckdb", "export csv", "function", "table", "query",
)  # fmt: skip

LASTING = {
    "audit": 0.2,
    "audit table": 0.2,
    "explain": 0.7,
    "export duckdb": 1.5,
    "export csv": 0.4,
    "query": 3,
}
"""About how long they take, where a REFRESH takes 1."""


class Child:
    """A process that runs what it is told, and can be interrupted meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.interrupted", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        word, seconds = self.line().split()
        assert word == "ready"
        self.lasting = float(seconds)

    def line(self) -> str:
        """Give the next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line or self.process.stderr is None, self.process.stderr.read()
        return line.strip()

    def round(self, work: str, *after: float, transaction: bool = False) -> dict[str, Any]:
        """Interrupt one work after so many seconds, each counted from the one before."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"work": work, "transaction": transaction}) + "\n")
        self.process.stdin.flush()
        assert self.line() == "go"
        for seconds in after:
            time.sleep(seconds)
            self.process.send_signal(signal.SIGINT)
        self.process.stdin.write("sent\n")
        self.process.stdin.flush()
        report: dict[str, Any] = json.loads(self.line())
        return report

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    child = Child(tmp_path_factory.mktemp("interrupted"))
    # What Ctrl-C does not stop would hang here.
    watchdog = threading.Timer(900, child.process.kill)
    watchdog.start()
    yield child
    watchdog.cancel()
    child.close()


def interrupted(child: Child, seed: int, rounds: int) -> None:
    """Interrupt at random moments, once or three times; nothing may be left, and the error is KeyboardInterrupt."""
    choice = random.Random(seed)
    found = []
    for number in range(rounds):
        work = WORKS[number % len(WORKS)]
        moment = choice.uniform(0, 1.05 * LASTING.get(work, 1) * child.lasting)
        more = [choice.uniform(0, 0.02) for _ in range(choice.choice([0, 0, 2]))]
        found.append(child.round(work, moment, *more, transaction=choice.random() < 0.4))
        if found[-1]["ended"] == "done" and found[-1]["took"] > 0:
            # The machine is faster than it was: press earlier.
            child.lasting = min(child.lasting, found[-1]["took"] / LASTING.get(work, 1))
    assert [report for report in found if report["wrong"]] == []
    assert {report["ended"] for report in found} <= {"KeyboardInterrupt", "done"}
    assert sum(report["ended"] == "KeyboardInterrupt" for report in found) >= rounds / 8


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_at_some_moments(child: Child) -> None:
    interrupted(child, seed=1, rounds=8)


@pytest.mark.long
def test_ctrl_c_leaves_nothing_at_200_moments(child: Child) -> None:
    interrupted(child, seed=2, rounds=200)


LEFT = "SELECT table_name FROM duckdb_tables() WHERE temporary UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
PRESSED = "SELECT press(i) AS age, i % 7 AS charge FROM range(50) AS r(i)"
CREATE = (
    "CREATE ANONYMIZED VIEW main.v AS {query} WITH (quasi_identifiers = (age), sensitive = (charge), k = 3)"
)


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    """A connection on which `press(i)` is Ctrl-C in the middle of a query."""
    with duckanon.connect() as con:
        con.execute("CREATE SCHEMA elsewhere; USE elsewhere")

        def press(number: int) -> int:
            if number == 30:
                signal.raise_signal(signal.SIGINT)
            return number

        con.duckdb.create_function("press", press, ["BIGINT"], "BIGINT", side_effects=True)
        yield con


def left(con: duckanon.Connection) -> list[Any]:
    return con.duckdb.execute(LEFT).fetchall()


def test_ctrl_c_inside_a_function_of_the_user_is_keyboard_interrupt(con: duckanon.Connection) -> None:
    """DuckDB makes InvalidInputException of it, in which KeyboardInterrupt is but a word."""
    with pytest.raises(KeyboardInterrupt):
        con.sql(CREATE.format(query=PRESSED))
    assert left(con) == []
    assert con.sql("SHOW ANONYMIZED VIEWS").fetchall() == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_user_that_goes_on_is_obeyed(con: duckanon.Connection) -> None:
    pressed = []
    signal.signal(signal.SIGINT, lambda *given: pressed.append(given[0]))
    try:
        con.sql(CREATE.format(query=PRESSED))
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert pressed == [signal.SIGINT]
    assert con.execute("SELECT count(*) FROM main.v").fetchall() == [(50,)]


class EnoughError(Exception):
    """What the handler of a user raises."""


def test_what_the_handler_of_the_user_raises_comes_out(con: duckanon.Connection) -> None:
    def stop(number: int, frame: object) -> None:
        raise EnoughError

    signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(EnoughError):
            con.sql(CREATE.format(query=PRESSED))
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert left(con) == []


@pytest.mark.parametrize("press", [0, 1, 2])
def test_ctrl_c_during_a_clean_up_waits_for_its_end(press: int) -> None:
    done = []

    def clean() -> None:
        for _ in range(press):
            signal.raise_signal(signal.SIGINT)
        done.append("cleaned")

    @interrupts.interruptible
    def work() -> None:
        with interrupts.cleanup(None, lambda: done.append("outer")), interrupts.cleanup(None, clean):
            done.append("work")
        done.append("went on")

    if press:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == ["work", "cleaned", "outer"]
    else:
        work()
        assert done == ["work", "cleaned", "outer", "went on"]


def test_ctrl_c_when_the_statement_is_as_good_as_done_does_not_undo_it() -> None:
    done = []

    @interrupts.interruptible
    def work() -> None:
        with interrupts.undo(None, lambda: done.append("undone")):
            interrupts.settle()
            signal.raise_signal(signal.SIGINT)
            done.append("committed")

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert done == ["committed"]
    assert caught.value.__notes__ == [interrupts.DONE_NOTE]


def test_an_interrupt_by_another_thread_again_and_again_leaves_nothing() -> None:
    """The work is not done in the main thread either, so no signal takes part."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE p AS SELECT i * 7919 % 20000 AS age, i % 50 AS charge FROM range(20000) r(i)"
        )
        ended: list[str] = []
        told: list[str] = []
        over = threading.Event()

        def work() -> None:
            try:
                con.sql(CREATE.format(query="FROM p"))
                ended.append("done")
            except BaseException as failure:  # noqa: BLE001
                ended.append(type(failure).__name__)
                told.append("".join(traceback.format_exception(failure)))
            finally:
                over.set()

        for seconds in (0.02, 0.2, 0.5):
            over.clear()
            worker = threading.Thread(target=work)
            worker.start()
            time.sleep(seconds)
            while not over.wait(0.01):
                con.duckdb.interrupt()
            worker.join()
            assert left(con) == []
            con.sql("DROP ANONYMIZED VIEW IF EXISTS main.v")
        assert set(ended) <= {"KeyboardInterrupt", "done"}, told
        assert "KeyboardInterrupt" in ended


@pytest.mark.parametrize("stage", ["source", "recode", "elsewhere"])
def test_a_stage_that_fails_in_a_transaction_shows_its_own_error(
    con: duckanon.Connection, stage: str
) -> None:
    """It said "Current transaction is aborted" (recode), and left the search path of the source (REFRESH)."""
    huge = "SELECT 170141183460469231731687303715884105727::HUGEINT - i AS age, i % 7 AS charge FROM range(50) AS r(i)"
    con.execute("CREATE SEQUENCE once; CREATE TABLE kept (i INTEGER)")
    query, words = {
        "source": ("SELECT error('no source today') AS age, 1 AS charge", "no source today"),
        "recode": (huge, "too large for an exact mean"),
        "elsewhere": ("SELECT CASE WHEN nextval('once') > 60 THEN error('closed') ELSE 1 END AS age, i % 7 AS charge FROM range(50) r(i)", "closed"),
    }[stage]  # fmt: skip
    statement = CREATE.format(query=query)
    if stage == "elsewhere":
        con.sql(statement)
        con.execute("USE memory.main")
        statement = "REFRESH ANONYMIZED VIEW v"
    place = "SELECT current_schema(), current_setting('search_path')"
    before = con.execute(place).fetchall()
    con.execute("BEGIN")
    con.execute("INSERT INTO elsewhere.kept VALUES (1)")
    with pytest.raises(duckanon.SourceError, match=words):
        con.sql(statement)
    # An error aborts a transaction of DuckDB's, and ROLLBACK is all that is possible in it.
    with pytest.raises(duckdb.TransactionException, match="aborted"):
        con.execute("SELECT 1")
    con.execute("ROLLBACK")
    assert con.execute(place).fetchall() == before
    assert left(con) == []
    assert con.execute("SELECT count(*) FROM elsewhere.kept").fetchall() == [(0,)]


@pytest.mark.slow
def test_half_of_a_release_cannot_be_committed_in_a_transaction_of_the_user(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between two writes is no error of DuckDB's, which would abort the transaction by itself."""
    con.sql(CREATE.format(query="SELECT i AS age, i % 7 AS charge FROM range(50) AS r(i)"))
    record = publish._record

    def pressed(*given: Any, **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        record(*given, **named)

    monkeypatch.setattr(publish, "_record", pressed)
    con.execute("BEGIN")
    with pytest.raises(KeyboardInterrupt):
        con.sql("REFRESH ANONYMIZED VIEW main.v")
    # DuckDB says nothing when an aborted transaction is committed, and commits nothing.
    con.execute("COMMIT")
    assert con.execute("SELECT release_id FROM memory.duckanon.releases").fetchall() == [(1,)]
    assert con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'release_%' ORDER BY 1"
    ).fetchall() == [("release_1",), ("releases",)]
