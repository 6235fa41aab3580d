"""CREATE ANONYMIZED VIEW at 100,000,000 rows on one machine: time, memory, and bytes spilled to disk.

Run from the repository: ``python -m benchmarks.bench_hundred``. The run takes half an hour on two cores and
30 GB of disk, and is no part of ``make bench``. The data of `bench_release`, in Parquet files, are released
into a database file with ``memory_limit = '8GB'``; a hundredth of the data is released for comparison.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.bars import Results, shrunk
from benchmarks.bench_release import Figures, step

RECORDS, PARTS, HUNDREDTH = 100_000_000, 20, 1_000_000
MEMORY_LIMIT, GIGABYTES = "8GB", 8.0
MOST_MEMORY, MOST_CPU = GIGABYTES + 1.0, 1.3


def released(folder: Path, records: int, parts: int) -> Figures:
    """Write the data in `parts` files, and return the cost of their release."""
    folder.mkdir()
    for part in range(parts):
        step("data", path=str(folder / f"{part:02}.parquet"), records=records // parts, part=part)
    return step(
        "release",
        path=str(folder / "*.parquet"),
        close=True,
        refine=False,
        memory=MEMORY_LIMIT,
        database=str(folder / "released.duckdb"),
    )


def main() -> int:
    """Print one line a run and one a bar."""
    results = Results("bench_hundred")
    sizes = {shrunk(HUNDREDTH, 10_000): 1, shrunk(RECORDS, 100_000): PARTS}
    found: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        for records, parts in sizes.items():
            found.append(released(Path(folder) / str(records), records, parts))
            each = found[-1]["CPU s"] / records * 1e6 if found[-1] else None
            text = f"t, refine = false, memory_limit {MEMORY_LIMIT}"
            results.row(text, rows=records, **found[-1], **{"CPU s a million rows": each})
    one, all_rows = found
    results.bar("100,000,000 rows: peak RSS in GB", all_rows.get("peak RSS GB"), MOST_MEMORY)
    grown = all_rows["CPU s"] / one["CPU s"] * HUNDREDTH / RECORDS if one and all_rows else None
    results.bar("100,000,000 rows: CPU seconds a row / those of 1,000,000 rows", grown, MOST_CPU)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
