"""EXPORT ... WITH (overwrite = true): the file is last night's or tonight's at every moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyError, ReleaseError
from duckanon.release.verify.verify import verify
from tests.e2e.scenes import CREATE, ROOT, patients
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = ("duckdb", "parquet", "csv")


def exported(con: duckanon.Connection, file: Path, options: str = "overwrite = true") -> None:
    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{file}' WITH ({options})")


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_file_is_replaced_and_keeps_its_permissions(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"o.{ending}"
    with patients() as con:
        con.execute(CREATE)
        exported(con, file)
    file.chmod(0o640)
    last = file.read_bytes()
    with patients() as con, file.open("rb") as opened:
        con.execute(CREATE.replace("k = 3", "k = 4"))
        exported(con, file)
        # A reader goes on with the file that it opened.
        assert opened.read() == last != file.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o640
    if ending == "duckdb":
        with duckdb.connect(str(file), read_only=True) as reader:
            assert verify(reader).verified
    else:
        assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall() == [(60,)]


def test_without_the_option_or_with_false_nothing_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "o.csv"
    file.write_text("last night")
    with patients() as con:
        con.execute(CREATE)
        with pytest.raises(ReleaseError, match="or replace it by overwrite = true"):
            exported(con, file, "overwrite = false")
        with pytest.raises(PolicyError, match="overwrite = 'yes'"):
            exported(con, file, "overwrite = 'yes'")
    assert file.read_text() == "last night"


def test_what_the_session_reads_is_not_replaced(tmp_path: Path) -> None:
    """A database that is attached, a file of the source query, also by a pattern, and a database of somebody."""
    for name in ("p.csv", "q-1.csv"):
        duckdb.sql(f"COPY (SELECT range % 7 AS a FROM range(60)) TO '{tmp_path / name}'")
    before = (tmp_path / "p.csv").read_bytes()
    options = "WITH (quasi_identifiers = (a), k = 3)"
    with duckanon.connect(tmp_path / "home.duckdb") as con:
        con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM '{tmp_path / 'p.csv'}' {options}")
        for name, words in (
            ("home.duckdb", "is the attached database 'home'"),
            ("other.duckdb", "is the attached database 'other'"),
            ("p.csv", r"is read by the query of home\.main\.v"),
        ):
            with pytest.raises(ReleaseError, match=words):
                exported(con, tmp_path / name)
        con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM read_csv('{tmp_path}/q-*.csv') {options}")
        with pytest.raises(ReleaseError, match="is read by the query"):
            exported(con, tmp_path / "q-1.csv")
        duckdb.connect(str(tmp_path / "theirs.duckdb")).execute("CREATE TABLE t AS SELECT 1 AS a").close()
        (tmp_path / "text.duckdb").write_text("a long letter to somebody")
        for name, words in (
            ("theirs.duckdb", "is a database that EXPORT did not write, and would be lost"),
            ("text.duckdb", "is no DuckDB database"),
        ):
            kept = (tmp_path / name).read_bytes()
            with pytest.raises(DuckanonError, match=words):
                exported(con, tmp_path / name)
            assert (tmp_path / name).read_bytes() == kept
        (tmp_path / "in use.duckdb").write_bytes(b"")
        (tmp_path / "in use.duckdb.wal").write_bytes(b"")
        with pytest.raises(
            ReleaseError, match=r"is in use, or was not closed: 'in use\.duckdb\.wal' is beside it"
        ):
            exported(con, tmp_path / "in use.duckdb")
        exported(con, tmp_path / "p.csv")  # the present query reads another file
    assert (tmp_path / "p.csv").read_bytes() != before


def test_a_folder_a_link_and_one_of_two_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "mine.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to("mine.csv")
    with patients() as con:
        con.execute(CREATE)
        for name, words in (("folder.csv", "is a folder"), ("link.csv", "is a link or a device")):
            with pytest.raises(ReleaseError, match=words):
                exported(con, tmp_path / name)
    with patients() as con:
        con.execute(CREATE.replace("k = 3", "k = 3, l = 2, release = 'anatomy'"))
        with pytest.raises(ReleaseError, match="one of two files"):
            exported(con, tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "mine"


NIGHT = """
import sys, time
import duckanon
from duckanon.release import destination
con = duckanon.connect(sys.argv[1], read_only=True)
if sys.argv[3] == "written":
    def stop(*arguments):
        print("written", flush=True)
        time.sleep(60)
    destination._replace = stop
print("begun", flush=True)
while True:
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{sys.argv[2]}' WITH (overwrite = true)")
"""


def night(database: Path, file: Path, kind: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", NIGHT, str(database), str(file), kind],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    if kind == "written":
        assert process.stdout.readline() == "written\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_night_that_is_killed_keeps_the_file_of_last_night(tmp_path: Path, ending: str) -> None:
    """Killed when the new file is written and has not its name; then after any time; the next night goes on."""
    database, file = tmp_path / "p.duckdb", tmp_path / "out" / f"o.{ending}"
    file.parent.mkdir()
    with patients(database) as con:
        con.execute(CREATE)
        exported(con, file)
    last = file.read_bytes()
    killed(night(database, file, "written"))
    assert file.read_bytes() == last
    assert len(list(file.parent.iterdir())) == 2  # the draft
    for attempt in range(examples(4, few=1)):
        process = night(database, file, "any moment")
        time.sleep(0.3 + 0.11 * attempt)
        killed(process)
        with duckdb.connect(str(file) if ending == "duckdb" else ":memory:") as reader:
            relation = "v" if ending == "duckdb" else f"'{file}'"
            assert reader.sql(f"SELECT count(*) FROM {relation}").fetchall() == [(60,)]
    with duckanon.connect(database, read_only=True) as con:
        exported(con, file)
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
