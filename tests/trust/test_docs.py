"""docs/trust.md: its example runs, every trap has a row and a test."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "trust.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "trust.md", "exec"), {})


def test_the_page_is_short() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= 150
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120


def test_every_trap_has_a_row_and_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_traps*.py"))
    for number in range(1, 22):
        assert re.search(rf"^\| {number} \S", PAGE, re.MULTILINE), number
        assert f"def test_trap_{number:02}_" in tests, number
