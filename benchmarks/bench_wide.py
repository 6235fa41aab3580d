"""Tables of very many columns on the command line: time in proportion to the number of columns.

Run from the repository: ``python -m benchmarks.bench_wide``. Figures are CPU seconds of whole commands with
their start, on a few hundred records, so that statements of many columns take most of the time. The unit is
the loop of `bench_first` in the same round, a CPU second on the machine of the bars. Figures are medians.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.bars import ENVIRONMENT, ROOT, Results, shrunk
from benchmarks.bench_first import LOOP, seconds

RECORDS, ROUNDS = 500, 3
TITLE = "wide tables, 500 records"
CASES = (("insensitive", 800, 3.0), ("sensitive", 200, 10.0), ("columns", 10_000, 10.0))
"""Kind of column, number of columns, and bar in loops."""

MOST_TIMES = 2.4
"""Largest ratio of CPU seconds to half as many columns; in proportion it is 2."""


def written(folder: Path, quasi: int, others: int) -> str:
    """Write a CSV of numbers and words and return its name."""
    drawn = random.Random(0)
    name = f"{quasi}_{others}.csv"
    with (folder / name).open("w", encoding="utf-8") as file:
        names = [*(f"q{place}" for place in range(quasi)), *(f"c{place}" for place in range(others))]
        file.write(",".join(names) + "\n")
        for _ in range(RECORDS):
            cells = [str(drawn.randrange(20, 80)) for _ in range(quasi)]
            cells += [
                drawn.choice("abcdef") * 3 if place % 2 else str(drawn.randrange(50))
                for place in range(others)
            ]
            file.write(",".join(cells) + "\n")
    return name


def words_of(what: str, table: str, many: int) -> list[str]:
    """Return the command line of a case."""
    common = [table, "--qi", "q0,q1", "-k", "5"]
    if what == "insensitive":
        return ["anonymize", *common, f"out{many}.csv", "--insensitive", "*"]
    if what == "sensitive":
        named = ",".join(f"c{place}" for place in range(many))
        return ["audit", *common, "--sensitive", named, "-l", "2", "-t", "0.5"]
    return ["audit", *common]


def measured(what: str, many: int) -> float:
    """CPU seconds of the command of a case in a new folder; its exit code 2 ends the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        words, before = words_of(what, written(Path(folder), 2, many), many), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "duckanon", *words], cwd=folder, check=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        after = os.times()
    if done.returncode > 1:
        raise SystemExit(f"failed: {words[:2]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure each command, and the same command with half as many columns."""
    results = Results("bench_wide")
    for what, columns, most in CASES:
        counts = (shrunk(columns // 2, 5), shrunk(columns, 10))
        rounds = [
            (seconds(("-c", LOOP), {}), *(measured(what, many) for many in counts)) for _ in range(ROUNDS)
        ]
        loop, *spent = (median(column) for column in zip(*rounds, strict=True))
        for many, cpu in zip(counts, spent, strict=True):
            results.row(TITLE, of=f"{many:,} {what}", **{"CPU s": cpu, "loop CPU s": loop})
        in_loops = median(whole / loop for loop, _, whole in rounds)
        results.bar(f"{columns:,} {what}: CPU in loops of 33,000,000 steps", in_loops, most)
        times = median(whole / half for _, half, whole in rounds)
        results.bar(f"{columns:,} {what}: CPU / of half as many", times, MOST_TIMES)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
