"""Refinement: exchanges and rebuilt neighbourhoods that lower the loss and keep every threshold.

`refine` first exchanges records between neighbouring classes, and moves them where sizes allow, as long as
the exact SSE falls. Then neighbourhoods of classes are dissolved, formed anew around random or far seeds, and
refined in the same way. A new neighbourhood is kept if its SSE is less, or, with `worse` above 0, at random
if it is a little more. A search that accepts only improvements ends where no single neighbourhood can be
better. A class that satisfies every threshold is never replaced by one that does not, unless the violations
of all classes together become less. A pass takes O(n (k + log n) d), each rebuilt neighbourhood constant
work. Classes that merging has made very large (`search.LARGE_CLASS_RECORDS`) take no part.

`reduce_violations` repairs t, l and c by exchanges. A violation has a price in SSE that grows from pass to
pass. For one record beyond a threshold the price begins at twice the mean squared distance to the centre, and
grows to two hundred times that.

Both are deterministic, unless `stop` ends them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.exchange.exchange import ANY_EXCHANGES, sweep
from duckanon.kernels.exchange.rebuild import empty_neighbourhood, rebuild
from duckanon.kernels.exchange.state import Search, labels_of, near_records, neighbours, search_of, sse_left
from duckanon.kernels.loss import sse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.rebuild import Neighbourhood
    from duckanon.kernels.exchange.state import ExchangeState

Stop = Callable[[], bool]
"""Tells whether a search is to end now."""

Effort = Literal["fast", "balanced", "best"]

STRICT_PRICE = 1e9
"""SSE that one record beyond a threshold costs, in units of the mean squared distance to the centre."""

USUAL_CLASS_RECORDS, USUAL_COLUMNS = 3, 13
"""Class size and coordinates for which `Work.rebuilds` is stated. With larger classes or more coordinates a
neighbourhood costs more, and fewer are rebuilt.
"""

LIMITED_COST_FACTOR = 64
"""A neighbourhood under thresholds costs about this many times as much to rebuild."""

LIMITED_MAX_CLASSES = 5
"""Most classes of a neighbourhood under thresholds."""

FULL_PASSES_MAX_RECORDS = 500_000
"""Larger tables under thresholds make half the passes: of eight passes, the last four took two fifths of the
time and gave a thirtieth of the loss. Then a pair of classes makes at most one exchange a pass, and each pass
looks at one neighbour more than the pass before. That lost less, in less time, than exchanging within a pair
until nothing gains.
"""

FIRST_PRICE, LAST_PRICE = Decimal(2), Decimal(400)
"""Price of one record beyond a threshold, in units of the mean squared distance to the centre."""

SWEEPS_A_LEVEL = 2
"""Passes at each price."""

COOLING_SHARE, COOLING_MIN_ROUNDS = 0.7, 80
"""Share of the rounds in which rebuilt neighbourhoods may be worse, by less and less, and the fewest such
neighbourhoods for each class: with fewer the search loses more than it finds.
"""

FIRST_PIECE_NEIGHBOURHOODS, SHORT_PIECE_SECONDS = 8, 0.1
"""Neighbourhoods rebuilt before the first call of `stop`; the number doubles as long as a piece takes less
than this many seconds. Without compilation one neighbourhood may take a twentieth. The result does not depend
on it.
"""


@dataclass(frozen=True)
class Work:
    """How much work a refinement does."""

    neighbours: int  # nearest classes with which a class exchanges records
    sweeps: int  # passes over all classes and their neighbours
    enough: float  # the passes end when a pass gains less than this share of the remaining SSE
    levels: int  # steps in which the price of a violation grows
    rebuilds: int  # neighbourhoods that are rebuilt in the whole table; a tile gets its share
    classes: int  # most classes of such a neighbourhood
    rounds: int  # how often the neighbours are searched anew in the meantime


WORK: dict[Effort, Work] = {
    "fast": Work(9, 4, 0.01, 6, 0, 0, 0),
    "balanced": Work(9, 8, 0.002, 9, 60_000, 8, 8),
    "best": Work(14, 12, 0.0005, 14, 400_000, 14, 20),
}
"""What each effort means; counted in work, so that a result does not depend on the machine."""


def refine(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    codes: NDArray[np.int64] | Sequence[ArrayLike] = (),
    thresholds: Sequence[Threshold] = (),
    effort: Effort = "balanced",
    share: float = 1.0,
    seed: int = 0,
    worse: float = 0.0,
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes (n,), 0..m'-1, with at most the given SSE, at least k records and no more violation."""
    # Each given class has at least k records. `share`, 0 to 1, is the part of the work for this table: its
    # share of the records if it is a tile. `seed` seeds the random choices. `worse`, at least 0: the most by
    # which a rebuilt neighbourhood may be worse in the first round, in units of the mean SSE of a class; the
    # best partition at the end of a round is returned. `stop` is called between passes and during rebuilding,
    # and ends the search when it returns True.
    if effort not in WORK or not 0.0 <= share <= 1.0:
        raise ValueError(f"effort must be one of {', '.join(WORK)}, share within 0..1, not {effort}, {share}")
    if not worse >= 0.0:
        raise ValueError(f"worse must be at least 0, not {worse}")
    work, search = WORK[effort], search_of(points, labels, k, codes, thresholds)
    if not search.moving.any():
        return labels_of(search)
    if len(thresholds):
        # The least violation is one unit of an edge sum, and no gain in SSE may outweigh it.
        least = 2.0 * len(search.labels) * float(search.state.rules.table["whole"].max())
        search = search.at_price(max(STRICT_PRICE, least))
    many = len(thresholds) > 0 and len(search.labels) > share * FULL_PASSES_MAX_RECORDS
    _passes(search, work, work.sweeps // 2 if many else work.sweeps, stop, hasty=many)
    n, d = search.state.points.shape
    size = max(k, n / np.count_nonzero(search.state.size))
    rebuilds = _rebuilds(work, share, size, d, limited=len(thresholds) > 0)
    return _rebuilt(search, work, rebuilds, seed, worse, stop)


def _rebuilds(work: Work, share: float, size: float, columns: int, *, limited: bool) -> int:
    """Return how many neighbourhoods are rebuilt, for classes of `size` records."""
    count = int(work.rebuilds * share * USUAL_CLASS_RECORDS / size / max(1.0, columns / USUAL_COLUMNS))
    return count // LIMITED_COST_FACTOR if limited else count


def _rounds(work: Work, rebuilds: int, classes: int) -> int:
    """Return how often neighbours are searched: after some work on every class, as a search is expensive."""
    return min(work.rounds, 4 * rebuilds // (classes + 1))


def reduce_violations(
    points: ArrayLike,
    labels: ArrayLike,
    k: int,
    *,
    codes: NDArray[np.int64] | Sequence[ArrayLike],
    thresholds: Sequence[Threshold],
    effort: Effort = "balanced",
    stop: Stop | None = None,
) -> NDArray[np.int64]:
    """Return classes (n,) that violate the thresholds less; `merge_classes` repairs what remains."""
    work, search = WORK[effort], search_of(points, labels, k, codes, thresholds)
    for price in _prices(work.levels):
        if not (search.state.violation > 0.0).any():
            break
        _passes(search.at_price(price), work, SWEEPS_A_LEVEL, stop)
    return labels_of(search)


def _prices(levels: int) -> list[float]:
    """Return prices from the first to the last in equal ratios, with digits that no processor rounds."""
    with localcontext(Context(prec=28)):
        ratio = LAST_PRICE / FIRST_PRICE
        return [float(FIRST_PRICE * ratio ** (Decimal(level) / (levels - 1))) for level in range(levels)]


def _passes(search: Search, work: Work, most: int, stop: Stop | None, *, hasty: bool = False) -> None:
    """Exchange between neighbours until a pass gains little; `hasty`: see `FULL_PASSES_MAX_RECORDS`."""
    state = search.state
    seen = np.full(len(state.size), -1)
    squares = float(np.sum(np.square(state.points)))
    for number in range(most):
        if stop is not None and stop():
            return
        near = neighbours(state, work.neighbours + number if hasty else work.neighbours)
        gain = sweep(state, near, seen, 1 if hasty else ANY_EXCHANGES)
        if gain <= work.enough * sse_left(state, squares):
            return


def _rebuilt(
    search: Search, work: Work, rebuilds: int, seed: int, worse: float, stop: Stop | None
) -> NDArray[np.int64]:
    """Return the labels after rounds of rebuilding neighbourhoods, until a round gains nothing."""
    # Of the partition at the start and those at the ends of rounds, the best is returned: least violations,
    # then least SSE.
    state = search.state
    count = int(np.count_nonzero(state.size))
    rounds = _rounds(work, rebuilds, count)
    best = labels_of(search)
    if not rounds:
        return best
    # Classes that merging has made very large are in no neighbourhood; the sweeps handle them.
    typical = int(3 * np.median(state.size[state.size > 0]))
    classes = 1 + (min(work.classes, LIMITED_MAX_CLASSES) if len(state.codes) else work.classes)
    neighbourhood = empty_neighbourhood(classes, classes * min(state.bounds.most, typical))
    random_state = np.array([(seed + 1) % 2**64], dtype=np.uint64)
    least = _loss(state)
    cooling = COOLING_SHARE * rounds if rebuilds >= COOLING_MIN_ROUNDS * count else 0.0
    for turn in range(rounds):
        if stop is not None and stop():
            break
        most = worse * least[1] / count * (1.0 - turn / cooling) if turn < cooling else 0.0
        gain = _round(search, work, rebuilds // rounds, neighbourhood, random_state, most, stop)
        loss = _loss(state)
        if loss < least:
            best, least = labels_of(search), loss
        if gain <= 0.0 and not most:
            break
    return best


def _round(
    search: Search, work: Work, rebuilds: int, neighbourhood: Neighbourhood,
    random_state: NDArray[np.uint64], worse: float, stop: Stop | None,
) -> float:  # fmt: skip
    """Rebuild `rebuilds` neighbourhoods with the neighbours as they are now; return the gain."""
    state, around = search.state, max(work.neighbours, work.classes)
    near = neighbours(state, around)
    records = near_records(state, around)
    free = np.full(len(state.size), -1)
    empty = np.flatnonzero(state.size == 0)
    free[: len(empty)] = empty
    gain, left, piece = 0.0, rebuilds, FIRST_PIECE_NEIGHBOURHOODS
    while left > 0 and not (stop is not None and stop()):
        begun = perf_counter()
        gain += rebuild(state, near, records, free, min(left, piece), neighbourhood, random_state, worse)
        left -= piece
        piece *= 2 if perf_counter() - begun < SHORT_PIECE_SECONDS else 1
    return gain


def _loss(state: ExchangeState) -> tuple[float, float]:
    """Return the violations of all classes together, and the SSE of all records that take part."""
    dense = np.unique(state.label, return_inverse=True)[1]
    return float(np.sum(state.violation)), sse(state.points, dense)
