"""Write the costs of docs/spark.md: ``python docs/spark_cost.py`` after ``python -m benchmarks.bench_spark``.

A step costs so much for every release and so much for each record: a line through the two sizes that were
measured with two tasks. What it says of more records than that is extrapolated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "spark.md", ROOT / "build" / "bench" / "bench_spark.json"
BEGIN, END = "<!-- cost: written by docs/spark_cost.py -->\n", "<!-- end of cost -->\n"
LONGEST = "longest task, CPU s"
TASKS, LARGE, CORES = 2, 10**10, 1_000
ABOUT = """\
Measured on {date} by `python -m benchmarks.bench_spark` with two tasks. Seconds of a million records are
the slope between both sizes. The last column is *extrapolated* by that slope alone: {large:,} records on
{cores:,} cores. It knows nothing of networks, disks and tasks that lag."""


ALONE = """\
Two plain processes that do the work of these tasks without Spark and Java, on {tiles} of the same tiles, take
{alone:.3f} of the time of one. {reason}"""
THE_MACHINE = "That is what this machine allows, and why the tile stage is not faster with two tasks."
OF_SPARK = (
    "The tile stage takes more with two tasks: the rest is the part of Java, which keeps cores busy, too."
)
NEAR = 0.02
TEXTS = """\
`t_closeness_ordered` on Spark, in steps and with two tasks, of classes of five records: Spark's own text
([sql/audit/fast/spark](engines.md)) beside that of all engines, which numbers all records in one task.
More cores make no task shorter: the longest one is what is left on many."""


def measured(entries: list[dict[str, Any]]) -> tuple[int, dict[str, tuple[float, float]]]:
    """Return the records, and seconds of each step for a tenth of them and for all."""
    rows = {entry["cells"]["way"]: entry for entry in entries if entry["kind"] == "row"}
    few, many = (rows[way]["cells"] for way in ("a tenth, local[2]", "local[2]"))
    steps = [name for name in many if name.endswith(" s") and name in few]
    times = {name.removesuffix(" s"): (few[name], many[name]) for name in steps}
    others = [one["wall"] - sum(one[name] for name in steps) for one in (few, many)]
    times["recode, loss and the rest"] = (others[0], others[1])
    return int(rows["local[2]"]["table"].split()[0].replace(",", "")), times


def lines(entries: list[dict[str, Any]]) -> str:
    """Return the table of steps, and the bars of the run."""
    records, times = measured(entries)
    run = next(entry for entry in entries if entry["kind"] == "run")
    text = [
        *ABOUT.format(date=run["date"], large=LARGE, cores=CORES).splitlines(),
        "",
        f"| step | {records // 10:,} records, s | {records:,} records, s | s a million | h, extrapolated |",
        "|---|---|---|---|---|",
    ]
    whole = [0.0, 0.0]
    for name, (few, many) in times.items():
        whole = [whole[0] + few, whole[1] + many]
        text.append(_line(name, few, many, records))
    text += [_line("**all**", whole[0], whole[1], records), ""]
    text += ["| bar | measured | at most | |", "|---|---|---|---|"]
    text += [
        f"| {entry['text']} | {entry['value']:.4g} | {entry['limit']:.4g} | {entry['verdict'].lower()} |"
        for entry in entries
        if entry["kind"] == "bar"
    ]
    text += ["", *_alone(entries), "", *_texts(entries)]
    return "\n".join(text) + "\n"


def _alone(entries: list[dict[str, Any]]) -> list[str]:
    """Tell what two processes reach without Spark, and what that says of the tile stage."""
    [cells] = [one["cells"] for one in entries if one["kind"] == "row" and "two / one" in one["cells"]]
    [stage] = [one["value"] for one in entries if one["kind"] == "bar" and one["text"].startswith("tile")]
    alone = cells["two / one"]
    reason = THE_MACHINE if stage <= alone + NEAR else OF_SPARK
    return ALONE.format(tiles=cells["tiles"], alone=alone, reason=reason).splitlines()


def _texts(entries: list[dict[str, Any]]) -> list[str]:
    """Return the table of both texts of the ordered audit."""
    rows = [entry["cells"] for entry in entries if entry["kind"] == "row"]
    lines = [*TEXTS.splitlines(), "", f"| text, records | s | CPU s | {LONGEST} |", "|---|---|---|---|"]
    lines += [
        f"| {row['way']} | {row['wall']:.1f} | {row['cpu']:.1f} | {row[LONGEST]:.1f} |"
        for row in rows
        if LONGEST in row
    ]
    return lines


def _line(name: str, few: float, many: float, records: int) -> str:
    slope = max(many - few, 0.0) / (records - records // 10)
    hours = slope * LARGE * TASKS / CORES / 3600
    return f"| {name} | {few:.1f} | {many:.1f} | {slope * 10**6:.2f} | {hours:.2f} |"


def main() -> None:
    """Write the section anew."""
    entries = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}{lines(entries)}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
