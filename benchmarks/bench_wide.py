"""Tables of very many columns on the command line: time in proportion to their number.

Run from the repository: ``python -m benchmarks.bench_wide``. Wall and CPU seconds of whole commands, start
and all; a few hundred records, so that what a statement of many columns costs is most of it. Wall time is
that of a machine which does nothing else: `load` is what it had to do.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bars import Results, shrunk

RECORDS = 500
TITLE = "wide tables, 500 records"
CASES = (("insensitive", 800, 3.0), ("sensitive", 200, 10.0), ("columns", 10_000, 10.0))
"""What there is much of, how much, and within how many seconds the command ends."""


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


def measured(folder: Path, *words: str) -> dict[str, float]:
    """Run a command; return wall and CPU seconds, and the load before. Exit code 2 ends the benchmark."""
    load, before, start = os.getloadavg()[0], os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "duckanon", *words], cwd=folder, check=False, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )  # fmt: skip
    if done.returncode > 1:
        raise SystemExit(f"failed: {words[:2]}")
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall s": wall, "CPU s": spent, "load": load}


def words_of(what: str, table: str, many: int) -> list[str]:
    """Return the command line of a case."""
    common = [table, "--qi", "q0,q1", "-k", "5"]
    if what == "insensitive":
        return ["anonymize", *common, f"out{many}.csv", "--insensitive", "*"]
    if what == "sensitive":
        named = ",".join(f"c{place}" for place in range(many))
        return ["audit", *common, "--sensitive", named, "-l", "2", "-t", "0.5"]
    return ["audit", *common]


def main() -> int:
    """Measure each command once, and half as many columns beside it."""
    results = Results("bench_wide")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, columns, limit in CASES:
            for many in (shrunk(columns // 2, 10), shrunk(columns, 10)):
                words = words_of(what, written(folder, 2, many), many)
                figures = measured(folder, *words)
                results.row(TITLE, command=words[0], of=f"{many:,} {what}", **figures)
            results.bar(f"{words[0]} of {columns:,} {what}: wall seconds", figures["wall s"], limit)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
