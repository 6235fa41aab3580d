"""The command ``duckanon verify``: whether the evidence in a released file holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import duckdb
import typer

from duckanon import engine, progress
from duckanon.commands.options import PASSED, VIOLATION, Form, known_form
from duckanon.connection import connect
from duckanon.errors import SourceError
from duckanon.interrupts import stopping
from duckanon.output import line
from duckanon.verification import verify as verified

_MAGIC = b"DUCK"
"""What stands in a DuckDB database behind the first eight bytes."""


def verify(
    file: Annotated[Path, typer.Argument(help="an exported .duckdb file, or a database with releases")],
    expect: Annotated[
        list[str] | None,
        typer.Option(help="a fingerprint or policy hash that you kept elsewhere; may be given several times"),
    ] = None,
    form: Form = "text",
) -> int:
    """Run every recorded audit of a file again; exit code 1 when anything differs or is violated."""
    known_form(form)
    if not file.is_file():
        raise SourceError(f"{str(file)!r} does not exist")
    with file.open("rb") as head:
        if head.read(12)[8:] != _MAGIC:
            raise SourceError(
                f"{str(file)!r} is no DuckDB database: "
                "give an exported .duckdb file, or a database with releases"
            )
    try:
        con = connect(file, read_only=True)
    except duckdb.Error as cause:
        raise SourceError(f"{str(file)!r} cannot be opened: {engine.first_line(cause)}") from cause
    with progress.shown(sys.stderr), con, stopping(con.duckdb):
        found = verified(con.duckdb, expect or ())
    line(found.to_json() if form == "json" else found.to_text())
    return PASSED if found.verified else VIOLATION
