"""The commands that need no data: ``demo``, the main job on the bundled data, and ``methods``."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.api.connection import connect
from duckanon.audits.report import COLUMNS, text_table
from duckanon.cli.documents import show_rows
from duckanon.cli.options import Option, command
from duckanon.cli.output import PASSED, line
from duckanon.database import templates
from duckanon.errors import SourceError
from duckanon.literature.partitions import methods as known_methods
from duckanon.release.export import check_target

if TYPE_CHECKING:
    from duckanon.audits.report import Report

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
        line(_side_by_side(k_only, t_close, ("census_k", "census_t")))
        if export is not None:
            for outcome in con.run_script(templates.render("demo.sql.j2:export", path=export)):
                line(f"-- {outcome.title}")


def _side_by_side(left: Report, right: Report, titles: tuple[str, str]) -> str:
    """Two audits beside each other, one line a measure of either audit."""
    keys = list(dict.fromkeys((m.measure, m.attribute) for report in (left, right) for m in report.measures))
    sides = [{(m.measure, m.attribute): m for m in report.measures} for report in (left, right)]
    rows = []
    for key in keys:
        pair = [side.get(key) for side in sides]
        threshold = next((m.threshold for m in pair if m is not None and m.threshold is not None), None)
        cells = [
            cell for m in pair for cell in ((m.value, m.violations, m.passed) if m else (None, None, None))
        ]
        rows.append([*key, threshold, *cells])
    heads = [head for title in titles for head in (title, "violations", "passed")]
    return "\n".join(text_table([*COLUMNS[:3], *heads], rows))


@command(
    "timeout",
    export=Option("a new .duckdb file for the release", (), "none", "--export census.duckdb", "FILE"),
    examples=("duckanon demo", "duckanon demo --export census.duckdb && duckanon verify census.duckdb"),
)
def demo(*, export: str | None) -> int:
    """Release 299,285 real persons, and audit the release.

    The census is released once with k alone and once with t-closeness.
    """
    if export is not None:
        # The releases take most of a minute, so a name that cannot be written is told before them.
        if Path(export).exists():
            raise SourceError(f"{export!r} exists: the demo never overwrites, give a new name")
        check_target(Path(export), "table")
    run_demo(export)
    return PASSED


@command("form", examples=("duckanon methods", "duckanon methods --format json"))
def methods(*, form: str) -> int:
    """List the partition methods.

    Each with guarantees, cost and source.
    """
    show_rows(("method", "guarantees", "cost", "source"), [astuple(one) for one in known_methods()], form)
    return PASSED
