"""The README is short and its examples run; the page of the demo shows what the demo prints."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT, command

if TYPE_CHECKING:
    from types import ModuleType

README = (ROOT / "README.md").read_text(encoding="utf-8")
DEMO = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")


def module() -> ModuleType:
    """Load docs/readme.py, which is no package."""
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo once: the file that it exports, and the page with what was printed."""
    file = tmp_path_factory.mktemp("demo") / "census.duckdb"
    return file, module().page(DEMO, file)


@pytest.mark.slow
def test_the_printed_output_is_what_comes_out(census: tuple[Path, str]) -> None:
    assert census[1] == DEMO, "run make readme"


@pytest.mark.slow
def test_the_export_of_the_demo_is_verified(census: tuple[Path, str]) -> None:
    """The census has text QIs of which many classes of the partition are recoded to equal values."""
    done = command("verify", census[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert "difference: " not in done.stdout
    assert "note: " not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("verified: 1 release, ")
    assert "duckanon verify census.duckdb" in DEMO


@pytest.mark.slow
def test_the_examples_of_the_readme_run(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "dbt" / "seeds" / "patients.csv", tmp_path)
    (on_a_file,) = [
        block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "pip" not in block
    ]
    (python,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for script in (["sh", "-e", "-c", on_a_file], [sys.executable, "-W", "error", "-c", python]):
        subprocess.run(script, cwd=tmp_path, env={**os.environ, "PATH": path}, check=True, timeout=300)
    assert (tmp_path / "released.parquet").exists()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 90


def test_every_option_is_in_the_docs() -> None:
    from duckanon.policy.policy import OPTIONS

    options = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for name in OPTIONS:
        assert f"`{name}`" in options, name
