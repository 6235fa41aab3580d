"""Recode and audit of one to ten million rows in little memory: their cost may grow as n log n.

Run from the repository: ``python -m benchmarks.bench_stages``. The data and the policy of `bench_release`,
not refined, with ``memory_limit = '1GB'``: ten million rows are spilled to disk, one million rows are not.
Each run is a separate process. The three sizes run in turn, and a ratio is the median over such rounds. For
comparison, DuckDB sorts the table by all columns in the same memory, which shows the cost of n log n on the
machine with its caches and its disk. That growth is printed and judges nothing.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.bars import Results, shrunk
from benchmarks.bench_release import MEMORY_LIMIT, Figures, step

SIZES = (1_000_000, 3_000_000, 10_000_000)
ROUNDS, JUDGED, SORT = 5, ("recode", "audit"), "sort"
TABLE = f"CPU seconds a million rows, t, refine = false, memory_limit {MEMORY_LIMIT}"


def measured(results: Results, folder: Path) -> list[list[Figures]]:
    """Print a line a run, and return the costs of the stages by round and size; nothing if a run failed."""
    paths = []
    for n in SIZES:
        paths.append(str(folder / f"{n}.parquet"))
        step("data", path=paths[-1], records=shrunk(n, 10_000))
    # Compiles the kernels, if necessary.
    step("stages", path=paths[0], memory=MEMORY_LIMIT)
    found: list[list[Figures]] = [[] for _ in range(ROUNDS)]
    for figures in found:
        for n, path in zip(SIZES, paths, strict=True):
            figures.append(step("stages", path=path, memory=MEMORY_LIMIT))
            figures[-1] |= step("in_order", path=path, memory=MEMORY_LIMIT)
            each = {name: spent / shrunk(n, 10_000) * 1e6 for name, spent in figures[-1].items()}
            results.row(TABLE, rows=shrunk(n, 10_000), **each)
    return found


def growth(found: list[list[Figures]], stage: str, size: int) -> float | None:
    """Return the cost of the largest table per that of another, in units of n log n; a median of rounds."""
    few, many = SIZES[size], SIZES[-1]
    least = many * math.log(many) / (few * math.log(few))
    if not all(figures for one in found for figures in one):
        return None
    cell = f"{stage} CPU s"
    return median(one[-1][cell] / one[size][cell] for one in found) / least


def main() -> int:
    """Print one line a size and one a bar."""
    results = Results("bench_stages")
    with tempfile.TemporaryDirectory() as folder:
        found = measured(results, Path(folder))
    grown = {
        stage: [growth(found, stage, size) for size in range(len(SIZES) - 1)] for stage in (*JUDGED, SORT)
    }
    for stage, units in grown.items():
        cells = {f"from {size:,}": unit for size, unit in zip(SIZES, units, strict=False)}
        results.row(
            f"CPU time of {SIZES[-1]:,} rows / that of fewer, in units of n log n", stage=stage, **cells
        )
    for stage in JUDGED:
        results.bar(f"{stage} from {SIZES[0]:,} to {SIZES[-1]:,} rows: CPU / n log n", grown[stage][0], 1.0)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
