"""Run dbt on a copy of the example project, or skip where dbt is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.dbt import package
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = ROOT / "examples" / "dbt"


def python_with_dbt() -> str:
    """Interpreter that has dbt: this one, or DUCKANON_DBT_PYTHON, which needs duckanon installed, too."""
    if importlib.util.find_spec("dbt") and importlib.util.find_spec("dbt.adapters.duckdb"):
        return sys.executable
    other = os.environ.get("DUCKANON_DBT_PYTHON")
    if other is None:
        pytest.skip("dbt-duckdb is missing: pip install 'duckanon[dbt]', or set DUCKANON_DBT_PYTHON")
    return other


@dataclass(frozen=True)
class Project:
    """A copy of the example project; ``results`` is the status and the message of each node of the last run."""

    folder: Path

    def dbt(self, *arguments: str, code: int = 0) -> str:
        """Run a command of dbt and give what it prints."""
        done = subprocess.run(
            [python_with_dbt(), "-c", "from dbt.cli.main import cli; cli()", "--no-use-colors", *arguments],
            cwd=self.folder,
            env={**os.environ, "DUCKANON_DBT_PACKAGE": str(package()), "DO_NOT_TRACK": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "leaked" not in done.stderr
        return done.stdout

    @property
    def results(self) -> dict[str, tuple[str, str, int | None]]:
        """Status, message and number of failures of every node."""
        found = json.loads((self.folder / "target" / "run_results.json").read_text(encoding="utf-8"))
        return {
            one["unique_id"].split(".")[2]: (one["status"], one["message"] or "", one["failures"])
            for one in found["results"]
        }

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Rows of a query on the database that dbt wrote."""
        with duckdb.connect(self.folder / "clinic.duckdb", read_only=True) as con:
            return con.execute(query).fetchall()


def copied(folder: Path) -> Project:
    """Give a fresh copy of the example with its packages installed."""
    python_with_dbt()
    shutil.copytree(
        EXAMPLE,
        folder,
        ignore=shutil.ignore_patterns("target", "logs", "dbt_packages", "*.duckdb", "package-lock.yml"),
    )
    project = Project(folder)
    project.dbt("deps")
    return project
