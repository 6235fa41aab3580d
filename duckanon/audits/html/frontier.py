"""What other k and t would cost: the rows of EXPLAIN ... FRONTIER as a chart of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from duckanon.audits.html.numbers import number
from duckanon.audits.html.sections import Chart
from duckanon.audits.html.svg import COLOURS, inlined, legend, sheet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

TITLE = "Information loss of other k and t"
STYLES = (("one", "-"), ("two", "--"), ("ink", ":"), ("muted", "-."))
"""Colour and stroke of the lines, which differ in print too."""


def frontier_chart(rows: pa.Table) -> Chart:
    """Chart of the rows of a frontier.

    Parameters
    ----------
    rows : pyarrow.Table
        As `duckanon.release.frontier.frontier` returns them; seconds are left out, so that a
        page does not change from run to run.

    Returns
    -------
    Chart
        Loss over t with a line for each k; over k where there is no t.
    """
    cells = rows.to_pylist()
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
    return Chart(Markup(_drawn(cells, caption)), TITLE, caption, head, table)


def _drawn(cells: Sequence[Mapping[str, Any]], caption: str) -> str:
    over = "k" if all(cell["t"] is None for cell in cells) else "t"
    sizes = sorted({cell["k"] for cell in cells}) if over == "t" else [None]
    with sheet(2.4) as figure:
        axes = figure.add_subplot(xlabel=over, ylabel="information loss, %")
        for place, k in enumerate(sizes):
            colour, stroke = STYLES[place % len(STYLES)]
            own = [cell for cell in cells if k in (None, cell["k"])]
            axes.plot(
                [cell[over] for cell in own], [cell["information_loss"] for cell in own],
                stroke, color=COLOURS[colour], label="all k" if k is None else f"k = {k}",
            )  # fmt: skip
        chosen = [cell for cell in cells if cell["chosen"]]
        axes.plot(
            [cell[over] for cell in chosen], [cell["information_loss"] for cell in chosen],
            "o", markersize=7, fillstyle="none", color=COLOURS["bad"], label="this policy",
        )  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, axis="y")
        legend(figure, axes)
        return inlined(figure, "frontier", title=TITLE, description=caption)
