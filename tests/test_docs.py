"""Every page: its links lead somewhere, and the start page and the site have it."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = ROOT / "docs"
COPIED = {
    "sql/README.md": "audits.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "examples/notebooks/first_release.ipynb": "first_release.md",
    "examples/notebooks/choose_k_and_t.ipynb": "choose_k_and_t.md",
}
WRITTEN = {"commands.md", "definitions.md", "python.md"}
"""Pages that `make docs` writes from the code."""

PAGES = sorted([*DOCS.rglob("*.md"), *map(ROOT.joinpath, ("README.md", *COPIED))])
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PARAGRAPH = re.compile(r"(?:^.+$\n?)+", re.MULTILINE)
TABLE = re.compile(r"\|.*\|\n\|[-:| ]+\|")


def anchors(text: str) -> set[str]:
    """Return the fragments that the headings of a page can be reached by, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link of a page to another file or heading, the file and the fragment."""
    for link in LINK.findall(CODE.sub("", FENCED.sub("", page.read_text("utf-8")))):
        path, _, fragment = link.partition("#")
        if "://" not in link:
            yield link, (page.parent / path).resolve() if path else page, fragment


def leads(target: Path, fragment: str) -> bool:
    """Tell whether a file is there, with the heading."""
    if target.parent == DOCS and target.name in WRITTEN:
        return not fragment
    return target.exists() and (not fragment or fragment in anchors(target.read_text("utf-8")))


def listed(nav: list[dict[str, object]]) -> Iterator[str]:
    """Yield the pages of the navigation."""
    for (page,) in (entry.values() for entry in nav):
        if isinstance(page, list):
            yield from listed(page)
        else:
            yield str(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link, target, fragment in links(page) if not leads(target, fragment)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tables_have_a_head(page: Path) -> None:
    """Rows after an empty line are text with bars, not rows of the table before it."""
    parts = PARAGRAPH.findall(FENCED.sub("", page.read_text("utf-8")))
    assert [part for part in parts if part.startswith("| ") and not TABLE.match(part)] == []


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed(nav)) == sorted([*pages, *COPIED.values(), *WRITTEN])


def test_the_start_page_leads_to_every_page_in_two_clicks() -> None:
    near = {DOCS / "README.md"}
    for _ in range(2):
        near |= {target for page in near.intersection(PAGES) for _, target, _ in links(page)}
    assert [page for page in PAGES if page not in near and page != ROOT / "README.md"] == []
