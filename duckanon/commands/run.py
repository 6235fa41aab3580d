"""The command ``run``: a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon import engine
from duckanon.commands.options import Database  # noqa: TC001 - typer reads it at run time
from duckanon.commands.sql import run_text
from duckanon.errors import SourceError


def run(file: Annotated[Path, typer.Argument(help="SQL script")], database: Database = None) -> int:
    """Run a script; stop at the first error or failed audit."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unread:
        raise SourceError(f"cannot read the script {str(file)!r}: {engine.first_line(unread)}") from unread
    return run_text(text, database)
