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
from duckanon.cli.options import (
    DateFormat,
    Form,
    Nulls,
    Output,
    Table,
    Timeout,
    Trust,
    check_output,
    deliver,
    known_form,
    reading_of,
)
from duckanon.database.interrupts import within
from duckanon.errors import SourceError
from duckanon.evaluation.workload.compare import compared, read_queries


def compare(
    original: Table,
    release: Table,
    queries: Annotated[
        Path | None, typer.Option(help="SELECT statements over a relation called data")
    ] = None,
    form: Form = "text",
    output: Output = None,
    dateformat: DateFormat = None,
    null: Nulls = None,
    trust: Trust = False,
    timeout: Timeout = None,
) -> int:
    """Run your aggregate queries on a table and its release, and report the error of each."""
    known_form(form)
    reading = reading_of(dateformat, null)
    check_output(output, original, release, queries)
    if queries is None:
        raise SourceError(
            "--queries is missing: give a file of SELECT statements over a relation called data"
        )
    script = read_text(queries, "queries", error=SourceError)
    statements = read_queries(script)
    opened = files.opened(original, release, trust=trust)
    with progress.shown(sys.stderr), opened as con, within(timeout):
        before, after = (
            files.relation(con, name, trust=trust, reading=reading) for name in (original, release)
        )
        workload = compared(con, (before, after), (original, release), statements, alone=True)
    deliver(workload.to_json() if form == "json" else workload.to_text(), output)
    return PASSED
