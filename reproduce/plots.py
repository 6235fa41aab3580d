"""Line charts as SVG texts that are the same on every run."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

Lines = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) of each line by its name."""


@dataclass(frozen=True)
class Panel:
    """One of several charts side by side.

    Attributes
    ----------
    title : str
        Above the chart.
    x, y : str
        What the axes show, with unit.
    lines : Lines
        At most ten.
    log : bool
        Whether y is logarithmic.
    """

    title: str
    x: str
    y: str
    lines: Lines
    log: bool = False


def chart(panels: Sequence[Panel]) -> str:
    """Panels side by side, at most three a row.

    Parameters
    ----------
    panels : sequence of Panel
        At least one.

    Returns
    -------
    str
        An SVG document; equal panels give equal text.
    """
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    written = io.StringIO()
    # Texts stay texts, and neither names nor a date differ from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "duckanon"}):
        figure = Figure(figsize=(4.2 * across, 3.4 * down), layout="constrained")
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(down, across, number + 1, title=panel.title, xlabel=panel.x)
            axes.set_ylabel(panel.y)
            for name, points in panel.lines.items():
                axes.plot([x for x, _ in points], [y for _, y in points], marker=".", label=name)
            axes.set_yscale("log" if panel.log else "linear")
            axes.legend(fontsize="small")
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
