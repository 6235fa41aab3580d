"""The attack of the owner of a register on class means, before they are rounded and after."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_subset_sums import ROUNDED, alike, attack, half_a_unit


def test_the_attack_finds_the_only_set_with_a_mean() -> None:
    """By hand: of 1, 2, 4, ..., 512 the five that add up to 31 x 2 are 2, 4, 8, 16, 32 and no others."""
    known = np.array([[30.0 + number / 100, 2.0**number] for number in range(10)])
    assert alike(known, 30.0, 62 / 5, 1e-9) == {frozenset({1, 2, 3, 4, 5})}
    # In whole numbers also 1, 4, 8, 16, 32 with a mean of 12.2, and two are enough.
    assert len(alike(known, 30.0, 12.0, 0.5)) == 2
    assert alike(known, 20.0, 62 / 5, 1e-9) == set()


@pytest.mark.parametrize(
    ("means", "half"),
    [({100.0, 2300.0}, 50), ({20.0, 3.0}, 0.5), ({20.5, 3.25}, 0.005), ({1 / 3, 4.0}, 4e-12)],
)
def test_half_a_unit_of_what_is_released(means: set[float], half: float) -> None:
    assert half_a_unit(means) == pytest.approx(half)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_rounded_means_tell_fewer_persons() -> None:
    """Most classes are told by all digits, few by those that tell the incomes of the release apart."""
    found = {
        name: attack("DOUBLE, any digits", ROUNDED[name], seed=1, persons=240, sample=120)
        for name in ("all digits", "default", "hundreds")
    }
    classes = found["all digits"].classes
    assert classes >= 20
    assert found["all digits"].told >= 0.6 * classes
    assert found["default"].told <= 0.3 * classes
    assert found["hundreds"].told == 0
