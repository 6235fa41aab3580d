"""Charts of the report by matplotlib: SVG with CSS themes and names for screen readers, self-contained."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from duckanon.audits.html.copies import edge_label
from duckanon.audits.legible import number, percent, short, threshold
from duckanon.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from duckanon.audits.html.classes import Histogram
    from duckanon.audits.html.copies import Spread

_COLOURS = {
    "ink": "#1b1f24",
    "muted": "#57606b",
    "grid": "#d8dee5",
    "surface": "#fefefe",
    "one": "#2f6f9f",
    "two": "#b8500f",
    "bad": "#b3261e",
    "corr-0": "#6fa8dc",
    "corr-1": "#94bfe6",
    "corr-2": "#b9d5ef",
    "corr-3": "#dceaf7",
    "corr-4": "#f4f5f7",
    "corr-5": "#fbe6d6",
    "corr-6": "#f7cfb1",
    "corr-7": "#f2b68a",
    "corr-8": "#ec9c62",
}
"""Colours of the light theme by the name of their CSS variable; no two are the same."""

_WIDTH_INCHES = 3.5
"""Width in inches. A page shows it 270 to 430 pixels wide, so that text has 10 to 15 pixels."""

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font: ([0-9.]+px)[^;]*")
_SPACE = re.compile(r"\{[^}]*\}")


class Chart(NamedTuple):
    """A chart with heading, a sentence below, and its numbers as a table."""

    svg: Markup
    title: str
    caption: str
    head: list[str]
    rows: list[list[str]]


def _settings() -> dict[str, Any]:
    """Settings of matplotlib on top of its defaults, with which a drawing is the same everywhere."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "duckanon",
        "font.size": 9,
        "text.parse_math": False,
        "text.usetex": False,
        "axes.unicode_minus": True,
        "text.color": _COLOURS["ink"],
        "axes.labelcolor": _COLOURS["ink"],
        "axes.edgecolor": _COLOURS["muted"],
        "axes.linewidth": 0.6,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "xtick.color": _COLOURS["muted"],
        "ytick.color": _COLOURS["muted"],
        "xtick.labelcolor": _COLOURS["ink"],
        "ytick.labelcolor": _COLOURS["ink"],
        "grid.color": _COLOURS["grid"],
        "grid.linewidth": 0.5,
        "legend.frameon": False,
    }


def required() -> None:
    """Raise MissingExtra unless pictures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401 - looked for, not used
    except ImportError as missing:
        raise MissingExtra("the HTML report needs matplotlib: pip install 'duckanon[report]'") from missing


@contextlib.contextmanager
def _sheet(height: float) -> Iterator[Figure]:
    """Give an empty figure of a height in inches; warnings of missing glyphs are ignored."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        mpl.rcdefaults()
        ours: Any = _settings()
        mpl.rcParams.update(ours)
        yield Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the names of the drawn series above the chart, if there are any."""
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside upper left", ncols=2, borderpad=0, handlelength=1.4, columnspacing=1)


def _inlined(figure: Figure, name: str, *, title: str, description: str) -> str:
    """Element ``svg`` for a page, with title and description for screen readers.

    Colours are CSS variables, fonts are those of the page, and no reference leads out. All ids begin with
    `name`, which is unique in the page.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    written = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # Like figure.savefig, but without its additional layout pass.
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(written, metadata=nothing)
    root = ET.fromstring(written.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    used = _used(root)
    for element in root.iter():
        element.tag = _SPACE.sub("", element.tag)
        element.attrib = _attributes(element, name, used)
    for unwanted in ("width", "height", "version"):
        root.attrib.pop(unwanted, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-text")
    for place, (tag, suffix, text) in enumerate((("title", "title", title), ("desc", "text", description))):
        element = ET.Element(tag, {"id": f"{name}-{suffix}"})
        element.text = text
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _used(root: ET.Element) -> set[str]:
    """Return the ids that an element refers to."""
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            used.update(_REFERENCE.findall(value))
            if key.endswith("href"):
                used.add(value.removeprefix("#"))
    return used


def _attributes(element: ET.Element, name: str, used: set[str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in element.attrib.items():
        plain, text = _SPACE.sub("", key), value
        if plain == "id":
            if text not in used:
                continue
            text = f"{name}-{text}"
        elif plain == "href":
            text = f"#{name}-{text.removeprefix('#')}"
        else:
            text = _REFERENCE.sub(rf"url(#{name}-\1)", text)
        if plain == "style":
            text = _FONT.sub(r"font-size: \1", _themed(text))
        elif plain in {"fill", "stroke"} and text in _COLOURS.values():
            # CSS variables work in a style only.
            plain, text = "style", f"{plain}: {_themed(text)}"
        kept[plain] = f"{kept[plain]}; {text}" if plain in kept else text
    return kept


def _themed(style: str) -> str:
    for variable, colour in _COLOURS.items():
        style = style.replace(colour, f"var(--{variable})")
    return style


_MAX_LABEL_CHARACTERS = 22
_MIN_SIZES_ON_AXIS = 7
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
    """Chart of numbers of classes, with a line at the limit (name, value, place on the axis).

    `whole`: the horizontal axis has integers.
    """
    with _sheet(2.3) as figure:
        axes = figure.add_subplot(xlabel=label, ylabel="classes")
        widths = [high - low for low, high in itertools.pairwise(drawn.edges)]
        edge: dict[str, Any] = {"linewidth": 0.4, "edgecolor": _COLOURS["surface"]}
        axes.bar(drawn.edges[:-1], drawn.good, width=widths, align="edge", color=_COLOURS["one"], **edge)
        if drawn.bad is not None and any(drawn.bad):
            axes.bar(
                drawn.edges[:-1],
                drawn.bad,
                width=widths,
                align="edge",
                bottom=drawn.good,
                color=_COLOURS["bad"],
                hatch="////",
                label="violating",
                **edge,
            )
        if drawn.geometric:
            axes.set_xscale("log")
        if limit is not None:
            what, value, place = limit
            said = f"{what} = {threshold(value)}"
            axes.axvline(place, color=_COLOURS["ink"], linewidth=1, linestyle="--", label=said)
        low, high = _reach(drawn, None if limit is None else limit[2], whole=whole)
        # A margin keeps the line of a threshold at the end away from the axis.
        room = (low * 0.03, high * 0.03) if drawn.geometric else ((high - low) * 0.015,) * 2
        _finish(figure, axes, (low - room[0], high + room[1]), whole=whole)
        return _inlined(figure, name, title=title, description=description)


def _reach(drawn: Histogram, limit: float | None, *, whole: bool) -> tuple[float, float]:
    """Return the ends of the horizontal axis: the threshold is inside, and a single size has neighbours."""
    low, high = drawn.edges[0], drawn.edges[-1]
    if limit is not None:
        low, high = min(low, limit), max(high, limit)
    if whole and high - low < _MIN_SIZES_ON_AXIS:
        low, high = max(0.5, low - _MIN_SIZES_ON_AXIS // 2), high + _MIN_SIZES_ON_AXIS // 2
    return low, high


def distribution(
    name: str, drawn: Spread, *, kind: str, sides: Sequence[str], title: str, description: str
) -> str:
    """Chart of one distribution, or of two overlaid: bars by bin, or horizontal bars by value."""
    if drawn.bins is None:
        return _by_value(name, drawn, sides, title, description)
    with _sheet(2.2) as figure:
        axes = figure.add_subplot(ylabel="share of records")
        edges, width = drawn.bins.edges, drawn.bins.width
        if len(sides) == 1:
            axes.stairs(drawn.shares[0], edges, fill=True, color=_COLOURS["one"])
        else:
            axes.stairs(drawn.shares[0], edges, fill=True, color=_COLOURS["one"], alpha=0.45, label=sides[0])
            axes.stairs(drawn.shares[1], edges, color=_COLOURS["two"], linewidth=1.4, label=sides[1])
        axes.yaxis.set_major_formatter(_share)
        _finish(figure, axes, (edges[0], edges[-1]))
        steps = max(1, (len(edges) - 1) // (3 if kind in {"date", "timestamp"} else 5))
        axes.set_xticks(edges[::steps], [edge_label(edge, width, kind) for edge in edges[::steps]])
        return _inlined(figure, name, title=title, description=description)


def _by_value(name: str, drawn: Spread, sides: Sequence[str], title: str, description: str) -> str:
    rows = len(drawn.labels)
    with _sheet(0.55 + 0.17 * rows * (1 if len(sides) == 1 else 1.25)) as figure:
        axes = figure.add_subplot(xlabel="share of records")
        thick = 0.8 / len(sides)
        for side, (shares, what) in enumerate(zip(drawn.shares, sides, strict=True)):
            places = [row - 0.4 + thick * (side + 0.5) for row in range(rows)]
            second = side == 1
            axes.barh(
                places,
                shares,
                height=thick,
                color=_COLOURS["two" if second else "one"],
                hatch="////" if second else None,
                edgecolor=_COLOURS["surface"],
                linewidth=0.4,
                label=what if len(sides) > 1 else None,
            )
        axes.set_xlim(left=0)
        _label_rows(figure, axes, drawn.labels)
        return _inlined(figure, name, title=title, description=description)


def _label_rows(figure: Figure, axes: Axes, labels: Sequence[str]) -> None:
    """Name the rows of horizontal bars, whose lengths are shares."""
    axes.set_yticks(range(len(labels)), [short(label, _MAX_LABEL_CHARACTERS) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(_share)
    axes.grid(visible=True, axis="x")
    axes.tick_params(length=0)
    _legend(figure, axes)


def loss(name: str, bars: Sequence[tuple[str, float, float, bool]], *, title: str, description: str) -> str:
    """Chart of the information loss of columns.

    A bar has a column, its least and its greatest loss (drawn up to 1), and whether the column is a number.
    """
    with _sheet(0.6 + 0.2 * len(bars)) as figure:
        axes = figure.add_subplot(xlabel="lost")
        for numeric, what, colour in (
            (True, "numbers: SSE / SST", "one"),
            (False, "others: share changed", "two"),
        ):
            ends = [
                (row, min(1.0, least), min(1.0, most))
                for row, (_, least, most, kind) in enumerate(bars)
                if kind == numeric
            ]
            if ends:
                axes.barh(
                    [row for row, _, _ in ends],
                    [least for _, least, _ in ends],
                    height=0.65,
                    color=_COLOURS[colour],
                    hatch=None if numeric else "////",
                    edgecolor=_COLOURS["surface"],
                    linewidth=0.4,
                    label=what,
                )
                axes.hlines(
                    [row for row, _, _ in ends],
                    [least for _, least, _ in ends],
                    [most for _, _, most in ends],
                    color=_COLOURS["ink"],
                    linewidth=0.8,
                )
        axes.set_xlim(0, 1)
        _label_rows(figure, axes, [column for column, _, _, _ in bars])
        return _inlined(figure, name, title=title, description=description)


def correlation(
    name: str, names: Sequence[str], matrix: Sequence[Sequence[float | None]], *, title: str, description: str
) -> str:
    """Chart of a square of correlations from -1 to 1, or None; every cell shows its number."""
    from matplotlib.patches import Rectangle

    size = len(names)
    with _sheet(1.0 + 2.6 * min(1.0, 0.3 + size / 10)) as figure:
        axes = figure.add_subplot()
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                level = 4 if value is None else round(4 + 4 * max(-1.0, min(1.0, value)))
                colour, edge = _COLOURS[f"corr-{level}"], _COLOURS["surface"]
                axes.add_patch(
                    Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.6)
                )
                text = "–" if value is None else f"{value + 0:.2f}".replace("-", "−")
                axes.text(
                    column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8 if size < 7 else 6
                )
        axes.set_xlim(0, size)
        axes.set_ylim(size, 0)
        places, labels = [place + 0.5 for place in range(size)], [short(one, 14) for one in names]
        axes.set_xticks(places, labels, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(places, labels)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        return _inlined(figure, name, title=title, description=description)


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
    _legend(figure, axes)


def _plain(value: float, _: Any) -> str:
    return number(value)


def _share(value: float, _: Any) -> str:
    return f"{100 * value:.6g} %"


_FRONTIER_TITLE = "Information loss of other k and t"
_FRONTIER_LINES = (("one", "-"), ("two", "--"), ("ink", ":"), ("muted", "-."))
"""Colour and stroke of the lines, which also differ in print."""


def frontier_charts(rows: pa.Table) -> list[Chart]:
    """Charts of the rows of a frontier: loss over t with a line for each k, or loss over k without t.

    Seconds are left out, because they would change the page from run to run.
    """
    cells = rows.to_pylist()
    if "levels" in rows.column_names:
        return _nodes_charts(cells)
    caption = (
        f"Expected information loss, {cells[0]['reason']}; refined with little effort. "
        "The circle is the policy of this release."
    )
    table = [
        [
            str(cell["k"]), "" if cell["t"] is None else number(cell["t"]), number(cell["class_size"]),
            f"{cell['information_loss']:.2f} %", "yes" if cell["chosen"] else "",
        ]
        for cell in cells
    ]  # fmt: skip
    head = ["k", "t", "Records of a class", "Information loss", "This policy"]
    return [Chart(Markup(_drawn(cells, caption)), _FRONTIER_TITLE, caption, head, table)]


def _nodes_charts(nodes: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Charts of the nodes of full-domain generalization: loss over suppression, and over t."""
    table = [
        [
            node["levels"], number(node["loss"]), percent(node["suppressed"]), number(node["classes"]),
            percent(node["risk"]), number(node["t"]), "yes" if node["minimal"] else "",
            "yes" if node["chosen"] else "",
        ]
        for node in nodes
    ]  # fmt: skip
    head = ["Levels", "Loss", "Suppressed", "Classes", "Risk", "t", "Minimal", "This policy"]
    over = [("suppressed", "suppressed, % of the records", 100)]
    over += [("t", "t, the greatest EMD of a class", 1)] * any(node["t"] is not None for node in nodes)
    charts = []
    for name, unit, factor in over:
        title = f"Loss over {'suppressed records' if name == 'suppressed' else 'closeness'}"
        caption = "Each dot is a node. The circle is the policy: the least loss that it allows."
        with _sheet(2.4) as figure:
            axes = figure.add_subplot(xlabel=unit, ylabel="loss")
            for minimal, colour in ((True, "one"), (False, "two")):
                some = [node for node in nodes if node["minimal"] is minimal]
                if not some:
                    continue
                where = [node[name] * factor for node in some], [node["loss"] for node in some]
                label = "minimal" if minimal else "least loss at a limit"
                axes.plot(*where, "o", markersize=3, color=_COLOURS[colour], label=label, clip_on=False)
            chosen = next(node for node in nodes if node["chosen"])
            axes.plot(
                [chosen[name] * factor], [chosen["loss"]], "o", markersize=7, fillstyle="none", clip_on=False,
                color=_COLOURS["bad"], label="this policy",
            )  # fmt: skip
            axes.set_ylim(bottom=0)
            # Around equal shares an axis would begin below 0.
            axes.set_xlim(left=0, right=None if any(node[name] for node in nodes) else factor / 100)
            axes.grid(visible=True, axis="y")
            _legend(figure, axes)
            svg = _inlined(figure, f"nodes-{name}", title=title, description=caption)
        charts.append(Chart(Markup(svg), title, caption, head, table))
    return charts


def _drawn(cells: Sequence[Mapping[str, Any]], caption: str) -> str:
    over = "k" if all(cell["t"] is None for cell in cells) else "t"
    sizes = sorted({cell["k"] for cell in cells}) if over == "t" else [None]
    with _sheet(2.4) as figure:
        axes = figure.add_subplot(xlabel=over, ylabel="information loss, %")
        for place, k in enumerate(sizes):
            colour, stroke = _FRONTIER_LINES[place % len(_FRONTIER_LINES)]
            line = [cell for cell in cells if k in (None, cell["k"])]
            axes.plot(
                [cell[over] for cell in line], [cell["information_loss"] for cell in line],
                stroke, color=_COLOURS[colour], label="all k" if k is None else f"k = {k}",
            )  # fmt: skip
        chosen = [cell for cell in cells if cell["chosen"]]
        axes.plot(
            [cell[over] for cell in chosen], [cell["information_loss"] for cell in chosen],
            "o", markersize=7, fillstyle="none", color=_COLOURS["bad"], label="this policy",
        )  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, axis="y")
        _legend(figure, axes)
        return _inlined(figure, "frontier", title=_FRONTIER_TITLE, description=caption)
