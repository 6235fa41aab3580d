"""Tuples a CPU second of stream microaggregation: the compiled kernel compared with loops in numpy.

Run from the repository: ``python -m benchmarks.bench_stream``. Five uniform quasi-identifiers, k = 10 and a
delay of 1,000. Kernel and loops must write the same tuples in the same order. The kernel reads batches of
100,000 tuples; the loops read single tuples, and fewer of them. Compilation is not counted. Further lines are
the kernel alone: with a weight, with subjects, with growing classes, and with other k and delays. The last
lines are `anonymize_stream` with record batches, relative to the kernel, and its memory in a separate
process, at the end and after a tenth.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import duckanon
from benchmarks.bars import Results, shrunk
from benchmarks.numpy_stream import plain_stream, whole_pass_stream
from duckanon.kernels.steered.stream import open_buffer, push

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Loop = Callable[[NDArray[np.float64]], NDArray[np.int64]]

ATTRIBUTES, K, DELAY = 5, 10, 1_000
TUPLES, CASTLE_TUPLES, BATCH, ROUNDS = 2_000_000, 40_000, 100_000, 3
ARROW, MEMORY, LONG_STREAM_TUPLES = 3.0, 1.05, 10_000_000
PLAIN_LOOP_RATIO, WHOLE_PASS_RATIO = 25, 10
"""Bars: tuples a CPU second of the kernel divided by those of each loop."""

CASES: tuple[tuple[str, int, int, float, bool, int], ...] = (
    ("weight 0.01", K, DELAY, 0.01, False, 0),
    ("500 subjects", K, DELAY, 0.0, False, 500),
    ("grown", K, DELAY, 0.0, True, 0),
    ("k = 3", 3, DELAY, 0.0, False, 0),
    ("k = 100", 100, DELAY, 0.0, False, 0),
    ("delay = 100", K, 100, 0.0, False, 0),
    ("delay = 10,000", K, 10_000, 0.0, False, 0),
)


RESIDENT = """
import re, sys
import numpy as np, pyarrow as pa
import duckanon
tuples, tenth = int(sys.argv[1]), int(sys.argv[1]) // 10
rng = np.random.default_rng(3)
def batches():
    for _ in range(tuples // 50_000):
        yield pa.RecordBatch.from_pydict({name: rng.random(50_000) for name in "abcde"})
def resident():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmRSS:\\s+(\\d+)", status.read())[1])
written, first = 0, None
for batch in duckanon.anonymize_stream(batches(), list("abcde"), k=10, delay=1_000):
    written += len(batch)
    if first is None and written >= tenth:
        first = resident()
print(resident() / first)
"""


def anonymized(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Anonymize record batches by `anonymize_stream`; return the number of tuples in each."""
    table = pa.table({f"q{place}": column for place, column in enumerate(points.T)})
    batches = table.to_batches(max_chunksize=BATCH)
    stream = duckanon.anonymize_stream(batches, table.column_names, k=K, delay=DELAY)
    return np.array([len(batch) for batch in stream])


def grown() -> float | None:
    """Return resident memory at the end of a long stream divided by that after a tenth of it."""
    command = [sys.executable, "-c", RESIDENT, str(shrunk(LONG_STREAM_TUPLES, 500_000))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2_000:], flush=True)
        return None
    return float(done.stdout)


def streamed(
    points: NDArray[np.float64], k: int = K, delay: int = DELAY, weight: float = 0.0, grow: bool = False,
    subjects: int = 0,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the output of the kernel, batch by batch."""
    whose = np.random.default_rng(2).integers(0, subjects, len(points)) if subjects else None
    buffer = open_buffer(
        points.shape[1], k, delay=delay, order_weight=weight, grow=grow, by_subject=whose is not None
    )
    written = []
    for first in range(0, len(points), BATCH):
        rows = slice(first, first + BATCH)
        written.append(push(buffer, points[rows], None if whose is None else whose[rows]).positions)
    return np.concatenate(written)


def speed(loop: Loop, points: NDArray[np.float64]) -> float:
    """Return tuples a CPU second, the best of several rounds."""
    seconds = []
    for _ in range(ROUNDS):
        begun = process_time()
        loop(points)
        seconds.append(process_time() - begun)
    return len(points) / min(seconds)


def main() -> int:
    """Print one line a loop and one a bar."""
    results = Results("bench_stream")
    points = np.random.default_rng(1).random((shrunk(TUPLES, 5_000), ATTRIBUTES))
    fewer = points[: shrunk(CASTLE_TUPLES, 3_000)]
    loops = {
        "numpy, the nearest k - 1 times": partial(plain_stream, k=K, delay=DELAY),
        "numpy, one pass and one sort": partial(whole_pass_stream, k=K, delay=DELAY),
    }
    table = f"five columns, k = {K}, delay = {DELAY:,}"
    expected = streamed(fewer)
    found = {"kernel": speed(streamed, points)}
    for name, loop in loops.items():
        if not np.array_equal(loop(fewer), expected):
            raise AssertionError(f"{name}: other classes than those of the kernel")
        found[name] = speed(loop, fewer)
    for name, tuples in found.items():
        results.row(table, loop=name, **{"tuples a CPU s": tuples, "kernel, times": found["kernel"] / tuples})
    for (name, tuples), times in zip(
        list(found.items())[1:], (PLAIN_LOOP_RATIO, WHOLE_PASS_RATIO), strict=True
    ):
        results.bar(f"{name}: its tuples a CPU s / those of the kernel", tuples / found["kernel"], 1 / times)
    anonymized(fewer)
    arrow = speed(anonymized, points)
    results.row(table, loop="record batches in and out", **{"tuples a CPU s": arrow})
    results.bar("record batches in and out: CPU s / the kernel", found["kernel"] / arrow, ARROW)
    results.bar(
        f"{shrunk(LONG_STREAM_TUPLES, 500_000):,} tuples: memory at the end / after a tenth", grown(), MEMORY
    )
    for name, k, delay, weight, grow, subjects in CASES:
        case = partial(streamed, k=k, delay=delay, weight=weight, grow=grow, subjects=subjects)
        results.row(
            "the kernel alone", case=name, **{"tuples a CPU s": speed(case, points[: len(points) // 4])}
        )
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
