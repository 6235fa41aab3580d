"""`duckanon anonymize` with a report and evidence: all files are written, or none, and `verify` finds the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.file_scene import run, write

if TYPE_CHECKING:
    from pathlib import Path

# Dates as a German spreadsheet writes them, prices with a last zero, and a text that looks like a formula.
ROWS = "age,born,price,note\n" + "".join(
    f"{20 + i % 7},{1 + i % 28:02}.{1 + i % 12:02}.19{50 + i % 40},{i % 9}.50,{'=' if i % 5 else ''}n{i % 4}\n"
    for i in range(84)
)
FLAGS = ("--qi", "age", "--sensitive", "born,price", "--insensitive", "note", "-k", "4", "-t", "0.4",
         "--dateformat", "%d.%m.%Y")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "in.csv", ROWS)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_evidence_beside_a_csv_is_found_in_the_words_of_the_file(folder: Path) -> None:
    """The figures of ordered dates are those of dates, and the prices those of numbers."""
    given = ("anonymize", "in.csv", "out.csv", *FLAGS, "--csv-formulas", "escape")
    code, out, err = run(folder, *given, "--evidence", "out.csv.json", "--report", "report.html")
    assert code == 0, err
    assert names(folder) == ["in.csv", "out.csv", "out.csv.json", "report.html"]
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    code, told, err = run(folder, "verify", "out.csv")
    assert (code, err) == (0, ""), told
    rows = [line.split() for line in out.splitlines() if line.startswith("t_closeness")]
    assert rows
    assert rows == [line.split() for line in told.splitlines() if line.startswith("t_closeness")]
    (folder / "out.csv.json").rename(folder / "kept.json")
    assert run(folder, "verify", "out.csv")[0] == 2
    assert run(folder, "verify", "out.csv", "--evidence", "kept.json")[0] == 0
    (folder / "out.csv").write_text((folder / "out.csv").read_text().replace("n1", "n2", 1))
    assert run(folder, "verify", "out.csv", "--evidence", "kept.json")[0] == 1


def test_a_parquet_file_carries_its_evidence(folder: Path) -> None:
    assert run(folder, "anonymize", "in.csv", "out.parquet", *FLAGS)[0] == 0
    code, told, err = run(folder, "verify", "out.parquet")
    assert (code, err) == (0, ""), told


@pytest.mark.slow
def test_files_are_replaced_only_if_asked(folder: Path) -> None:
    given = ("anonymize", "in.csv", "out.csv", *FLAGS, "--evidence", "e.json", "--report", "r.html")
    for name in ("out.csv", "e.json", "r.html"):
        (folder / name).write_text("mine")
        code, out, err = run(folder, *given)
        assert (code, out) == (2, "")
        assert err == f"error: {name!r} exists: choose another name, or replace it by --overwrite\n"
        assert names(folder) == sorted(["in.csv", name])
        (folder / name).unlink()
    for name in ("out.csv", "e.json", "r.html"):
        (folder / name).write_text("mine")
    assert run(folder, *given, "--overwrite")[0] == 0
    assert names(folder) == ["e.json", "in.csv", "out.csv", "r.html"]
    assert all((folder / name).read_text() != "mine" for name in names(folder))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("in.csv", "in.csv"), "'in.csv' is read by this command"),
        (("in.csv", "link.csv"), "'link.csv' is read by this command"),
        (("in.csv", "out.csv", "--report", "r.txt"), "ends in .html"),
        (("in.csv", "out.csv", "--report", "nowhere/r.html"), "the folder 'nowhere' does not exist"),
        (("in.csv", "out.csv", "--evidence", "nowhere/e.json"), "the folder 'nowhere' does not exist"),
        (("in.csv", "out.csv", "--evidence", "e.txt"), "ends in .json"),
    ],
)
def test_what_is_read_or_has_no_place_is_refused_before_any_work(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    (folder / "link.csv").symlink_to("in.csv")
    code, out, err = run(folder, "anonymize", *words, *FLAGS, "--overwrite")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert names(folder) == ["in.csv", "link.csv"]
    assert (folder / "in.csv").read_text() == ROWS
