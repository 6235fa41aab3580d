"""Every command of docs/gate.md runs as it is printed, and the recipes for CI systems hold no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duckanon import sqlfiles
from tests.e2e.scenes import ROOT, patients
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
        shutil.copy(sqlfiles.folder() / name, desk / "sql")
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


def test_every_block_runs(desk: Path) -> None:
    """In the order of the page, for later blocks read what earlier ones wrote."""
    path = os.pathsep.join(
        [str(stock_command().parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    said = []
    for block in SHELL:
        done = subprocess.run(
            ["bash", "-e", "-c", block],
            cwd=desk,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, block + done.stdout + done.stderr
        said.append(done.stdout)
    assert said[2].endswith("nothing changed\n")
    assert all("passed: main.patients_anon keeps k_anonymity" in said[place] for place in (3, 5))
    assert "passed: patients.csv keeps k_anonymity 3 (asked 3)" in said[4]
    assert said[-2].endswith("released.csv may leave the house\n")
    assert said[-1].endswith("violated\n")


def test_the_recipes_hold_commands_that_were_run() -> None:
    recipes = [line for kind, text in BLOCKS if kind == "yaml" for line in text.splitlines()]
    commands = [line.partition("duckanon audit ")[2] for line in recipes if "duckanon audit " in line]
    assert len(commands) == 2
    assert all(f"duckanon audit {command}\n" in "".join(SHELL) for command in commands)


def test_the_page_is_short_and_names_every_exit_code() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
