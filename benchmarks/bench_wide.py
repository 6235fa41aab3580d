"""Tables of very many columns on the command line: time in proportion to the number of columns.

Run from the repository: ``python -m benchmarks.bench_wide``. Figures are CPU seconds of whole commands with
their start, on a few hundred records, so that statements of many columns take most of the time. The unit is
the loop of `bench_first` in the same run, a CPU second on the machine of the bars.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bars import ROOT, Results, shrunk
from benchmarks.bench_first import LOOP, seconds

RECORDS = 500
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


def measured(folder: Path, what: str, many: int) -> float:
    """CPU seconds of the command of a case; its exit code 2 ends the benchmark."""
    words, before = words_of(what, written(folder, 2, many), many), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "duckanon", *words], cwd=folder, check=False, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if done.returncode > 1:
        raise SystemExit(f"failed: {words[:2]}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure each command, and the same command with half as many columns."""
    results = Results("bench_wide")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, columns, most in CASES:
            loop = seconds(("-c", LOOP), {})
            counts = (shrunk(columns // 2, 5), shrunk(columns, 10))
            half, whole = (measured(folder, what, many) for many in counts)
            for many, spent in zip(counts, (half, whole), strict=True):
                results.row(TITLE, of=f"{many:,} {what}", **{"CPU s": spent, "loop CPU s": loop})
            results.bar(f"{columns:,} {what}: CPU in loops of 33,000,000 steps", whole / loop, most)
            results.bar(f"{columns:,} {what}: CPU / of half as many", whole / half, MOST_TIMES)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
