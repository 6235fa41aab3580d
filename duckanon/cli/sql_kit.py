"""The command ``sql-kit``: the audits as SQL files, for the stock ``duckdb`` command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.audits.legible import legible
from duckanon.cli.documents import deliver
from duckanon.cli.options import Option, command
from duckanon.cli.output import PASSED, line
from duckanon.database import templates
from duckanon.database.paths import check_local
from duckanon.errors import SourceError

KIT = ("install.sql", "gate.sql")
"""Files of the kit, generated below ``sql/``."""


@command(
    overwrite=Option("replace files of these names", kind=bool),
    examples=(
        "duckanon sql-kit audits",
        'duckanon sql-kit . --overwrite && duckdb -readonly released.duckdb -c ".read gate.sql"',
    ),
)
def sql_kit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder for the files; made if missing")],
    *,
    overwrite: bool,
) -> int:
    """Write install.sql and gate.sql for the stock duckdb."""
    check_local(folder)
    if str(folder) == "-":
        raise SourceError("DIR is a folder for two files: give its name, . for this one")
    files = [folder / name for name in KIT]
    present = [str(file) for file in files if file.exists() or file.is_symlink()]
    if present and not overwrite:
        raise SourceError(f"{present[0]!r} exists: name another folder, or add --overwrite")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise SourceError(f"cannot make the folder {str(folder)!r}: {refused.strerror}") from refused
    for file in files:
        deliver(templates.read(file.name).rstrip("\n"), file)
        line(legible(f"wrote {file}"))
    return PASSED
