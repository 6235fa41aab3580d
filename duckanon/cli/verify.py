"""The command ``verify``: check the evidence in a released file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.api import files
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.options import SHARED, Option, command
from duckanon.cli.output import PASSED, VIOLATION
from duckanon.database import sources
from duckanon.database.paths import split
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.release import file_evidence, foreign
from duckanon.release.verify.file import ENDINGS, verify_file
from duckanon.release.verify.folder import verify_folder
from duckanon.release.verify.verify import verify as verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.release.verify.outcome import Verification


@command(
    "form", "output", "timeout",
    form=SHARED["form"]._replace(choices=("text", "json", "html")),
    expect=Option(
        "a fingerprint or policy hash that you kept elsewhere; may be repeated", (), "none",
        "--expect 4f1d...", "HASH", list,
    ),
    head=Option(
        "a head of the audits that you kept elsewhere; may be repeated", (), "none", "--head 9c0b...", "HASH",
        list,
    ),
    evidence=Option(
        "evidence of a .parquet or .csv file", (), "the footer of the file, or released.csv.json beside it",
        "--evidence kept.json", "FILE", Path,
    ),
    examples=(
        "duckanon verify released.duckdb",
        "duckanon verify released.duckdb --head 9c0b1f02 --format html -o verified.html",
    ),
)  # fmt: skip
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="an exported .duckdb, .parquet or .csv file, a database with releases, or a folder of Spark"
        ),
    ],
    *,
    expect: list[str] | None,
    head: list[str] | None,
    evidence: Path | None,
    form: str,
    output: Path | None,
) -> int:
    """Run every recorded audit of a release again.

    Exit code 1 when anything differs or is violated.
    """
    path, table = split(str(file))
    if table is not None and not file.exists():
        raise ReleaseError(f"{str(file)!r}: verify judges every release of a file: give {str(path)!r}")
    check_output(output, *([] if file.is_dir() else [file, file_evidence.beside(file), evidence]))
    if output is not None and sources.covers(str(file), output):
        raise DuckanonError(f"-o {str(output)!r} would be a file of {str(file)!r}: give another place")
    outcome = _verified(file, expect or (), head or (), evidence)
    if form == "html":
        text = outcome.to_html(str(file))
    else:
        text = outcome.to_json() if form == "json" else outcome.to_text()
    deliver(text, output)
    return PASSED if outcome.verified else VIOLATION


def _verified(
    file: Path, expected: Sequence[str], heads: Sequence[str], evidence: Path | None
) -> Verification:
    if file.suffix.lower() in ENDINGS and not file.is_dir():
        return verify_file(file, expected, heads=heads, evidence=evidence)
    if evidence is not None:
        raise ReleaseError(f"{str(file)!r} has its evidence in it: leave --evidence out")
    if file.is_dir():
        return verify_folder(file, expected, heads=heads)
    with foreign.opened([file]) as con:
        files.use(con, file)
        return verified(con, expected, heads=heads)
