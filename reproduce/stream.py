"""Microaggregation of a stream within a delay, and the weight beyond which it keeps the order.

Domingo-Ferrer and Soria-Comas, "Steered Microaggregation: A Unified Primitive for Anonymization of Data Sets
and Data Streams", IEEE ICDM Workshops, 2017: section V, Algorithms 2 and 3, Proposition 2 and Note 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from duckanon.kernels.steered.stream import finish, held, open_buffer, push

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Cluster = Literal["nearest", "grow"]


class StreamClasses(NamedTuple):
    """What becomes of the n tuples of a stream: each is put out, dropped or held.

    Attributes
    ----------
    positions : ndarray of shape (r,), int64
        Place in the input of each tuple put out, in the order of output: class by class, ascending in each.
    labels : ndarray of shape (r,), int64
        Class of each, 0..r/k - 1 in the order of output; every class has k tuples.
    dropped : ndarray of shape (q,), int64
        Places of the tuples dropped, ascending.
    held : ndarray of shape (h,), int64
        Places of the tuples that are in the buffer when the stream ends, ascending.
    """

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    dropped: NDArray[np.int64]
    held: NDArray[np.int64]


def microaggregate_stream(
    points: ArrayLike, k: int, *, delay: int, order_weight: float = 0.0, subjects: ArrayLike | None = None,
    cluster: Cluster = "nearest", flush: bool = False,
) -> StreamClasses:  # fmt: skip
    """Return the classes in which the tuples of a stream leave a buffer within a delay (Algorithms 2 and 3).

    The tuples are read one by one, in the order of the rows. If the one that came `delay` places before is
    still in the buffer, it leaves in a class with k - 1 others of it, all of different subjects; where the
    buffer holds fewer than k subjects it is dropped.

    Parameters
    ----------
    points : array_like of shape (n, d)
        Quasi-identifiers, n and d at least 0: finite numbers on their final scale (the paper's is 0 to 1), up
        to 1e150, with 'grow' divided by k.
    k : int
        Tuples of a class, at least 1.
    delay : int
        How many tuples may come after one before it leaves, at least k - 1.
    order_weight : float, default 0
        Weight of the place in the stream beside the quasi-identifiers, finite and at least 0: the greater,
        the less are tuples reordered, and the less alike are those of a class.
    subjects : array_like of shape (n,), optional
        Whole number of the subject of each tuple (Note 1). Without it, all are of different subjects.
    cluster : {'nearest', 'grow'}, default 'nearest'
        Whether the k - 1 others are the nearest to the expiring tuple, or one after the other each the
        nearest to the centroid of what the class has so far.
    flush : bool, default False
        Whether at the end of the input the oldest tuple expires again and again while the buffer holds k
        subjects. Algorithm 2 as printed does not put out what is in the buffer then.

    Returns
    -------
    StreamClasses
        With all tuples put out that came `delay` places or more before the last, but for those dropped.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a number or a word is out of range.

    Notes
    -----
    The paper asks for the most homogeneous class and does not say how it is found: 'nearest' and 'grow' are
    two readings. Of several tuples of a subject a class takes the one nearest by that rule, so that it has k
    tuples, where the paper allows more.

    O(delay d) time a class, with 'grow' k times as much, and O(delay k) more at worst; O((n + delay) d)
    memory. Deterministic: equal distances go to the tuple that came first.

    Examples
    --------
    >>> read = [[0.0], [5.0], [1.0], [9.0], [3.0]]
    >>> classes = microaggregate_stream(read, 2, delay=2)
    >>> classes.positions.tolist(), classes.labels.tolist(), classes.held.tolist()
    ([0, 2, 1, 3], [0, 0, 1, 1], [4])
    """
    matrix = np.asarray(points, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"points must be a matrix with one row a tuple, not of shape {matrix.shape}")
    if cluster not in ("nearest", "grow"):
        raise ValueError(f"unknown cluster '{cluster}': use 'nearest' or 'grow'")
    buffer = open_buffer(
        matrix.shape[1], k, delay=delay, order_weight=order_weight, grow=cluster == "grow",
        by_subject=subjects is not None,
    )  # fmt: skip
    written = push(buffer, matrix, subjects)
    if flush:
        last = finish(buffer)
        positions = np.concatenate([written.positions, last.positions])
        classes = np.concatenate([written.classes, last.classes])
        return StreamClasses(positions, classes, written.dropped, held(buffer))
    return StreamClasses(written.positions, written.classes, written.dropped, held(buffer))


def no_reordering_weight(k: int, attributes: int) -> float:
    """Return the weight from which on no class has tuples that did not come one after the other.

    Parameters
    ----------
    k : int
        Tuples of a class, at least 1.
    attributes : int
        Quasi-identifiers m, at least 0, each of them within 0..1.

    Returns
    -------
    float
        The least float above (k - 1) sqrt(m / (2k - 1)).

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Proposition 2, for tuples of different subjects and either way to form a class. The oldest tuple leaves
    with the k - 1 after it, so that the order of output is that of input. Exact arithmetic, O(1).

    Examples
    --------
    >>> no_reordering_weight(2, 3)  # the least float above 1
    1.0000000000000002
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if attributes < 0:
        raise ValueError(f"attributes must be at least 0, not {attributes}")
    square = Fraction((k - 1) ** 2 * attributes, 2 * k - 1)
    weight = math.sqrt(square)
    while weight > 0.0 and Fraction(math.nextafter(weight, 0.0)) ** 2 > square:
        weight = math.nextafter(weight, 0.0)
    while Fraction(weight) ** 2 <= square:
        weight = math.nextafter(weight, math.inf)
    return weight
