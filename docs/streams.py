"""Write the tables of docs/streams.md, and draw the trade-off: ``python docs/streams.py``.

The bundled census in the order of its file, as if it came in: loss and reordering over weights of the order,
for three delays, by `duckanon.anonymize_stream`. And the cells of `benchmarks.bench_castle`, where its
reference data are there.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import duckdb

import duckanon
from benchmarks.bench_castle import cells, data_sets
from reproduce.plots import Panel, chart

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE = ROOT / "docs" / "streams.md", ROOT / "docs" / "figures" / "streams.svg"
BEGIN, END = "<!-- trade-off: written by docs/streams.py -->\n", "<!-- end of trade-off -->\n"
CASTLE, END_CASTLE = "<!-- castle: written by docs/streams.py -->\n", "<!-- end of castle -->\n"
TUPLES, K = 50_000, 10
DELAYS = (50, 200, 1_000)
WEIGHTS = (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
QUASI = ("age", "weeks_worked", "education")


def reports() -> dict[tuple[int, float], duckanon.StreamReport]:
    """Return what became of the tuples, by delay and weight."""
    query = (
        f"SELECT {', '.join(QUASI)}, occupation FROM '{ROOT}/fixtures/census_income.parquet' LIMIT {TUPLES}"
    )
    table = duckdb.sql(query).to_arrow_table()
    found = {}
    for delay in DELAYS:
        for weight in WEIGHTS:
            stream = duckanon.anonymize_stream(
                table.to_batches(), QUASI, k=K, delay=delay, order_weight=weight,
                scale={"age": (0, 90), "weeks_worked": (0, 52)},
            )  # fmt: skip
            for _ in stream:
                pass
            found[delay, weight] = stream.report
    return found


def table(found: dict[tuple[int, float], duckanon.StreamReport]) -> str:
    """Return the figures as a table."""
    lines = [
        "| delay | weight of the order | MSE | reordering, mean | largest | delay, mean |",
        "|---|---|---|---|---|---|",
    ]
    for (delay, weight), report in found.items():
        moved, largest, waited = report.mean_reordering, report.largest_reordering, report.mean_delay
        lines.append(
            f"| {delay:,} | {weight:g} | {report.mse:.4f} | {moved:.1f} | {largest:.0f} | {waited:.0f} |"
        )
    return "\n".join(lines)


def methods() -> str | None:
    """Return both methods side by side as a table; None without reference data."""
    sets = data_sets()
    if any(points is None for points in sets.values()):
        return None
    lines = [
        "| data | delay | MSE steered | MSE castle | ratio | dropped | by castle | alone | mean width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells(sets):
        steered, castle = cell.steered, cell.castle
        ratio = f"{cell.ratio:.2f}" if cell.ratio < 1 else f"**{cell.ratio:.2f}**"
        lines.append(
            f"| {cell.name} | {cell.delay} | {steered.mse:.4f} | {castle.mse:.4f} | {ratio} "
            f"| {steered.dropped:,} | {castle.dropped:,} | {castle.alone:,} | {castle.mean_width:.3f} |"
        )
    return "\n".join(lines)


def written(text: str, begin: str, end: str, lines: str) -> str:
    """Return a page with other lines between two marks."""
    start, stop = text.index(begin) + len(begin), text.index(end)
    return f"{text[:start]}\n{lines}\n\n{text[stop:]}"


def main() -> None:
    """Write the page and the figure."""
    warnings.simplefilter("ignore", duckanon.DuckanonWarning)
    found = reports()

    def lines(figure: str) -> dict[str, list[tuple[float, float]]]:
        return {
            f"delay {delay:,}": [(weight, getattr(found[delay, weight], figure)) for weight in WEIGHTS]
            for delay in DELAYS
        }

    x = "weight of the order"
    FIGURE.write_text(
        chart(
            [
                Panel("loss", x, "MSE, ranges are 1", lines("mse")),
                Panel("reordering", x, "places, mean", lines("mean_reordering"), log=True),
            ]
        ),
        encoding="utf-8",
    )
    text = written(PAGE.read_text(encoding="utf-8"), BEGIN, END, table(found))
    both = methods()
    PAGE.write_text(text if both is None else written(text, CASTLE, END_CASTLE, both), encoding="utf-8")


if __name__ == "__main__":
    main()
