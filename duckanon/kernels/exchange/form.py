"""A neighbourhood of classes, and how classes are formed in it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner, spliced
from duckanon.kernels.exchange.state import Groups, add

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.exchange.exchange import Bounds


class Pool(NamedTuple):
    """Some classes, taken apart: room for their records and for what they were; made by `pool_of`.

    Attributes
    ----------
    classes : ndarray of shape (c,), int64
        The classes, and one free class.
    records, labels : ndarray of shape (r,), int64
        Their records, and the class of each before.
    open : ndarray of shape (r,), int64
        The records, -1 where one has its new class.
    distance : ndarray of shape (r,), float64
        Squared distance of each from the seed.
    """

    classes: NDArray[np.int64]
    records: NDArray[np.int64]
    labels: NDArray[np.int64]
    open: NDArray[np.int64]
    distance: NDArray[np.float64]


def pool_of(classes: int, records: int) -> Pool:
    """Return room for a neighbourhood.

    Parameters
    ----------
    classes, records : int
        Most classes, a free one among them, and most records.

    Returns
    -------
    Pool
        To be written.
    """

    def numbers() -> NDArray[np.int64]:
        return np.zeros(records, dtype=np.int64)

    return Pool(np.zeros(classes, dtype=np.int64), numbers(), numbers(), numbers(), np.zeros(records))


@inner
def draw(state: NDArray[np.uint64], below: int) -> int:
    """Return the next random number 0..below-1 (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int(z >> np.uint64(33)) % below


@inner
def clear(groups: Groups, classes: NDArray[np.int64]) -> None:
    """Take all records out of some classes."""
    for c in classes:
        groups.size[c] = 0
        for j in range(groups.points.shape[1]):
            groups.sums[c, j] = 0.0


@spliced
def form_anew(
    groups: Groups, pool: Pool, count: int, used: int, bounds: Bounds, state: NDArray[np.uint64]
) -> None:
    """Form classes around seeds, random or far, of nearest records or of the nearest in every stratum."""
    clear(groups, pool.classes[:count])
    fewest = -(-used // bounds.most)
    make = max(1, fewest, min(count - draw(state, 3), used // bounds.least))
    size = used // make
    strata = size if groups.codes.shape[0] > 0 else 1
    for i in range(used):
        pool.open[i] = pool.records[i]
    if strata > 1:
        _ascend(groups.codes, pool.open[:used])
    at = draw(state, used)
    for c in pool.classes[:make]:
        seed = pool.open[at]
        for i in range(used):
            pool.distance[i] = _squared(groups.points, seed, pool.open[i]) if pool.open[i] >= 0 else np.inf
        for stratum in range(strata):
            first, last = stratum * used // strata, (stratum + 1) * used // strata
            for _ in range(size // strata):
                best = _least(pool.distance, first, last)
                add(groups, c, pool.open[best])
                pool.open[best], pool.distance[best] = -1, np.inf
        at = _next_seed(pool, used, state)
    for record in pool.open[:used]:
        if record >= 0:
            _join(groups, pool, make, record, bounds)


@inner
def _least(distance: NDArray[np.float64], first: int, last: int) -> int:
    """Return the place of the least distance from first on and before last."""
    best = first
    for i in range(first + 1, last):
        if distance[i] < distance[best]:
            best = i
    return best


@inner
def _ascend(codes: NDArray[np.int64], records: NDArray[np.int64]) -> None:
    """Sort records by their codes, the first attribute first, then by number."""
    for i in range(1, len(records)):
        record, at = records[i], i
        while at > 0 and _after(codes, records[at - 1], record):
            records[at] = records[at - 1]
            at -= 1
        records[at] = record


@inner
def _after(codes: NDArray[np.int64], one: int, other: int) -> bool:
    """Tell whether one record comes after another."""
    for a in range(codes.shape[0]):
        if codes[a, one] != codes[a, other]:
            return bool(codes[a, one] > codes[a, other])
    return one > other


@inner
def _squared(points: NDArray[np.float64], one: int, other: int) -> float:
    """Return the squared distance of two records."""
    total = 0.0
    for j in range(points.shape[1]):
        difference = points[one, j] - points[other, j]
        total += difference * difference
    return total


@spliced
def _next_seed(pool: Pool, used: int, state: NDArray[np.uint64]) -> int:
    """Return the place of a record without a class: a random one, or the farthest from the last seed."""
    random = draw(state, 2) == 0
    left, found, most = 0, 0, -1.0
    for i in range(used):
        if pool.open[i] < 0:
            continue
        left += 1
        if random and draw(state, left) == 0:
            found = i
        elif not random and pool.distance[i] > most:
            found, most = i, pool.distance[i]
    return found


@inner
def _join(groups: Groups, pool: Pool, make: int, record: int, bounds: Bounds) -> None:
    """Add a record to the class that has room and whose SSE rises least."""
    best, least = -1, np.inf
    for c in pool.classes[:make]:
        size = groups.size[c]
        if 0 < size < bounds.most:
            total = 0.0
            for j in range(groups.points.shape[1]):
                difference = groups.points[record, j] - groups.sums[c, j] / size
                total += difference * difference
            total *= size / (size + 1.0)
            if total < least:
                best, least = c, total
    add(groups, best, record)
