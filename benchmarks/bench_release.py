"""CREATE ANONYMIZED VIEW at one to ten million rows: wall time, memory, loss, and growth of the cost.

Run from the repository: ``python -m benchmarks.bench_release``. Five quasi-identifiers from a seeded mixture,
one sensitive column, k = 5, t = 0.1. Every run is a separate process with the source as a table in memory.
Time is that of the statement with its audit. A small release before the first run fills the cache of compiled
kernels. Runs with a million records, which most bars are about, have three rounds, and their medians are
shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.bars import ROOT, Results, shrunk

STEPS = (100_000, 300_000, 1_000_000, 3_000_000)
MILLION, THREE_MILLION, TEN_MILLION, WARM = 1_000_000, 3_000_000, 10_000_000, 30_000
RUN_MAX_SECONDS = 3_600.0
"""Seconds after which a run is stopped, far above every bar."""
ROUNDS = 3
"""Alternating rounds of the compared runs of a million records; their medians count."""
MOST_OF_MDAV, MOST_OF_PLAIN, MOST_OF_DUCKDB = 30.0, 2.2, 40.0
MOST_OF_ALGORITHM_3, MOST_TEN_MILLION, MOST_MEMORY, MOST_EXPONENT = 0.456, 150.0, 1.6, 1.15
MEMORY_LIMIT, LEAST_LIMIT, MOST_OF_LEAST = "1GB", "500MB", 1.0
"""Memory limits, and the bar in GB for a release of 3,000,000 rows with the lower limit."""
TABLE = "CREATE ANONYMIZED VIEW, 5 quasi-identifiers, k = 5, t = 0.1"
UNREFINED_RUN, REFINED_RUN, K_ONLY = "t, refine = false", "t, refine = true", "k alone, refine = true"
LIMITED_RUN, LEAST_MEMORY_RUN = (
    f"{UNREFINED_RUN}, memory_limit {MEMORY_LIMIT}",
    f"{UNREFINED_RUN}, memory_limit {LEAST_LIMIT}",
)
TILED_RUN = "Algorithm 3 in tiles of 2,000"
YARDSTICKS = "MDAV of 100,000 records, and DuckDB reading, sorting and writing all"
RUNS: dict[str, tuple[str, dict[str, object]]] = {
    UNREFINED_RUN: ("release", {"close": True, "refine": False}),
    REFINED_RUN: ("release", {"close": True, "refine": True}),
    K_ONLY: ("release", {"close": False, "refine": True}),
    LIMITED_RUN: ("release", {"close": True, "refine": False, "memory": MEMORY_LIMIT}),
    LEAST_MEMORY_RUN: ("release", {"close": True, "refine": False, "memory": LEAST_LIMIT}),
    TILED_RUN: ("tiled", {}),
    YARDSTICKS: ("yardsticks", {}),
}

JUDGED = (UNREFINED_RUN, REFINED_RUN, YARDSTICKS)

Figures = dict[str, float]
Measured = dict[tuple[str, int], Figures]


def step(name: str, **arguments: object) -> Figures:
    """Run one step in a separate process; return no figures if it fails or takes too long."""
    command = [sys.executable, "-m", "benchmarks.release_run", name, json.dumps(arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=RUN_MAX_SECONDS
        )
    except subprocess.TimeoutExpired:
        print(f"{name} {arguments}: stopped after {RUN_MAX_SECONDS:.0f} s", flush=True)
        return {}
    except subprocess.CalledProcessError as failed:
        print(f"{name} {arguments}: exit code {failed.returncode}\n{failed.stderr[-2_000:]}", flush=True)
        return {}
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(results: Results, folder: Path) -> Measured:
    """Print one line a run when it ends, and return the figures by run and number of records."""
    wanted = {n: [UNREFINED_RUN, K_ONLY] for n in STEPS}
    wanted[MILLION] += [REFINED_RUN, TILED_RUN, YARDSTICKS]
    wanted[THREE_MILLION] += [LEAST_MEMORY_RUN]
    wanted[TEN_MILLION] = [UNREFINED_RUN, LIMITED_RUN]
    path = str(folder / "source.parquet")
    step("data", path=path, records=shrunk(WARM, WARM))
    for run in (UNREFINED_RUN, REFINED_RUN, K_ONLY):
        step("release", path=path, **RUNS[run][1])
    measured: Measured = {}
    for n, runs in wanted.items():
        records = shrunk(n, 1_000)
        step("data", path=path, records=records)
        rounds: dict[str, list[Figures]] = {run: [] for run in runs}
        for turn in range(ROUNDS if n == MILLION else 1):
            for run in runs if turn == 0 else JUDGED:
                name, arguments = RUNS[run]
                rounds[run].append(step(name, path=path, **arguments))
        for run, found in rounds.items():
            measured[run, n] = middle(found)
            results.row(TABLE, run=run, rows=records, **measured[run, n])
    return measured


def middle(found: list[Figures]) -> Figures:
    """Return the median of each figure of several runs; no figures if a run failed."""
    return {name: median(one[name] for one in found) for name in found[0]} if all(found) else {}


def exponent(measured: Measured, run: str) -> float | None:
    """Return the slope of log time over log records, the larger one of wall and CPU time."""
    if not all(measured[run, n] for n in STEPS):
        return None
    seconds = [[measured[run, n][clock] for clock in ("wall s", "CPU s")] for n in STEPS]
    return float(np.polyfit(np.log(STEPS), np.log(seconds), 1)[0].max())


def judge(results: Results, measured: Measured) -> None:
    """Print one line a bar."""

    def figure(run: str, n: int, name: str) -> float | None:
        return measured[run, n].get(name)

    def ratio(run: str, name: str, other: str, other_name: str) -> float | None:
        value, unit = figure(run, MILLION, name), figure(other, MILLION, other_name)
        return value / unit if value is not None and unit else None

    wall, cpu, loss = "wall s", "CPU s", "information loss %"
    for text, value, limit in (
        (
            "refine = true: CPU / exact MDAV of 100,000 rows",
            ratio(REFINED_RUN, cpu, YARDSTICKS, "MDAV CPU s"),
            MOST_OF_MDAV,
        ),
        (
            "refine = true: wall time / refine = false",
            ratio(REFINED_RUN, wall, UNREFINED_RUN, wall),
            MOST_OF_PLAIN,
        ),
        (
            f"refine = true: information loss / {TILED_RUN}",
            ratio(REFINED_RUN, loss, TILED_RUN, loss),
            MOST_OF_ALGORITHM_3,
        ),
        (
            "refine = false: CPU / DuckDB reads, sorts, writes",
            ratio(UNREFINED_RUN, cpu, YARDSTICKS, "DuckDB CPU s"),
            MOST_OF_DUCKDB,
        ),
    ):
        results.bar(f"1,000,000 rows, {text}", value, limit)
    text = "10,000,000 rows, refine = false: wall seconds"
    results.bar(text, figure(UNREFINED_RUN, TEN_MILLION, wall), MOST_TEN_MILLION)
    text = f"10,000,000 rows, refine = false, memory_limit {MEMORY_LIMIT}: peak RSS in GB"
    results.bar(text, figure(LIMITED_RUN, TEN_MILLION, "peak RSS GB"), MOST_MEMORY)
    text = f"3,000,000 rows, refine = false, memory_limit {LEAST_LIMIT}: peak RSS in GB"
    results.bar(text, figure(LEAST_MEMORY_RUN, THREE_MILLION, "peak RSS GB"), MOST_OF_LEAST)
    for run in (UNREFINED_RUN, K_ONLY):
        text = f"cost exponent of {run}, 100,000 to 3,000,000 rows"
        results.bar(text, exponent(measured, run), MOST_EXPONENT)


def main() -> int:
    """Print one line a run and one a bar."""
    results = Results("bench_release")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(results, Path(folder))
    judge(results, measured)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
