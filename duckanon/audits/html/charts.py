"""Charts of the report, drawn by matplotlib as SVG."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from duckanon.audits.html.numbers import number, short, threshold
from duckanon.audits.html.spread import edge_label
from duckanon.audits.html.svg import COLOURS, inlined, legend, sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from duckanon.audits.html.classes import Histogram
    from duckanon.audits.html.spread import Spread

_LABEL = 22
_SIZES = 7
"""Class sizes on an axis, at least."""


def histogram(
    name: str,
    drawn: Histogram,
    *,
    label: str,
    title: str,
    description: str,
    limit: tuple[str, Decimal | int, float] | None,
    whole: bool = False,
) -> str:
    """Chart of numbers of classes.

    Parameters
    ----------
    name : str
        Unique in the page.
    drawn : Histogram
        Bars.
    label : str
        Of the horizontal axis.
    title, description : str
        For screen readers.
    limit : tuple of str, number and float, or None
        Name and value of the threshold, and where its line stands.
    whole : bool
        Whether the horizontal axis counts.

    Returns
    -------
    str
        An ``svg`` element.
    """
    with sheet(2.3) as figure:
        axes = figure.add_subplot(xlabel=label, ylabel="classes")
        widths = [high - low for low, high in itertools.pairwise(drawn.edges)]
        edge: dict[str, Any] = {"linewidth": 0.4, "edgecolor": COLOURS["surface"]}
        axes.bar(drawn.edges[:-1], drawn.good, width=widths, align="edge", color=COLOURS["one"], **edge)
        if drawn.bad is not None and any(drawn.bad):
            axes.bar(
                drawn.edges[:-1],
                drawn.bad,
                width=widths,
                align="edge",
                bottom=drawn.good,
                color=COLOURS["bad"],
                hatch="////",
                label="violating",
                **edge,
            )
        if drawn.geometric:
            axes.set_xscale("log")
        if limit is not None:
            what, value, place = limit
            axes.axvline(
                place, color=COLOURS["ink"], linewidth=1, linestyle="--", label=f"{what} = {threshold(value)}"
            )
        low, high = _reach(drawn, None if limit is None else limit[2], whole=whole)
        # A little room, so that the line of a threshold at the end does not lie on the axis.
        room = (low * 0.03, high * 0.03) if drawn.geometric else ((high - low) * 0.015,) * 2
        _finish(figure, axes, (low - room[0], high + room[1]), whole=whole)
        return inlined(figure, name, title=title, description=description)


def _reach(drawn: Histogram, limit: float | None, *, whole: bool) -> tuple[float, float]:
    """Return the ends of the horizontal axis: they hold the threshold, and some sizes beside a single one."""
    low, high = drawn.edges[0], drawn.edges[-1]
    if limit is not None:
        low, high = min(low, limit), max(high, limit)
    if whole and high - low < _SIZES:
        low, high = max(0.5, low - _SIZES // 2), high + _SIZES // 2
    return low, high


def distribution(
    name: str, drawn: Spread, *, kind: str, sides: Sequence[str], title: str, description: str
) -> str:
    """Chart of one distribution, or of two over each other.

    Parameters
    ----------
    name : str
        Unique in the page.
    drawn : Spread
        Shares.
    kind : str
        Of the column.
    sides : sequence of str
        Name of each group.
    title, description : str
        For screen readers.

    Returns
    -------
    str
        An ``svg`` element: bars by bin, or lying bars by value.
    """
    if drawn.bins is None:
        return _by_value(name, drawn, sides, title, description)
    with sheet(2.2) as figure:
        axes = figure.add_subplot(ylabel="share of records")
        edges, width = drawn.bins.edges, drawn.bins.width
        if len(sides) == 1:
            axes.stairs(drawn.shares[0], edges, fill=True, color=COLOURS["one"])
        else:
            axes.stairs(drawn.shares[0], edges, fill=True, color=COLOURS["one"], alpha=0.45, label=sides[0])
            axes.stairs(drawn.shares[1], edges, color=COLOURS["two"], linewidth=1.4, label=sides[1])
        axes.yaxis.set_major_formatter(_share)
        _finish(figure, axes, (edges[0], edges[-1]))
        steps = max(1, (len(edges) - 1) // (3 if kind in {"date", "timestamp"} else 5))
        axes.set_xticks(edges[::steps], [edge_label(edge, width, kind) for edge in edges[::steps]])
        return inlined(figure, name, title=title, description=description)


def _by_value(name: str, drawn: Spread, sides: Sequence[str], title: str, description: str) -> str:
    rows = len(drawn.labels)
    with sheet(0.55 + 0.17 * rows * (1 if len(sides) == 1 else 1.25)) as figure:
        axes = figure.add_subplot(xlabel="share of records")
        thick = 0.8 / len(sides)
        for side, (shares, what) in enumerate(zip(drawn.shares, sides, strict=True)):
            places = [row - 0.4 + thick * (side + 0.5) for row in range(rows)]
            second = side == 1
            axes.barh(
                places,
                shares,
                height=thick,
                color=COLOURS["two" if second else "one"],
                hatch="////" if second else None,
                edgecolor=COLOURS["surface"],
                linewidth=0.4,
                label=what if len(sides) > 1 else None,
            )
        axes.set_yticks(range(rows), [short(label, _LABEL) for label in drawn.labels])
        axes.set_ylim(rows - 0.4, -0.6)
        axes.xaxis.set_major_formatter(_share)
        axes.grid(visible=True, axis="x")
        axes.tick_params(length=0)
        axes.set_xlim(left=0)
        legend(figure, axes)
        return inlined(figure, name, title=title, description=description)


def loss(name: str, bars: Sequence[tuple[str, float, float, bool]], *, title: str, description: str) -> str:
    """Chart of the information loss of columns.

    Parameters
    ----------
    name : str
        Unique in the page.
    bars : sequence of (str, float, float, bool)
        Column, least and most loss, whether it is a number. What is above 1 is drawn up to 1.
    title, description : str
        For screen readers.

    Returns
    -------
    str
        An ``svg`` element.
    """
    with sheet(0.6 + 0.2 * len(bars)) as figure:
        axes = figure.add_subplot(xlabel="lost")
        for numeric, what, colour in (
            (True, "numbers: SSE / SST", "one"),
            (False, "others: share changed", "two"),
        ):
            own = [
                (row, min(1.0, least), min(1.0, most))
                for row, (_, least, most, kind) in enumerate(bars)
                if kind == numeric
            ]
            if own:
                axes.barh(
                    [row for row, _, _ in own],
                    [least for _, least, _ in own],
                    height=0.65,
                    color=COLOURS[colour],
                    hatch=None if numeric else "////",
                    edgecolor=COLOURS["surface"],
                    linewidth=0.4,
                    label=what,
                )
                axes.hlines(
                    [row for row, _, _ in own],
                    [least for _, least, _ in own],
                    [most for _, _, most in own],
                    color=COLOURS["ink"],
                    linewidth=0.8,
                )
        axes.set_yticks(range(len(bars)), [short(column, _LABEL) for column, _, _, _ in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(_share)
        axes.grid(visible=True, axis="x")
        axes.tick_params(length=0)
        legend(figure, axes)
        return inlined(figure, name, title=title, description=description)


def correlation(
    name: str, names: Sequence[str], matrix: Sequence[Sequence[float | None]], *, title: str, description: str
) -> str:
    """Chart of a table of correlations.

    Parameters
    ----------
    name : str
        Unique in the page.
    names : sequence of str
        Columns.
    matrix : square of float or None
        From -1 to 1.
    title, description : str
        For screen readers.

    Returns
    -------
    str
        An ``svg`` element; every cell says its number.
    """
    from matplotlib.patches import Rectangle

    size = len(names)
    with sheet(1.0 + 2.6 * min(1.0, 0.3 + size / 10)) as figure:
        axes = figure.add_subplot()
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                level = 4 if value is None else round(4 + 4 * max(-1.0, min(1.0, value)))
                colour, edge = COLOURS[f"corr-{level}"], COLOURS["surface"]
                axes.add_patch(
                    Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.6)
                )
                text = "–" if value is None else f"{value + 0:.2f}".replace("-", "−")
                axes.text(
                    column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7 if size < 7 else 5.5
                )
        axes.set_xlim(0, size)
        axes.set_ylim(size, 0)
        places, labels = [place + 0.5 for place in range(size)], [short(one, 14) for one in names]
        axes.set_xticks(places, labels, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(places, labels)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        return inlined(figure, name, title=title, description=description)


def _finish(figure: Figure, axes: Axes, limits: tuple[float, float], *, whole: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator, NullFormatter

    axes.set_xlim(*limits)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y")
    axes.xaxis.set_major_formatter(_plain)
    if axes.get_xscale() == "log":
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif whole:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    if axes.get_ylabel() == "classes":
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.yaxis.set_major_formatter(_plain)
    legend(figure, axes)


def _plain(value: float, _: Any) -> str:
    return number(value)


def _share(value: float, _: Any) -> str:
    return f"{100 * value:.6g} %"
