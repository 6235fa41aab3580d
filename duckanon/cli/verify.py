"""The command ``duckanon verify``: whether the evidence in a released file holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.codes import PASSED, VIOLATION
from duckanon.cli.options import Form, Timeout, known_form
from duckanon.cli.output import line
from duckanon.database.interrupts import within
from duckanon.release.verify.verify import verify as verified


def verify(
    file: Annotated[Path, typer.Argument(help="an exported .duckdb file, or a database with releases")],
    expect: Annotated[
        list[str] | None,
        typer.Option(help="a fingerprint or policy hash that you kept elsewhere; may be given several times"),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(help="a head of the audits that you kept elsewhere; may be given several times"),
    ] = None,
    form: Form = "text",
    timeout: Timeout = None,
) -> int:
    """Run every recorded audit of a file again; exit code 1 when anything differs or is violated."""
    known_form(form)
    with progress.shown(sys.stderr), files.opened(file) as con, within(timeout):
        files.use(con, file)
        outcome = verified(con, expect or (), heads=head or ())
    line(outcome.to_json() if form == "json" else outcome.to_text())
    return PASSED if outcome.verified else VIOLATION
