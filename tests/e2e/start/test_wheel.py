"""The wheel carries the SQL files and the demo's data, and works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_a_wheel_works_on_its_own(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    in_checkout = {
        f"duckanon/{path.relative_to(ROOT)}" for path in (ROOT / "sql").rglob("*") if path.is_file()
    }
    assert in_checkout <= names
    assert "duckanon/fixtures/census_income.parquet" in names
    program = "import duckanon, duckanon.database.templates as s; print(s.folder()); c = duckanon.connect(); c.sql('CREATE ANONYMIZED VIEW v AS SELECT i % 3 AS a FROM range(9) r(i) WITH (quasi_identifiers = (a), k = 3)'); c.close()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "site" / "duckanon" / "sql")
