"""A step of `bench_release` in a separate process: data, a release, its stages, or Algorithm 3 in tiles.

``python -m benchmarks.release_run STEP '{"argument": ...}'`` prints the result as one line of JSON. A
separate process has its own peak of memory, and only numba's cache on disk is warm.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import sys
import threading
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import duckanon
from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.tcloseness_first import class_size, tcloseness_first
from duckanon.kernels.loss import information_loss
from duckanon.kernels.points import zscore
from duckanon.release import pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

QUASI_IDENTIFIERS = ("q0", "q1", "q2", "q3", "q4")
K, T, TILE = 5, 0.1, 2_000
MDAV_RECORDS = 100_000

STAGES = ["stage", "embed", "limit", "bucket", "partition", "repair", "protect", "recode", "audit", "advise"]
"""Timed stages of a release."""

SOURCE = "CREATE TABLE source AS FROM read_parquet(?)"
PLAIN_POLICY = "quasi_identifiers = (q0, q1, q2, q3, q4), insensitive = (s), k = 5"
CLOSE_POLICY = "quasi_identifiers = (q0, q1, q2, q3, q4), sensitive = (s), k = 5, t = 0.1"

Cells = dict[str, float | str]


def data(path: str, records: int, part: int = 0) -> Cells:
    """Write records of a seeded mixture of 20 normal distributions, with their noisy sum as column `s`."""
    draw, d = np.random.default_rng(2026), len(QUASI_IDENTIFIERS)
    centres, widths = draw.normal(0.0, 3.0, (20, d)), draw.uniform(0.3, 1.2, (20, d))
    if part:
        draw = np.random.default_rng([2026, part])
    component = draw.integers(0, 20, records)
    points = draw.normal(size=(records, d))
    points *= widths[component]
    points += centres[component]
    sensitive = np.round(points.sum(axis=1) * 0.3 + draw.normal(size=records) * 2.0, 2)
    columns = dict(zip(QUASI_IDENTIFIERS, points.T, strict=True)) | {"s": sensitive}
    pq.write_table(pa.table(columns), path)
    return {"records": records}


def release(
    path: str, *, close: bool, refine: bool, memory: str | None = None, database: str = ":memory:"
) -> Cells:
    """Release the data, and return the cost of the statement and the figures of its audit."""
    # A release into a database file reads the data from their files, without a table in memory.
    policy = f"{CLOSE_POLICY if close else PLAIN_POLICY}, refine = {str(refine).lower()}"
    spill = Path(path).parent / "spill"
    with duckanon.connect(database, temp_directory=str(spill)) as con:
        if memory is not None:
            con.execute(f"SET memory_limit = '{memory}'")
        source = "source" if database == ":memory:" else f"read_parquet('{path}')"
        if database == ":memory:":
            con.duckdb.execute(SOURCE, [path])
        wall, cpu = perf_counter(), process_time()
        with most_bytes(spill) as spilled:
            (outcome,) = con.run_script(f"CREATE ANONYMIZED VIEW released AS FROM {source} WITH ({policy})")
        wall, cpu = perf_counter() - wall, process_time() - cpu
    if outcome.report is None or not outcome.report.passed:
        raise SystemExit("the release has no passed audit")
    found = {measure.measure: measure for measure in outcome.report.measures}
    cells: Cells = {"wall s": wall, "CPU s": cpu, "peak RSS GB": peak(), "spill GB": max(spilled) / 1e9}
    cells |= {"information loss %": found["information_loss"].value or 0.0}
    cells |= {"classes": found["k_anonymity"].classes, "least size": found["k_anonymity"].value or 0.0}
    return cells | ({"largest EMD": found["t_closeness"].value or 0.0} if close else {})


def stages(path: str, memory: str) -> Cells:
    """Run the stages of a release on the data, and return the CPU seconds of each stage."""
    policy = duckanon.Policy(
        quasi_identifiers=list(QUASI_IDENTIFIERS), sensitive=["s"], k=K, t=str(T), refine=False
    )
    cells: Cells = {}
    with duckanon.connect(temp_directory=str(Path(path).parent / "spill"), memory_limit=memory) as con:
        con.duckdb.execute(SOURCE, [path])
        for name in STAGES:
            setattr(pipeline, name, _timed(getattr(pipeline, name), cells))
        with pipeline.candidate_of(con.duckdb, "FROM source", policy) as candidate:
            if not candidate.report.passed:
                raise SystemExit("the release has no passed audit")
    return cells


def _timed(stage: Callable[..., object], cells: dict[str, float | str]) -> Callable[..., object]:
    """Return a stage that adds its CPU seconds to the cells."""
    name = f"{stage.__name__} CPU s"

    def timed(*given: object, **named: object) -> object:
        begun = process_time()
        try:
            return stage(*given, **named)
        finally:
            cells[name] = float(cells.get(name, 0.0)) + process_time() - begun

    return timed


def in_order(path: str, memory: str) -> Cells:
    """Sort a table in memory by all columns into another table."""
    spill = str(Path(path).parent / "spill")
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": spill}) as con:
        con.execute(SOURCE, [path])
        begun = process_time()
        con.execute("CREATE TEMP TABLE sorted AS FROM source ORDER BY ALL")
        return {"sort CPU s": process_time() - begun}


def tiled(path: str) -> Cells:
    """Run Algorithm 3 in tiles that each have an equal share of every stratum of the table."""
    table = pq.read_table(path)
    points = zscore(np.column_stack([table[name].to_numpy() for name in QUASI_IDENTIFIERS]))
    _, codes, counts = np.unique(table["s"].to_numpy(), return_inverse=True, return_counts=True)
    tcloseness_first(points[:100], codes[:100], K, T)
    wall, cpu = perf_counter(), process_time()
    order, offsets = _dealt(points, codes)
    labels = _labels(points, codes, order, offsets)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    sizes = np.bincount(labels)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    emd = emd_per_class(reference(counts, "ordered"), codes[np.argsort(labels, kind="stable")], offsets)
    cells: Cells = {"wall s": wall, "CPU s": cpu, "peak RSS GB": peak()}
    cells |= {"information loss %": information_loss(points, labels)}
    return (
        cells
        | {"classes": len(sizes), "least size": int(sizes.min()), "largest EMD": float(emd.max())}
        | {"classes beyond t": int(np.count_nonzero(emd > T))}
    )


def _dealt(
    points: NDArray[np.float64], codes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records tile by tile, and the begin of each tile; each stratum is cut by all coordinates."""
    n, d = points.shape
    parts = [1] * d
    while n > TILE * np.prod(parts):
        parts[int(np.argmin(parts))] *= 2
    strata = class_size(n, K, T)
    tile = np.empty(n, np.int64)
    tile[np.argsort(codes, kind="stable")] = np.arange(n) * strata // n
    for column, cuts in zip(points.T, parts, strict=True):
        # Cut every part into equal parts along the next coordinate.
        order, sizes = np.lexsort([column, tile]), np.bincount(tile)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        part = (np.arange(n) - first) * cuts // np.repeat(sizes, sizes)
        tile[order] = tile[order] * cuts + part
    tile %= int(np.prod(parts))
    return np.argsort(tile, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(tile))])


def _labels(
    points: NDArray[np.float64],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the classes of Algorithm 3, tile after tile."""
    labels, count = np.empty(len(points), np.int64), 0
    for first, last in pairwise(offsets):
        records = order[first:last]
        own = tcloseness_first(points[records], codes[records], K, T)
        labels[records] = own + count
        count += int(own.max()) + 1
    return labels


def yardsticks(path: str) -> Cells:
    """Return the CPU time of exact MDAV of 100,000 records, and of DuckDB's sort and write of all records."""
    # Each is the median of three runs, after one warm-up.
    table = pq.read_table(path, columns=list(QUASI_IDENTIFIERS))
    points = np.column_stack([column.to_numpy() for column in table.columns])[:MDAV_RECORDS]
    return {"MDAV CPU s": _cpu(lambda: mdav(points, K)), "DuckDB CPU s": _cpu(lambda: _sorted(path))}


def _sorted(path: str) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE sorted AS FROM read_parquet(?) ORDER BY ALL", [path])


def _cpu(work: Callable[[], object]) -> float:
    """Return the median CPU time of three runs."""
    work()
    taken = []
    for _ in range(3):
        begun = process_time()
        work()
        taken.append(process_time() - begun)
    return statistics.median(taken)


@contextlib.contextmanager
def most_bytes(folder: Path) -> Iterator[list[int]]:
    """Yield the bytes of the files in a folder, measured ten times a second."""
    found, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            with contextlib.suppress(OSError):
                found.append(sum(entry.stat().st_size for entry in os.scandir(folder)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def peak() -> float:
    """Return the largest resident memory of this process so far, in GB of 10^9 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


STEPS: dict[str, Callable[..., Cells]] = {
    "data": data,
    "release": release,
    "stages": stages,
    "in_order": in_order,
    "tiled": tiled,
    "yardsticks": yardsticks,
}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](**json.loads(sys.argv[2]))))
