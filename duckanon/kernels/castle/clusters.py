"""The clusters of CASTLE in which tuples wait, and the classes whose ranges may be used again.

The loss of a cluster is the sum of the widths of its ranges. All columns are on one scale, so this sum is the
paper's InfoLoss times the number of columns. Sums and products are compared, because a division would round.

Tau is the mean loss of the last `recent` classes (mu in the paper), and 0 before the first class. A new tuple
does not widen a cluster beyond tau while another cluster may be opened, that is, while fewer than `clusters`
(beta) wait. A class may be used again if its loss is below tau. The last `reusable` of these classes are kept
and the oldest is replaced first; the paper keeps all, which would need unbounded memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

TUPLES_READ, TUPLES_HELD, CLASSES_FORMED, CLUSTERS_BORN, CLUSTERS_OPEN, CLASSES_PUBLIC = range(6)
"""Places of the counts: tuples read, held; classes formed; clusters opened, waiting; reusable classes."""

NO_PLACE = -1


class Castle(NamedTuple):
    """The tuples that wait in clusters, and the classes whose ranges may be used again."""

    # (c, d), c a power of 2 above the delay: quasi-identifiers, at the last bits of the place in the stream
    points: NDArray[np.float64]
    subjects: NDArray[np.int64]  # (c,), subject of each tuple; its place if every tuple is of another subject
    homes: NDArray[np.int64]  # (c,), cluster of each tuple, -1 where no tuple is held
    lows: NDArray[np.float64]  # (g, d), ranges of the clusters that wait
    highs: NDArray[np.float64]  # (g, d)
    sizes: NDArray[np.int64]  # (g,), subjects of each cluster, 0 where there is no cluster
    births: NDArray[np.int64]  # (g,), number of clusters opened before this cluster
    public_lows: NDArray[np.float64]  # (p, d), ranges of the last classes that may be used again
    public_highs: NDArray[np.float64]  # (p, d)
    public_classes: NDArray[np.int64]  # (p,), numbers of these classes, -1 for none yet
    losses: NDArray[np.float64]  # (m,), losses of the last classes; their mean is tau
    counts: NDArray[np.int64]  # (6,), see `TUPLES_READ`
    k: int  # subjects of a class
    delay: int  # tuples that may come after a tuple before it leaves
    by_subject: bool  # whether tuples carry a subject; several tuples may have the same


def open_clusters(
    attributes: int,
    k: int,
    *,
    delay: int,
    clusters: int,
    recent: int,
    reusable: int,
    by_subject: bool = False,
) -> Castle:
    """Return empty clusters; ValueError if a number is out of range."""
    # Memory: at most (d + 2) 2 (delay + 1) numbers, and those of the clusters and classes. d = `attributes`,
    # k, clusters, recent and reusable are at least 1, the delay at least k - 1.
    least = {"attributes": 1, "k": 1, "clusters": 1, "recent": 1, "reusable": 1, "delay": k - 1}
    given = {"attributes": attributes, "k": k, "clusters": clusters, "recent": recent, "reusable": reusable}
    for name, number in {**given, "delay": delay}.items():
        if number < least[name]:
            raise ValueError(f"{name} must be at least {least[name]}, not {number}")
    capacity, most = 1 << int(delay).bit_length(), min(clusters, delay + 1)
    return Castle(
        points=np.zeros((capacity, attributes)),
        subjects=np.zeros(capacity, np.int64),
        homes=np.full(capacity, NO_PLACE),
        lows=np.zeros((most, attributes)), highs=np.zeros((most, attributes)),
        sizes=np.zeros(most, np.int64),
        births=np.zeros(most, np.int64),
        public_lows=np.zeros((reusable, attributes)), public_highs=np.zeros((reusable, attributes)),
        public_classes=np.full(reusable, NO_PLACE),
        losses=np.zeros(recent),
        counts=np.zeros(6, np.int64),
        k=int(k), delay=int(delay), by_subject=bool(by_subject),
    )  # fmt: skip


@inner
def hold(castle: Castle, point: NDArray[np.float64], subject: int) -> None:
    """Put the next tuple of the stream into the best cluster, or into one of its own. O(clusters d)."""
    position = castle.counts[TUPLES_READ]
    slot, home = position & (len(castle.homes) - 1), _best(castle, point)
    if home == NO_PLACE:
        home = 0
        while castle.sizes[home] > 0:
            home += 1
        castle.births[home] = castle.counts[CLUSTERS_BORN]
        castle.counts[CLUSTERS_BORN] += 1
        castle.counts[CLUSTERS_OPEN] += 1
        for j in range(len(point)):
            castle.lows[home, j], castle.highs[home, j] = point[j], point[j]
        castle.sizes[home] = 1
    elif not (castle.by_subject and _has(castle, home, subject)):
        castle.sizes[home] += 1
    for j in range(len(point)):
        castle.points[slot, j] = point[j]
        castle.lows[home, j] = min(castle.lows[home, j], point[j])
        castle.highs[home, j] = max(castle.highs[home, j], point[j])
    castle.subjects[slot], castle.homes[slot] = subject, home
    castle.counts[TUPLES_HELD] += 1
    castle.counts[TUPLES_READ] += 1


@inner
def _best(castle: Castle, point: NDArray[np.float64]) -> int:
    """Return the cluster that a tuple joins, -1 for a new one: the paper's best selection."""
    # Candidates are the clusters whose bounding box grows least, the smallest and then the earliest of them
    # first. The tuple joins one whose loss stays at most tau. Otherwise a new cluster is opened, or, where as
    # many wait as may, the first candidate is taken.
    best, least, best_fine = NO_PLACE, np.inf, False
    for home in range(len(castle.sizes)):
        if castle.sizes[home] == 0:
            continue
        widened, loss = 0.0, 0.0
        for j in range(len(point)):
            low, high = castle.lows[home, j], castle.highs[home, j]
            widened += max(0.0, low - point[j]) + max(0.0, point[j] - high)
            loss += max(high, point[j]) - min(low, point[j])
        fine = under_tau(castle, loss) >= 0.0
        if best == NO_PLACE or widened < least or (
            widened == least and _before(castle, fine, home, best_fine, best)
        ):  # fmt: skip
            best, least, best_fine = home, widened, fine
    if not best_fine and castle.counts[CLUSTERS_OPEN] < len(castle.sizes):
        return NO_PLACE
    return best


@inner
def _before(castle: Castle, fine: bool, home: int, other_fine: bool, other: int) -> bool:
    """Tell whether a cluster is preferred to another that the tuple widens by as much."""
    if fine != other_fine:
        return fine
    if castle.sizes[home] != castle.sizes[other]:
        return bool(castle.sizes[home] < castle.sizes[other])
    return bool(castle.births[home] < castle.births[other])


@inner
def under_tau(castle: Castle, loss: float) -> float:
    """Return (tau - loss) times the number of losses of which tau is the mean; tau is 0 at first."""
    total, classes = 0.0, min(castle.counts[CLASSES_FORMED], len(castle.losses))
    for i in range(classes):
        total += castle.losses[i]
    return float(total - loss * max(classes, 1))


@inner
def _has(castle: Castle, home: int, subject: int) -> bool:
    """Tell whether a cluster has a tuple of a subject. O(delay)."""
    for slot in range(len(castle.homes)):
        if castle.homes[slot] == home and castle.subjects[slot] == subject:
            return True
    return False


@inner
def within(castle: Castle, slot: int) -> int:
    """Return the place of the oldest reusable class whose ranges hold a tuple, -1 if there is none."""
    reusable, attributes = castle.public_lows.shape
    for number in range(max(0, castle.counts[CLASSES_PUBLIC] - reusable), castle.counts[CLASSES_PUBLIC]):
        place, j = number % reusable, 0
        while (
            j < attributes
            and castle.public_lows[place, j] <= castle.points[slot, j] <= castle.public_highs[place, j]
        ):
            j += 1
        if j == attributes:
            return int(place)
    return NO_PLACE


@inner
def enough(castle: Castle, room: NDArray[np.int64]) -> bool:
    """Tell whether tuples of k different subjects are held; `room` takes k numbers. At worst O(delay k)."""
    if not castle.by_subject or castle.counts[TUPLES_HELD] < castle.k:
        return bool(castle.counts[TUPLES_HELD] >= castle.k)
    found = 0
    for slot in range(len(castle.homes)):
        if castle.homes[slot] == NO_PLACE:
            continue
        other = 0
        while other < found and room[other] != castle.subjects[slot]:
            other += 1
        if other == found:
            room[found] = castle.subjects[slot]
            found += 1
            if found == castle.k:
                return True
    return False


@inner
def take(castle: Castle, slot: int) -> None:
    """Take one tuple out of its cluster and fit the cluster's ranges to the other tuples. O(delay d)."""
    home = castle.homes[slot]
    castle.homes[slot] = NO_PLACE
    castle.counts[TUPLES_HELD] -= 1
    if not (castle.by_subject and _has(castle, home, castle.subjects[slot])):
        castle.sizes[home] -= 1
    if castle.sizes[home] == 0:
        castle.counts[CLUSTERS_OPEN] -= 1
        return
    for j in range(castle.lows.shape[1]):
        castle.lows[home, j], castle.highs[home, j] = np.inf, -np.inf
    for other in range(len(castle.homes)):
        if castle.homes[other] == home:
            for j in range(castle.lows.shape[1]):
                castle.lows[home, j] = min(castle.lows[home, j], castle.points[other, j])
                castle.highs[home, j] = max(castle.highs[home, j], castle.points[other, j])


@inner
def merge(castle: Castle, home: int) -> None:
    """Merge a cluster with the one that widens it least, the earliest among equals. O(clusters d + delay)."""
    best, least = NO_PLACE, np.inf
    for other in range(len(castle.sizes)):
        if other == home or castle.sizes[other] == 0:
            continue
        widened = 0.0
        for j in range(castle.lows.shape[1]):
            widened += max(0.0, castle.lows[home, j] - castle.lows[other, j])
            widened += max(0.0, castle.highs[other, j] - castle.highs[home, j])
        if best == NO_PLACE or widened < least or (
            widened == least and castle.births[other] < castle.births[best]
        ):  # fmt: skip
            best, least = other, widened
    for j in range(castle.lows.shape[1]):
        castle.lows[home, j] = min(castle.lows[home, j], castle.lows[best, j])
        castle.highs[home, j] = max(castle.highs[home, j], castle.highs[best, j])
    for slot in range(len(castle.homes)):
        if castle.homes[slot] == best:
            castle.homes[slot] = home
    castle.sizes[best] = 0
    castle.counts[CLUSTERS_OPEN] -= 1
