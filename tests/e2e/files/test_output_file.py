"""Where -o writes: never into what the command reads, never half a document, and said before the work."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import duckdb
import pytest

from duckanon.cli.documents import check_output, deliver
from duckanon.cli.main import app
from duckanon.errors import DuckanonError
from tests.e2e.scenes import PATIENTS, command
from tests.examples import slowly

QUERIES = "SELECT count(*) AS n FROM data"
POLICY = 'quasi_identifiers = ["age", "zip"]\nk = 2\n'
AUDIT = ["audit", "patients.csv", "--qi", "age,zip"]
COMPARE = ["compare", "h.duckdb:patients", "release.csv", "--queries", "q.sql"]
LINKAGE = ["linkage", "patients.csv", "release.csv", "--qi", "age,zip"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with one file of every kind that a command reads, and go there."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(tmp_path / "h.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute(f"COPY patients TO '{tmp_path}/patients.csv'")
        con.execute(f"COPY patients TO '{tmp_path}/release.csv'")
        con.execute(f"COPY (SELECT DISTINCT diagnosis, 'all' FROM patients) TO '{tmp_path}/tree.csv'")
    (tmp_path / "q.sql").write_text(QUERIES, encoding="utf-8")
    (tmp_path / "p.toml").write_text(POLICY, encoding="utf-8")
    assert app([*AUDIT, "--format", "json", "-o", "before.json"], standalone_mode=False) == 0
    (tmp_path / "other.csv").symlink_to(tmp_path / "patients.csv")
    (tmp_path / "same.csv").hardlink_to(tmp_path / "patients.csv")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "output"),
    slowly([
        (["suggest", "patients.csv"], "patients.csv"),
        (["suggest", "patients.csv"], "./other.csv"),
        (["suggest", "patients.csv"], "same.csv"),
        (["suggest", "h.duckdb:patients"], "h.duckdb"),
        (COMPARE, "h.duckdb"),
        (COMPARE, "release.csv"),
        (COMPARE, "q.sql"),
        (LINKAGE, "patients.csv"),
        (LINKAGE, "release.csv"),
        ([*LINKAGE, "--id", "id", "--policy", "p.toml"], "p.toml"),
        (AUDIT, "patients.csv"),
        ([*AUDIT, "--policy", "p.toml"], "p.toml"),
        ([*AUDIT, "--against", "before.json"], "before.json"),
        ([*AUDIT, "--format", "html", "--original", "h.duckdb:patients"], "h.duckdb"),
        (
            [
                *AUDIT, "--sensitive", "diagnosis", "--distance", "diagnosis=hierarchical",
                "--hierarchies", "diagnosis=tree.csv", "-t", "0.9",
            ],
            "tree.csv",
        ),
    ], one_of=3),
)  # fmt: skip
def test_what_is_read_is_never_overwritten(folder: Path, arguments: list[str], output: str) -> None:
    before = contents(folder)
    with pytest.raises(DuckanonError, match="is read by this command"):
        app([*arguments, "-o", output], standalone_mode=False)
    assert contents(folder) == before


@pytest.mark.parametrize("arguments", [["suggest", "nobody.csv"], COMPARE, LINKAGE, AUDIT])
@pytest.mark.parametrize(
    ("output", "words"),
    slowly([("nowhere/o.txt", "nowhere' does not exist"), (".", "is a folder")], one_of=3),
)
@pytest.mark.usefixtures("folder")
def test_a_place_that_cannot_be_written_is_an_error_before_the_work(
    arguments: list[str], output: str, words: str
) -> None:
    """``suggest`` does not even look whether its file exists."""
    with pytest.raises(DuckanonError, match=words):
        app([*arguments, "-o", output], standalone_mode=False)


def test_the_command_line_says_so_in_a_line_and_leaves_with_2(folder: Path) -> None:
    before = contents(folder)
    done = command("suggest", "patients.csv", "-o", "patients.csv", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: -o 'patients.csv' is read by this command: give another file\n"
    assert contents(folder) == before


def test_another_file_is_replaced_by_the_whole_document(folder: Path) -> None:
    (folder / "o.json").write_text("x" * 100_000, encoding="utf-8")
    assert app([*COMPARE, "--format", "json", "-o", "o.json"], standalone_mode=False) == 0
    assert len(json.loads((folder / "o.json").read_text(encoding="utf-8"))["queries"]) == 1
    assert not [name for name in contents(folder) if name.startswith(".")]


def test_a_log_of_a_database_is_part_of_it(tmp_path: Path) -> None:
    """What was committed and not yet written back is in ``file.wal`` alone."""
    for name in ("h.duckdb", "h.duckdb.wal"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    with pytest.raises(DuckanonError, match="is read by this command"):
        check_output(tmp_path / "h.duckdb.wal", f"{tmp_path}/h.duckdb:patients")


def test_inputs_that_are_missing_are_not_the_matter_of_the_check(tmp_path: Path) -> None:
    check_output(tmp_path / "new.txt", "nowhere.csv", None, tmp_path / "nothing.toml")
    check_output(None, "nowhere.csv")


def test_a_link_and_the_mode_of_a_file_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.txt"
    real.write_text("old", encoding="utf-8")
    real.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    deliver("new", link)
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_output(pipe, "patients.csv")
    deliver("text", pipe)
    assert os.read(reader, 100) == b"text\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_document_that_cannot_be_finished_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "o.txt"
    file.write_text("old", encoding="utf-8")

    def full(path: Path, text: str, **_: object) -> None:
        with path.open("w") as draft:
            draft.write(text[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DuckanonError, match=r"cannot write .*o\.txt': No space left on device"):
        deliver("new text", file)
    assert contents(tmp_path) == {"o.txt": b"old"}


@pytest.mark.parametrize(("file", "asked"), [("new.txt", "."), ("old.txt", "old.txt")])
def test_a_file_or_folder_without_permission_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, asked: str
) -> None:
    """The system is asked about the folder of a new file and about a file that is there; root may do all."""
    (tmp_path / "old.txt").write_text("old", encoding="utf-8")
    place = (tmp_path / asked).resolve()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).resolve() != place)
    with pytest.raises(DuckanonError, match=rf"cannot write .*{file}': permission denied"):
        check_output(tmp_path / file, "patients.csv")
