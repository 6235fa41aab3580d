"""Drafts of files: a killed process leaves one, and whoever writes next removes it, and nothing else."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.api import files
from duckanon.database import drafts
from tests.e2e.file_scene import run, write
from tests.e2e.scenes import CREATE, ROOT, patients

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# Stops when the draft is written and has no name yet, as a kill at that moment would find it.
PROGRAM = """
import sys, time
import duckanon
from duckanon.release import destination
from duckanon.cli import documents
def stop(*arguments, **named):
    print("written", flush=True)
    time.sleep(60)
destination._settle = stop
Path = type(documents.Path())
Path.replace = stop
con = duckanon.connect(sys.argv[1])
if sys.argv[2] == "-o":
    documents.deliver("secret", documents.Path(sys.argv[3]))
else:
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{sys.argv[3]}'")
"""


def killed(database: Path, kind: str, target: Path) -> subprocess.Popen[str]:
    """Start a process that writes a file, up to the moment before the file gets its name."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(database), kind, str(target)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a release, as bytes: each test has its copy."""
    file = tmp_path_factory.mktemp("home") / "p.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    return file


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("EXPORT", "r.duckdb"),
        ("-o", "r.json"),
        *(pytest.param("EXPORT", name, marks=pytest.mark.long) for name in ("r.csv", "r.parquet")),
    ],
)
def test_kill_9_leaves_a_draft_that_the_next_one_removes(
    home: Path, tmp_path: Path, kind: str, name: str
) -> None:
    database = tmp_path / "home" / "p.duckdb"
    database.parent.mkdir()
    database.write_bytes(home.read_bytes())
    process = killed(database, kind, tmp_path / name)
    (folder,) = tmp_path.glob(".duckanon-*")
    # It lives: another writer in the same folder leaves it alone.
    with drafts.draft(tmp_path / "other.csv") as draft:
        draft.write_text("x")
    assert [folder] == list(tmp_path.glob(".duckanon-*"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    assert folder.is_dir(), "kill -9 leaves no time to tidy up"
    assert not (tmp_path / name).exists()
    with patients(tmp_path / "home" / "q.duckdb") as con:
        con.sql(CREATE)
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r.csv'}'")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "r.csv"]


def test_refresh_removes_drafts_beside_its_database(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "p.duckdb"
    database.write_bytes(home.read_bytes())
    process = killed(database, "EXPORT", tmp_path / "r.csv")
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    assert len(list(tmp_path.glob(".duckanon-*"))) == 1
    with duckanon.connect(database) as con:
        con.sql("REFRESH ANONYMIZED VIEW v")
    assert [path.name for path in tmp_path.iterdir()] == ["p.duckdb"]


def test_nothing_of_the_user_is_taken_for_a_draft(tmp_path: Path) -> None:
    """Names like ours, and marks like ours with something else beside them: everything stays, byte for byte."""
    mark = "a draft of duckanon: it is removed when nobody writes it any more\n"
    mine = {
        ".duckanon-12345678/lock": "mine",
        ".duckanon-12345678/draft.csv": "a user's own",
        ".duckanon-0123abcd/lock": mark,
        ".duckanon-0123abcd/diary.txt": "a user's own",
        ".duckanon-0000000g/lock": mark,
        ".duckanon-000000001/lock": mark,
        ".release.csv.0a1b2c3d.csv": "a file of an old name",
        ".duckanon-aaaaaaaa": "a file",
        "elsewhere/lock": mark,
        "elsewhere/draft.csv": "behind a link",
    }
    for name, text in mine.items():
        write(tmp_path / name, text)
    (tmp_path / ".duckanon-bbbbbbbb").symlink_to("elsewhere")
    drafts.sweep(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    assert (tmp_path / ".duckanon-bbbbbbbb").is_symlink()


@pytest.mark.parametrize("content", ["no lock", "", "a draft of"])
def test_a_process_killed_while_it_began_leaves_nothing_for_good(tmp_path: Path, content: str) -> None:
    """Without its folder's lock, with an empty one, with half a mark."""
    folder = tmp_path / ".duckanon-12345678"
    folder.mkdir()
    if content != "no lock":
        write(folder / "lock", content)
    drafts.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_many_who_write_at_once_keep_their_drafts(tmp_path: Path) -> None:
    """Each sweeps before it writes, so a race would take a draft from under another: its rename would fail."""
    failures: list[BaseException] = []

    def many(worker: int) -> None:
        try:
            for number in range(40):
                file = tmp_path / f"{worker}_{number}.txt"
                with drafts.draft(file) as draft:
                    draft.write_text(file.name)
                    draft.rename(file)
        except BaseException as failure:  # noqa: BLE001 - told by the test
            failures.append(failure)

    workers = [threading.Thread(target=many, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert all(path.read_text() == path.name for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 160


def test_a_draft_is_for_its_owner_alone(tmp_path: Path) -> None:
    with drafts.draft(tmp_path / "r.csv") as draft:
        assert Path(draft).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["folder", "dangling link", "file"])
@pytest.mark.parametrize("ending", ["csv", "duckdb"])
def test_a_target_that_is_there_is_left_as_it_is(tmp_path: Path, kind: str, ending: str) -> None:
    write(tmp_path / "p.csv", "a\n1\n1\n")
    target = tmp_path / f"o.{ending}"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to("nowhere")
    code, out, err = run(tmp_path, "anonymize", "p.csv", target.name, "--qi", "a", "-k", "2")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert ("is a folder" if kind == "folder" else "exists: choose another name") in err
    assert sorted(os.listdir(tmp_path)) == sorted([target.name, "p.csv"])
    assert kind != "file" or target.read_text() == "mine"


def test_ctrl_c_after_any_step_of_making_a_draft_leaves_nothing(tmp_path: Path) -> None:
    """Python raises KeyboardInterrupt between two of its instructions: here after each of them in turn."""

    def trace_until(last: int) -> Callable[..., Any]:
        passed = 0

        def trace(frame: FrameType, event: str, given: object) -> Any:
            nonlocal passed
            del given
            if frame.f_code is not drafts._make.__code__:
                return None
            frame.f_trace_opcodes = True
            passed += event == "opcode"
            if passed > last:
                raise KeyboardInterrupt
            return trace

        return trace

    for step in itertools.count():
        sys.settrace(trace_until(step))
        try:
            with drafts.draft(tmp_path / "out.csv") as path:
                sys.settrace(None)
                assert path.parent.is_dir()
                break
        except KeyboardInterrupt:
            assert list(tmp_path.iterdir()) == [], f"after {step} instructions"
        finally:
            sys.settrace(None)
    assert step > 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder", "socket"])
def test_a_lock_that_is_no_plain_file_stops_nobody_and_stays(kind: str, tmp_path: Path) -> None:
    """Who may write in a folder puts a pipe there, and every writer waited for its other end."""
    folder = tmp_path / ".duckanon-00000000"
    folder.mkdir()
    lock, pipe = folder / "lock", tmp_path / "pipe"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as other, pytest.MonkeyPatch.context() as patch:
        if kind == "pipe":
            os.mkfifo(lock)
        elif kind == "link to a pipe":
            lock.symlink_to(pipe)
        elif kind == "folder":
            lock.mkdir()
        else:
            # A path of a socket has at most 107 bytes.
            patch.chdir(folder)
            other.bind("lock")
        written = tmp_path / "written.txt"

        def write_beside() -> None:
            with drafts.draft(written) as draft:
                draft.write_text("whole")
                draft.rename(written)

        writer = threading.Thread(target=write_beside, daemon=True)
        writer.start()
        writer.join(30)
        assert not writer.is_alive()
    assert written.read_text() == "whole"
    assert os.path.lexists(lock)
    assert [path.name for path in tmp_path.glob(".duckanon-*")] == [folder.name]


@pytest.mark.parametrize("writes", [True, False])
def test_what_is_spilled_is_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """DuckDB makes its files for everybody, so that the folder must keep others out; nothing of it stays."""
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "p.csv"
    source.write_text("a\n1\n", encoding="utf-8")
    with files.opened(str(source), folders=[tmp_path] if writes else [], trust=True) as con:
        con.execute("SET threads = 1; SET memory_limit = '30MB'")
        con.execute("CREATE TABLE t AS SELECT hash(i) AS a, hash(-i) AS b FROM range(3000000) AS r(i)")
        (folder,) = tmp_path.glob(".duckanon-*")
        assert any(path.name.startswith("duckdb_temp_") for path in folder.iterdir()), "this test spills"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not (tmp_path / ".tmp").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_what_a_killed_command_spilled_is_swept(tmp_path: Path) -> None:
    with drafts.spill(tmp_path) as folder:
        assert folder is not None
        kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    left = tmp_path / ".duckanon-0123abcd"
    left.mkdir(mode=0o700)
    for name, data in kept.items():
        (left / name).write_bytes(data)
    (left / "duckdb_temp_13734_0_storage_S128K-0.tmp").write_bytes(b"values of the source")
    drafts.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_no_folder_can_be_made_nothing_is_said(tmp_path: Path) -> None:
    with drafts.spill(tmp_path / "none") as folder:
        assert folder is None
