"""Method 'auto' compared with the best published method of the same guarantee, on tables of many shapes.

Run from the repository: ``python -m benchmarks.bench_never_worse``. Each cell is a table with a k, and
optionally a t or an l. Losses are ratios to the least loss of all published methods that keep the same
thresholds. No published method keeps l: there the methods for points are followed by Algorithm 1, which
merges until every class has l values. Releases by SQL, with several tiles or suppression, are compared with
published methods that do the same. There a suppressed record counts as lost altogether, and all values of the
sensitive column have equal distances. CPU seconds include kernels that a cell is the first to compile.
"""

from __future__ import annotations

import re
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.bars import SHRINK, Results
from duckanon import DuckanonWarning, Policy, anonymize, connect, information_loss, partition
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import compose, merged
from duckanon.kernels.recipes import recipes
from duckanon.literature.registry import PUBLISHED, Task, run_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from duckanon.kernels.exchange.refine import Effort

EFFORTS: tuple[Effort, ...] = ("fast", "balanced", "best")
MAX_LOSS_RATIO: dict[Effort, float] = {"fast": 1.05, "balanced": 1.0}
SHRUNK_MAX_RECORDS = 300
"""Largest number of records of a cell in a shrunk run."""

ROUNDING = 1e-9
"""Relative difference below which two losses are equal, since sums in another order are rounded otherwise."""


class LossCell(NamedTuple):
    """A table of some shape, k, and optionally t or l distinct values."""

    kind: str
    n: int
    d: int
    k: int
    t: str | None = None
    values: int | None = None


CELLS = (
    LossCell("gauss", 30, 1, 3),
    LossCell("gauss", 30, 12, 3),
    LossCell("clusters", 60, 2, 3),
    LossCell("heavy tails", 100, 1, 5),
    LossCell("heavy tails", 120, 3, 5),
    LossCell("categories", 150, 3, 5),
    LossCell("mixed", 200, 4, 5),
    LossCell("uniform", 250, 2, 10),
    LossCell("clusters", 300, 5, 5),
    LossCell("text", 400, 3, 4),
    LossCell("categories", 500, 6, 5),
    LossCell("heavy tails", 600, 2, 5),
    LossCell("ties", 700, 1, 5),
    LossCell("mixed", 800, 5, 5),
    LossCell("clusters", 1000, 12, 5),
    LossCell("gauss", 1000, 8, 20),
    LossCell("heavy tails", 2000, 4, 2),
    LossCell("ties", 3000, 2, 5),
    LossCell("clusters", 10_000, 5, 5),
    LossCell("gauss", 20_000, 2, 5),
    LossCell("clusters", 60, 2, 3, t="0.2"),
    LossCell("heavy tails", 120, 3, 5, t="0.3"),
    LossCell("categories", 150, 3, 5, t="0.2"),
    LossCell("ties", 300, 1, 5, t="0.1"),
    LossCell("mixed", 800, 5, 5, t="0.2"),
    LossCell("gauss", 2000, 3, 10, t="0.05"),
    LossCell("clusters", 60, 2, 3, values=2),
    LossCell("categories", 150, 3, 5, values=3),
    LossCell("mixed", 300, 4, 2, values=4),
    LossCell("clusters", 1000, 5, 5, values=3),
    LossCell("few values", 60, 3, 4),
    LossCell("equal records", 400, 2, 5),
    LossCell("few values", 800, 2, 5, t="0.1"),
    LossCell("equal records", 300, 1, 3, t="0.5"),
    LossCell("clusters", 250, 1, 7, values=3),
    LossCell("equal records", 400, 2, 8, values=2),
)


RELEASES = (
    (LossCell("heavy tails", 12_000, 2, 4), "0"),
    (LossCell("ties", 25_000, 1, 9), "0"),
    (LossCell("mixed", 30_000, 4, 8), "0"),
    (LossCell("heavy tails", 33_000, 2, 4, values=2), "0"),
    (LossCell("mixed", 20_000, 4, 5, t="0.2"), "0"),
    (LossCell("heavy tails", 150, 2, 3, t="0.2"), "0.05"),
    (LossCell("categories", 250, 3, 5, values=2), "0.05"),
    (LossCell("mixed", 900, 4, 5, t="0.1"), "0.03"),
    (LossCell("clusters", 700, 2, 4, t="0.3"), "0.1"),
    (LossCell("heavy tails", 20_000, 2, 5, t="0.3"), "0.02"),
)
"""Released tables, with `suppression_limit`."""


def table(cell: LossCell) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return z-scored points of at least d columns, and sensitive values (n,) that follow column 1."""
    random, shape = np.random.default_rng([2026, cell.n, cell.d]), (cell.n, cell.d)
    noise = random.normal(size=shape) / 10
    centres = random.normal(size=(max(2, cell.n // 17), cell.d)) * 10
    letters = np.minimum(random.geometric(0.4, shape), 6) - 1
    points = {
        "gauss": lambda: random.normal(size=shape),
        "uniform": lambda: random.uniform(size=shape),
        "clusters": lambda: centres[random.integers(0, len(centres), cell.n)] + noise,
        "heavy tails": lambda: random.standard_cauchy(size=shape),
        "ties": lambda: np.floor(random.normal(size=shape) * 20),
        "few values": lambda: random.integers(0, 2, shape).astype(np.float64),
        "equal records": lambda: random.normal(size=shape)[random.integers(0, cell.n // 5, cell.n)],
        "categories": lambda: random.integers(0, 5, shape).astype(np.float64),
        "text": lambda: np.hstack([np.eye(6)[column] for column in letters.T]),
        "mixed": lambda: np.hstack(
            [random.normal(size=(cell.n, 2)), np.exp(random.normal(size=(cell.n, 1))), letters[:, 3:]]
        ),
    }[cell.kind]()
    spread = points.std(axis=0)
    sensitive = np.floor(4 * points[:, 0] / (spread[0] or 1.0) + 2 * random.normal(size=cell.n))
    scores = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scores, np.clip(sensitive, -12, 12).astype(np.int64)


def limits(cell: LossCell, sensitive: NDArray[np.int64]) -> tuple[NDArray[np.int64], Threshold]:
    """Return the code of each record and the threshold, for a cell with t or l."""
    _, codes, counts = np.unique(sensitive, return_inverse=True, return_counts=True)
    asked = {"t": Fraction(cell.t)} if cell.t else {"l": Decimal(cell.values or 1)}
    return codes.astype(np.int64), Threshold(reference(counts, "ordered"), **asked)


def published(
    cell: LossCell, points: NDArray[np.float64], sensitive: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield by name the classes of every published method that keeps the thresholds of the cell."""
    codes, threshold = limits(cell, sensitive)
    for name, entry in PUBLISHED.items():
        if name == "univariate" and points.shape[1] > 1:
            continue
        if cell.t:
            if entry.keeps != "k" and re.search(r"\bt( where given: always)?$", entry.method.guarantees):
                yield name, partition(points, cell.k, name, sensitive=sensitive, t=cell.t, scale="none")
        elif not entry.needs_t:
            labels = run_named(name, Task(points, cell.k), {})
            if cell.values:
                labels = merged(points, [codes], [threshold], labels, "nearest")
            yield name, labels


def own(
    cell: LossCell, points: NDArray[np.float64], sensitive: NDArray[np.int64], effort: Effort
) -> NDArray[np.int64]:
    """Return the classes of 'auto'."""
    if not cell.values:
        asked = {"sensitive": sensitive, "t": cell.t} if cell.t else {}
        return partition(points, cell.k, scale="none", refine=True, effort=effort, **asked)
    codes, threshold = limits(cell, sensitive)
    n, columns = points.shape
    tried = recipes(n, cell.k, [threshold], effort, largest=n, columns=columns)
    found = [compose(points, [codes], cell.k, [threshold], recipe) for recipe in tried]
    return min(found, key=lambda labels: information_loss(points, labels))


def ratio_of(loss: float, published: float) -> float:
    """Return the ratio of two losses: 1 if they are equal up to rounding, also for 0 to 0."""
    if abs(loss - published) <= ROUNDING * max(loss, published, ROUNDING):
        return 1.0
    return loss / max(published, ROUNDING)


def measure(results: Results, cell: LossCell) -> dict[Effort, tuple[float, float]]:
    """Print a line; return by effort the loss, and its ratio to the best published loss."""
    points, sensitive = table(cell)
    losses = {name: information_loss(points, labels) for name, labels in published(cell, points, sensitive)}
    best = min(losses, key=lambda name: losses[name])
    found: dict[Effort, tuple[float, float]] = {}
    cells: dict[str, float | str | None] = {}
    for effort in EFFORTS:
        start = process_time()
        labels = own(cell, points, sensitive, effort)
        seconds = process_time() - start
        if np.bincount(labels).min() < cell.k:
            raise SystemExit(f"a class of {np.bincount(labels).min()} records where k = {cell.k}")
        loss = information_loss(points, labels)
        ratio = ratio_of(loss, losses[best])
        found[effort] = loss, ratio
        cells |= {effort: ratio, f"{effort} CPU s": round(seconds, 2)}
    keeps = f"t = {cell.t}" if cell.t else f"l = {cell.values}" if cell.values else "k alone"
    shape: dict[str, float | str] = {"shape": f"{cell.kind} {cell.n} x {cell.d}", "k": cell.k, "keeps": keeps}
    shape |= {"best published": best, "its loss": losses[best]}
    results.row("Loss of 'auto', refined, as a ratio to the best published method", **shape, **cells)
    return found


def measure_release(results: Results, cell: LossCell, limit: str) -> dict[Effort, tuple[float, float]]:
    """Print a line of a release; return by effort the loss, and its ratio to the best published loss."""
    points, sensitive = table(cell)
    columns = {f"x{number}": column for number, column in enumerate(points.T)}
    asked: dict[str, str] = {"t": cell.t} if cell.t else {"l": str(cell.values)} if cell.values else {}
    others = ["mondrian"]
    if not asked:
        others += ["blocks", *(["univariate"] if len(columns) == 1 else [])]
    losses: dict[str, float] = {}
    cells: dict[str, float | str | None] = {}
    with connect() as con, warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        con.duckdb.register("given", pa.table({**columns, "s": sensitive}))
        con.sql("CREATE TABLE people AS FROM given")

        def lost(method: str, **more: str) -> float:
            given: dict[str, Any] = {"quasi_identifiers": [*columns], "sensitive": "s", "k": cell.k, **asked}
            given |= {"distance": {"s": "equal"}, "suppression_limit": limit if asked else 0, **more}
            report = anonymize(
                con, "people", Policy(**given, method=method), name="v", or_replace=True
            ).report
            told = {measure.measure: measure.value or 0.0 for measure in report.measures}
            gone = told["suppressed_records"] / cell.n
            return (1 - gone) * told["information_loss"] + gone * 100

        losses = {name: lost(name) for name in others}
        best = min(losses, key=lambda name: losses[name])
        found: dict[Effort, tuple[float, float]] = {}
        for effort in EFFORTS:
            start = process_time()
            loss = lost("auto", effort=effort)
            found[effort] = loss, ratio_of(loss, losses[best])
            cells |= {effort: found[effort][1], f"{effort} CPU s": round(process_time() - start, 2)}
    keeps = f"t = {cell.t}" if cell.t else f"l = {cell.values}" if cell.values else "k alone"
    shape: dict[str, float | str] = {"shape": f"{cell.kind} {cell.n} x {cell.d}", "k": cell.k, "keeps": keeps}
    shape |= {"suppression_limit": limit, "best published": best, "its loss": losses[best]}
    results.row("Loss of releases by 'auto', as a ratio to the best published method", **shape, **cells)
    return found


def main() -> int:
    """Print one line a cell and one a bar."""
    results = Results("bench_never_worse")
    measured = [measure(results, cell) for cell in CELLS if SHRINK == 1 or cell.n <= SHRUNK_MAX_RECORDS]
    measured += [
        measure_release(results, *one) for one in RELEASES if SHRINK == 1 or one[0].n <= SHRUNK_MAX_RECORDS
    ]
    for effort, most in MAX_LOSS_RATIO.items():
        ratio = max(found[effort][1] for found in measured)
        results.bar(f"effort {effort!r}: largest ratio to the best published loss", ratio, most)
    rises = 0
    for found in measured:
        losses = [loss for loss, _ in found.values()]
        rises += any(b > a * (1 + ROUNDING) for a, b in pairwise(losses))
    results.bar("cells in which a higher effort loses more", rises, 0)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
