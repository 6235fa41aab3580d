"""What stands where a command takes a file: an address, a folder, a database, a CSV with an unnamed column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.e2e.file_scene import run, write

if TYPE_CHECKING:
    from pathlib import Path


REMOTE = [
    ["anonymize", "p.csv", "s3://bucket/x", "--qi", "age", "-k", "2"],
    ["audit", "p.csv", "--qi", "age", "-o", "s3://bucket/x"],
    ["audit", "p.csv", "--policy", "s3://bucket/x"],
    ["audit", "p.csv", "--qi", "age", "--against", "s3://bucket/x"],
    ["audit", "p.csv", "--qi", "age", "--sensitive", "ill", "--distance", "ill=hierarchical", "--hierarchies", "ill=s3://bucket/x"],
    ["compare", "p.csv", "p.csv", "--queries", "s3://bucket/x"],
    ["verify", "s3://bucket/x"],
    ["run", "s3://bucket/x"],
    ["sql", "SELECT 1", "--database", "s3://bucket/x"],
    ["stream", "p.csv", "s3://bucket/x", "--qi", "age"],
    ["stream", "p.csv", "o.csv", "--qi", "age", "--report", "s3://bucket/x"],
]  # fmt: skip


@pytest.mark.parametrize("call", REMOTE, ids=lambda call: " ".join(call)[:40])
def test_an_address_is_told_as_it_was_written(tmp_path: Path, call: list[str]) -> None:
    """A path would make s3:/bucket of it."""
    write(tmp_path / "p.csv", "age,ill\n1,a\n1,b\n")
    code, out, err = run(tmp_path, *call)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "'s3://bucket/x' is an address: give the path of a file on this machine" in err
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv"}


def test_a_folder_as_output_is_named(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", "age,ill\n1,a\n1,b\n")
    for folder in (".", "./", str(tmp_path), "..", "/"):
        code, out, err = run(
            tmp_path, "anonymize", "p.csv", folder, "--qi", "age", "--sensitive", "ill", "-k", "2"
        )
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "is a folder: give a new file in it, as " in err


def test_a_database_instead_of_a_script_is_named(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "hospital.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    (tmp_path / "hospital.duckdb").rename(tmp_path / "h.data")
    for command in ("run", "sql"):
        code, out, err = run(tmp_path, command, "h.data")
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "'h.data' is a database, not a " in err
        assert "--database h.data" in err


def test_a_column_without_a_name_is_not_released_unseen(tmp_path: Path) -> None:
    """pandas writes its index so: the number of the record."""
    write(tmp_path / "p.csv", ",age,ill\n0,1,a\n1,1,b\n")
    call = ["anonymize", "p.csv", "o.csv", "--qi", "age", "--sensitive", "ill", "-k", "2"]
    for roles in ([], ["--insensitive", "*"]):
        code, out, err = run(tmp_path, *call, *roles)
        assert (code, out) == (2, "")
        assert "a column without a name is read as 'column0'" in err
        assert not (tmp_path / "o.csv").exists()
    code, _, err = run(tmp_path, *call, "--insensitive", "*", "--identifiers", "column0")
    assert code == 0, err
    assert (tmp_path / "o.csv").read_text() == "age,ill\n1,a\n1,b\n"
    assert "without a name" in run(tmp_path, "audit", "p.csv", "--qi", "age")[2]
