"""Habits from elsewhere: renamed files, words in capitals, - for stdout, a closed pipe, a file without rights."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.e2e.file_scene import run
from tests.e2e.scenes import PATIENTS

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "--qi age,zip --identifiers id --insensitive '*' -k 3"

RENAMED = {
    "parquet.csv": "is a file of Parquet: give it the ending .parquet",
    "packed.csv": "is packed by gzip: give it the ending .gz, as in .csv.gz",
    "database.csv": (
        "is a database of DuckDB: give it the ending .duckdb, and name a table as in file.duckdb:table"
    ),
    "sheet.csv": "is a spreadsheet or an archive of zip: save it as CSV",
    "sheet.xlsx": "is a spreadsheet or an archive of zip: save it as CSV",
    "text.parquet": "is no file of Parquet: give a text the ending .csv or .json",
    "text.csv.gz": "is not packed, against its ending: rename it to 'text.csv'",
    "sqlite.duckdb:patients": "is a database of SQLite: export its table as CSV",
    "text.duckdb:patients": (
        "is no DuckDB database: give a text an ending of its own, as .csv, and `duckanon audit` reads it"
    ),
}
"""Files whose ending is another than their form, and the end of the message."""

ERRORS = {
    "sql 'SELECT 1' -d patients.csv": (
        "-d 'patients.csv' is no DuckDB database: name a file in SQL, FROM 'patients.csv'"
    ),
    "audit hospital.duckdb/patients --qi age": (
        "'hospital.duckdb/patients' does not exist: a table of a database is named as 'hospital.duckdb:patients'"
    ),
    f"anonymize patients.csv - {RELEASE}": (
        "a release is audited as a file: give OUT a name, or use duckanon stream for a pipe"
    ),
    "sql-kit -": "DIR is a folder for two files: give its name, . for this one",
    "stream blank.csv out.csv --qi age": "line 1: there are no names of columns",
    "audit patients.csv --qi 'age zip'": (
        "--qi names 'age zip', which the source does not have; it is 2 columns in one text: write a list. "
        "Columns: 'id', 'age', 'zip', 'charge', 'diagnosis'"
    ),
    f"anonymize patients.csv out.csv {RELEASE} --sensitive charge -t 0,15": (
        "-t 0,15: a decimal has a point, 0.15; for columns give column=value pairs"
    ),
    f"anonymize patients.csv out.csv {RELEASE} --sensitive charge -t 15%": (
        "-t takes a number or column=number pairs, not '15%'; 15% is 0.15"
    ),
    "anonymize patients.csv out.csv --policy qi.toml": "unknown option 'qi', did you mean 'quasi_identifiers'?",
    "anonymize patients.csv out.csv --policy table.toml": (
        "unknown table [policy]: the options of a policy stand outside of tables"
    ),
    "anonymize patients.csv out.csv --policy hospital.duckdb": (
        "cannot read the policy 'hospital.duckdb': it is no text in UTF-8"
    ),
    "AUDIT patients.csv": "no command 'AUDIT', did you mean 'audit'?",
    "help": "no command 'help': duckanon -h lists them",
    "audit patients.csv --Qi age": "no option --Qi, did you mean --qi?",
    "audit patients.csv --qi": "--qi has no value: duckanon audit -h shows its form",
    "audit patients.csv \u2013qi age": "'\u2013qi age' is too much: an option begins with -, not with a long dash",
}
"""Lines of the command line, and the message or its begin."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with sixty patients as CSV, and files with wrong endings."""
    place = tmp_path_factory.mktemp("habits")
    with duckdb.connect(str(place / "hospital.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute(f"COPY patients TO '{place / 'patients.csv'}'")
        con.execute(f"COPY patients TO '{place / 'patients.parquet'}'")
    with sqlite3.connect(place / "sqlite.duckdb") as other:
        other.execute("CREATE TABLE patients (age int)")
    text = (place / "patients.csv").read_bytes()
    for name, data in {
        "parquet.csv": (place / "patients.parquet").read_bytes(),
        "packed.csv": gzip.compress(text),
        "database.csv": (place / "hospital.duckdb").read_bytes(),
        "sheet.csv": b"PK\x03\x04" + bytes(range(256)),
        "sheet.xlsx": b"PK\x03\x04" + bytes(range(256)),
        "text.parquet": text,
        "text.csv.gz": text,
        "text.duckdb": text,
        "blank.csv": b"\n\n\n",
        "PAR1.csv": b"PAR1,zip\n" + b"1,2\n" * 9,
        "qi.toml": b'qi = ["age"]\nk = 3\n',
        "table.toml": b'[policy]\nquasi_identifiers = ["age"]\nk = 3\n',
    }.items():
        (place / name).write_bytes(data)
    return place


@pytest.mark.parametrize("name", RENAMED)
def test_a_file_of_another_form_than_its_ending_is_told(folder: Path, name: str) -> None:
    file = name.partition(":")[0]
    for command in (f"anonymize {name} out.csv {RELEASE}", f"audit {name} --qi age", f"suggest {name}"):
        assert run(folder, *shlex.split(command)) == (2, "", f"error: {file!r} {RENAMED[name]}\n")
    if not name.endswith(".xlsx"):
        assert (
            run(folder, "stream", name, "out.csv", "--qi", "age")[2] == f"error: {file!r} {RENAMED[name]}\n"
        )


def test_a_header_that_begins_like_parquet_is_text(folder: Path) -> None:
    assert run(folder, "audit", "PAR1.csv", "--qi", "zip", "-k", "9")[0] == 0


@pytest.mark.parametrize("line", ERRORS)
def test_a_wrong_habit_is_told(folder: Path, line: str) -> None:
    before = sorted(folder.iterdir())
    code, out, err = run(folder, *shlex.split(line))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {ERRORS[line]}")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "line",
    [
        "audit patients.csv --qi age --format JSON -k 3",
        "suggest patients.csv --format Json",
        "methods --format JSON",
        "linkage patients.csv patients.csv --qi age --interval RANK --format JSON",
    ],
)
def test_words_of_options_may_be_in_capitals(folder: Path, line: str) -> None:
    code, out, _ = run(folder, *shlex.split(line))
    assert code in {0, 1}
    assert json.loads(out)


def test_a_dash_is_stdout_for_a_document(folder: Path) -> None:
    for command in ("audit patients.csv --qi age -k 3", "suggest patients.csv"):
        plain = run(folder, *shlex.split(command))
        assert run(folder, *shlex.split(command), "-o", "-") == plain
    assert not (folder / "-").exists()


def piped(folder: Path, line: str, *, before: tuple[str, ...] = ()) -> tuple[int, bytes]:
    """Give exit code and stderr of a process whose stdout nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*before, sys.executable, "-m", "duckanon", *shlex.split(line)]
    with os.fdopen(writing, "wb") as out:
        done = subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stderr


def test_a_closed_pipe_is_no_violation(folder: Path) -> None:
    """Exit code 1 would say that the audit found a violation, as typer ends; 120 is Python's own."""
    assert piped(folder, "suggest patients.csv") == (2, b"")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="rights are taken from root by setpriv")
def test_a_database_without_the_right_to_write_is_audited(tmp_path: Path) -> None:
    create = (
        "CREATE ANONYMIZED VIEW v AS FROM patients WITH (quasi_identifiers = (age), insensitive = *, k = 3)"
    )
    with duckdb.connect(str(tmp_path / "h.duckdb")) as con:
        con.execute(PATIENTS)
    assert run(tmp_path, "sql", create, "-d", "h.duckdb")[0] == 0
    (tmp_path / "h.duckdb").chmod(0o444)
    taken = "-dac_override,-dac_read_search"
    before = ("setpriv", f"--bounding-set={taken}", f"--inh-caps={taken}") if os.geteuid() == 0 else ()
    command = [*before, sys.executable, "-m", "duckanon", "sql", "AUDIT VIEW v", "-d", "h.duckdb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    command[-3] = "CREATE TABLE x AS SELECT 1"
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "read-only" in done.stderr) == (2, True)
