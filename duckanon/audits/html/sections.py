"""Sections of the page: charts, tables and sentences made from findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from duckanon.audits.html import charts
from duckanon.audits.html.charts import Chart
from duckanon.audits.html.classes import describe
from duckanon.audits.html.comparison import overall
from duckanon.audits.html.copies import shown_value
from duckanon.audits.legible import DAY_SECONDS, clean, counted, listed, number, percent, threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.classes import Distances, Histogram, Sizes, Worst
    from duckanon.audits.html.comparison import ColumnChange, Correlations, Effect, Matching, Span
    from duckanon.audits.html.copies import CopiedColumn, Spread, Summary

LABEL_ORIGINAL, LABEL_RELEASE = "original", "release"
LABEL_TABLE, LABEL_CLASS = "whole table", "this class"
_ORDINALS = ("worst", "second worst", "third worst")


def classes(sizes: Sizes, k: int | None) -> dict[str, Any]:
    """Section of the class sizes."""
    title = "Class sizes"
    caption = (
        f"{sizes.classes:,} classes of {sizes.smallest:,} to {sizes.largest:,} records; at least half of "
        f"them have at most {sizes.median:,}."
        if sizes.smallest < sizes.largest
        else f"{_classes(sizes.classes)} of {_records(sizes.smallest)}."
    )
    limit = None if k is None else ("k", k, k - 0.5)
    drawn = sizes.histogram
    svg = charts.histogram(
        "sizes",
        drawn,
        label="records in the class",
        title=title,
        description=caption,
        limit=limit,
        whole=True,
    )
    head, rows = _histogram_table(drawn, "Records in the class")
    return {"size_chart": Chart(Markup(svg), title, caption, head, rows)}


def distance(distances: Distances) -> dict[str, Any]:
    """Section of one sensitive column: its name, chart of the EMD, charts of the worst classes."""
    name = clean(distances.column.name)
    title = f"Distance of the classes from the whole table in {name}"
    limit = (
        "no t was asked for"
        if distances.t is None
        else f"{_classes(distances.violations)} with {_records(distances.records)} above "
        f"t = {threshold(distances.t)}"
        if distances.violations
        else f"none is above t = {threshold(distances.t)}"
    )
    caption = (
        f"Largest EMD {number(distances.largest)}, median {number(distances.median)}; {limit}. "
        f"Ground distance: {distances.distance}."
    )
    svg = charts.histogram(
        f"emd-{distances.column.place}",
        distances.histogram,
        label="EMD: 0 is like the whole table, 1 as far as can be",
        title=title,
        description=caption,
        limit=None if distances.t is None else ("t", distances.t, float(distances.t)),
    )
    head, rows = _histogram_table(distances.histogram, "EMD")
    return {
        "name": name,
        "chart": Chart(Markup(svg), title, caption, head, rows),
        "worst": [_worst(distances.column, one, place) for place, one in enumerate(distances.worst, start=1)],
    }


def _worst(column: CopiedColumn, worst: Worst, place: int) -> Chart:
    name = clean(column.name)
    title = f"{name}: {_ORDINALS[place - 1]} class"
    caption = f"EMD {number(worst.emd)}, {_records(worst.size)}: {describe(worst.where)}"
    svg = charts.distribution(
        f"worst-{column.place}-{place}",
        worst.spread,
        kind=column.kind,
        sides=(LABEL_TABLE, LABEL_CLASS),
        title=title,
        description=caption,
    )
    head, rows = _spread_table(worst.spread, name, (LABEL_TABLE, LABEL_CLASS))
    return Chart(Markup(svg), title, caption, head, rows)


def utility(
    changes: Sequence[ColumnChange], related: Correlations | None, *, original: bool
) -> dict[str, Any]:
    """Sections of the distributions, the correlations and the figures of all columns."""
    return {
        "spreads": [_change(change) for change in changes if change.spread is not None],
        "correlations": [] if related is None else _correlations(related),
        "related": related,
        "columns_head": _HEAD,
        "columns_table": [row for change in changes for row in _figures(change, original=original)],
    }


def _change(change: ColumnChange) -> Chart:
    column, drawn = change.column, change.spread
    if drawn is None:
        raise AssertionError
    name = clean(column.name)
    title = f"Distribution of {name}"
    sides = (LABEL_ORIGINAL, LABEL_RELEASE) if change.both else (LABEL_RELEASE,)
    caption = f"{counted(change.after.distinct, 'value', 'different values')} released"
    if change.before is not None:
        caption += f", the original has {change.before.distinct:,}"
        if not change.both:
            caption += "; they are of different types and are not laid over each other"
    if column.ranged:
        caption += "; a range counts evenly over its values"
    if column.listed:
        caption += "; each value of a set counts as an equal part of the record"
    if change.by_label:
        caption += "; in the order of the hierarchy, a label above the labels below it"
    if drawn.hidden:
        caption += f"; shares of too few records of the {LABEL_ORIGINAL} are left out"
    missing = [
        f"{percent(share)} of the {side} missing"
        for share, side in zip(drawn.missing, sides, strict=True)
        if share
    ]
    caption = "; ".join([caption, *missing]) + "."
    svg = charts.distribution(
        f"spread-{column.place}", drawn, kind=column.kind, sides=sides, title=title, description=caption
    )
    head, rows = _spread_table(drawn, name, sides)
    return Chart(Markup(svg), name, caption, head, rows)


def _correlations(related: Correlations) -> list[Chart]:
    names = [clean(name) for name in related.names]
    made = []
    for name, matrix in ((LABEL_ORIGINAL, related.before), (LABEL_RELEASE, related.after)):
        if matrix is None:
            continue
        title = f"Correlations in the {name}"
        caption = "Pearson's correlation of every pair of columns that are numbers, dates or timestamps."
        svg = charts.correlation(
            f"correlation-{name}", names, matrix, title=title, description=f"{caption} The numbers follow."
        )
        rows = [
            [one, *(number(value) for value in values)] for one, values in zip(names, matrix, strict=True)
        ]
        made.append(Chart(Markup(svg), title, caption, ["Column", *names], rows))
    return made


_HEAD = ["Table", "Records", "Missing", "Different values", "Mean", "Deviation", "Quartiles"]


def _figures(change: ColumnChange, *, original: bool) -> list[tuple[str, list[list[str]]]]:
    rows = []
    if original and change.before is not None:
        rows.append([LABEL_ORIGINAL, *_summary(change.before, change.column)])
    rows.append([LABEL_RELEASE, *_summary(change.after, change.column)])
    return [(clean(change.column.name), rows)]


def _summary(summary: Summary, column: CopiedColumn) -> list[str]:
    time = column.kind in {"date", "timestamp"}
    counts = [f"{summary.records:,}", f"{summary.missing:,}", f"{summary.distinct:,}"]
    if summary.mean is None or summary.deviation is None or summary.quartiles is None:
        return [*counts, "–", "–", "–"]
    if not time:
        return [
            *counts,
            number(summary.mean),
            number(summary.deviation),
            ", ".join(number(value) for value in summary.quartiles),
        ]
    return [
        *counts,
        shown_value(summary.mean, column.kind),
        f"{number(summary.deviation / DAY_SECONDS)} days",
        ", ".join(shown_value(value, column.kind) for value in summary.quartiles),
    ]


def _histogram_table(drawn: Histogram, what: str) -> tuple[list[str], list[list[str]]]:
    if drawn.bad is None:
        rows = [[label, f"{good:,}"] for label, good in zip(drawn.labels, drawn.good, strict=True) if good]
        return [what, "Classes"], rows
    rows = [
        [label, f"{good:,}", f"{bad:,}"]
        for label, good, bad in zip(drawn.labels, drawn.good, drawn.bad, strict=True)
        if good or bad
    ]
    return [what, "Classes that keep it", "Classes that break it"], rows


def _spread_table(drawn: Spread, name: str, sides: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    shares = [list(side) for side in drawn.shares]
    labels = list(drawn.labels)
    if any(drawn.missing):
        labels.append("missing")
        for side, share in zip(shares, drawn.missing, strict=True):
            side.append(share)
    rows = [
        [label, *(percent(value) for value in values)]
        for label, *values in zip(labels, *shares, strict=True)
        if any(values)
    ]
    return [name, *(f"share, {side}" for side in sides)], rows


def _classes(number_of: int) -> str:
    return counted(number_of, "class", "classes")


def _records(number_of: int) -> str:
    return counted(number_of, "record", "records")


class Overall(NamedTuple):
    """Information loss of the whole release: its value, and the columns over which it is the mean."""

    value: str
    exact: bool
    columns: list[str]
    without: list[str]


def effects(match: Matching, measured: Sequence[Effect], *, k: int) -> dict[str, Any]:
    """Section of the changes; k - 1 records at each end of the original range are not shown."""
    quasi = [one for one in measured if one.column.place.startswith("q")]
    return {
        "overall": _overall(quasi),
        "matching": _matching(match),
        "left_out": match.original - match.released,
        "effects_head": [
            "Column", "Records changed", "Mean absolute change", "Range, original", "Range, release",
            "Variance kept", "Lost",
        ],
        "effects_table": [_row(one) for one in measured],
        "unequal": _unequal(measured, match),
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


def _matching(match: Matching) -> list[str]:
    """State by which columns records were matched, how surely, and under which assumptions."""
    sentences = [_how(match)]
    if match.apart:
        names = listed([clean(column.name) for column in match.apart])
        sentences.append(f"Not compared, since the original lacks them or has another type: {names}.")
    return sentences


def _how(match: Matching) -> str:
    if not match.possible:
        return (
            f"The release has {counted(match.released, 'record', 'records')} and the original "
            f"{match.original:,}, so the release is not made of records of this original, each of them once. "
            "What is told below is only how many values cannot come from it."
        )
    if not match.used:
        return (
            "No column beside the quasi-identifiers has the same values in both tables, so nothing tells "
            "which record of the original became which. Each figure below holds for all ways to pair the "
            "records, from the least change to the most."
        )
    names = listed([clean(pair.new.name) for pair in match.used])
    sure = (
        "every released record fits"
        if match.certain == match.released
        else f"{match.certain:,} of {counted(match.released, 'released record', 'released records')} "
        f"{'fits' if match.certain == 1 else 'fit'}"
    )
    rest = (
        "so every figure is exact"
        if match.certain == match.released
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


def _ends(ends: tuple[float, float], column: CopiedColumn) -> str:
    low, high = (shown_value(end, column.kind) for end in ends)
    return low if low == high else f"{low} to {high}"


def _share(span: Span) -> str:
    return _between(percent(span.least), percent(span.most))


def _distance(span: Span, column: CopiedColumn) -> str:
    if column.kind in {"date", "timestamp"}:
        return _between(
            number(span.least / DAY_SECONDS),
            f"{number(span.most / DAY_SECONDS)} days",
            same=span.least == span.most,
        )
    return _between(number(span.least), number(span.most))


def _between(least: str, most: str, *, same: bool = False) -> str:
    return most if same or least == most else f"{least} to {most}"


def _unequal(measured: Sequence[Effect], match: Matching) -> list[str]:
    """Name numbers whose mean change covers only some of the records."""
    return [
        f"{clean(one.column.name)}: {one.over:,}"
        for one in measured
        if one.column.numeric and one.changed is not None and not one.taken and one.over < match.released
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
