"""Every command of docs/gate.md runs as it is printed, and the recipes for CI systems hold no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duckanon.database import templates
from tests.e2e.scenes import ROOT, patients
from tests.examples import slowly
from tests.sql.gates import failed, gate, runs_in_1_2_2, script
from tests.sql.stock import stock_command

PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|yaml)\n(.*?)```", PAGE, re.DOTALL)
SHELL = [text for kind, text in BLOCKS if kind == "sh"]

ROWS = """zip,age,charge,diagnosis
4767*,<=40,3000,gastric ulcer
4767*,<=40,5000,stomach cancer
4767*,<=40,9000,flu
4790*,>=40,6000,gastric ulcer
4790*,>=40,11000,flu
4790*,>=40,8000,bronchitis
"""
POLICY = 'quasi_identifiers = ["zip", "age"]\nsensitive = ["charge"]\ninsensitive = "*"\nk = 3\nt = 0.2\n'


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page takes for granted: patients.csv, raw.csv, policy.toml, release.duckdb, sql/."""
    desk = tmp_path_factory.mktemp("desk")
    (desk / "sql").mkdir()
    for name in ("install.sql", "gate.sql"):
        shutil.copy(templates.folder() / name, desk / "sql")
    (desk / "patients.csv").write_text(ROWS)
    (desk / "raw.csv").write_text(ROWS)
    (desk / "policy.toml").write_text(POLICY)
    with patients() as con:
        con.sql(
            "CREATE ANONYMIZED VIEW patients_anon AS FROM patients WITH (identifiers = (id), "
            "quasi_identifiers = (age, zip), sensitive = (charge, diagnosis), k = 3)"
        )
        con.sql(f"EXPORT ANONYMIZED VIEW patients_anon TO '{desk / 'release.duckdb'}'")
    return desk


def shell(desk: Path, block: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(
        [str(stock_command().parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    return subprocess.run(
        ["bash", "-e", "-c", block],
        cwd=desk,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_every_block_runs(desk: Path) -> None:
    """In the order of the page, for later blocks read what earlier ones wrote."""
    said = []
    for block in SHELL:
        done = shell(desk, block)
        assert done.returncode == 0, block + done.stdout + done.stderr
        said.append(done.stdout)
    assert said[2].endswith("nothing changed\n")
    assert all("passed: main.patients_anon keeps k_anonymity" in said[place] for place in (3, 6))
    assert "passed: patients.csv keeps k_anonymity 3 (asked 3)" in said[4]
    assert "passed: patients keeps k_anonymity 3 (asked 3)" in said[5]
    assert said[-2].endswith("released.csv may leave the house\n")
    assert said[-1].endswith("violated\n")


# What the page says of types that are guessed, by hand: the codes of the first record of each file and of the others
# differ as texts and are one number, so the file has one class of all records, and its text one of a single record.
# ICD-9-CM has 250.1 and 250.10; 20,480 rows are what DuckDB looks at (its manual, "CSV Auto Detection", sample_size).
GUESSED = {
    "decimals": ["250.10", *["250.1"] * 3],
    "zeros after the sample": [*["1234"] * 30_000, "01234"],
    "long ids": ["1234567890123456789012", *["1234567890123456789013"] * 3],
}
(BY_TEXT,) = [block for block in SHELL if "all_varchar" in block]
(VIEW,) = re.findall(r'-c "(CREATE VIEW .*?)"', BY_TEXT, re.DOTALL)
GIVEN = {"quasi_identifiers": ["zip", "age"], "sensitive": ["charge"], "k": 3, "t": 0.2}


def guessed(desk: Path, case: str) -> None:
    lines = "".join(f"{code},40,3000,flu\n" for code in GUESSED[case])
    (desk / "patients.csv").write_text("zip,age,charge,diagnosis\n" + lines)
    shutil.copytree(templates.folder(), desk / "sql", dirs_exist_ok=True)


@pytest.mark.parametrize("case", slowly(GUESSED, one_of=3))
def test_the_view_of_the_page_tells_apart_what_a_guess_makes_one(tmp_path: Path, case: str) -> None:
    guessed(tmp_path, case)
    failed(
        shell(tmp_path, BY_TEXT),
        "gate: patients violates k_anonymity 1 (asked 3) in 1 of 2 classes (1 records)",
    )
    if case != "long ids":
        by_guess = gate(tmp_path, "", table="patients.csv", **GIVEN)
        assert "passed: patients.csv keeps k_anonymity" in by_guess.stdout


@pytest.mark.slow
@pytest.mark.parametrize("case", GUESSED)
def test_duckdb_1_2_2_guesses_and_reads_the_text_too(tmp_path: Path, case: str) -> None:
    guessed(tmp_path, case)
    by_guess, by_text = runs_in_1_2_2(
        tmp_path,
        [
            (":memory:", True, script({**GIVEN, "table": "patients.csv"})),
            (":memory:", True, script({**GIVEN, "table": "patients"}, before=[VIEW])),
        ],
    )
    assert by_guess.startswith("passed: patients.csv keeps k_anonymity")
    assert "gate: patients violates k_anonymity 1 (asked 3) in 1 of 2 classes (1 records)" in by_text


def test_a_bracket_in_a_file_name_is_a_pattern_as_the_page_says(tmp_path: Path) -> None:
    shutil.copytree(templates.folder(), tmp_path / "sql")
    (tmp_path / "data1.csv").write_text("zip\na\n")
    (tmp_path / "data[1].csv").write_text("zip\na\na\n")
    names = {"data[1].csv": 1, "data[[]1].csv": 2}
    given = {"quasi_identifiers": ["zip"], "k": 1}
    old = runs_in_1_2_2(tmp_path, [(":memory:", True, script({**given, "table": name})) for name in names])
    for (name, k), line in zip(names.items(), old, strict=True):
        assert f"`{name}`" in PAGE
        assert line == f"passed: {name} keeps k_anonymity {k} (asked 1)"
        assert line in gate(tmp_path, "", table=name, **given).stdout


def test_the_recipes_hold_commands_that_were_run() -> None:
    recipes = [line for kind, text in BLOCKS if kind == "yaml" for line in text.splitlines()]
    commands = [line.partition("duckanon audit ")[2] for line in recipes if "duckanon audit " in line]
    assert len(commands) == 1
    assert all(f"duckanon audit {command}\n" in "".join(SHELL) for command in commands)


def test_the_page_is_short_and_names_every_exit_code() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
