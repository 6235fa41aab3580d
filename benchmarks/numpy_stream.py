"""Microaggregation of a stream in numpy, as reference for the speed of the compiled kernel.

Algorithm 2 of Domingo-Ferrer and Soria-Comas, "Steered Microaggregation", 2017, for tuples of different
subjects. Tuples are read one by one. The expiring tuple leaves with the k - 1 nearest, of equally near tuples
the earliest, or is dropped. Both functions take points of shape (n, d), and return positions class by class,
ascending in each class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain_stream(points: NDArray[np.float64], k: int, delay: int) -> NDArray[np.int64]:
    """Return the positions in the order of output, by the steps of the paper."""
    # The buffer is a list of positions, and the nearest is taken from it k - 1 times. The figures of the
    # paper were first reproduced by such a loop.
    buffer: list[int] = []
    written: list[int] = []
    for position in range(len(points)):
        buffer.append(position)
        if buffer[0] != position - delay:
            continue
        if len(buffer) < k:
            buffer.pop(0)
            continue
        members = [buffer.pop(0)]
        while len(members) < k:
            away = np.sum((points[buffer] - points[position - delay]) ** 2, axis=1)
            members.append(buffer.pop(int(np.argmin(away))))
        written += sorted(members)
    return np.array(written, dtype=np.int64)


def whole_pass_stream(points: NDArray[np.float64], k: int, delay: int) -> NDArray[np.int64]:
    """Return the positions by one pass over the buffer and one sort a class: fast for uncompiled code."""
    left, positions = np.empty((delay + 1, points.shape[1])), np.empty(delay + 1, np.int64)
    held, written = 0, [np.empty(0, np.int64)]
    for position in range(len(points)):
        left[held], positions[held] = points[position], position
        held += 1
        if positions[0] != position - delay:
            continue
        difference = left[:held] - left[0]
        distances = np.einsum("ij,ij->i", difference, difference)
        members = np.argsort(distances, kind="stable")[: k if held >= k else 1]
        if held >= k:
            written.append(np.sort(positions[members]))
        keep = np.ones(held, dtype=bool)
        keep[members] = False
        stay = held - len(members)
        left[:stay], positions[:stay] = left[:held][keep], positions[:held][keep]
        held = stay
    return np.concatenate(written)
