"""CPU time of the exchange of records relative to the slow reference kernel of the tests, in one run.

Run from the repository: ``python -m benchmarks.bench_exchange``. A tile of 16,384 x 5 records, k = 5. Classes
are made by t-closeness-first with t = 0.1 and merging (by MDAV for k alone). Passes and neighbours are those
of effort 'balanced' with `refine`. Figures are CPU seconds of the passes alone without compilation, medians
of five rounds. A round is one run of the slow kernel, with four runs of the fast kernel before and four after
it, which together take about as long: other load of the machine then slows both. Both kernels must do the
same exchanges.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from statistics import fmean, median
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.bars import Results, shrunk
from benchmarks.bench_kernels import mixture
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import compose
from duckanon.kernels.exchange.exchange import ANY_EXCHANGES, sweep
from duckanon.kernels.exchange.refine import STRICT_PRICE, WORK
from duckanon.kernels.exchange.state import Search, neighbours, search_of
from duckanon.kernels.recipes import Recipe
from tests.kernels.slow_exchange import slow_state_of, slow_sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from duckanon.kernels.exchange.state import ExchangeState

N, D, K, VALUES, ROUNDS, RUNS = 16_384, 5, 5, 12, 5, 4
T = Fraction(1, 10)
PATHS = np.array([[v, v // 2, v // 4, 0] for v in range(VALUES)])
"""Tree of height 3 with twelve values."""

AT_LEAST = {"ordered": 8.0, "equal": 4.0, "hierarchical": 4.0}
"""Least ratio of CPU seconds, slow kernel to fast kernel."""


def searches(points: NDArray[np.float64]) -> dict[str, tuple[list[NDArray[np.int64]], list[Threshold]]]:
    """Return codes and thresholds of each case, with numbers that all differ or with twelve values."""
    draw = np.random.default_rng(1)
    number = np.argsort(np.argsort(points[:, 0] + draw.normal(size=len(points))))
    kind = draw.permutation(np.arange(len(points)) % VALUES)

    def asked(codes: NDArray[np.int64], distance: Any, paths: Any = None, **wanted: Any) -> Threshold:
        return Threshold(reference(np.bincount(codes), distance, paths), **wanted)

    ordered = asked(number, "ordered", t=T)
    return {
        "ordered": ([number], [ordered]),
        "equal": ([kind], [asked(kind, "equal", t=T)]),
        "hierarchical": ([kind], [asked(kind, "hierarchical", PATHS, t=T)]),
        "ordered, and l = 3": ([number, kind], [ordered, asked(kind, "equal", l=Decimal(3))]),
        "k alone": ([], []),
    }


def passes(state: Any, run: Callable[..., float]) -> float:
    """Return the CPU seconds of the passes of a kernel over its state."""
    seen, seconds = np.full(len(state.size), -1), 0.0
    for _ in range(WORK["balanced"].sweeps):
        beside = neighbours(state, WORK["balanced"].neighbours)
        start = process_time()
        run(state, beside, seen, ANY_EXCHANGES)
        seconds += process_time() - start
    return seconds


def prepared(
    points: NDArray[np.float64], codes: list[NDArray[np.int64]], thresholds: list[Threshold]
) -> Callable[[], Search]:
    """Return a function that starts the same search at every call."""
    start = "tcloseness_first" if thresholds else "mdav"
    labels = compose(points, codes, K, thresholds, Recipe(start, K))
    return lambda: search_of(points, labels, K, codes, thresholds).at_price(STRICT_PRICE)


class Round(NamedTuple):
    """CPU seconds of a run of each kernel (of the fast one the mean), and both final states."""

    slow_seconds: float
    seconds: float
    state: ExchangeState


def one_round(name: str, search: Callable[[], Search]) -> Round:
    """Run both kernels from the same start."""
    before = [passes(search().state, sweep) for _ in range(RUNS)]
    state = search().state
    beside = slow_state_of(state)
    slow_seconds = passes(beside, slow_sweep)
    after = [passes(search().state, sweep) for _ in range(RUNS - 1)]
    after.append(passes(state, sweep))
    if not np.array_equal(state.members, beside.members):
        raise AssertionError(f"{name}: not the same exchanges")
    return Round(slow_seconds, fmean(before + after), state)


def main() -> int:
    """Print one line a case and one a bar."""
    results = Results("bench_exchange")
    points = mixture(shrunk(N, 1000), D)
    for name, (codes, thresholds) in searches(points).items():
        search = prepared(points, codes, thresholds)
        # The first round compiles.
        rounds = [one_round(name, search) for _ in range(ROUNDS + 1)][1:]
        state = rounds[0].state
        share = median(each.seconds / each.slow_seconds for each in rounds)
        classes = int(np.count_nonzero(state.size))
        results.row(
            f"{WORK['balanced'].sweeps} passes over {len(points):,} x {D} records, k = {K}",
            sensitive=name, classes=classes, exchanges=int(state.touched[-1]) // 2,
            **{
                "slow CPU s": median(each.slow_seconds for each in rounds),
                "CPU s": median(each.seconds for each in rounds), "ratio": 1 / share,
            },
        )  # fmt: skip
        if name in AT_LEAST:
            results.bar(f"{name}: share of the CPU time of the slow kernel", share, 1 / AT_LEAST[name])
    return results.exit_code()


if __name__ == "__main__":
    raise SystemExit(main())
