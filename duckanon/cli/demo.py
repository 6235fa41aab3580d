"""The command ``demo``: the main job on the bundled data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from duckanon import progress
from duckanon.api.connection import connect
from duckanon.audits.report import text_table
from duckanon.cli.codes import PASSED
from duckanon.cli.outcomes import side_by_side
from duckanon.cli.output import line
from duckanon.database import templates
from duckanon.errors import SourceError

_INSTALLED = Path(__file__).parents[1] / "fixtures"
_CHECKOUT = Path(__file__).parents[2] / "fixtures"


def census() -> Path:
    """Path of the bundled census file, in the package or in the checkout."""
    for folder in (_INSTALLED, _CHECKOUT):
        if (folder / "census_income.parquet").is_file():
            return folder / "census_income.parquet"
    raise SourceError("the bundled census_income.parquet is missing: install duckanon again")


def run_demo(export: str | None) -> None:
    """Release the census with k alone and with t-closeness; print view and audits, and export the second."""
    # `export` is the path of a new `.duckdb` file.
    data = str(census())
    script = templates.render("demo.sql.j2:demo", census=data)
    with connect() as con:
        con.run_script(script)
        line("Three of 299,285 persons, what they were and what they are in the released view census_t:")
        rows = con.duckdb.sql(templates.render("demo.sql.j2:persons", census=data))
        line("\n".join(text_table(rows.columns, rows.fetchall())))
        audits = [outcome.report for outcome in con.run_script(templates.render("demo.sql.j2:audits"))]
        k_only, t_close = (report for report in audits if report is not None)
        line("\nThe audit by plain SQL, of k-anonymity alone (census_k) beside t-closeness (census_t):")
        line(side_by_side(k_only, t_close, ("census_k", "census_t")))
        if export is not None:
            for outcome in con.run_script(templates.render("demo.sql.j2:export", path=export)):
                line(f"-- {outcome.title}")


def demo(
    to: Annotated[str | None, typer.Option("--export", help="a new .duckdb file for the release")] = None,
) -> int:
    """Release 299,285 real persons, with k alone and with t-closeness, and audit both."""
    with progress.shown(sys.stderr):
        run_demo(to)
    return PASSED
