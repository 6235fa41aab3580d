"""splitmix64: the numbers of others, one by one in compiled code and many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.splitmix import STEP, draw, mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rosetta Code, "Pseudo-random numbers/Splitmix64": the first five of the seed 1234567.
SEED = 1234567
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


@compiled
def drawn(seed: int, count: int, below: int) -> NDArray[np.int64]:
    """Numbers one after the other: `draw` is called from compiled code only."""
    state, numbers = np.array([seed], dtype=np.uint64), np.empty(count, dtype=np.int64)
    for place in range(count):
        numbers[place] = draw(state, below)
    return numbers


def test_many_counters_give_the_published_numbers() -> None:
    counters = np.uint64(SEED) + np.arange(1, 6, dtype=np.uint64) * STEP
    assert mixed(counters).tolist() == PUBLISHED


def test_draws_are_the_upper_31_bits_of_the_published_numbers() -> None:
    assert drawn(SEED, 5, 2**31).tolist() == [number >> 33 for number in PUBLISHED]
    assert drawn(SEED, 5, 7).tolist() == [(number >> 33) % 7 for number in PUBLISHED]
