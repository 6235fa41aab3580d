"""Information loss and CPU time at 100,000 records: blocks and refinement beside exact MDAV, in one run.

Run from the repository: ``python -m benchmarks.bench_scale``. The data are those of `bench_kernels`. Times
are CPU seconds of the process, all threads together, compilation excluded.
"""

from __future__ import annotations

import sys
from functools import partial
from time import process_time

from benchmarks.bars import Results, shrunk
from benchmarks.bench_kernels import mixture, timed
from duckanon import information_loss, partition

RECORDS, DIMENSIONS, K = 100_000, 5, 5
MOST_LOSS_FAST, MOST_TIME_FAST, MOST_LOSS_BEST = 0.945, 0.9, 0.90


def main() -> int:
    """Print one line a method and one a bar."""
    results = Results("bench_scale")
    n = shrunk(RECORDS, 1_000)
    warm, points = mixture(1_000, DIMENSIONS), mixture(n, DIMENSIONS)
    fast = partial(partition, k=K, method="blocks", refine=True, effort="fast")
    best = partial(partition, k=K, method="auto", refine=True, effort="best")
    runs = {
        "exact MDAV": (partial(partition, k=K, method="mdav"), 3),
        "blocks, refined, effort 'fast'": (fast, 3),
        "auto, refined, effort 'best'": (best, 1),
    }
    for run, _ in runs.values():
        run(warm)
    seconds, losses = {}, {}
    for name, (run, rounds) in runs.items():
        if rounds > 1:
            seconds[name], labels = timed(partial(run, points))
        else:
            start = process_time()
            labels = run(points)
            seconds[name] = process_time() - start
        losses[name] = information_loss(points, labels)
        table = f"{n:,} x {DIMENSIONS} records, k = {K}"
        cells = {"information loss %": losses[name], "CPU s": round(seconds[name], 3), "rounds": rounds}
        results.row(table, method=name, **cells)
    exact, quick, thorough = runs
    results.bar(f"information loss, {quick} / {exact}", losses[quick] / losses[exact], MOST_LOSS_FAST)
    results.bar(f"CPU time, {quick} / {exact}", seconds[quick] / seconds[exact], MOST_TIME_FAST)
    results.bar(f"information loss, {thorough} / {exact}", losses[thorough] / losses[exact], MOST_LOSS_BEST)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
