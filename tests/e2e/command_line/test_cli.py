"""The command line, run as a user runs it."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.cli.main import main
from duckanon.policy.methods import METHODS
from tests.e2e.scenes import CREATE, PATIENTS, QI, command
from tests.oracle import class_emds, k_anonymity

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = (
    "--qi",
    "age,zip",
    "--sensitive",
    "charge",
    "--identifiers",
    "id",
    "--insensitive",
    "*",
    "-k",
    "3",
    "-t",
    "0.4",
)


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    with duckdb.connect(str(folder / "hospital.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute(
            f"COPY (SELECT * REPLACE ('0' || zip[2:] AS zip) FROM patients) TO '{folder / 'patients.csv'}'"
        )
        con.execute(f"COPY patients TO '{folder / 'patients.parquet'}'")
    return folder


def test_sql_prints_report_rows(hospital: Path) -> None:
    done = command(
        "sql",
        f"ATTACH '{hospital / 'hospital.duckdb'}' AS h (READ_ONLY); {CREATE.replace('FROM patients', 'FROM h.patients')}; SELECT count(*) AS n FROM v",
    )
    assert done.returncode == 0, done.stderr
    assert "k_anonymity" in done.stdout
    assert "60" in done.stdout


def test_run_stops_at_a_failed_audit_with_exit_code_1(tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text(
        f"{PATIENTS};\nAUDIT TABLE patients WITH (quasi_identifiers = (id), k = 2);\nCREATE TABLE later AS SELECT 1;\n"
    )
    database = tmp_path / "d.duckdb"
    done = command("run", script, "--database", database)
    assert done.returncode == 1, done.stderr
    with duckdb.connect(str(database)) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("patients",)]


@pytest.mark.parametrize("source", ["patients.csv", "patients.parquet", "hospital.duckdb:patients"])
def test_anonymize_a_file_to_csv(hospital: Path, tmp_path: Path, source: str) -> None:
    out = tmp_path / "out.csv"
    done = command("anonymize", hospital / source, out, *FLAGS)
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        rows = [{**row, "charge": int(row["charge"])} for row in csv.DictReader(file)]
    assert len(rows) == 60
    assert list(rows[0]) == ["age", "zip", "charge", "diagnosis"]
    assert k_anonymity(rows, QI) >= 3
    assert max(class_emds(rows, QI, "charge", distance="ordered")) <= 0.4


def test_codes_with_leading_zeros_stay_text(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert command("anonymize", hospital / "patients.csv", out, *FLAGS).returncode == 0
    with out.open(newline="") as file:
        assert {row["zip"] for row in csv.DictReader(file)} <= {"00", "01", "02", "03"}


def test_anonymize_to_a_table_of_a_new_database(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.duckdb"
    done = command("anonymize", hospital / "patients.parquet", f"{out}:released", *FLAGS)
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(out), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM released").fetchall() == [(60,)]


def test_dry_run_writes_nothing(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = command("anonymize", hospital / "patients.csv", out, *FLAGS, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "method" in done.stdout
    assert not out.exists()


def test_a_policy_file_and_a_flag_that_wins(hospital: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('quasi_identifiers = ["age", "zip"]\nidentifiers = ["id"]\ninsensitive = "*"\nk = 3\n')
    out = tmp_path / "out.csv"
    done = command("anonymize", hospital / "patients.csv", out, "--policy", policy, "-k", "9")
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        assert k_anonymity(list(csv.DictReader(file)), QI) >= 9


def test_effort_and_time_limit_are_flags(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = command(
        "anonymize", hospital / "patients.csv", out, *FLAGS, "--effort", "fast", "--time-limit", "0.5"
    )
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        assert k_anonymity(list(csv.DictReader(file)), QI) >= 3
    for flag, value, message in (
        (
            "--effort",
            "fats",
            "error: --effort fats is unknown, did you mean 'fast'? Use fast | balanced | best\n",
        ),
        ("--time-limit", "0", "error: --time-limit 0.0: use seconds, a number above 0, or leave it out\n"),
    ):
        done = command("anonymize", hospital / "patients.csv", tmp_path / "no.csv", *FLAGS, flag, value)
        assert (done.returncode, done.stderr) == (2, message)
        assert not (tmp_path / "no.csv").exists()


def test_anonymize_overwrites_only_if_asked(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    assert command("anonymize", hospital / "patients.csv", out, *FLAGS).returncode == 2
    assert out.read_text() == "mine"


def test_an_error_of_our_own_is_exit_code_2_and_not_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("duckanon.cli.demo.known_methods", broken)
    with pytest.raises(SystemExit) as left:
        main(["methods"])
    assert left.value.code == 2
    assert capsys.readouterr().err == "error: unexpected KeyError: 'surprise'; --debug shows where\n"


def test_debug_shows_the_traceback_and_keeps_the_exit_code() -> None:
    done = command("--debug", "sql", "SELEC 1")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_methods_are_listed() -> None:
    done = command("methods")
    assert done.returncode == 0
    for name in METHODS:
        assert name in done.stdout


def test_help_exits_0() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert "anonymize" in done.stdout
