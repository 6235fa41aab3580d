"""Comparison of the rows of a recorded audit with the repeated audit."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from duckanon.audits.changes import changes
from duckanon.audits.report import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckanon.audits.report import Measure


def differing(
    recorded: Sequence[Mapping[str, Any]], again: Sequence[Measure], *, writer: str | None
) -> Iterator[str]:
    """Tell the differences of an audit that this version of duckanon recorded."""
    before = {"measures": list(recorded)}
    after = {"measures": [dict(zip(COLUMNS, measure.row(), strict=True)) for measure in again]}
    differences = changes(before, after)
    # An unjudged measure of this version may be newer than the record.
    newer = writer != version("duckanon")
    appeared = tuple(row for row in differences.appeared if not (newer and row["passed"] is None))
    differences = replace(differences, appeared=appeared)
    if not differences.same:
        yield from (f"recorded -> found: {line}" for line in differences.to_text().splitlines())
