"""Every command of sql/README.md runs in the stock command line and says what it must."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.audits.macros import macro_statements
from duckanon.database import templates
from tests.e2e.scenes import CREATE, patients, stock_cli
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = re.findall(
    r"```(sh|sql)\n(.*?)```", (templates.folder() / "README.md").read_text(encoding="utf-8"), re.DOTALL
)
ROWS = """
    ('4767*', '<=40', 3000, 'gastric ulcer'), ('4767*', '<=40', 5000, 'stomach cancer'), ('4767*', '<=40', 9000, 'flu'),
    ('4790*', '>=40', 6000, 'gastric ulcer'), ('4790*', '>=40', 11000, 'flu'), ('4790*', '>=40', 8000, 'bronchitis')
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README's commands name: sql/install.sql and a release in three formats."""
    desk = tmp_path_factory.mktemp("desk")
    (desk / "sql").mkdir()
    shutil.copy(templates.folder() / "install.sql", desk / "sql")
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{desk / 'release.duckdb'}' AS released (STORAGE_VERSION 'v1.2.0')")
        con.execute("USE released")
        con.execute(f"CREATE TABLE patients AS FROM (VALUES {ROWS}) AS v(zip, age, charge, diagnosis)")
        for statement in macro_statements(temporary=False):
            con.execute(statement)
        con.execute(f"COPY patients TO '{desk / 'patients.parquet'}'")
        con.execute(f"COPY patients TO '{desk / 'patients.csv'}'")
    (desk / "tree.csv").write_text(
        "diagnosis,organ,any\ngastric ulcer,stomach,all\nstomach cancer,stomach,all\nflu,lung,all\nbronchitis,lung,all\n"
    )
    return desk


def run(desk: Path, kind: str, text: str) -> subprocess.CompletedProcess[str]:
    """Run a block as a reader would, `duckdb` being the stock command line."""
    command = stock_command()
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    words = ["bash", "-e", "-c", text] if kind == "sh" else [str(command), "-batch"]
    source = None if kind == "sh" else text
    return subprocess.run(
        words,
        input=source,
        cwd=desk,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_of_the_readme_runs(desk: Path, number: int) -> None:
    done = run(desk, *BLOCKS[number])
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "│" in done.stdout or "|" in done.stdout


def test_there_are_blocks_of_both_kinds() -> None:
    assert {kind for kind, _ in BLOCKS} == {"sh", "sql"}
    assert len(BLOCKS) >= 5


def test_the_gate_of_the_readme_stops_a_script(desk: Path) -> None:
    (gate,) = [text for _, text in BLOCKS if "error('the audit found" in text]
    strict = gate.replace("t := 0.5", "t := 0.01")
    assert strict != gate
    done = run(desk, "sql", strict + "SELECT 'after the gate';")
    assert done.returncode == 1
    assert "the audit found a violation" in done.stderr
    assert "after the gate" not in done.stdout


def test_leading_zeros_and_unknown_columns_fail_loudly(desk: Path) -> None:
    done = run(
        desk,
        "sql",
        ".bail on\n.read sql/install.sql\nSELECT count(*) FROM k_anonymity('patients.csv', ['zpi']);\n",
    )
    assert done.returncode == 1
    assert '"zpi"' in done.stderr


def test_a_database_that_duckanon_made_opens_in_it_and_an_existing_one_keeps_its_version(
    tmp_path: Path,
) -> None:
    """A file of DuckDB 2 with its own storage is not for the stock command line of 1.5, made by duckanon or not."""
    with patients(tmp_path / "new.duckdb") as con:
        con.execute(CREATE)
        con.execute(f"ATTACH '{tmp_path / 'attached.duckdb'}' AS attached")
        con.execute("CREATE TABLE attached.t AS SELECT 60 AS n")
    assert "60" in stock_cli(tmp_path / "new.duckdb", "SELECT count(*) FROM v").stdout
    assert "60" in stock_cli(tmp_path / "attached.duckdb", "FROM t").stdout

    old = tmp_path / "old.duckdb"
    with duckdb.connect(str(old)) as plain:
        plain.execute("CREATE TABLE t AS SELECT 1::VARIANT AS a")
        ((before,),) = plain.execute("SELECT tags FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
    with duckanon.connect(old) as con:
        con.execute("CREATE TABLE u AS FROM t")
        ((after,),) = con.execute("SELECT tags FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
    assert before == after != {"storage_version": "v1.2.0+"}
    with duckanon.connect(tmp_path / "variant.duckdb", storage_compatibility_version="latest") as con:
        con.execute("CREATE TABLE t AS SELECT 1::VARIANT AS a")
