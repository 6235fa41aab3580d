"""The command ``verify``: check the evidence in a released file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.codes import PASSED, VIOLATION
from duckanon.cli.options import Form, known_form, timed
from duckanon.cli.output import line
from duckanon.database.paths import check_local
from duckanon.release.verify.folder import verify_folder
from duckanon.release.verify.verify import verify as verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.release.verify.outcome import Verification


@timed
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="an exported .duckdb file, a database with releases, or the folder of a release on Spark"
        ),
    ],
    expect: Annotated[
        list[str] | None,
        typer.Option(help="a fingerprint or policy hash that you kept elsewhere; may be given several times"),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(help="a head of the audits that you kept elsewhere; may be given several times"),
    ] = None,
    form: Form = "text",
) -> int:
    """Run every recorded audit again; exit code 1 when anything differs or is violated."""
    known_form(form)
    check_local(file)
    with progress.shown(sys.stderr):
        outcome = _verified(file, expect or (), head or ())
    line(outcome.to_json() if form == "json" else outcome.to_text())
    return PASSED if outcome.verified else VIOLATION


def _verified(file: Path, expected: Sequence[str], heads: Sequence[str]) -> Verification:
    if file.is_dir():
        return verify_folder(file, expected, heads=heads)
    with files.opened(file) as con:
        files.use(con, file)
        return verified(con, expected, heads=heads)
