"""CPU time of the partition kernels relative to a straightforward MDAV in numpy, in one run.

Run from the repository: ``python -m benchmarks.bench_kernels``. Times are CPU seconds of the process, medians
of three runs, without compilation. The data are a seeded mixture of 20 normal distributions.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.numpy_mdav import numpy_mdav
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.tcloseness_first import stratified_parts
from duckanon.kernels.loss import information_loss
from duckanon.kernels.points import zscore

if TYPE_CHECKING:
    from collections.abc import Callable

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

BESIDE_NUMPY = ((1_000, 5, 5), (10_000, 5, 3), (10_000, 5, 5), (10_000, 5, 10), (5_000, 20, 5))
CASES_WITHOUT_PEER = ((30_000, 5, 5), (100_000, 5, 5))
LEAST_RATIO = 8.0
MOST_SECONDS = 6.0


def mixture(n: int, d: int) -> Points:
    """Return n z-scored records from 20 normal distributions with different means and widths."""
    draw = np.random.default_rng(2026)
    centres, widths = draw.normal(0.0, 3.0, (20, d)), draw.uniform(0.3, 1.2, (20, d))
    component = draw.integers(0, 20, n)
    return zscore(centres[component] + draw.normal(size=(n, d)) * widths[component])


def timed(run: Callable[[], Labels]) -> tuple[float, Labels]:
    """Return the median CPU seconds of three runs, and the labels."""
    seconds = []
    for _ in range(3):
        start = process_time()
        labels = run()
        seconds.append(process_time() - start)
    return median(seconds), labels


def main() -> None:
    """Print one line a case and one a bar."""
    warm = mixture(500, 5)
    mdav(warm, 5)
    stratified_parts(warm, warm[:, 0], 5, len(warm))
    print(f"{'records x d, k':<18}{'numpy s':>10}{'mdav s':>10}{'ratio':>8}{'IL numpy':>11}{'IL mdav':>11}")
    bars = {}
    for n, d, k in BESIDE_NUMPY + CASES_WITHOUT_PEER:
        points = mixture(n, d)
        seconds, labels = timed(partial(mdav, points, k))
        bars[n, d, k] = [seconds]
        line = f"{n:>7,} x {d:<2}, {k:<4}"
        numpy_text, ratio_text, loss_text = "-", "-", "-"
        if (n, d, k) in BESIDE_NUMPY:
            numpy_seconds, numpy_labels = timed(partial(numpy_mdav, points, k))
            bars[n, d, k].append(numpy_seconds / seconds)
            numpy_text, ratio_text = f"{numpy_seconds:.4f}", f"{numpy_seconds / seconds:.1f}"
            loss_text = f"{information_loss(points, numpy_labels):.6f}"
        loss = information_loss(points, labels)
        print(f"{line:<18}{numpy_text:>10}{seconds:>10.4f}{ratio_text:>8}{loss_text:>11}{loss:>11.6f}")
    points = mixture(10_000, 5)
    seconds, _ = timed(partial(stratified_parts, points, points[:, 0], 5, len(points)))
    print(f"t-closeness-first, 10,000 x 5, class size 5: {seconds:.4f} s")
    ratio, large = bars[10_000, 5, 5][1], bars[100_000, 5, 5][0]
    print(f"bar: {ratio:.1f} times less than numpy at 10,000 x 5, k = 5 (at least {LEAST_RATIO:g})")
    print(f"bar: {large:.2f} CPU s at 100,000 x 5, k = 5 (less than {MOST_SECONDS:g})")
    if ratio < LEAST_RATIO or large >= MOST_SECONDS:
        raise SystemExit("a bar is missed")


if __name__ == "__main__":
    main()
