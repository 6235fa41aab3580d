"""Loss of streams by steered microaggregation and by CASTLE, at the same k and delay.

Run from the repository: ``python -m benchmarks.bench_castle``. `anonymize_stream` runs with default options;
only the scale goes from the least to the largest value of all tuples. Measured are the MSE over written
tuples (of class means, and of the middles of CASTLE's ranges) and the number of dropped tuples. A small
`order_weight` has its own column. On the longest delay steered microaggregation must lose less than CASTLE.
On shorter delays the cells in which it loses more are listed. The last figure is the speed of CASTLE's kernel
in tuples a CPU second.
"""

from __future__ import annotations

import sys
import warnings
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

import duckanon
from benchmarks.bars import ROOT, Results, reference_table, shrunk
from duckanon.kernels.castle.clusters import open_clusters
from duckanon.kernels.castle.stream import push

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

K, DELAYS, ORDER = 10, (30, 50, 100, 200, 500), 0.001
TUPLES, CENTRES, SPREAD = 20_000, 10, 0.05
MIN_TUPLES_PER_SECOND = 20_000
"""Bar of the kernel, in written tuples a CPU second."""

CENSUS = ("TAXINC", "POTHVAL")
INCOME = ("age", "weeks_worked", "wage_per_hour")


class StreamCell(NamedTuple):
    """Reports of both methods for a data set and a delay."""

    name: str
    delay: int
    steered: duckanon.StreamReport
    ordered: duckanon.StreamReport  # steered, with a small `order_weight`
    castle: duckanon.StreamReport

    @property
    def ratio(self) -> float:
        """MSE of steered microaggregation divided by that of CASTLE."""
        return (self.steered.mse or 0.0) / (self.castle.mse or 1.0)


def data_sets() -> Mapping[str, NDArray[np.float64] | None]:
    """Return the tuples of each data set in stream order; None if the data are missing."""
    columns = ", ".join(INCOME)
    query = f"SELECT {columns} FROM '{ROOT}/fixtures/census_income.parquet' LIMIT {shrunk(TUPLES, 1_000)}"
    found = duckdb.sql(query).fetchnumpy()
    random = np.random.default_rng(7)
    centres = random.random((CENTRES, 5))
    mixture = centres[random.integers(0, CENTRES, TUPLES)] + random.normal(0, SPREAD, (TUPLES, 5))
    return {
        "Census, TAXINC and POTHVAL": reference_table("census.csv", CENSUS),
        "census_income, age, weeks and wage": np.column_stack([np.asarray(found[c], float) for c in INCOME]),
        f"mixture of {CENTRES} Gaussians, 5 columns": mixture[: shrunk(TUPLES, 1_000)],
    }


def report(points: NDArray[np.float64], **options: object) -> duckanon.StreamReport:
    """Return the report of a stream of these tuples."""
    table = pa.table({f"q{place}": column for place, column in enumerate(points.T)})
    scale = {name: (points[:, i].min(), points[:, i].max()) for i, name in enumerate(table.column_names)}
    stream = duckanon.anonymize_stream(
        table.to_batches(), table.column_names, k=K, scale=scale, **options  # type: ignore[arg-type]
    )  # fmt: skip
    for _ in stream:
        pass
    return stream.report


def cells(sets: Mapping[str, NDArray[np.float64] | None]) -> Iterator[StreamCell]:
    """Yield the cells of each available data set, by delay."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", duckanon.DuckanonWarning)
        for name, points in sets.items():
            for delay in DELAYS if points is not None else ():
                yield StreamCell(
                    name, delay, report(points, delay=delay), report(points, delay=delay, order_weight=ORDER),
                    report(points, delay=delay, method="castle"),
                )  # fmt: skip


def speed() -> float:
    """Return tuples a CPU second of the kernel alone, on uniform tuples with a delay of 1,000."""
    points = np.random.default_rng(1).random((shrunk(200_000, 5_000), 5))
    seconds = []
    for _ in range(3):
        castle = open_clusters(5, K, delay=1_000, clusters=50, recent=100, reusable=1_000)
        begun = process_time()
        push(castle, points)
        seconds.append(process_time() - begun)
    return len(points) / min(seconds)


def main() -> int:
    """Print one line a cell and one a bar, and list the cells in which CASTLE loses less."""
    results = Results("bench_castle")
    sets = data_sets()
    worse = []
    for name, points in sets.items():
        if points is None:
            results.not_run(name)
    for cell in cells(sets):
        results.row(
            f"k = {K}", data=cell.name, delay=cell.delay,
            **{
                "MSE steered": cell.steered.mse, f"with order {ORDER:g}": cell.ordered.mse,
                "MSE castle": cell.castle.mse, "steered / castle": cell.ratio,
                "dropped steered": cell.steered.dropped, "dropped castle": cell.castle.dropped,
                "alone castle": cell.castle.alone, "mean width castle": cell.castle.mean_width,
            },
        )  # fmt: skip
        if cell.delay == max(DELAYS):
            # On shorter delays, clumps of about k tuples favour one method or the other: those cells are
            # listed below.
            results.bar(f"{cell.name}, delay {cell.delay}: MSE steered / castle", cell.ratio, 1.0)
        if cell.ratio >= 1:
            worse.append(f"{cell.name} at {cell.delay}")
    print("castle loses less in: " + ("; ".join(worse) or "no cell"), flush=True)
    tuples = speed()
    results.row("castle, the kernel alone", **{"tuples a CPU s": tuples})
    results.bar(
        f"castle: {MIN_TUPLES_PER_SECOND:,} tuples a CPU s / found", MIN_TUPLES_PER_SECOND / tuples, 1.0
    )
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
