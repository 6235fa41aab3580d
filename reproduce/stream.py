"""Microaggregation of a stream within a delay, and the weight that keeps the order.

Domingo-Ferrer and Soria-Comas, "Steered Microaggregation: A Unified Primitive for Anonymization of Data Sets
and Data Streams", IEEE ICDM Workshops, 2017: section V, Algorithms 2 and 3, Proposition 2 and Note 1.

Tuples are read one by one. If the tuple that came `delay` places before is still in the buffer, it leaves in
a class with k - 1 other tuples of the buffer, all of different subjects (Note 1). If the buffer has fewer
than k subjects, the tuple is dropped. The paper asks for the most homogeneous class, and does not say how it
is found. There are two readings: 'nearest' takes the k - 1 tuples nearest to the expiring tuple, 'grow' takes
one by one the tuple nearest to the centroid of the class so far. Of several tuples of a subject a class takes
the nearest, and so has k tuples, where the paper allows more. Algorithm 2 as printed leaves the last tuples
in the buffer. With `flush` the oldest tuple expires again and again at the end of the input, while the buffer
has k subjects.

Quasi-identifiers are finite, on their final scale (0 to 1 in the paper) and at most 1e150, with 'grow'
divided by k. Time is O(delay d) a class, k times as much with 'grow', and O(delay k) more at worst. Memory is
O((n + delay) d). The result is deterministic: of equally near tuples the first one in the stream is taken.
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
    """Places of the n tuples of a stream that are put out, dropped or held at the end."""

    positions: NDArray[np.int64]  # in the input, in the order of output: class by class, ascending in each
    labels: NDArray[np.int64]  # class of each position, 0.. in the order of output; every class has k tuples
    dropped: NDArray[np.int64]  # ascending
    held: NDArray[np.int64]  # in the buffer when the stream ends, ascending


def microaggregate_stream(
    points: ArrayLike, k: int, *, delay: int, order_weight: float = 0.0, subjects: ArrayLike | None = None,
    cluster: Cluster = "nearest", flush: bool = False,
) -> StreamClasses:  # fmt: skip
    """Return the classes in which tuples leave a buffer within a delay (Algorithms 2 and 3), see above."""
    # Points are (n, d), k >= 1, delay >= k - 1, order_weight >= 0 and subjects (n,) whole numbers; a
    # ValueError otherwise. A larger order_weight reorders tuples less, and makes the tuples of a class less
    # alike.
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
    """Return the least float above (k - 1) sqrt(m / (2k - 1)): a weight that keeps the order (Prop. 2)."""
    # It holds for m attributes within 0..1, tuples of different subjects, and both readings of a class: the
    # oldest tuple leaves with the k - 1 tuples after it. The arithmetic is exact. A ValueError if k < 1 or
    # attributes < 0.
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
