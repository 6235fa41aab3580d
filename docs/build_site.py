"""Build the documentation site: ``make docs``.

The pages of docs/, and pages that stand elsewhere, are copied to build/docs. Pages on the code are written
there. Zensical builds build/site from these pages, strictly and without network. Then the site is checked:
every link and anchor leads somewhere, nothing is loaded from another host, and the start page leads to every
page in at most two clicks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from typer.testing import CliRunner

import duckanon
from duckanon import measures
from duckanon.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
DOCS, COPY, SITE = ROOT / "docs", ROOT / "build" / "docs", ROOT / "build" / "site"
COPIED = {
    ROOT / "sql" / "README.md": "audits.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changes.md",
    ROOT / "examples" / "notebooks" / "first_release.ipynb": "first_release.md",
    ROOT / "examples" / "notebooks" / "choose_k_and_t.ipynb": "choose_k_and_t.md",
}
"""Pages that do not stand in docs/, by their name on the site."""

FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"`[^`\n]*`|\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
"""A piece of code, which stays as it is, or a link."""

UNSPACED_LIST = re.compile(
    r"^(?![-|>#\s]|\d+\. |<!).+\n(?=- |1\. )|^ {3,}.+\n(?=\d+\. )|\A\n(?=- |1\. )", re.MULTILINE
)
"""A line right before an item of a list, with which Markdown of Python takes the item for one paragraph."""

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Attributes that name what a browser loads with a page, by their element."""


def gather() -> None:
    """Write every page of the site, and its pictures, to build/docs."""
    shutil.rmtree(COPY, ignore_errors=True)
    pages = {page: page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} | COPIED
    for source, name in pages.items():
        put(name, relinked(source, pages))
    shutil.copytree(DOCS / "figures", COPY / "figures")
    for name, write in WRITTEN.items():
        put(name, write())
    put("assets/iframe-worker.js", worker())


def put(name: str, text: str) -> None:
    """Write a file of build/docs."""
    file = COPY / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def relinked(source: Path, pages: dict[Path, str]) -> str:
    """Return a page whose links lead to pages of the site; a link to any other file becomes its path."""

    def link(found: re.Match[str]) -> str:
        text, target = found.group(1), found.group(2) or ""
        path, _, fragment = target.partition("#")
        if "://" in target or not path or path.endswith((".svg", ".png")):
            return found[0]
        file = (source.parent / path).resolve()
        if file.is_relative_to(ROOT / "sql" / "audit") and file.parent.name != "fast":
            name, fragment = "definitions.md", file.stem if file.suffix else ""
        elif file in pages:
            name = pages[file]
            if text.endswith((".md", ".ipynb")):  # GitHub shows files, and the site shows titles
                text = re.findall(r"# ([^\n\\\"]+)", file.read_text(encoding="utf-8"))[0]
        elif file.parent == DOCS and file.name in WRITTEN:
            name = file.name
        elif file.exists():
            return f"`{file.relative_to(ROOT).as_posix()}`"
        else:
            raise SystemExit(f"{source.relative_to(ROOT)}: no {target}")
        place = os.path.relpath(COPY / name, (COPY / pages[source]).parent)
        return f"[{text}]({place}{'#' if fragment else ''}{fragment})"

    text = source.read_text(encoding="utf-8")
    parts = FENCED.split(cells(text) if source.suffix == ".ipynb" else text)
    return "".join(part if part.startswith("```") else LINK.sub(link, listed(part)) for part in parts)


def listed(text: str) -> str:
    """Return a text with lists as Markdown of Python reads them: after a blank line, and nested by four."""
    return re.sub(r"^ {3}(?=- )", "    ", UNSPACED_LIST.sub(r"\g<0>\n", text), flags=re.MULTILINE)


def cells(text: str) -> str:
    """Return a notebook as a page: each cell, and what it printed when it was executed."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = {mime: "".join(lines) for mime, lines in output.get("data", {}).items()}
            if page := shown.get("image/svg+xml") or shown.get("text/html"):
                begin = max(page.find("<svg"), 0)
                plain = page[begin:].replace(' class="dataframe"', "")
                parts.append(f'<div style="overflow-x: auto">{" ".join(plain.split())}</div>')
            else:
                printed = shown.get("text/plain") or "".join(output.get("text", ()))
                parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Return the page with the help text of every command, as the command line prints it."""
    head = (
        "# Every command\n\nThe texts that `--help` prints. "
        "[The command line](command_line.md) says how the commands are used.\n"
    )
    return "\n".join([head, *helped([])])


def helped(words: list[str]) -> Iterator[str]:
    """Yield the section of a command, then the sections of the commands that its help text lists."""
    text = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "96"}, prog_name="duckanon").output
    yield f"## `{' '.join(words) or 'duckanon'}`\n\n```text\n{text.strip()}\n```\n"
    for name in re.findall(r"^  ([a-z][a-z-]*)  ", text.partition("\nCommands:\n")[2], re.MULTILINE):
        yield from helped([*words, name])


def definitions() -> str:
    """Return the page with the SQL of every audit, as it stands in sql/audit."""
    files = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "sql" / "audit").glob("*.sql")}
    head = (
        "---\nsearch:\n  exclude: true\n---\n\n# The SQL of every audit\n\n"
        "The files of `sql/audit`, word by word. Each is one SELECT over `class_member(class, value)`. "
        "[The audits](audits.md) says how the macros made of these texts are called.\n"
    )
    texts = (f"## {name}\n\n```sql\n{files[name].rstrip()}\n```\n" for name in sorted(files))
    return "\n".join([head, *texts])


def python() -> str:
    """Return the page on what Python can import, which mkdocstrings fills from the docstrings."""
    public = [name for name in duckanon.__all__ if not name.startswith("__")]
    classes = {name for name in public if isinstance(getattr(duckanon, name), type)}
    errors = {name for name in classes if issubclass(getattr(duckanon, name), Exception)}
    groups = {
        "Functions": [f"duckanon.{name}" for name in public if name not in classes],
        "Classes": [f"duckanon.{name}" for name in public if name in classes - errors],
        "Errors and warnings": [f"duckanon.{name}" for name in public if name in errors],
        "In tests": ["duckanon.testing.assert_private"],
        "Measures": [f"duckanon.measures.{name}" for name in measures.__all__],
    }
    head = "# Python\n\nWritten from the docstrings. [Statements](statements.md#in-memory) has examples.\n"
    texts = (
        f"## {title}\n\n" + "\n".join(f"::: {name}\n" for name in names) for title, names in groups.items()
    )
    return "\n".join([head, *texts])


def worker() -> str:
    """Return the script that starts search for pages of the file system, where a worker has no address."""
    spec = find_spec("zensical")
    if spec is None or spec.origin is None:
        raise SystemExit("zensical is not installed: run make docs")
    (file,) = Path(spec.origin).parent.glob("templates/assets/javascripts/workers/search.*.js")
    text = json.dumps(file.read_text(encoding="utf-8"))
    return (
        f'const searchWorker = new Blob([{text}], {{type: "text/javascript"}});\n'
        "window.Worker = class extends Worker {\n"
        "    constructor() { super(URL.createObjectURL(searchWorker)); }\n"
        "};\n"
    )


WRITTEN = {"commands.md": commands, "definitions.md": definitions, "python.md": python}
"""Pages on the code by the function that writes the page."""


class Page(HTMLParser):
    """What a page of the site loads, links to, and can be linked to by."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the attributes of an element that name a place."""
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if loaded := given.get(LOADED.get(tag, "")):
            self.loads.append(loaded)
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)


def faults() -> Iterator[str]:
    """Yield what is wrong with the site that was built."""
    pages = {file: Page(file) for file in SITE.rglob("*.html") if file.name != "404.html"}
    near = {SITE / "index.html"}
    for _ in range(2):
        near |= {target for file in near & set(pages) for target, _ in _inside(file, pages[file].links)}
    for file, page in pages.items():
        name = file.relative_to(SITE)
        if file not in near:
            yield f"{name}: more than two clicks away from the start page"
        for loaded in page.loads:
            if urlsplit(loaded).netloc:
                yield f"{name}: loads {loaded}"
        for target, fragment in _inside(file, page.links + page.loads):
            if not target.exists():
                yield f"{name}: no {target.relative_to(SITE)}"
            elif fragment and target in pages and fragment not in pages[target].anchors:
                yield f"{name}: no #{fragment} in {target.relative_to(SITE)}"


def _inside(file: Path, links: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield file and fragment of each link that stays on the site."""
    for link in links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            yield (target / "index.html" if target.is_dir() else target), unquote(parts.fragment)


def main() -> int:
    """Build the site and check it."""
    gather()
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=False)
    if built.returncode:
        return built.returncode
    wrong = sorted(set(faults()))
    for fault in wrong:
        sys.stderr.write(f"{fault}\n")
    count = len(list(SITE.rglob("*.html")))
    sys.stdout.write(f"{count} pages in {SITE.relative_to(ROOT)}, {len(wrong)} faults\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
