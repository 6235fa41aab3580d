"""A file that is written ends with a whole class, also where its writer is killed in the middle of a `write`.

The writer kills itself, so that the moment is always the worst one: half of what it has announced is there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from duckanon.errors import ReleaseError
from duckanon.streams import output, watch
from duckanon.streams.output import guarded
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="only POSIX hands a descriptor on")

WRITER = """
import os, signal, sys
from duckanon.streams.output import guarded

descriptor = {opened}
with guarded(descriptor) as guard:
    guard.announce(6)
    os.write(descriptor, b"whole\\n")
    print(guard._process.pid, flush=True)
    guard.announce(10)
    os.write(descriptor, b"half" if {half} else b"whole too\\n")
    {between}
    {end}
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def written(file: Path, *, half: bool = True, between: str = "", end: str = KILL, opened: str = "") -> int:
    """Run a writer until it ends, and its guard, too; return the process number of the latter."""
    opened = opened or f"os.open({str(file)!r}, os.O_WRONLY | os.O_CREAT)"
    code = WRITER.format(opened=opened, half=half, between=between, end=end)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=False, text=True,
        start_new_session=True,
    )  # fmt: skip
    number = int(done.stdout)
    until_gone(number)
    return number


def until_gone(number: int) -> None:
    """Wait until a process has ended, ten seconds at most."""
    for _ in range(1000):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise TimeoutError


@pytest.mark.slow
def test_what_is_cut_is_taken_back(tmp_path: Path) -> None:
    written(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"whole\n"


def test_what_is_whole_stays(tmp_path: Path) -> None:
    written(tmp_path / "out", half=False)
    assert (tmp_path / "out").read_bytes() == b"whole\nwhole too\n"


@pytest.mark.slow
def test_what_stood_there_before_stays(tmp_path: Path) -> None:
    """As where a shell appends to a file with ``>>``."""
    (tmp_path / "out").write_bytes(b"mine\n")
    opened = f"os.open({str(tmp_path / 'out')!r}, os.O_WRONLY | os.O_APPEND)"
    written(tmp_path / "out", opened=opened)
    assert (tmp_path / "out").read_bytes() == b"mine\nwhole\n"


def test_a_writer_that_ends_by_itself_loses_nothing(tmp_path: Path) -> None:
    """Nothing is cut after a writer has cut the file itself, and said so, as where a disk is full."""
    between = "os.ftruncate(descriptor, 8); guard.announce(0)"
    written(tmp_path / "out", between=between, end="pass")
    assert (tmp_path / "out").read_bytes() == b"whole\nha"


@pytest.mark.slow
def test_what_others_write_stays(tmp_path: Path) -> None:
    """A file that is longer than was announced has somebody else's rows at its end."""
    written(tmp_path / "out", between="os.write(descriptor, b' of somebody else\\n')")
    assert (tmp_path / "out").read_bytes() == b"whole\nhalf of somebody else\n"


@pytest.mark.sampled
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_to_all_processes_do_not_end_it(tmp_path: Path, number: str) -> None:
    between = f"os.kill(guard._process.pid, signal.{number})"
    written(tmp_path / "out", between=between)
    assert (tmp_path / "out").read_bytes() == b"whole\n"


def test_a_signal_to_the_group_of_the_writer_does_not_reach_it(tmp_path: Path) -> None:
    """As ``timeout -s KILL`` sends it; the writer has been in that group before the guard was there."""
    written(tmp_path / "out", end="os.killpg(0, signal.SIGKILL)")
    assert (tmp_path / "out").read_bytes() == b"whole\n"


@pytest.mark.slow
def test_another_one_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    between = (
        "os.write(descriptor, b'  too\\n'); guard._process.kill(); guard._process.wait();"
        " guard.announce(9); print(guard._process.pid, flush=True); os.write(descriptor, b'cut')"
    )
    code = WRITER.format(
        opened=f"os.open({str(tmp_path / 'out')!r}, os.O_WRONLY | os.O_CREAT)",
        half=True,
        between=between,
        end=KILL,
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=False, text=True
    )
    first, second = map(int, done.stdout.split())
    assert first != second
    until_gone(second)
    assert (tmp_path / "out").read_bytes() == b"whole\nhalf  too\n"


def test_a_shell_goes_on_where_the_file_was_cut(tmp_path: Path) -> None:
    """Who shares the descriptor would leave a gap of zeros."""
    code = WRITER.format(opened="3", half=True, between="", end=KILL)
    script = f"{{ {sys.executable} -c '{code}' | cat >&2; sleep 1; echo next >&3; }} 3> {tmp_path / 'out'}"
    subprocess.run(["bash", "-c", script], cwd=ROOT, timeout=60, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "out").read_bytes() == b"whole\nnext\n"


def test_only_files_have_one(tmp_path: Path) -> None:
    read, write = os.pipe()
    with guarded(write) as none:
        assert none is None
    os.close(read)
    os.close(write)
    descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    with guarded(descriptor) as one:
        assert one is not None
        number = one._process.pid
    os.close(descriptor)
    with pytest.raises(ProcessLookupError):
        os.kill(number, signal.SIGINT)


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        ((output.sys, "executable", "/nowhere/python"), "no process can be started to guard the output"),
        (
            (watch, "__file__", "/nowhere/watch.py"),
            "the process that guards the output ends at once",
        ),
    ],
)
def test_nothing_is_written_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: tuple[Any, str, str], words: str
) -> None:
    monkeypatch.setattr(*replaced)
    descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(ReleaseError, match=words):
            announced(descriptor)
    finally:
        os.close(descriptor)


def announced(descriptor: int) -> None:
    """Announce three bytes of a file."""
    with guarded(descriptor) as one:
        assert one is not None
        one.announce(3)
