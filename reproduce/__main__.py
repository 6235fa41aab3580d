"""``python -m reproduce`` (make reproduce): print every figure and write docs/reproduction.md."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from reproduce.rows import Maker, MissingDataError, Picture, Row, Section

ROOT = Path(__file__).resolve().parents[1]

PAPERS = ("li", "soria_comas", "kabir", "steered")
"""Modules, one a paper; each has a tuple `SECTIONS` of functions that measure one section."""

HEAD = """\
# The literature, published beside measured

Written by `make reproduce`; no measured figure here is typed by hand. A row matches where the measured
figure, rounded to the digits printed, is the published one. Where it does not, the remark says what is known
of the reason. `python -m reproduce --paper li` runs one paper alone; a section whose data are not at hand is
left out (`DUCKANON_REFERENCE` names their folder).
"""


def main() -> int:
    """Measure and print; write the page unless only some papers were asked for."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    parser.add_argument("--paper", choices=PAPERS, action="append", help="only this one; writes nothing")
    papers = parser.parse_args().paper
    sections = list(measured(papers or PAPERS))
    if not papers:
        write(sections)
    rows = [row for section in sections for row in section.rows]
    print(f"{sum(row.match for row in rows)} of {len(rows)} figures match")
    return 0


def measured(papers: tuple[str, ...] | list[str]) -> Iterator[Section]:
    """Yield the sections of some papers whose data are present, printed one by one."""
    for paper in papers:
        makers: tuple[Maker, ...] = importlib.import_module(f"reproduce.{paper}").SECTIONS
        for maker in makers:
            try:
                section = maker()
            except MissingDataError as missing:
                print(f"left out: {maker.__name__}: {missing}", file=sys.stderr)
                continue
            print(f"== {section.paper}: {section.title}")
            for row in section.rows:
                verdict = "matches" if row.match else "differs"
                print(f"{row.place}: published {row.published}, measured {row.measured}: {verdict}")
            yield section


def write(sections: list[Section]) -> None:
    """Write the page and its figures, in the order of the sections."""
    folder = ROOT / "docs" / "figures"
    folder.mkdir(exist_ok=True)
    for picture in (picture for section in sections for picture in section.pictures):
        (folder / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    page = "\n".join(
        [HEAD, *_summary(sections), *(text for section in sections for text in _section(section))]
    )
    (ROOT / "docs" / "reproduction.md").write_text(page, encoding="utf-8")


def _summary(sections: list[Section]) -> Iterator[str]:
    yield "| paper | table or example | figures | match |\n|---|---|---|---|"
    for section in sections:
        matching = sum(row.match for row in section.rows)
        yield f"| {section.paper} | {section.title} | {len(section.rows)} | {matching} |"
    yield ""


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.paper}: {section.title}\n\n{section.reading}\n"
    if section.rows:
        yield "| place | published | measured | match | remark |\n|---|---|---|---|---|"
        yield from (_line(row) for row in section.rows)
        yield ""
    yield from (_image(picture) for picture in section.pictures)


def _line(row: Row) -> str:
    verdict = "yes" if row.match else "**no**"
    return f"| {row.place} | {row.published} | {row.measured} | {verdict} | {row.remark} |"


def _image(picture: Picture) -> str:
    return f"![{picture.title}](figures/{picture.name}.svg)\n\n*{picture.title}*\n"


if __name__ == "__main__":
    sys.exit(main())
