"""First release of an installation: 200 records on an empty compiler cache, and the cost of a start.

Run from the repository: ``python -m benchmarks.bench_first``. Figures are CPU seconds of whole processes with
imports, in units of a loop of plain Python in the same run. The loop takes one CPU second on the machine of
the bars, when that machine is idle, since seconds of different machines cannot be compared. Releases run with
the machine code in the package, and once without it, so that all is compiled.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.bars import ENVIRONMENT, Results
from duckanon.kernels import prepared

RUNS = 3
LOOP = """
def loop():
    x = 0
    for i in range(33_000_000):
        x += i
loop()
"""
RELEASE = """
import duckanon
con = duckanon.connect()
con.execute('''CREATE TABLE p AS SELECT 18 + hash(i) % 60 AS age, hash(i + 1000) % 1000 AS pay,
    hash(i + 2000) % 40 AS zip, hash(i + 3000) % 90 AS ill FROM range(200) r(i)''')
con.execute('''CREATE ANONYMIZED VIEW v AS FROM p
    WITH (quasi_identifiers = (age, pay, zip), sensitive = ill, k = 5 {more})''')
"""
WITHOUT_MACHINE_CODE = {prepared.VARIABLE: ""}
MEASURED: tuple[tuple[str, tuple[str, ...], dict[str, str], float], ...] = (
    ("first release of 200 records, k = 5", ("-c", RELEASE.format(more="")), {}, 5.0),
    ("first release of 200 records, k = 5, t = .2", ("-c", RELEASE.format(more=", t = 0.2")), {}, 5.0),
    (
        "the same, with t, without machine code",
        ("-c", RELEASE.format(more=", t = 0.2")),
        WITHOUT_MACHINE_CODE,
        90.0,
    ),
    ("import duckanon", ("-c", "import duckanon"), {}, 0.4),
    ("duckanon --help", ("-m", "duckanon", "--help"), {}, 0.4),
)
"""Name of the measurement, arguments of Python, environment, and bar in loops."""


def seconds(arguments: tuple[str, ...], own: dict[str, str]) -> float:
    """Return the CPU seconds of a process on an empty compiler cache."""
    with tempfile.TemporaryDirectory() as cache:
        before = os.times()
        environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": cache, **own}
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure alternately with the loop, and judge medians."""
    if prepared.folder() is None:
        raise SystemExit("machine code of these sources is missing: python -m duckanon.release.prepare")
    results = Results("bench_first")
    for text, arguments, own, bar in MEASURED:
        runs = 1 if own is WITHOUT_MACHINE_CODE else RUNS
        pairs = [(seconds(arguments, own), seconds(("-c", LOOP), {})) for _ in range(runs)]
        ratio = statistics.median(one / loop for one, loop in pairs)
        spent, loop = (statistics.median(column) for column in zip(*pairs, strict=True))
        results.row("The first minute", what=text, cpu_s=spent, loop_cpu_s=loop, ratio=ratio)
        results.bar(f"{text}, CPU in loops of 33,000,000 steps", ratio, bar)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
