"""Information loss under k and t on the Census data: refined classes compared with Algorithm 3 as published.

Run from the repository: ``python -m benchmarks.bench_tclose``. Quasi-identifiers are TAXINC and POTHVAL,
z-scored; FEDTAX or FICA is sensitive. Every refined partition is audited exactly, in class sizes and in EMD
as fractions.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import product
from statistics import fmean
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.bars import Results, reference_table
from duckanon import information_loss, partition
from duckanon.kernels.closeness.emd import emd_fraction
from duckanon.kernels.closeness.reference import reference

COLUMNS = ("TAXINC", "POTHVAL", "FEDTAX", "FICA")
BARS = {
    ("FEDTAX", 2, "0.09"): 51.0,
    ("FEDTAX", 2, "0.17"): 37.2,
    ("FEDTAX", 2, "0.25"): 36.3,
    ("FEDTAX", 5, "0.25"): 17.4,
    ("FICA", 2, "0.09"): 23.7,
    ("FICA", 2, "0.17"): 10.2,
    ("FICA", 2, "0.25"): 5.6,
    ("FICA", 5, "0.10"): 22.1,
    ("FICA", 5, "0.25"): 3.7,
}
GRID = tuple(product(("FICA",), (2, 3, 5, 10), ("0.05", "0.09", "0.13", "0.17", "0.21", "0.25")))
MOST_OF_ALGORITHM_3 = 0.5
TABLE = "Census, TAXINC and POTHVAL: information loss in % under k and t"

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cell = tuple[str, int, str]


def audit(labels: NDArray[np.int64], sensitive: NDArray[np.float64]) -> tuple[int, Fraction]:
    """Return the smallest class size and the largest EMD of a class, both exact."""
    _, codes, counts = np.unique(sensitive, return_inverse=True, return_counts=True)
    whole = reference(counts, "ordered")
    sizes = np.bincount(labels)
    classes = np.split(codes[np.argsort(labels, kind="stable")], np.cumsum(sizes)[:-1])
    return int(sizes.min()), max(Fraction(*emd_fraction(whole, own)) for own in classes)


def measure(results: Results, table: NDArray[np.float64], cell: Cell) -> tuple[float, float, bool]:
    """Return the losses of Algorithm 3 and of the refined classes, and whether these pass the audit."""
    name, k, t = cell
    points, sensitive = table[:, :2], table[:, COLUMNS.index(name)]
    published = partition(points, k, "tcloseness_first", sensitive=sensitive, t=t)
    start = process_time()
    labels = partition(points, k, "auto", sensitive=sensitive, t=t, refine=True, effort="balanced")
    seconds = process_time() - start
    least, most = audit(labels, sensitive)
    losses = information_loss(points, published), information_loss(points, labels)
    cells = {"Algorithm 3": losses[0], "refined": losses[1], "at most": BARS.get(cell)}
    audited = {"classes": int(labels.max()) + 1, "least size": least, "largest EMD": float(most)}
    results.row(TABLE, sensitive=name, k=k, t=float(t), **cells, **audited, **{"CPU s": round(seconds, 2)})
    return *losses, least >= k and most <= Fraction(t)


def main() -> int:
    """Print one line a cell and one a bar."""
    results = Results("bench_tclose")
    table = reference_table("census.csv", COLUMNS)
    if table is None:
        results.not_run("census.csv")
        return results.exit_code()
    partition(table[:200, :2], 2, "auto", sensitive=table[:200, 2], t="0.25", refine=True)
    measured = {cell: measure(results, table, cell) for cell in dict.fromkeys((*BARS, *GRID))}
    for cell, bar in BARS.items():
        name, k, t = cell
        results.bar(f"information loss, {name}, k = {k}, t = {t}", measured[cell][1], bar)
    published, refined = (fmean(measured[cell][place] for cell in GRID) for place in (0, 1))
    text = f"FICA, mean of {len(GRID)} cells, {refined:.2f} % beside {published:.2f} % of Algorithm 3: ratio"
    results.bar(text, refined / published, MOST_OF_ALGORITHM_3)
    results.bar("cells that break k or t", sum(not passed for *_, passed in measured.values()), 0)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
