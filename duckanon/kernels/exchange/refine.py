"""Refinement: exchanges and rebuilt neighbourhoods that lower the loss and keep every threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from duckanon.kernels.exchange.exchange import ANY_EXCHANGES, sweep
from duckanon.kernels.exchange.rebuild import empty_neighbourhood, rebuild
from duckanon.kernels.exchange.search import Search, labels_of, near_records, neighbours, search_of, sse_left
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
"""SSE, in units of the mean squared distance to the centre, that one record beyond a threshold counts as."""

USUAL_CLASS_RECORDS, USUAL_COLUMNS = 3, 13
"""Class size and coordinates that the number of rebuilt neighbourhoods speaks of: where there is more of
either, each costs more, and there are fewer."""

LIMITED_COST_FACTOR = 64
"""A neighbourhood with thresholds to keep costs about so many times as much to rebuild."""

LIMITED_MAX_CLASSES = 5
"""Most classes of a neighbourhood with thresholds to keep."""

FULL_PASSES_MAX_RECORDS = 500_000
"""A table of more records makes half the passes where thresholds are to be kept: of eight passes the last
four take two fifths of the time and a thirtieth of the loss. Then a pass makes one exchange at most of a pair
of classes, and looks at a neighbour more than the one before, which lost less in less time than to go on with
a pair until it has no more to give."""

FIRST_PRICE, LAST_PRICE = Decimal(2), Decimal(400)
"""Of one record beyond a threshold, in units of the mean squared distance to the centre."""

SWEEPS_A_LEVEL = 2
"""Passes at each price."""

COOLING_SHARE, COOLING_MIN_ROUNDS = 0.7, 80
"""Share of the rounds in which rebuilt neighbourhoods may be worse, less and less, and how many of them there
must be for each class: with fewer the search loses more than it finds."""

FIRST_PIECE_NEIGHBOURHOODS, SHORT_PIECE_SECONDS = 8, 0.1
"""Neighbourhoods rebuilt before the first question whether to stop, and twice as many each time that so many
seconds do not go by: as plain Python one may take a twentieth. What comes out does not depend on it."""


@dataclass(frozen=True)
class Work:
    """How much is tried.

    Attributes
    ----------
    neighbours : int
        Nearest classes with which a class exchanges records.
    sweeps : int
        Passes over all classes and their neighbours.
    enough : float
        Share of the remaining SSE below which the gain of a pass ends the passes.
    levels : int
        Steps in which the price of a violation grows.
    rebuilds : int
        Neighbourhoods that are taken apart and formed anew, in all; those of a tile are its share.
    classes : int
        Most classes of such a neighbourhood.
    rounds : int
        Times that the neighbours are searched anew meanwhile.
    """

    neighbours: int
    sweeps: int
    enough: float
    levels: int
    rebuilds: int
    classes: int
    rounds: int


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
    """Return classes with at most the SSE of the given ones, which keep k and violate no threshold more.

    Records are exchanged between neighbouring classes, and moved where sizes allow, as long as the exact SSE
    falls; then neighbourhoods of classes are taken apart, formed anew around random or far seeds, refined in
    the same way, and kept if their SSE is less.

    Parameters
    ----------
    points, labels, k, codes
        See `duckanon.kernels`; each class has at least k records.
    thresholds : sequence of S Threshold
        What a class satisfies, or what all classes violate no more than before.
    effort : {'fast', 'balanced', 'best'}
        See `WORK`.
    share : float
        Share of the work that this table gets, 0 to 1: its share of the records where it is a tile.
    seed : int
        Of the random choices.
    worse : float
        Most that a rebuilt neighbourhood may be worse in the first round, in units of the mean SSE of a
        class, at least 0: a search that never gives way ends where no single neighbourhood can be better.
        What is returned is the best that was seen, after a round.
    stop : callable, optional
        Asked between passes, and now and then while neighbourhoods are rebuilt: the search ends when it says
        True.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m'-1. A class that satisfies every threshold is never replaced by one that
        does not, unless the violations of all classes become less.

    Raises
    ------
    ValueError
        If labels, points, codes or thresholds do not fit together.

    Notes
    -----
    Deterministic without `stop`. O(n (k + log n) d) a pass, and constant work for each
    rebuilt neighbourhood. Classes that merging has made very large (`search.LARGE`) take no part.
    """
    if effort not in WORK or not 0.0 <= share <= 1.0:
        raise ValueError(f"effort must be one of {', '.join(WORK)}, share within 0..1, not {effort}, {share}")
    if not worse >= 0.0:
        raise ValueError(f"worse must be at least 0, not {worse}")
    work, search = WORK[effort], search_of(points, labels, k, codes, thresholds)
    if not search.moving.any():
        return labels_of(search)
    if len(thresholds):
        # The least violation is one unit of an edge sum; no gain may outweigh it.
        least = 2.0 * len(search.labels) * float(search.state.rules.table["whole"].max())
        search = search.at_price(max(STRICT_PRICE, least))
    many = len(thresholds) > 0 and len(search.labels) > share * FULL_PASSES_MAX_RECORDS
    _passes(search, work, work.sweeps // 2 if many else work.sweeps, stop, hasty=many)
    n, d = search.state.points.shape
    size = max(k, n / np.count_nonzero(search.state.size))
    rebuilds = _rebuilds(work, share, size, d, limited=len(thresholds) > 0)
    return _rebuilt(search, work, rebuilds, seed, worse, stop)


def _rebuilds(work: Work, share: float, size: float, columns: int, *, limited: bool) -> int:
    """Return how many neighbourhoods are rebuilt, of classes of a size."""
    count = int(work.rebuilds * share * USUAL_CLASS_RECORDS / size / max(1.0, columns / USUAL_COLUMNS))
    return count // LIMITED_COST_FACTOR if limited else count


def _rounds(work: Work, rebuilds: int, classes: int) -> int:
    """Return how often neighbours are searched for them: after some work for every class, else it is dear."""
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
    """Return classes that violate the thresholds less: the repair of t, l and c by exchanges of records.

    A violation has a price in SSE, which grows from pass to pass.

    Parameters
    ----------
    points, labels, k, codes, thresholds, effort, stop
        As in `refine`.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record; some may still violate a threshold, for `merge_classes`.

    Notes
    -----
    The price begins at twice the mean squared distance to the centre for one record beyond a threshold and
    grows to two hundred times that. Deterministic without `stop`.
    """
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
    """Exchange between neighbours until a pass gains little; hasty passes: see `FULL_PASSES_MAX_RECORDS`."""
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
    """Return the labels after neighbourhoods were rebuilt in rounds, until a round gains nothing.

    Those with the least loss, in violations first, at the end of a round or before all.
    """
    state = search.state
    count = int(np.count_nonzero(state.size))
    rounds = _rounds(work, rebuilds, count)
    best = labels_of(search)
    if not rounds:
        return best
    # Classes that merging has made very large stay out of the neighbourhoods: they are for the sweeps.
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
    """Rebuild so many neighbourhoods with the neighbours that there are now; return the gain."""
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
