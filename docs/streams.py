"""Write the tables of docs/streams.md, and draw the trade-off: ``python docs/streams.py``.

The bundled census in the order of its file, as if it came in: loss and reordering over weights of the order,
for three delays, by `duckanon.anonymize_stream`; what t costs there; and the cells of
`benchmarks.bench_castle`, where its reference data are there.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from benchmarks.bench_castle import cells, data_sets
from reproduce.plots import Panel, chart

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE = ROOT / "docs" / "streams.md", ROOT / "docs" / "figures" / "streams.svg"
BEGIN, END = "<!-- trade-off: written by docs/streams.py -->\n", "<!-- end of trade-off -->\n"
CLOSE, END_CLOSE = "<!-- closeness: written by docs/streams.py -->\n", "<!-- end of closeness -->\n"
CASTLE, END_CASTLE = "<!-- castle: written by docs/streams.py -->\n", "<!-- end of castle -->\n"
TUPLES, K = 50_000, 10
DELAYS = (50, 200, 1_000)
WEIGHTS = (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
QUASI, GUARDED = ("age", "weeks_worked", "education"), ("weeks_worked", "education", "wage_per_hour")
SCALE = {"age": (0, 90), "weeks_worked": (0, 52), "wage_per_hour": (0, 100)}
T = (None, 0.3, 0.2, 0.15, 0.1, 0.05)


def report_of(quasi: tuple[str, ...], delay: int, **options: Any) -> duckanon.StreamReport:
    """Return what becomes of the census as a stream."""
    query = f"SELECT {', '.join(quasi)}, occupation{', age' if 'age' not in quasi else ''} FROM"
    table = duckdb.sql(f"{query} '{ROOT}/fixtures/census_income.parquet' LIMIT {TUPLES}").to_arrow_table()
    scale = {name: SCALE[name] for name in quasi if name in SCALE}
    stream = duckanon.anonymize_stream(table.to_batches(), quasi, k=K, delay=delay, scale=scale, **options)
    for _ in stream:
        pass
    return stream.report


def reports() -> dict[tuple[int, float], duckanon.StreamReport]:
    """Return what became of the tuples, by delay and weight."""
    return {
        (delay, weight): report_of(QUASI, delay, order_weight=weight)
        for delay in DELAYS
        for weight in WEIGHTS
    }


def closeness() -> str:
    """Return what t costs as a table."""
    lines = [
        "| delay | t | MSE | largest EMD | tuples of a class, mean | largest | dropped |",
        "|---|---|---|---|---|---|---|",
    ]
    for delay in DELAYS[1:]:
        for t in T:
            report = report_of(GUARDED, delay, sensitive="age", l=1, **({} if t is None else {"t": t}))
            assert report.closeness is not None
            emd = report.closeness["columns"]["age"]["largest_emd"]
            lines.append(
                f"| {delay:,} | {t or 'none'} | {report.mse:.4f} | {emd:.3f} "
                f"| {report.written / report.classes:.1f} | {report.largest_class} | {report.dropped:,} |"
            )
    return "\n".join(lines)


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
    text = written(text, CLOSE, END_CLOSE, closeness())
    both = methods()
    PAGE.write_text(text if both is None else written(text, CASTLE, END_CASTLE, both), encoding="utf-8")


if __name__ == "__main__":
    main()
