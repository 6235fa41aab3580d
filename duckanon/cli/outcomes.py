"""Output of commands for statements and audits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.api.execute import Outcome
from duckanon.audits.legible import legible
from duckanon.audits.report import COLUMNS, text_table
from duckanon.cli.output import line
from duckanon.release.effect import effect_text

if TYPE_CHECKING:
    import duckdb

    from duckanon.audits.report import Report


def show(outcome: Outcome | duckdb.DuckDBPyRelation | None) -> None:
    """Print the outcome of one statement: report and rows of ours, rows of a query, or nothing."""
    if outcome is None:
        return
    if not isinstance(outcome, Outcome):
        line(str(outcome).rstrip())
        return
    line(f"-- {legible(outcome.title)}")
    if outcome.report is not None:
        # Warnings were already printed to stderr.
        line(replace(outcome.report, warnings=()).to_text())
        if outcome.effect:
            line(f"\neffect on the {outcome.effect[0].records} released records:")
            line(effect_text(outcome.effect))
    elif outcome.table is not None:
        rows = list(zip(*outcome.table.to_pydict().values(), strict=True))
        line("\n".join(text_table(outcome.table.column_names, rows)))


def side_by_side(left: Report, right: Report, titles: tuple[str, str]) -> str:
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
