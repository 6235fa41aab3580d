"""The line of the stages is one: in the code that calls them, and in the three pages that show it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "duckanon" / "release"
STAGES = "duckanon.release.stages."


def functions(module: str) -> dict[str, ast.FunctionDef]:
    """Give the functions of a module of `release`, and of those that it imports from its pipeline."""
    tree = ast.parse((RELEASE / f"{module}.py").read_text(encoding="utf-8"))
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


def stages_of(module: str) -> set[str]:
    """Give the stages that a module of `release` imports: functions named like their module."""
    tree = ast.parse((RELEASE / f"{module}.py").read_text(encoding="utf-8"))
    found = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module]
    return {
        name.name
        for one in found
        for name in one.names
        if one.module is not None
        and one.module.startswith((STAGES, "duckanon.release.publish"))
        and one.module.endswith(f".{name.name}")
    }


def called(name: str) -> Iterator[str]:
    """Yield the stages in the order in which a function has them called, by functions of the pipeline, too."""
    known = functions("views") | functions("pipeline")
    stages = stages_of("views") | stages_of("pipeline")
    calls = [one for one in ast.walk(known[name]) if isinstance(one, ast.Call)]
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        if isinstance(call.func, ast.Name):
            if call.func.id in stages:
                yield call.func.id
            elif call.func.id in functions("pipeline"):
                yield from called(call.func.id)


LINE = [*dict.fromkeys(called("_release"))]


def test_the_code_calls_thirteen_stages() -> None:
    """By hand, from what a release needs: records, numbers, thresholds, classes, values, proof, the view."""
    assert (LINE[0], LINE[-1], len(LINE)) == ("stage", "publish", 13)
    there = {path.stem for path in (RELEASE / "stages").iterdir() if not path.name.startswith("_")}
    assert there - {"classes", "digits"} == {*LINE[:-1]}


@pytest.mark.parametrize(
    "page",
    [
        "docs/architecture.md",
        "duckanon/release/stages/__init__.py",
        "duckanon/release/pipeline.py",
    ],
)
def test_a_page_shows_the_stages_as_they_are_called(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (line,) = re.findall(r"stage → embed.*? → publish", text, re.DOTALL)
    assert line.replace("→\n", "→ ") == " → ".join(LINE)
