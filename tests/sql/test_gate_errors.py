"""What sql/gate.sql cannot judge is exit code 1 and a reason, never a pass."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.audits.macros import macro_statements
from tests.e2e.scenes import CREATE, patients
from tests.examples import slowly
from tests.sql.gates import BOTH, QI, Sql, failed, fill, gate, runs, runs_in_1_2_2, script, variables
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("gate"))


# What is wrong with a policy, and what the line must say. Every case would pass, or be judged by less than was
# asked, if the wrong part were skipped.
NULL = Sql("NULL")
PLAIN: dict[str, object] = {"table": "patients", "quasi_identifiers": QI, "sensitive": BOTH, "k": 3}
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "empty table": ({"table": "empty"}, "the table is empty"),
    "empty table, k alone": ({"table": "empty", "sensitive": None}, "the table is empty"),
    "misspelt column": ({"quasi_identifiers": ["zpi"]}, 'no column "zpi", the nearest is "zip"'),
    "misspelt column, k alone": ({"quasi_identifiers": ["zpi"], "sensitive": None}, 'no column "zpi"'),
    "misspelt sensitive column": ({"sensitive": ["chrge"]}, 'no column "chrge"'),
    "two misspelt columns": ({"quasi_identifiers": ["agee"], "sensitive": ["chrge"]}, '"agee", the nearest'),
    "failing view": ({"table": "failing"}, "boo"),
    "failing view, k alone": ({"table": "failing", "sensitive": None}, "boo"),
    "no such table": ({"table": "nowhere"}, "no table, view or file nowhere"),
    "no such table in the schema": ({"table": "plain.main.nowhere"}, "no table, view or file plain.main.nowhere"),
    "no such file": ({"table": "nowhere.csv"}, "no table, view or file nowhere.csv"),
    "no table": ({"table": None}, "gate: no table"),
    "no quasi-identifiers": ({"quasi_identifiers": None}, "gate: no quasi-identifiers"),
    "empty list": ({"quasi_identifiers": []}, "gate_quasi_identifiers must be a list"),
    "text for a list": ({"quasi_identifiers": "zip"}, "gate_quasi_identifiers must be a list"),
    "number for a list": ({"quasi_identifiers": 3}, "gate_quasi_identifiers must be a list"),
    "text for sensitive": ({"sensitive": "charge"}, "gate_sensitive must be a list"),
    "list for text": ({"table": ["patients"]}, "gate_table must be text"),
    "number for text": ({"l": 2, "l_diversity": 3}, "gate_l_diversity must be text"),
    "NULL in a list": ({"quasi_identifiers": Sql("['zip', NULL]")}, "gate_quasi_identifiers must be a list"),
    "a column twice": ({"sensitive": ["charge", "Charge"]}, "gate_sensitive must be a list of different"),
    "no threshold": ({"k": None}, "gate: no threshold"),
    "misspelt variable": ({"tt": 0.1}, "gate_tt"),
    "t is NULL": ({"t": NULL}, "gate_t is NULL"),
    "k is NULL beside t": ({"k": NULL, "t": 1}, "gate_k is NULL"),
    "l of a query without rows": ({"l": Sql("(SELECT 2 WHERE FALSE)")}, "gate_l is NULL"),
    "table is NULL": ({"table": NULL}, "gate_table is NULL"),
    "quasi-identifiers are NULL": ({"quasi_identifiers": NULL}, "gate_quasi_identifiers is NULL"),
    "sensitive is NULL": ({"sensitive": NULL}, "gate_sensitive is NULL"),
    "l_diversity is NULL": ({"l": 2, "l_diversity": NULL}, "gate_l_diversity is NULL"),
    "c is NULL": ({"l": 2, "c": NULL}, "gate_c is NULL"),
    "distance is NULL": ({"t": 1, "distance": NULL}, "gate_distance is NULL"),
    "trees are NULL": ({"t": 1, "trees": NULL}, "gate_trees is NULL"),
    "database is NULL": ({"database": NULL}, "gate_database is NULL"),
    "several are NULL": ({"k": NULL, "t": NULL}, "gate_k is NULL: give it a value, or RESET VARIABLE gate_k; gate_t"),
    "t of no column at all": ({"t": Sql("MAP {}")}, "gate_t must be a number, or a number for each"),
    "t of a column is NULL": ({"t": Sql("{'charge': NULL, 'diagnosis': 0.9}")}, "gate_t must be a number"),
    "t of a column twice": ({"t": Sql("MAP {'charge': 0.1, 'Charge': 0.9}")}, "gate_t must be a number"),
    "t of all columns and of one": ({"t": Sql("MAP {'': 0.1, 'charge': 0.9}")}, "gate_t must be a number"),
    "t is a list": ({"t": Sql("[0.9]")}, "gate_t must be a number"),
    "k of a column": ({"k": {"charge": 1}}, "gate_k must be one number"),
    "c of a column": ({"l": 2, "l_diversity": "recursive", "c": {"charge": 2}}, "gate_c must be one number"),
    "t out of range": ({"t": 1.5}, "t must be"),
    "t of a tree out of range": ({"t": 1.5, "trees": {"diagnosis": "tree.csv"}}, "t must be"),
    "k = 2.5": ({"k": 2.5}, "whole number"),
    "k = 2.5 alone": ({"k": 2.5, "sensitive": None}, "whole number"),
    "k = 'many'": ({"k": "many"}, "whole number"),
    "t of no such column": ({"t": {"chrge": 0.2}}, "not in s"),
    "tree of no such column": ({"t": 0.9, "trees": {"chrge": "tree.csv"}}, "chrge"),
    "one tree for all": ({"t": 0.9, "trees": "tree.csv"}, "gate_trees must be"),
    "no such tree": ({"t": 0.9, "trees": {"diagnosis": "oak.csv"}}, "no table, view or file oak.csv"),
    "tree without t": ({"trees": {"diagnosis": "oak.csv"}}, "need gate_t of diagnosis"),
    "tree of a column without t": ({"t": {"charge": 0.9}, "trees": {"diagnosis": "tree.csv"}}, "gate_t of diagnosis"),
    "distance without t": ({"distance": {"charge": "equal"}}, "need gate_t of charge"),
    "tree and distance": (
        {"t": 0.9, "distance": {"diagnosis": "equal"}, "trees": {"diagnosis": "tree.csv"}}, "disagree on diagnosis",
    ),
    "hierarchical without a tree": ({"t": 0.9, "distance": {"charge": "hierarchical"}}, "disagree on charge"),
    "distance of no such column": ({"t": 0.9, "distance": {"chrge": "equal"}}, "chrge"),
    "unknown distance": ({"distance": {"charge": "far"}, "t": 0.3}, "distance must be"),
    "t without a sensitive column": ({"sensitive": None, "t": 0.3}, "need a sensitive column"),
    "c without l": ({"c": 2}, "need gate_l"),
    "recursive without c": ({"l": 2, "l_diversity": "recursive"}, "needs c"),
    "a tree that lacks a value": ({"t": 0.5, "trees": {"charge": "tree.csv"}}, "no row for a value"),
    "a database that is not read": ({"database": "plain"}, "gate_database is for a recorded policy"),
}  # fmt: skip

CERTAIN = [
    "empty table",
    "misspelt column",
    "failing view",
    "no such file",
    "misspelt variable",
    "no threshold",
    "t is NULL",
    "k of a column",
]


def wrong(case: str) -> tuple[dict[str, object], str]:
    changed, words = WRONG[case]
    return {name: value for name, value in {**PLAIN, **changed}.items() if value is not None}, words


@pytest.mark.parametrize("case", slowly(CERTAIN, one_of=3))
def test_what_cannot_be_judged_is_exit_code_1_and_never_a_pass(desk: Path, case: str) -> None:
    given, words = wrong(case)
    failed(gate(desk, bail=False, **given), words)


@pytest.fixture(scope="module")
def auditor(desk: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection to a copy of the database, for the command line must be able to write to the other."""
    (desk / "copy").mkdir()
    shutil.copy(desk / "plain.duckdb", desk / "copy")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        with duckdb.connect("copy/plain.duckdb", read_only=True) as con:
            con.execute("SET python_enable_replacements = false")
            for statement in macro_statements(temporary=True):
                con.execute(statement)
            yield con


@pytest.fixture
def con(auditor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Give a connection in which the gate may have run before, with other variables."""
    for (name,) in auditor.execute("SELECT name FROM duckdb_variables() WHERE name LIKE 'gate%'").fetchall():
        auditor.execute(f"RESET VARIABLE {name}")
    return auditor


@pytest.mark.parametrize("case", slowly(WRONG, one_of=3))
def test_what_cannot_be_judged_is_an_error_of_one_or_two_lines_that_says_why(
    con: duckdb.DuckDBPyConnection, case: str
) -> None:
    given, words = wrong(case)
    with pytest.raises(duckdb.Error) as failure:
        runs(con, given)
    assert words in str(failure.value)
    assert len(str(failure.value)) < 400
    assert len(str(failure.value).splitlines()) <= 2


@pytest.mark.long
def test_duckdb_1_2_2_says_the_same(desk: Path) -> None:
    found = runs_in_1_2_2(desk, [("plain.duckdb", True, script(wrong(case)[0])) for case in WRONG])
    for case, line in zip(WRONG, found, strict=True):
        assert wrong(case)[1] in line, case
        assert len(line.splitlines()) <= 2, line


@pytest.mark.parametrize(
    "case",
    slowly(["t is NULL", "k of a column", "tree without t", "misspelt column", "c without l"], one_of=3),
)
def test_a_client_that_goes_on_after_an_error_gets_no_pass_either(
    con: duckdb.DuckDBPyConnection, case: str
) -> None:
    # The variables of a pass are still there, from the run before.
    assert runs(con, PLAIN).startswith("passed")
    said = ""
    for statement in con.extract_statements(script(wrong(case)[0])):
        try:
            said = str(con.execute(statement).fetchall())
        except duckdb.Error as failure:
            said = f"error: {failure}"
    assert said.startswith("error")


@pytest.mark.parametrize("setting", ["k", "t", "l", "table"])
def test_null_does_not_stand_for_what_is_recorded(desk: Path, setting: str) -> None:
    given = {setting: NULL}
    failed(gate(desk, "release.duckdb", install=False, **given), f"gate_{setting} is NULL")


def test_a_database_without_a_policy_or_macros_says_so(desk: Path) -> None:
    failed(gate(desk), "gate: no policy is recorded in plain")
    failed(gate(desk, "release.duckdb", install=False, table="other"), "no policy is recorded for other")
    failed(gate(desk, "", install=False, table="patients.csv", quasi_identifiers=QI, k=3), "read-only")
    words = [str(stock_command()), "-bail"]
    for step in (
        *variables({"table": "patients.csv", "quasi_identifiers": QI, "k": 3}),
        ".read sql/gate.sql",
    ):
        words += ["-c", step]
    done = subprocess.run(words, cwd=desk, capture_output=True, text=True, check=False, timeout=60)
    failed(done, ".read sql/install.sql")


def test_several_releases_in_one_database_are_told_apart(desk: Path, tmp_path: Path) -> None:
    shutil.copytree(desk, tmp_path, dirs_exist_ok=True)
    with patients() as con:
        con.execute(f"ATTACH '{tmp_path / 'two.duckdb'}' AS two (STORAGE_VERSION 'v1.2.0')")
        con.sql(CREATE.replace("VIEW v", "VIEW two.v"))
        with pytest.warns(duckanon.DuckanonWarning, match="together with release 1 of two.main.v"):
            con.sql(CREATE.replace("VIEW v", "VIEW two.w").replace("k = 3", "k = 5"))
    failed(gate(tmp_path, "two.duckdb"), "several releases", "main.v, main.w")
    done = gate(tmp_path, "two.duckdb", table="W")
    assert done.returncode == 0, done.stderr
    assert "main.w" in done.stdout
    assert "(asked 5)" in done.stdout
