"""The pages on privacy models: each has its parts, and its example by hand gives what the page shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import duckanon
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "measures"
INDEX = FOLDER / "README.md"
MODELS = sorted(set(FOLDER.glob("*.md")) - {INDEX, FOLDER / "python.md"})

SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```sql\n([^`]*)^```\n\n```text\n([^`]*)^```$", re.MULTILINE)
"""An example and the rows that it gives."""


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("page", [INDEX, *MODELS], ids=lambda page: page.stem)
def test_an_example_gives_what_the_page_shows(page: Path) -> None:
    """Of an AUDIT a page shows the rows of its model, of a query all rows."""
    text = page.read_text("utf-8")
    with duckanon.connect() as con:
        if page != INDEX:
            con.execute(SQL.findall(INDEX.read_text("utf-8"))[0].partition(";")[0])
        examples = SHOWN.findall(text)
        assert examples
        for sql, shown in examples:
            found = []
            for outcome in con.outcomes(sql):
                if isinstance(outcome, duckanon.api.execute.Outcome):
                    rows = [*zip(*outcome.table.to_pydict().values(), strict=True)]
                    found += [row for row in rows if row[0] == page.stem.replace("-", "_")]
                elif outcome is not None:
                    found += outcome.fetchall()
            assert [str(row) for row in found] == shown.splitlines()


@pytest.mark.parametrize("page", MODELS, ids=lambda page: page.stem)
def test_a_model_says_what_it_does_and_what_it_does_not(page: Path) -> None:
    text = page.read_text("utf-8")
    for part in ("**By hand.**", "- **Protects**", "- **Does not protect**", "- **Choose"):
        assert text.count(part) == 1, part
    assert re.search(r"\bSources?: ", text) or "et al. 2007" in text
    assert f"]({page.name})" in INDEX.read_text("utf-8")


@pytest.mark.parametrize("page", [INDEX, *MODELS], ids=lambda page: page.stem)
def test_lines_are_short(page: Path) -> None:
    lines = [line for line in page.read_text("utf-8").splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 130] == []
