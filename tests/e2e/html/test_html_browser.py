"""The HTML report in a real browser: what it makes of the file, how it looks, and that it asks for nothing."""

from __future__ import annotations

import html
import re
import socketserver
import subprocess
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.audits.html.report import html_report
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        pages.CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
    ),
]

DARK = "--blink-settings=preferredColorScheme=0"
GREEN, RED = (23, 105, 47), (179, 38, 30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    """A page with every section, and with a script in every place that a user can reach."""
    file = folder / "report.html"
    script = "<script>document.title = 'taken'</script>"
    with duckdb.connect() as con:
        con.execute(f"""
            CREATE TABLE original AS SELECT 20 + i % 50 AS age, i // 9 AS "{script}", i % 17 AS income, CASE i % 6
                WHEN 0 THEN '<img src=http://example.com/x.png>' WHEN 1 THEN '{script.replace("'", "''")}' ELSE 'w' || i % 6
                END AS "work <b onclick=x>"
            FROM range(200) AS r(i);
            CREATE TABLE released AS SELECT * REPLACE (age // 25 * 25 AS age, 0 AS "{script}") FROM original
        """)
        policy = AuditPolicy(
            quasi_identifiers=["age", script], sensitive=["income", "work <b onclick=x>"], k=3, t=0.5
        )
        audited = duckanon.audit(con, "released", policy)
        page = html_report(
            con,
            "released",
            audited,
            policy,
            original="original",
            title=script,
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
    file.write_text(page, encoding="utf-8")
    return file


@pytest.fixture
def wire() -> Iterator[tuple[int, list[str]]]:
    """A proxy that notes the first line of every request and answers none."""
    heard: list[str] = []

    class Note(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            heard.append(self.rfile.readline(500).decode("latin-1").strip())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Note) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1], heard
        server.shutdown()


def picture(folder: Path, page: Path, width: int, height: int, *flags: str) -> npt.NDArray[np.uint8]:
    """Screenshot as an array (height, width, 3)."""
    from matplotlib.image import imread

    file = folder / f"{page.stem}-{width}-{len(flags)}.png"
    pages.browse(folder, page, f"--screenshot={file}", f"--window-size={width},{height}", *flags)
    shot = (imread(file)[..., :3] * 255).round().astype(np.uint8)
    assert shot.shape == (height, width, 3)
    return shot


def has(shot: npt.NDArray[np.uint8], colour: tuple[int, ...], pixels: int) -> bool:
    near = (np.abs(shot.astype(int) - colour) <= 3).all(axis=2)
    return int(near.sum()) >= pixels


def asked(heard: list[str]) -> list[str]:
    """Requests that are not the browser's own: Chromium asks Google for the time and for accounts."""
    return [
        line
        for line in heard
        if not re.match(r"([A-Z]+ http://|CONNECT )[a-z0-9.-]*\bgoogle(apis)?\.com[:/]", line)
    ]


def test_the_browser_builds_the_page_that_was_written_and_asks_for_nothing(
    folder: Path, report: Path, wire: tuple[int, list[str]]
) -> None:
    """With a page beside it of which a request does leave, so that silence means something."""
    port, heard = wire
    proxy = (f"--proxy-server=http://127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>")
    dom = pages.browse(folder, report, "--dump-dom", *proxy)
    assert asked(heard) == []
    control = folder / "control.html"
    control.write_text("<img src='http://example.com/x.png'>", encoding="utf-8")
    pages.browse(folder, control, "--dump-dom", *proxy)
    assert any("http://example.com/x.png" in line for line in asked(heard))
    text = report.read_text(encoding="utf-8")
    assert "google" not in text
    root, written = pages.tree(dom), pages.tree(text)
    (head,) = root.findall("head/title")
    assert pages.text(head) == "<script>document.title = 'taken'</script>: passed"
    assert not [e for e in root.iter() if e.tag in {"script", "img", "b"}]
    assert not [e for e in root.iter() for name in e.attrib if name.startswith("on")]
    assert "✓ Passed" in pages.text(root)
    for tag in ("svg", "table", "figure", "details", "h2"):
        assert len(list(root.iter(tag))) == len(list(written.iter(tag))), tag


def test_it_looks_right_in_light_and_dark(folder: Path, report: Path) -> None:
    """The ground, the banner, and the bars, which are half a per cent of a tall picture at least."""
    light = picture(folder, report, 1280, 5000)
    assert tuple(light[5, 5]) == (255, 255, 255)
    dark = picture(folder, report, 1280, 5000, DARK)
    assert tuple(dark[5, 5]) == (15, 19, 24)
    assert not has(dark, (255, 255, 255), 500)
    for shot, green, bar in ((light, GREEN, (47, 111, 159)), (dark, (111, 208, 140), (100, 169, 220))):
        assert has(shot[:400], green, 500)
        assert has(shot, bar, shot.shape[0] * shot.shape[1] // 200)


def test_nothing_is_wider_than_the_screen(folder: Path, report: Path) -> None:
    """Measured by a script of the test in frames around the page, which itself has none."""
    widths = (320, 390, 768, 1280)
    inner = html.escape(report.read_text(encoding="utf-8"), quote=True)
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px;border:0" srcdoc="{inner}"></iframe>'
        for width in widths
    )
    file = folder / "frames.html"
    file.write_text(
        f"""<!DOCTYPE html><body>{frames}<p id=found></p><script>onload = () => {{
            document.getElementById('found').textContent = [...document.querySelectorAll('iframe')].map(f => {{
                const d = f.contentDocument, e = d.documentElement;
                const small = [...d.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height);
                const wide = [...d.querySelectorAll('table.many')].map(t => t.parentElement);
                const scrolled = wide.every(s => s.ownerDocument.defaultView.getComputedStyle(s).overflowX == 'auto'
                    && s.scrollWidth > s.clientWidth);
                return [e.scrollWidth, e.clientWidth, Math.min(...small), Number(scrolled)].join(' ');
            }}).join(';');
        }}</script>""",
        encoding="utf-8",
    )
    dom = pages.browse(folder, file, "--dump-dom", "--window-size=1400,900")
    found = re.search(r'<p id="found">([^<]+)</p>', dom)
    assert found is not None
    for width, line in zip(widths, found[1].split(";"), strict=True):
        scroll, client, letters, scrolled = map(float, line.split())
        assert scroll <= client <= width, line
        assert letters >= 9, "letters in charts are readable"
        assert scrolled == (width < 500), "wide tables keep their width on a phone"


def test_violating_classes_break_no_word_and_leave_no_room(folder: Path) -> None:
    """Rectangles of the words in the browser: a word of letters alone stands in one line, at any width.

    At 1,280 pixels the table is as wide as the page, so that no part of it is empty.
    """
    names = [
        "age",
        "marital status at admission",
        "居住地区",
        "sum_of_internationalization_and_electroencephalography",
    ]
    file = folder / "violating.html"
    with duckdb.connect() as con:
        con.execute(f"""
            CREATE TABLE t AS
            SELECT 20 + i % 60 AS age, ['married', 'divorced and living alone', 'נשוי ומתגורר'][1 + i % 3] AS "{names[1]}",
                ['东京都千代田区丸之内一丁目', '大阪'][1 + i % 2] AS "{names[2]}", 'https://example.com/long/path/to/' || i % 60 AS "{names[3]}",
                i % 7 AS charge
            FROM range(120) AS r(i)
        """)
        policy = AuditPolicy(quasi_identifiers=names, sensitive="charge", k=5, t=0.01)
        page = html_report(
            con, "t", duckanon.audit(con, "t", policy), policy, now=datetime(2026, 1, 1, tzinfo=UTC)
        )
    assert page.count("k-anonymity") > 5
    inner = html.escape(page, quote=True)
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{inner}"></iframe>'
        for width in (390, 1280)
    )
    file.write_text(
        f"""<!DOCTYPE html><meta charset="utf-8"><body>{frames}<p id=found></p><script>onload = () => {{
            document.getElementById('found').textContent = [...document.querySelectorAll('iframe')].map(f => {{
                const d = f.contentDocument, table = d.querySelector('#violations table'), broken = [];
                const walker = d.createTreeWalker(table, 4);
                for (let n = walker.nextNode(); n; n = walker.nextNode())
                    for (const m of n.data.matchAll(/[A-Za-z\u0590-\u05ff]+/g)) {{
                        const range = d.createRange();
                        range.setStart(n, m.index); range.setEnd(n, m.index + m[0].length);
                        const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
                        if (tops.size > 1) broken.push(m[0]);
                    }}
                const room = table.parentElement.clientWidth - table.clientWidth;
                const main = d.querySelector('main').clientWidth - table.parentElement.clientWidth;
                return [broken.join(' ') || '-', room, main].join('|');
            }}).join(';');
        }}</script>""",
        encoding="utf-8",
    )
    dom = pages.browse(folder, file, "--dump-dom", "--window-size=1700,900")
    found = re.search(r'<p id="found">([^<]+)</p>', dom)
    assert found is not None
    for line in found[1].split(";"):
        broken, room, margin = line.split("|")
        assert broken == "-"
        assert int(room) <= 1, line
        assert int(margin) <= 60, line


def test_it_prints_in_light_colours_on_few_pages(folder: Path, report: Path) -> None:
    file = folder / "report.pdf"
    pages.browse(folder, report, f"--print-to-pdf={file}", "--no-pdf-header-footer", DARK)
    data = file.read_bytes()
    assert data.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", data)) <= 15
    first = _page(file, folder)
    if first is not None:
        assert tuple(first[3, 3]) == (255, 255, 255)
        assert has(first, GREEN, 50)


@pytest.mark.parametrize("paper", ["A4", "letter"])
def test_no_heading_is_printed_on_the_page_before_what_it_heads(
    folder: Path, report: Path, paper: str
) -> None:
    """The outline of the PDF says where each heading stands: a chart has a heading, too.

    A table stands between the heading of the losses and their chart.
    """
    outline = _outline(_printed(folder, report.read_text(encoding="utf-8"), paper))
    assert len(outline) > 20
    for title, page, height, first_below in outline.values():
        # The margin is 15 mm = 43 points: two lines and more follow.
        assert height >= 43 + 45
        if first_below is not None and not title.startswith(b"What changed"):
            assert outline[first_below][1] == page, title


def test_what_is_folded_is_not_printed_and_what_is_unfolded_is(folder: Path, report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    without = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert len(without) < len(text) * 0.8
    closed, opened, none = (
        len(re.findall(rb"/Type\s*/Page\b(?!s)", _printed(folder, page, "A4")))
        for page in (text, text.replace("<details>", "<details open>"), without)
    )
    assert closed == none < opened


def _printed(folder: Path, text: str, paper: str) -> bytes:
    """PDF of a page on a paper, with an outline of its headings."""
    page, file = folder / "printed.html", folder / "printed.pdf"
    page.write_text(text.replace("@page {", f"@page {{ size: {paper};"), encoding="utf-8")
    pages.browse(
        folder, page, f"--print-to-pdf={file}", "--no-pdf-header-footer", "--generate-pdf-document-outline"
    )
    return file.read_bytes()


def _outline(data: bytes) -> dict[int, tuple[bytes, int, float, int | None]]:
    """Headings of a PDF: title, number of the page's object, points above its end, and the first heading below."""
    headings = {}
    for item in data.split(b"endobj"):
        title = re.search(rb"(\d+) 0 obj\s*<</Title \((.*)\)", item)
        place = re.search(rb"/Dest \[(\d+) 0 R /XYZ [\d.-]+ ([\d.-]+) 0\]", item)
        if title is not None and place is not None:
            first = re.search(rb"/First (\d+) 0 R", item)
            below = None if first is None else int(first[1])
            headings[int(title[1])] = title[2], int(place[1]), float(place[2]), below
    return headings


def _page(file: Path, folder: Path) -> npt.NDArray[Any] | None:
    """First page as pixels, where pdftoppm is installed."""
    from matplotlib.image import imread

    try:
        subprocess.run(
            ["pdftoppm", "-r", "60", "-png", "-singlefile", str(file), str(folder / "first")], check=True
        )
    except FileNotFoundError:
        return None
    return np.asarray((imread(folder / "first.png")[..., :3] * 255).round().astype(np.uint8))
