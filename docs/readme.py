"""Write what commands print into the pages that show it: ``make readme``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "docs" / "start" / "install.md"
FOLLOWED = [
    ROOT / "docs" / name
    for name in (
        "start/tutorial.md",
        "how-to/nightly.md",
        "how-to/auditor.md",
        "how-to/from-sdcmicro.md",
        "how-to/from-arx.md",
        "how-to/from-postgresql-anonymizer.md",
    )
]
"""Pages whose blocks run one after the other in one folder, the tutorial first."""

BLOCK = re.compile(
    r'^```(sh|sql)(?: title="([^"\n]+)")?\n(.*?)^```\n(\n```text\n.*?^```\n)?', re.MULTILINE | re.DOTALL
)
"""Block of a page: language, name of the file that it is, text, and the block of what it prints."""

COMMAND = "$ duckdb -readonly census.duckdb"


def demo(export: Path) -> str:
    """Give what ``duckanon demo`` prints, with the file name of the page.

    Parameters
    ----------
    export : Path
        Where the release goes.

    Returns
    -------
    str
        Its standard output.
    """
    command = [sys.executable, "-m", "duckanon", "demo", "--export", str(export)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.replace(str(export), "census.duckdb").rstrip()


def stock_audit(export: Path) -> str:
    """Give the session of the stock command line that audits the exported file.

    Parameters
    ----------
    export : Path
        The exported file.

    Returns
    -------
    str
        Command, statement and output.
    """
    statement = (ROOT / "docs" / "stock.sql").read_text(encoding="utf-8")
    binary = Path(sys.executable).parent / "duckdb"
    # On a slow machine the progress bar would be printed, too.
    quiet = ["-cmd", "SET enable_progress_bar = false"]
    command = [str(binary), "-readonly", "-box", *quiet, str(export), "-c", statement]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{COMMAND}\n{statement}{done.stdout}".rstrip()


def filled(text: str, mark: str, output: str) -> str:
    """Give a page with the output between its marks.

    Parameters
    ----------
    text : str
        The page.
    mark : str
        Name of the marks.
    output : str
        What stands between them.

    Returns
    -------
    str
        The new page.
    """
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}```\n{output}\n```\n{end}{rest.partition(end)[2]}"


def page(text: str, export: Path) -> str:
    """Give the page of the demo with both outputs as they are now.

    Parameters
    ----------
    text : str
        The page.
    export : Path
        A new file for the release of the demo.

    Returns
    -------
    str
        The new page.
    """
    text = filled(text, "demo", demo(export))
    return filled(text, "audit", stock_audit(export))


def followed(text: str, folder: Path) -> str:
    """Give a page after its blocks, as they are now: files are written, commands are run and print.

    Parameters
    ----------
    text : str
        The page.
    folder : Path
        An empty folder, in which the commands run.

    Returns
    -------
    str
        The new page.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "110"}

    def block(found: re.Match[str]) -> str:
        language, name, script, printed = found.groups()
        if name:
            (folder / name).write_text(script, encoding="utf-8")
        if name or language != "sh":
            return found[0]
        done = subprocess.run(
            ["sh", "-e", "-c", script], cwd=folder, env=environment, check=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        lines = [
            line.rstrip() for line in done.stdout.splitlines() if not line.startswith("compiling kernels")
        ]
        output = "".join(f"{line}\n" for line in lines)
        return found[0].removesuffix(printed or "") + (f"\n```text\n{output}```\n" if output else "")

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        DEMO.write_text(
            page(DEMO.read_text(encoding="utf-8"), Path(folder) / "census.duckdb"), encoding="utf-8"
        )
    with tempfile.TemporaryDirectory() as folder:
        for each in FOLLOWED:
            each.write_text(followed(each.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
