"""Line charts as SVG texts that are equal on every run."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

Lines = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) of each line, by name of the line."""


@dataclass(frozen=True)
class Panel:
    """One of several charts side by side."""

    title: str  # above the chart
    x: str  # label of the axis, with unit
    y: str
    lines: Lines  # at most ten
    log: bool = False  # whether y is logarithmic


def chart(panels: Sequence[Panel]) -> str:
    """SVG document with at least one panel, three panels a row; equal panels give equal text."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    written = io.StringIO()
    # Texts are written as text; names are the same in every run, and there is no date.
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
