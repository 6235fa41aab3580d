"""The clusters of CASTLE in which tuples wait, and the classes whose ranges may be used again.

The loss of a cluster is the sum of the widths of its ranges: on one scale for all columns, that is the
paper's InfoLoss times the number of columns. Sums and products are compared, for a division would round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.compiled import inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

TUPLES_READ, TUPLES_HELD, CLASSES_FORMED, CLUSTERS_BORN, CLUSTERS_OPEN, CLASSES_PUBLIC = range(6)
"""Places of the counts: tuples read and held, classes formed, clusters ever and now, classes to use again."""

NO_PLACE = -1


class Castle(NamedTuple):
    """The tuples that wait, in clusters, and the classes whose ranges may be used again.

    Attributes
    ----------
    points : ndarray of shape (c, d), float64, c a power of 2 above the delay
        Quasi-identifiers, at the last bits of the place in the stream.
    subjects : ndarray of shape (c,), int64
        Subject of each; its place where every tuple is of another one.
    homes : ndarray of shape (c,), int64
        Cluster of each, -1 where none is held.
    lows, highs : ndarray of shape (g, d), float64
        Ranges of the clusters that wait.
    sizes : ndarray of shape (g,), int64
        Subjects of each, 0 where there is no cluster.
    births : ndarray of shape (g,), int64
        How many clusters were made before it.
    public_lows, public_highs : ndarray of shape (p, d), float64
        Ranges of the last classes that may be used again; the oldest is replaced first.
    public_classes : ndarray of shape (p,), int64
        Their numbers, -1 for none yet.
    losses : ndarray of shape (m,), float64
        Losses of the last classes, of which tau is the mean.
    counts : ndarray of shape (6,), int64
        See `TUPLES_READ`.
    k, delay : int
        Subjects of a class; how many tuples may come after one before it leaves.
    by_subject : bool
        Whether subjects are told, of which several tuples may come.
    """

    points: NDArray[np.float64]
    subjects: NDArray[np.int64]
    homes: NDArray[np.int64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    sizes: NDArray[np.int64]
    births: NDArray[np.int64]
    public_lows: NDArray[np.float64]
    public_highs: NDArray[np.float64]
    public_classes: NDArray[np.int64]
    losses: NDArray[np.float64]
    counts: NDArray[np.int64]
    k: int
    delay: int
    by_subject: bool


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
    """Return clusters without tuples.

    Parameters
    ----------
    attributes : int
        Quasi-identifiers d, at least 1.
    k : int
        Subjects of a class, at least 1.
    delay : int
        How many tuples may come after one before it leaves, at least k - 1.
    clusters : int
        How many may wait at a time (beta), at least 1.
    recent : int
        Of how many classes tau is the mean loss (mu), at least 1: a new tuple does not widen a cluster beyond
        it while another may be made, and of less are the classes that may be used again.
    reusable : int
        How many of these are kept, at least 1; the paper keeps all, for which there is no memory.
    by_subject : bool, default False
        Whether `push` gets the subject of every tuple; if not, each is of a subject of its own.

    Returns
    -------
    Castle
        Of (d + 2) 2 (delay + 1) numbers at most, and those of the clusters and classes.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
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
    """Put the next tuple of the stream into the best cluster, or one of its own. O(clusters d)."""
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
    """Return the cluster that a tuple joins, -1 for a new one (best selection)."""
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
    """Tell whether a cluster is to be taken before another that is widened as little."""
    if fine != other_fine:
        return fine
    if castle.sizes[home] != castle.sizes[other]:
        return bool(castle.sizes[home] < castle.sizes[other])
    return bool(castle.births[home] < castle.births[other])


@inner
def under_tau(castle: Castle, loss: float) -> float:
    """Return by how much tau, the mean loss of the last classes, exceeds a loss, times how many these are.

    Before the first class tau is 0.
    """
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
    """Return the place of the oldest class within whose ranges a tuple lies, -1 if there is none."""
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
    """Tell whether tuples of k different subjects are held, with room for k numbers. At worst O(delay k)."""
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
    """Take one tuple out of its cluster, whose ranges are those of the others from now on. O(delay d)."""
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
    """Add to a cluster the one that widens it least, of several the earliest. O(clusters d + delay)."""
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
