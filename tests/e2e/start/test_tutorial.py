"""The tutorial and the pages that go on from it: every block runs, and prints what the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.command_line.test_readme import module

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_every_block_prints_what_the_page_shows(tmp_path: Path) -> None:
    readme = module()
    for page in readme.FOLLOWED:
        text = page.read_text(encoding="utf-8")
        assert readme.followed(text, tmp_path) == text, f"{page.name}: run make readme"
