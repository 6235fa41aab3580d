"""The desk of an auditor who runs sql/gate.sql in the stock command line, for the tests of the gate."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.audits.macros import macro_statements
from duckanon.database import templates
from tests.e2e.scenes import CREATE, patients
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GATE = templates.folder() / "gate.sql"
OLD_DUCKDB = Path(sys.prefix) / "duckdb-1.2.2"

# Li et al. 2007, table 3, but for the last column: two classes of three records each.
ROWS = """
    ('4767*', '<=40', 3000, 'gastric ulcer'), ('4767*', '<=40', 5000, 'stomach cancer'), ('4767*', '<=40', 9000, 'flu'),
    ('4790*', '>=40', 6000, 'gastric ulcer'), ('4790*', '>=40', 11000, 'flu'), ('4790*', '>=40', 8000, 'bronchitis')
"""
TREE = """
    ('gastric ulcer', 'stomach', 'all'), ('stomach cancer', 'stomach', 'all'),
    ('flu', 'lung', 'all'), ('bronchitis', 'lung', 'all')
"""
QI = ["zip", "age"]
BOTH = ["charge", "diagnosis"]


def fill(desk: Path) -> Path:
    """Put the SQL files, a table in several places, and releases with and without a tree into a folder."""
    (desk / "sql").mkdir()
    for name in ("install.sql", "gate.sql"):
        shutil.copy(templates.folder() / name, desk / "sql")
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{desk / 'plain.duckdb'}' AS plain (STORAGE_VERSION 'v1.2.0')")
        con.execute("USE plain")
        con.execute(f"CREATE TABLE patients AS FROM (VALUES {ROWS}) AS v(zip, age, charge, diagnosis)")
        con.execute("CREATE TABLE empty AS FROM patients WHERE FALSE")
        con.execute("CREATE VIEW failing AS SELECT * REPLACE (error('boo') AS zip) FROM patients")
        con.execute(f'CREATE TABLE leaf AS FROM (VALUES {TREE}) AS v("my leaf", organ, root)')
        con.execute("CREATE TABLE tree AS FROM patients")
        con.execute("""CREATE TABLE "my table" AS SELECT zip AS "my col", charge AS "it's" FROM patients""")
        con.execute(f"COPY patients TO '{desk / 'patients.csv'}'")
        con.execute(f"COPY leaf TO '{desk / 'tree.csv'}'")
    with patients() as con:
        con.execute(
            "CREATE TABLE tree AS FROM (VALUES ('flu', 'mild', 'all'), ('cold', 'mild', 'all'), "
            "('cancer', 'grave', 'all')) AS v(leaf, parent, root)"
        )
        con.sql(CREATE.replace("k = 3", "k = 3, t = {charge: 0.5, diagnosis: 0.6}, l = 2"))
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{desk / 'release.duckdb'}'")
        trees = "distance = {diagnosis: 'hierarchical'}, hierarchies = {diagnosis: 'tree'}, l_diversity = 'recursive', c = 3, l = {diagnosis: 2}"
        con.sql(CREATE.replace("VIEW v", "VIEW w").replace("k = 3", f"k = 3, t = 0.6, {trees}"))
        con.sql(f"EXPORT ANONYMIZED VIEW w TO '{desk / 'tree.duckdb'}'")
        con.execute("CREATE SCHEMA s2")
        con.sql(CREATE.replace("VIEW v", "VIEW s2.w").replace("k = 3", "k = 3, t = 0.5"))
        con.sql(f"EXPORT ANONYMIZED VIEW s2.w TO '{desk / 'schema.duckdb'}'")
    return desk


class Sql(str):
    """A value that is written as SQL, not as text in quotes."""


def literal(value: object) -> str:
    if isinstance(value, Sql):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(name)}: {literal(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def variables(given: Mapping[str, object]) -> list[str]:
    return [f"SET VARIABLE gate_{name} = {literal(value)}" for name, value in given.items()]


def gate(
    desk: Path, database: str = "plain.duckdb", *, install: bool = True, bail: bool = True, **given: object
) -> subprocess.CompletedProcess[str]:
    """Run the gate as a CI job does."""
    words = [str(stock_command()), *(["-bail"] if bail else []), "-csv", "-noheader", database]
    # A release must not be written to; a plain database gets the macros, as any database that is no release.
    words[1:1] = [] if install else ["-readonly"]
    steps = [*([".read sql/install.sql"] if install else []), *variables(given), ".read sql/gate.sql"]
    for step in steps:
        words += ["-c", step]
    return subprocess.run(words, cwd=desk, capture_output=True, text=True, check=False, timeout=120)


def script(given: Mapping[str, object], *, before: Iterable[str] = ()) -> str:
    """Give the gate as a client runs it that has no commands of a shell."""
    text = GATE.read_text(encoding="utf-8").replace(".bail on", "")
    return ";\n".join([*before, *variables(given), text])


def runs(con: duckdb.DuckDBPyConnection, given: Mapping[str, object]) -> str:
    (row,) = con.execute(script(given)).fetchall()
    return str(row[0])


OLD_PROGRAM = """
import duckdb, json, sys
assert duckdb.__version__ == '1.2.2', duckdb.__version__
macros, jobs = json.load(sys.stdin)
found = []
for path, installs, text in jobs:
    con = duckdb.connect(path, read_only=path != ':memory:')
    try:
        con.execute('SET python_enable_replacements = false')
        con.execute('SET enable_progress_bar = false')
        for macro in macros if installs else []:
            con.execute(macro)
        found.append(con.execute(text).fetchall()[0][0])
    except duckdb.Error as failure:
        found.append(str(failure))
print(json.dumps(found))
"""


def runs_in_1_2_2(desk: Path, jobs: list[tuple[str, bool, str]]) -> list[str]:
    """Give the line or the message of each (database, whether macros are installed, script); skip without 1.2.2."""
    if not OLD_DUCKDB.is_dir():
        pytest.skip(
            f"duckdb 1.2.2 is missing in {OLD_DUCKDB.name}: run make install on a Python that has a wheel of it"
        )
    done = subprocess.run(
        [sys.executable, "-S", "-c", OLD_PROGRAM], input=json.dumps([macro_statements(temporary=True), jobs]),
        cwd=desk, capture_output=True, text=True, timeout=300, check=False, env={"PYTHONPATH": str(OLD_DUCKDB)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def failed(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 1, nothing that looks like a pass, and every word in the first line."""
    assert done.returncode == 1, done.stdout
    assert "passed" not in done.stdout
    first = done.stderr.splitlines()[0]
    for word in words:
        assert word in first, first
