"""docs/workflows.md: its Python runs, its YAML and SQL are those of the example."""

from __future__ import annotations

import re
from pathlib import Path

import duckanon
from duckanon.dbt import package
from tests.e2e.scenes import ROOT

DOCS = (ROOT / "docs" / "workflows.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", DOCS, re.DOTALL)


def test_the_page_is_short() -> None:
    assert len(DOCS.splitlines()) <= 150


def test_the_python_blocks_run() -> None:
    python = [text for kind, text in BLOCKS if kind == "python"]
    assert len(python) == 2
    space: dict[str, object] = {}
    for text in python:
        exec(text, space)
    check = space["test_the_release_is_private"]
    assert callable(check)
    check()
    release = space["release"]
    assert isinstance(release, duckanon.Release)
    assert release.report.passed


def test_what_the_docs_show_is_in_the_example() -> None:
    example = ROOT / "examples" / "dbt"
    files = "".join(
        path.read_text(encoding="utf-8") for path in example.rglob("*.*") if path.suffix != ".csv"
    )
    for words in ("module: duckanon.dbt", "materialized='anonymized_view'", "env_var('DUCKANON_DBT_PACKAGE'"):
        assert words in DOCS
        assert words in files


def test_every_generic_test_is_in_the_docs_and_the_package_is_complete() -> None:
    assert (package() / "dbt_project.yml").is_file()
    tests = sorted(path.stem for path in Path(package() / "macros" / "generic_tests").glob("*.sql"))
    assert tests == [
        "alpha_k_anonymity", "beta_likeness", "delta_disclosure", "k_anonymity", "l_diversity", "t_closeness",
    ]  # fmt: skip
    for name in tests:
        assert f"`duckanon.{name}`" in DOCS
