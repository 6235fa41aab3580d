"""What sql/gate.sql cannot judge is exit code 1 and a reason, never a pass."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.auditsql import macro_statements
from tests.e2e.scenes import CREATE, patients
from tests.sql.gates import BOTH, QI, failed, fill, gate, runs, variables
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("gate"))


PLAIN: dict[str, object] = {"table": "patients", "quasi_identifiers": QI, "sensitive": BOTH, "k": 3}
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "empty table": ({"table": "empty"}, "the table is empty"),
    "empty table, k alone": ({"table": "empty", "sensitive": None}, "the table is empty"),
    "misspelt column": ({"quasi_identifiers": ["zpi"]}, '"zpi"'),
    "misspelt column, k alone": ({"quasi_identifiers": ["zpi"], "sensitive": None}, '"zpi"'),
    "misspelt sensitive column": ({"sensitive": ["chrge"]}, '"chrge"'),
    "failing view": ({"table": "failing"}, "boo"),
    "failing view, k alone": ({"table": "failing", "sensitive": None}, "boo"),
    "no such table": ({"table": "nowhere"}, "nowhere"),
    "no such file": ({"table": "nowhere.csv"}, "nowhere.csv"),
    "no table": ({"table": None}, "gate: no table"),
    "no quasi-identifiers": ({"quasi_identifiers": None}, "gate: no quasi-identifiers"),
    "empty list": ({"quasi_identifiers": []}, "must be a list"),
    "text for a list": ({"quasi_identifiers": "zip"}, "must be a list"),
    "text for sensitive": ({"sensitive": "charge"}, "must be a list"),
    "no threshold": ({"k": None}, "gate: no threshold"),
    "misspelt variable": ({"tt": 0.1}, "gate_tt"),
    "t out of range": ({"t": 1.5}, "t must be"),
    "t of a tree out of range": ({"t": 1.5, "trees": {"diagnosis": "tree.csv"}}, "t must be"),
    "k = 2.5": ({"k": 2.5}, "whole number"),
    "k = 2.5 alone": ({"k": 2.5, "sensitive": None}, "whole number"),
    "k = 'many'": ({"k": "many"}, "whole number"),
    "t of no column": ({"t": {"chrge": 0.2}}, "not in s"),
    "tree of no column": ({"trees": {"chrge": "tree.csv"}}, "chrge"),
    "one tree for all": ({"trees": "tree.csv"}, "tree.csv"),
    "distance of no column": ({"distance": {"chrge": "equal"}}, "chrge"),
    "unknown distance": ({"distance": {"charge": "far"}, "t": 0.3}, "distance must be"),
    "t without a sensitive column": ({"sensitive": None, "t": 0.3}, "need a sensitive column"),
    "c without l": ({"c": 2}, "need gate_l"),
    "recursive without c": ({"l": 2, "l_diversity": "recursive"}, "needs c"),
    "a tree that lacks a value": ({"t": 0.5, "trees": {"charge": "tree.csv"}}, "no row for a value"),
}


CERTAIN = [
    "empty table",
    "misspelt column",
    "failing view",
    "no such file",
    "misspelt variable",
    "no threshold",
]


def wrong(case: str) -> tuple[dict[str, object], str]:
    changed, words = WRONG[case]
    return {name: value for name, value in {**PLAIN, **changed}.items() if value is not None}, words


@pytest.mark.parametrize("case", CERTAIN)
def test_what_cannot_be_judged_is_exit_code_1_and_never_a_pass(desk: Path, case: str) -> None:
    given, words = wrong(case)
    failed(gate(desk, bail=False, **given), words)


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_judged_is_an_error_that_says_why(
    desk: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, words = wrong(case)
    monkeypatch.chdir(desk)
    with duckdb.connect("plain.duckdb", read_only=True) as con:
        con.execute("SET python_enable_replacements = false")
        for statement in macro_statements(temporary=True):
            con.execute(statement)
        with pytest.raises(duckdb.Error) as failure:
            runs(con, given)
    assert words in str(failure.value)
    assert len(str(failure.value)) < 400


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
        con.sql(CREATE.replace("VIEW v", "VIEW two.w").replace("k = 3", "k = 5"))
    failed(gate(tmp_path, "two.duckdb"), "several releases", "main.v, main.w")
    done = gate(tmp_path, "two.duckdb", table="W")
    assert done.returncode == 0, done.stderr
    assert "main.w" in done.stdout
    assert "(asked 5)" in done.stdout
