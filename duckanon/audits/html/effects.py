"""Effects: what the release did to every column, in words, as a table and as a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from duckanon.audits.html import charts
from duckanon.audits.html.matching import overall
from duckanon.audits.html.numbers import clean, counted, listed, number, percent
from duckanon.audits.html.sections import Chart
from duckanon.audits.html.spread import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.copies import Column
    from duckanon.audits.html.matching import Effect, Matching, Span

_DAY = 86_400


class Overall(NamedTuple):
    """Information loss of the whole release: its value, and of what it is the mean."""

    value: str
    exact: bool
    columns: list[str]
    without: list[str]


def effects(found: Matching, measured: Sequence[Effect], *, k: int) -> dict[str, Any]:
    """Section of what changed.

    Parameters
    ----------
    found : Matching
        How records were matched.
    measured : sequence of Effect
        All released columns.
    k : int
        Records at each end of the original's range that are not shown, and one.

    Returns
    -------
    dict
        Values of the template.
    """
    quasi = [one for one in measured if one.column.place.startswith("q")]
    return {
        "overall": _overall(quasi),
        "matching": _matching(found),
        "left_out": found.original - found.released,
        "effects_head": [
            "Column", "Records changed", "Mean absolute change", "Range, original", "Range, release",
            "Variance kept", "Lost",
        ],
        "effects_table": [_row(one) for one in measured],
        "unequal": _unequal(measured, found),
        "loss_chart": _chart(quasi),
        "outermost": k,
    }  # fmt: skip


def _overall(quasi: Sequence[Effect]) -> Overall | None:
    mean = overall(quasi)
    if mean is None:
        return None
    value = _share(mean)
    return Overall(
        value,
        mean.least == mean.most,
        [clean(one.column.name) for one in quasi if one.loss is not None],
        [clean(one.column.name) for one in quasi if one.loss is None],
    )


def _matching(found: Matching) -> list[str]:
    """Say by what records were matched, how surely, and what is taken for granted."""
    told = [_how(found)]
    if found.apart:
        names = listed([clean(column.name) for column in found.apart])
        told.append(f"Not compared, since the original lacks them or has another type: {names}.")
    return told


def _how(found: Matching) -> str:
    if not found.possible:
        return (
            f"The release has {counted(found.released, 'record', 'records')} and the original "
            f"{found.original:,}, so the release is not made of records of this original, each of them once. "
            "What is told below is only how many values cannot come from it."
        )
    if not found.used:
        return (
            "No column beside the quasi-identifiers has the same values in both tables, so nothing tells "
            "which record of the original became which. Each figure below holds for all ways to pair the "
            "records, from the least change to the most."
        )
    names = listed([clean(pair.new.name) for pair in found.used])
    sure = (
        "every released record fits"
        if found.certain == found.released
        else f"{found.certain:,} of {counted(found.released, 'released record', 'released records')} "
        f"{'fits' if found.certain == 1 else 'fit'}"
    )
    rest = (
        "so every figure is exact"
        if found.certain == found.released
        else "all others fit several. Where two numbers stand, they are the least and the most of all ways "
        "in which the records can belong together"
    )
    return (
        "A release has no key to its original. Records were matched by what is not a quasi-identifier and "
        f"has the same values in both tables: {names}. By these, {sure} exactly one record of the original, "
        f"{rest}. That these columns were released as they were is taken for granted: if they were changed "
        "and still have the same values, as after swapping, the figures are wrong. Whoever holds the "
        "original can match the records in the same way."
    )


def _row(one: Effect) -> list[str]:
    name = clean(one.column.name)
    if one.taken:
        return [name, "0 %, matched by it", "–", *_ranges(one), percent(one.kept), "–"]
    if one.changed is None:
        return [name, "not compared", "–", *_ranges(one), "–", "–"]
    moved = "–" if one.moved is None else _distance(one.moved, one.column)
    lost = "–" if one.loss is None or not one.column.place.startswith("q") else _share(one.loss)
    return [name, _share(one.changed), moved, *_ranges(one), percent(one.kept), lost]


def _ranges(one: Effect) -> list[str]:
    return ["–" if ends is None else _ends(ends, one.column) for ends in (one.before, one.after)]


def _ends(ends: tuple[float, float], column: Column) -> str:
    low, high = (shown_value(end, column.kind) for end in ends)
    return low if low == high else f"{low} to {high}"


def _share(span: Span) -> str:
    return _told(percent(span.least), percent(span.most))


def _distance(span: Span, column: Column) -> str:
    if column.kind in {"date", "timestamp"}:
        return _told(
            number(span.least / _DAY), f"{number(span.most / _DAY)} days", same=span.least == span.most
        )
    return _told(number(span.least), number(span.most))


def _told(least: str, most: str, *, same: bool = False) -> str:
    return most if same or least == most else f"{least} to {most}"


def _unequal(measured: Sequence[Effect], found: Matching) -> list[str]:
    """Name numbers whose mean change is not that of all records."""
    return [
        f"{clean(one.column.name)}: {one.over:,}"
        for one in measured
        if one.column.numeric and one.changed is not None and not one.taken and one.over < found.released
    ]


def _chart(quasi: Sequence[Effect]) -> Chart | None:
    bars = [(clean(one.column.name), one.loss, one.column.numeric) for one in quasi if one.loss is not None]
    if not bars:
        return None
    title = "Information loss per column"
    caption = (
        "Of numbers, dates and timestamps: mean squared change over the variance of the original (SSE / "
        "SST). Of other values: share of the records whose value changed."
    )
    if any(size.least != size.most for _, size, _ in bars):
        caption += " The bar is the least, the line reaches to the most that is possible."
    if any(size.most > 1 for _, size, _ in bars):
        caption += " The chart ends at 100 %."
    svg = charts.loss(
        "loss", [(name, *size, kind) for name, size, kind in bars], title=title, description=caption
    )
    rows = [
        [name, _share(size), "mean squared change / variance" if numeric else "records changed"]
        for name, size, numeric in bars
    ]
    return Chart(Markup(svg), title, caption, ["Column", "Lost", "Measured as"], rows)
