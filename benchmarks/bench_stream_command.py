"""CPU seconds of ``duckanon stream``, CSV to CSV, compared with DuckDB's own copy of the same file.

Run from the repository: ``python -m benchmarks.bench_stream_command``. Five numeric quasi-identifiers, k = 10
and a delay of 1,000. All runs are separate processes with their start, they alternate, and the best of
several rounds counts. The bar is for the usual command, a file to a file, which also writes the evidence:
fingerprint and audit of the whole file. A stream to stdout has no evidence.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.bars import ENVIRONMENT, ROOT, Results, shrunk

TUPLES, ROUNDS, BAR = 2_000_000, 5, 6.0
SOURCE = """
COPY (
    SELECT
        CAST(hash(i) % 80 + 18 AS INTEGER) AS age, CAST(hash(i + 1) % 90000 AS INTEGER) AS zip,
        round(hash(i + 2) % 100000 / 7, 2) AS weight, hash(i + 3) % 50 AS visits,
        round(hash(i + 4) % 1000000 / 3, 3) AS income, hash(i + 5) % 100 AS charge,
        'd' || hash(i + 6) % 10 AS ill
    FROM range({tuples}) AS r(i)
) TO '{path}'
"""
COPY = "import duckdb, sys; duckdb.sql(f\"COPY (FROM read_csv('{sys.argv[1]}')) TO '{sys.argv[2]}'\")"
ASKED = ("--qi", "age,zip,weight,visits,income", "-k", "10", "--delay", "1000")


def seconds(arguments: list[str], folder: Path) -> float:
    """Return the CPU seconds of a process that writes to ``out.csv`` or to stdout."""
    for left in folder.glob("out*"):
        left.unlink()
    before = sum(os.times()[2:4])
    with (folder / "out_stdout.csv").open("wb") as out:
        subprocess.run(
            [sys.executable, *arguments], check=True, stdout=out, stderr=subprocess.DEVNULL, cwd=ROOT,
            env=ENVIRONMENT,
        )  # fmt: skip
    return sum(os.times()[2:4]) - before


def main() -> int:
    """Print one line a way, and the bar."""
    results, tuples = Results("bench_stream_command"), shrunk(TUPLES, 5_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, out = str(folder / "in.csv"), str(folder / "out.csv")
        duckdb.connect().execute(SOURCE.format(tuples=tuples, path=source))
        command = ["-m", "duckanon", "stream", source]
        ways = {
            "DuckDB COPY": ["-c", COPY, source, out],
            "stream to stdout": [*command, "-", *ASKED],
            "stream": [*command, out, *ASKED],
        }
        rounds = [{name: seconds(asked, folder) for name, asked in ways.items()} for _ in range(ROUNDS)]
    found = {name: min(one[name] for one in rounds) for name in ways}
    for name, spent in found.items():
        times = spent / found["DuckDB COPY"]
        results.row(f"CSV of {tuples:,} tuples to CSV", way=name, **{"CPU s": spent, "COPY, times": times})
    results.bar("CPU s of stream and evidence / DuckDB COPY", found["stream"] / found["DuckDB COPY"], BAR)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
