"""The demo on all 299,285 persons and its export, as `make demo` runs it: under 30 s on an empty cache.

Run from the repository: ``python -m benchmarks.bench_demo``. The cache of the compiler is a new, empty
folder. The bar is for an installation with machine code of the kernels, which a wheel contains and `make
install` makes. A second figure is without machine code, with all kernels compiled. Wall times are for a
machine without other load: `load` is the other load before each run, and `loop s` is the time of the loop of
`bench_first` on two cores at a time, which shows a slow machine.
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
from duckanon.kernels import prepared

BAR = 30.0
RUNS = 3
CORES = 2
TITLE = "duckanon demo, 299,285 persons"


def demo(cache: str, **own: str) -> dict[str, float]:
    """Run the demo and its export with a compiler's cache; return wall and CPU seconds, and the load."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "duckanon", "demo", "--export", f"{folder}/census.duckdb"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, **own}
        load, before, start = os.getloadavg()[0], os.times(), time.perf_counter()
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall s": wall, "CPU s": spent, "load": load}


def loops() -> float:
    """Return the wall seconds of the loop in as many processes as the demo uses cores."""
    start = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(CORES)]
    if any(process.wait() for process in running):
        raise SystemExit("a loop has failed")
    return time.perf_counter() - start


def main() -> int:
    """Measure alternately as installed and without machine code; judge the median as installed."""
    if prepared.folder() is None:
        raise SystemExit("machine code of these sources is missing: python -m duckanon.release.prepare")
    results = Results("bench_demo")
    walls = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as cache:
            before, measured = loops(), demo(cache)
            measured["loop s"] = (before + loops()) / 2
            walls.append(measured["wall s"])
            results.row(TITLE, machine_code="yes", cache="empty", **measured)
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty", "filled"):
            results.row(TITLE, machine_code="none", cache=state, **demo(cache, **{prepared.VARIABLE: ""}))
    results.bar(
        "duckanon demo and its export on an empty compiler cache: wall seconds", statistics.median(walls), BAR
    )
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
