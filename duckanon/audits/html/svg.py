"""SVG of matplotlib becomes part of a page: themed by CSS, named for screen readers, no loose ends."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from duckanon.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
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

WIDTH = 3.5
"""Inches; a page shows it from 330 to 480 pixels wide, so that its text has 10 to 14 pixels."""

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font: ([0-9.]+px)[^;]*")
_SPACE = re.compile(r"\{[^}]*\}")


def settings() -> dict[str, Any]:
    """Settings of matplotlib under which a drawing is the same on every run and every machine.

    Returns
    -------
    dict
        On top of matplotlib's own defaults, not of the user's.
    """
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "duckanon",
        "font.size": 7.5,
        "text.parse_math": False,
        "text.usetex": False,
        "axes.unicode_minus": True,
        "text.color": COLOURS["ink"],
        "axes.labelcolor": COLOURS["ink"],
        "axes.edgecolor": COLOURS["muted"],
        "axes.linewidth": 0.6,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "xtick.color": COLOURS["muted"],
        "ytick.color": COLOURS["muted"],
        "xtick.labelcolor": COLOURS["ink"],
        "ytick.labelcolor": COLOURS["ink"],
        "grid.color": COLOURS["grid"],
        "grid.linewidth": 0.5,
        "legend.frameon": False,
    }


def required() -> None:
    """Raise unless pictures can be drawn.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401 - looked for, not used
    except ImportError as missing:
        raise MissingExtra("the HTML report needs matplotlib: pip install 'duckanon[report]'") from missing


@contextlib.contextmanager
def sheet(height: float) -> Iterator[Figure]:
    """Give an empty figure under our settings; a glyph that this font lacks is the browser's affair.

    Parameters
    ----------
    height : float
        Inches.

    Yields
    ------
    Figure
        As wide as all charts of the page.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        mpl.rcdefaults()
        ours: Any = settings()
        mpl.rcParams.update(ours)
        yield Figure(figsize=(WIDTH, height), layout="constrained")


def legend(figure: Figure, axes: Axes) -> None:
    """Put the names of what is drawn above the chart, if there are any.

    Parameters
    ----------
    figure, axes : Figure, Axes
        The chart.
    """
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside upper left", ncols=2, borderpad=0, handlelength=1.4, columnspacing=1)


def inlined(figure: Figure, name: str, *, title: str, description: str) -> str:
    """Element that stands in a page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn in `COLOURS`.
    name : str
        Prefix of all ids, unique in the page.
    title, description : str
        What a screen reader says.

    Returns
    -------
    str
        An ``svg`` element: colours are CSS variables, fonts those of the page, no reference leads out of it.
    """
    written = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=nothing)
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
    for place, (tag, own, text) in enumerate((("title", "title", title), ("desc", "text", description))):
        element = ET.Element(tag, {"id": f"{name}-{own}"})
        element.text = text
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _used(root: ET.Element) -> set[str]:
    """Return the ids that something refers to."""
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
        elif plain in {"fill", "stroke"} and text in COLOURS.values():
            # CSS variables count in a style only.
            plain, text = "style", f"{plain}: {_themed(text)}"
        kept[plain] = f"{kept[plain]}; {text}" if plain in kept else text
    return kept


def _themed(style: str) -> str:
    for variable, colour in COLOURS.items():
        style = style.replace(colour, f"var(--{variable})")
    return style
