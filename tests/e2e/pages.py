"""HTML pages as trees, and the browser that opens them."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage",
)  # fmt: skip


class _Reader(HTMLParser):
    """Builds a tree, and fails where tags do not close in their order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.builder = ET.TreeBuilder()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":
            # Where a word may break is no part of its text.
            return
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID:
            self.builder.end(tag)
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        self.builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> out of order"
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.builder.data(data)


def tree(page: str) -> ET.Element:
    """Give the root of a page; every element that needs it must be closed, and in order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader.builder.close()


def text(element: ET.Element) -> str:
    """Give the words of an element."""
    return " ".join(" ".join(element.itertext()).split())


def one(root: ET.Element, tag: str, **attributes: str) -> ET.Element:
    """Give the one element with a tag and attributes."""
    wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
    found = [e for e in root.iter(tag) if all(e.get(name) == value for name, value in wanted.items())]
    assert len(found) == 1, f"{len(found)} times {tag} {wanted}"
    return found[0]


def cells(root: ET.Element, label: str) -> list[list[str]]:
    """Give the cells of the table in a region with a label, its head first."""
    region = one(root, "div", aria_label=label)
    return [[text(cell) for cell in row if cell.tag in {"th", "td"}] for row in region.iter("tr")]


def browse(folder: Path, page: Path, *flags: str) -> str:
    """Open a file in the browser and give what it prints."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    profile = folder / f"profile-{page.stem}-{abs(hash(flags))}"
    profile.mkdir()
    done = subprocess.run(
        [CHROMIUM, *QUIET, f"--user-data-dir={profile}", *flags, page.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout
