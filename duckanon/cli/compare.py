"""``duckanon compare``: the user's own aggregate queries on the original and on its release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.cli.codes import PASSED
from duckanon.cli.flags import read_text
from duckanon.cli.options import DocumentOptions, Table, check_output, deliver, documenting
from duckanon.errors import SourceError
from duckanon.evaluation.workload import compared, read_queries


@documenting
def compare(
    original: Table,
    release: Table,
    queries: Annotated[
        Path | None, typer.Option(help="SELECT statements over a relation called data")
    ] = None,
    *,
    asked: DocumentOptions,
) -> int:
    """Run your aggregate queries on a table and its release, and report the error of each."""
    check_output(asked.output, original, release, queries)
    if queries is None:
        raise SourceError(
            "--queries is missing: give a file of SELECT statements over a relation called data"
        )
    script = read_text(queries, "queries", error=SourceError)
    statements = read_queries(script)
    with progress.shown(sys.stderr), files.opened(original, release, trust=asked.trust) as con:
        before, after = (
            files.relation(con, name, trust=asked.trust, reading=asked.reading)
            for name in (original, release)
        )
        workload = compared(con, (before, after), (original, release), statements, alone=True)
    deliver(workload.to_json() if asked.form == "json" else workload.to_text(), asked.output)
    return PASSED
