"""Progress on stderr and Ctrl-C, on a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon import progress
from duckanon.database import engine
from tests.e2e.scenes import CREATE, PATIENTS, ROOT, command, patients, settled
from tests.examples import some

if TYPE_CHECKING:
    from pathlib import Path

STAGES = ["stage", "embed", "bucket", "recode", "audit", "publish"]
SCRIPT = f"{PATIENTS}; {CREATE}; SELECT count(*) AS n FROM v"

# One range, of which hardly a record is kept: it runs for minutes, and writes nothing.
ENDLESS = "SELECT i % 50 AS age, i % 11 AS charge FROM range(100_000_000_000) AS r(i) WHERE hash(i) % 1_000_000_007 = 1"
LARGE = "SELECT hash(i) % 90 AS age, hash(-i) % 997 AS charge FROM range(200_000) AS r(i)"
DISTINCT = "SELECT hash(i)::DOUBLE AS age, hash(-i) % 997 AS charge FROM range(80_000) AS r(i)"

# Stops in the middle of publishing, as in test_kill.py.
STOPPED = """
import sys, time
from duckanon.cli import main as cli
from duckanon.release import publish
publish._record = lambda *arguments, **named: time.sleep(60)
cli.main(sys.argv[1:])
"""


def screen(written: str) -> list[str]:
    """Give the lines that a terminal shows in the end: returns, cursor up and erased lines are obeyed."""
    lines, row, column = [""], 0, 0
    for code, count, kind, text in re.findall(r"(\x1b\[[?]?(\d*)[\d;]*([A-Za-z]))|([^\x1b])", written):
        if kind == "A":
            row -= int(count or 1)
        elif kind == "K":
            lines[row] = ""
        elif text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif not code:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines if line.strip()]


def plain(written: str) -> str:
    """Give what was written without its control sequences."""
    return re.sub(r"\x1b\[[?]?[\d;]*[A-Za-z]", "", written)


def on_terminal(
    *arguments: str, interrupt_at: str | None = None, term: str = "xterm"
) -> tuple[int, str, str]:
    """Run Python with stderr a terminal, with Ctrl-C where that pattern appears; give exit code, stdout, stderr."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=end, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": term, "COLUMNS": "120"},
    )  # fmt: skip
    os.close(end)
    # What Ctrl-C does not stop would hang here.
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    written = b""
    # Reading from a terminal that nobody has open any more is an error on Linux, nothing on other systems.
    while chunk := _read(terminal):
        written += chunk
        if interrupt_at is not None and re.search(interrupt_at, written.decode(errors="replace"), re.DOTALL):
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    watchdog.cancel()
    os.close(terminal)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output, written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.slow
def test_a_terminal_shows_the_stages_and_stdout_is_what_it_is() -> None:
    code, output, shown = on_terminal("-m", "duckanon", "sql", SCRIPT)
    piped = command("sql", SCRIPT, FORCE_COLOR="1")
    assert (code, piped.returncode) == (0, 0), shown + piped.stderr
    assert output == piped.stdout
    assert "k_anonymity" in output
    # A pipe is no terminal, whatever is said about colour.
    assert piped.stderr == ""
    found = re.findall(r"\b(stage|embed|bucket|recode|audit|publish)\b", plain(shown))
    assert list(dict.fromkeys(found)) == STAGES
    assert screen(shown) == []


@pytest.mark.slow
def test_a_terminal_without_cursor_movement_shows_nothing() -> None:
    code, output, shown = on_terminal("-m", "duckanon", "sql", SCRIPT, term="dumb")
    assert (code, settled(shown.replace("\r\n", "\n"))) == (0, "")
    assert "k_anonymity" in output


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("program", "query", "moment"),
    some(
        [
            (["-m", "duckanon"], ENDLESS, "0:00:01"),
            (["-m", "duckanon"], ENDLESS, "stage"),
            (["-m", "duckanon"], DISTINCT, "partition"),
            (["-m", "duckanon"], LARGE, "bucket"),
            (["-c", STOPPED], "SELECT age, charge FROM patients", "publish"),
        ],
        one_of=2,
    ),
)
def test_ctrl_c_releases_nothing(tmp_path: Path, program: list[str], query: str, moment: str) -> None:
    """One line, exit code 2, and a database without a trace of the release."""
    file = tmp_path / "p.duckdb"
    patients(file).close()
    statement = f"CREATE ANONYMIZED VIEW v AS {query} WITH (quasi_identifiers = age, insensitive = *, k = 5)"
    code, output, shown = on_terminal(
        *program, "sql", statement, "--database", str(file), interrupt_at=moment
    )
    assert (code, output, screen(shown)) == (2, "", ["interrupted: nothing was released"])
    with duckdb.connect(str(file)) as con:
        assert con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
        tables = [row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert [name for name in tables if name.startswith("release_")] == []
        assert "patients" in tables
        assert con.execute("SELECT count(*) FROM patients").fetchall() == [(60,)]


@pytest.mark.slow
def test_ctrl_c_in_a_script_says_that_earlier_statements_have_run(tmp_path: Path) -> None:
    file = tmp_path / "p.duckdb"
    patients(file).close()
    later = f"CREATE ANONYMIZED VIEW w AS {ENDLESS} WITH (quasi_identifiers = age, insensitive = *, k = 5)"
    code, _, shown = on_terminal(
        "-m", "duckanon", "sql", f"{CREATE}; {later}", "-d", str(file), interrupt_at="publish.*stage.*0:00:01"
    )
    assert code == 2
    assert screen(shown) == ["interrupted in statement 2: it released nothing; those before it have run"]
    with duckdb.connect(str(file)) as con:
        assert con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == [("v",)]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def test_a_step_is_advanced_from_worker_threads(terminal: Terminal) -> None:
    """Four threads, 61 tiles each, are 244 by hand."""

    def work(step: progress.Step) -> None:
        for _ in range(61):
            step.advance()

    with progress.shown(terminal), progress.step("partition", total=244, unit="tiles") as step:
        workers = [threading.Thread(target=work, args=[step]) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    text = plain(terminal.getvalue())
    assert re.search(r"partition .*\b0/244 tiles", text)
    assert re.search(r"partition .*244/244 tiles.*0:00:0\d", text)
    assert screen(terminal.getvalue()) == []


def test_steps_within_steps_have_a_line_each_and_an_error_leaves_none(terminal: Terminal) -> None:
    def fail() -> None:
        with progress.shown(terminal), progress.step("outer", total=2, unit="rounds") as outer:
            with progress.step("inner"):
                outer.advance(2)
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    lines = [line.strip() for line in re.split(r"[\r\n]+", plain(terminal.getvalue()))]
    # Without a total: the name and the elapsed time, nothing else.
    assert any(re.fullmatch(r"inner\s+\d:\d\d:\d\d", line) for line in lines)
    assert any(re.match(r"outer .*2/2 rounds", line) for line in lines)
    assert screen(terminal.getvalue()) == []


def test_nothing_is_shown_without_a_display(terminal: Terminal, capfd: pytest.CaptureFixture[str]) -> None:
    """In a library, on a stream that is no terminal, and after the display was closed."""
    with progress.shown(terminal):
        pass
    with progress.step("a", total=1) as step:
        step.advance()
    pipe = io.StringIO()
    with progress.shown(pipe), progress.step("b") as step:
        step.advance(5)
    assert (terminal.getvalue(), pipe.getvalue(), capfd.readouterr()) == ("", "", ("", ""))


def test_no_database_of_our_own_prints_a_progress_bar() -> None:
    """DuckDB prints its bar to stdout, which on a slow machine put it between the lines of the demo."""
    with engine.in_memory() as con:
        assert con.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
    doors = {"duckanon/database/engine.py", "duckanon/api/connection.py"}
    modules = {
        str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (ROOT / "duckanon").rglob("*.py")
    }
    assert {name for name, text in modules.items() if "duckdb.connect(" in text} == doors
