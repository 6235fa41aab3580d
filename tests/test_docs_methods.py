"""The pages on the methods and the measures: complete, and their examples run."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon import measures
from duckanon.kernels.exchange.refine import WORK
from duckanon.literature.registry import PUBLISHED
from duckanon.policy.methods import METHODS
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
INDEX = DOCS / "methods" / "README.md"
FAMILIES = sorted(set((DOCS / "methods").glob("*.md")) - {INDEX})
PAGES = [INDEX, *FAMILIES, DOCS / "measures" / "python.md"]

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## `(\w+)`.*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

SECTIONS = {name: text for page in FAMILIES for name, text in SECTION.findall(page.read_text("utf-8"))}


def test_every_method_has_one_heading_in_one_page() -> None:
    found = Counter(
        name
        for page in FAMILIES
        for name in re.findall(r"^## `(\w+)`", page.read_text("utf-8"), re.MULTILINE)
    )
    for method in duckanon.methods():
        assert found[method.name] == 1, method.name
    index = INDEX.read_text("utf-8")
    for name in found:
        assert f"[`{name}`](" in index, name


@pytest.mark.parametrize("name", METHODS)
def test_the_section_of_a_method_says_how_it_is_named_and_what_it_takes(name: str) -> None:
    section = SECTIONS[name]
    assert f"`method = '{name}'`" in section
    assert f'"{name}"' in "".join(PYTHON.findall(section)), "no example"
    for label in ("**Options.**", "**Guarantee.**", "**Cost.**", "**Source.**"):
        assert label in section, label
    own = {"auto": ("paths",), "full_domain": ("objective", "suppression_limit")}
    for option in own.get(name) or PUBLISHED[name].options:
        assert f"`{option}`" in section.partition("**Options.**")[2].partition("**Guarantee.**")[0], option


def test_every_measure_is_described() -> None:
    text = (DOCS / "measures" / "python.md").read_text("utf-8")
    for name in measures.__all__:
        assert f"`{name}" in text, name


def test_the_work_of_each_effort_is_as_written() -> None:
    text = (DOCS / "methods" / "auto.md").read_text("utf-8")
    for effort, work in WORK.items():
        figures = (work.neighbours, work.sweeps, work.rebuilds, work.classes, work.rounds)
        assert f"| `'{effort}'` | {' | '.join(f'{figure:,}' for figure in figures)} |" in text, effort


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page: Path) -> None:
    blocks = PYTHON.findall(page.read_text("utf-8"))
    assert blocks
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_are_short(page: Path) -> None:
    """Tables may be wider: a row is one line."""
    text = page.read_text("utf-8")
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []
