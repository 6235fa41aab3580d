"""The examples of docs/engines.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Give the blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def run_shell(script: str, folder: Path) -> None:
    """Run a script in a folder, with our Python first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env={**os.environ, "PATH": path}, check=True, timeout=120
    )


def lines(text: str) -> list[str]:
    """Give the lines of a text without blanks at their ends and without empty ones."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]
