"""splitmix64 (Steele, Lea and Flood, OOPSLA 2014): counters, mixed into numbers that look random."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.compiled import compiled, spliced

STEP = np.uint64(0x9E3779B97F4A7C15)
"""Difference between one counter and the next."""

FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
DROPPED_BITS = np.uint64(33)
"""Low bits of a random number that are not used."""

Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


def mixed(counter: Bits) -> Bits:
    """Return the random bits of a counter, or of each of an array of counters."""
    counter = (counter ^ (counter >> FIRST_SHIFT)) * FIRST_FACTOR
    counter = (counter ^ (counter >> SECOND_SHIFT)) * SECOND_FACTOR
    return counter ^ (counter >> LAST_SHIFT)


_mixed = spliced(mixed)


@compiled
def draw(random_state: NDArray[np.uint64], below: int) -> int:
    """Return the next random number 0..below-1; `random_state` is an array of one counter."""
    random_state[0] += STEP
    return int(_mixed(random_state[0]) >> DROPPED_BITS) % below
