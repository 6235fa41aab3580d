"""The demo on all 299,285 persons, as after installation and once more: under 30 s wall on an empty cache.

Run from the repository: ``python -m benchmarks.bench_demo``. The kernels are compiled anew in a folder of
their own, in processes whose CPU seconds count, too. Wall time is that of a machine which does nothing else:
`load` is what it had to do before each run, `loop s` how long the loop of `bench_first` takes there on two
cores at a time: a machine that is slow today shows in it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.bars import Results
from benchmarks.bench_first import LOOP

BAR = 30.0
RUNS = 3
CORES = 2


def demo(cache: str) -> dict[str, float]:
    """Run the demo with a folder of compiled code; return its wall and CPU seconds, and the load before."""
    load, before, start = os.getloadavg()[0], os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "duckanon", "demo"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall s": wall, "CPU s": spent, "load": load}


def loops() -> float:
    """Return the wall seconds of as many loops at a time as the demo uses cores."""
    start = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(CORES)]
    if any(process.wait() for process in running):
        raise SystemExit("a loop has failed")
    return time.perf_counter() - start


def main() -> int:
    """Measure with an empty cache and with what that has left, by turns, and judge the median."""
    results = Results("bench_demo")
    walls = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as cache:
            before, measured = loops(), demo(cache)
            measured["loop s"] = (before + loops()) / 2
            walls.append(measured["wall s"])
            results.row("duckanon demo, 299,285 persons", cache="empty", **measured)
            results.row("duckanon demo, 299,285 persons", cache="filled", **demo(cache))
    results.bar("duckanon demo on an empty compiler cache: wall seconds", statistics.median(walls), BAR)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
