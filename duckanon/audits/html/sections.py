"""Sections: findings become charts, tables and sentences of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from duckanon.audits.html import charts
from duckanon.audits.html.classes import describe
from duckanon.audits.html.numbers import clean, counted, number, percent, threshold
from duckanon.audits.html.spread import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.classes import Distances, Histogram, Sizes, Worst
    from duckanon.audits.html.copies import Column
    from duckanon.audits.html.spread import Spread, Summary
    from duckanon.audits.html.utility import Change, Correlations

BEFORE, AFTER = "original", "release"
WHOLE, CLASS = "whole table", "this class"
_ORDINALS = ("worst", "second worst", "third worst")


class Chart(NamedTuple):
    """A chart, a heading, a sentence below it, and its numbers as a table."""

    svg: Markup
    title: str
    caption: str
    head: list[str]
    rows: list[list[str]]


def classes(found: Sizes, k: int | None) -> dict[str, Any]:
    """Section of the class sizes.

    Parameters
    ----------
    found : Sizes
        Sizes.
    k : int or None
        Smallest size wanted.

    Returns
    -------
    dict
        Values of the template.
    """
    title = "Class sizes"
    caption = (
        f"{found.classes:,} classes of {found.smallest:,} to {found.largest:,} records; at least half of "
        f"them have at most {found.median:,}."
        if found.smallest < found.largest
        else f"{_classes(found.classes)} of {_records(found.smallest)}."
    )
    limit = None if k is None else ("k", k, k - 0.5)
    drawn = found.histogram
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


def distance(found: Distances) -> dict[str, Any]:
    """Section of one sensitive column.

    Parameters
    ----------
    found : Distances
        EMD of the classes.

    Returns
    -------
    dict
        Name of the column, chart of the EMD, charts of the worst classes.
    """
    name = clean(found.column.name)
    title = f"Distance of the classes from the whole table in {name}"
    limit = (
        "no t was asked for"
        if found.t is None
        else f"{_classes(found.violations)} with {_records(found.records)} above t = {threshold(found.t)}"
        if found.violations
        else f"none is above t = {threshold(found.t)}"
    )
    caption = (
        f"Largest EMD {number(found.largest)}, median {number(found.median)}; {limit}. "
        f"Ground distance: {found.distance}."
    )
    svg = charts.histogram(
        f"emd-{found.column.place}",
        found.histogram,
        label="EMD: 0 is like the whole table, 1 as far as can be",
        title=title,
        description=caption,
        limit=None if found.t is None else ("t", found.t, float(found.t)),
    )
    head, rows = _histogram_table(found.histogram, "EMD")
    return {
        "name": name,
        "chart": Chart(Markup(svg), title, caption, head, rows),
        "worst": [_worst(found.column, one, place) for place, one in enumerate(found.worst, start=1)],
    }


def _worst(column: Column, worst: Worst, place: int) -> Chart:
    name = clean(column.name)
    title = f"{name}: {_ORDINALS[place - 1]} class"
    caption = f"EMD {number(worst.emd)}, {_records(worst.size)}: {describe(worst.where)}"
    svg = charts.distribution(
        f"worst-{column.place}-{place}",
        worst.spread,
        kind=column.kind,
        sides=(WHOLE, CLASS),
        title=title,
        description=caption,
    )
    head, rows = _spread_table(worst.spread, name, (WHOLE, CLASS))
    return Chart(Markup(svg), title, caption, head, rows)


def utility(changes: Sequence[Change], related: Correlations | None, *, original: bool) -> dict[str, Any]:
    """Sections of the distributions, the correlations and the figures of all columns.

    Parameters
    ----------
    changes : sequence of Change
        All columns.
    related : Correlations or None
        Of the numbers.
    original : bool
        Whether there is something to compare with.

    Returns
    -------
    dict
        Values of the template.
    """
    return {
        "spreads": [_change(change) for change in changes if change.spread is not None],
        "correlations": [] if related is None else _correlations(related),
        "related": related,
        "columns_head": _HEAD,
        "columns_table": [row for change in changes for row in _figures(change, original=original)],
    }


def _change(change: Change) -> Chart:
    column, drawn = change.column, change.spread
    if drawn is None:
        raise AssertionError
    name = clean(column.name)
    title = f"Distribution of {name}"
    sides = (BEFORE, AFTER) if change.both else (AFTER,)
    caption = f"{counted(change.after.distinct, 'value', 'different values')} released"
    if change.before is not None:
        caption += f", the original has {change.before.distinct:,}"
        if not change.both:
            caption += "; they are of different types and are not laid over each other"
    if column.ranged:
        caption += "; a range stands at its middle"
    if drawn.hidden:
        caption += f"; shares of too few records of the {BEFORE} are left out"
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
    for name, matrix in ((BEFORE, related.before), (AFTER, related.after)):
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


def _figures(change: Change, *, original: bool) -> list[tuple[str, list[list[str]]]]:
    rows = []
    if original and change.before is not None:
        rows.append([BEFORE, *_summary(change.before, change.column)])
    rows.append([AFTER, *_summary(change.after, change.column)])
    return [(clean(change.column.name), rows)]


def _summary(found: Summary, column: Column) -> list[str]:
    time = column.kind in {"date", "timestamp"}
    counts = [f"{found.records:,}", f"{found.missing:,}", f"{found.distinct:,}"]
    if found.mean is None or found.deviation is None or found.quartiles is None:
        return [*counts, "–", "–", "–"]
    if not time:
        return [
            *counts,
            number(found.mean),
            number(found.deviation),
            ", ".join(number(value) for value in found.quartiles),
        ]
    return [
        *counts,
        shown_value(found.mean, column.kind),
        f"{number(found.deviation / 86_400)} days",
        ", ".join(shown_value(value, column.kind) for value in found.quartiles),
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
