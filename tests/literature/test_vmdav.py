"""V-MDAV: the published example, hand calculation, and a slow reference on the full distance matrix."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.first.mdav import mdav
from duckanon.literature.fixed_size import vmdav
from tests.examples import examples
from tests.kernels.test_mdav import by_leaves, dataset, free_points, nasty_sets, squared, tied_points
from tests.literature.test_fixed_size import Labels, Points, Slow

GAMMAS = [0.0, 0.2, 0.7, 1.0, 1.1, 5.0]


def slow_vmdav(points: Points, k: int, gamma: float) -> Labels:
    """V-MDAV step by step: matrix of distances, centroid of all, groups, extension, last records."""
    slow = Slow(points)
    distances = np.sqrt([squared(points, query) for query in points])
    from_centroid = squared(points, slow.rest / len(points))
    while len(slow.left) > k - 1:
        slow.form(slow.left[int(np.argmax(from_centroid[slow.left]))], k)
        group = np.flatnonzero(slow.labels == len(slow.sums) - 1).tolist()
        while len(group) < 2 * k - 1 and len(slow.left) > 1:
            to_group = distances[np.ix_(slow.left, group)].min(axis=1)
            e_min = slow.left[int(np.argmin(to_group))]
            d_out = min(distances[e_min, other] for other in slow.left if other != e_min)
            if not to_group.min() < gamma * d_out:
                break
            slow.join_last(e_min)
            group.append(e_min)
    return slow.finished()


@settings(max_examples=examples(200))
@given(
    case=st.one_of(tied_points(), free_points()),
    gamma=st.sampled_from(GAMMAS),
    leaf=st.sampled_from([1, 2, 5, 99]),
)
def test_labels_are_those_of_the_slow_reference(case: tuple[Points, int], gamma: float, leaf: int) -> None:
    points, k = case
    expected = slow_vmdav(points, k, gamma)
    assert np.array_equal(by_leaves(leaf, partial(vmdav, gamma=gamma), points, k), expected)
    assert np.array_equal(vmdav(points, k, gamma=gamma), expected)


@pytest.mark.parametrize("name", nasty_sets())
@pytest.mark.parametrize("gamma", [0.2, 1.1])
def test_pruning_does_not_change_the_result(name: str, gamma: float) -> None:
    points = nasty_sets()[name][::3]
    expected = slow_vmdav(points, 4, gamma)
    for leaf in (1, 32, len(points)):
        assert np.array_equal(by_leaves(leaf, partial(vmdav, gamma=gamma), points, 4), expected)


@pytest.mark.parametrize("name", ["tarragona", "census"])
def test_reference_data_give_the_labels_of_the_slow_reference(name: str) -> None:
    points = dataset(name)
    for gamma in (0.2, 1.1):
        assert np.array_equal(vmdav(points, 3, gamma=gamma), slow_vmdav(points, 3, gamma))


def test_the_published_example() -> None:
    """Source: Zhang and Zheng 2018, example 1 with figures 1 and 2: for k = 3 MDAV forms three classes, one
    of them torn, and V-MDAV the two that the eye sees.
    """
    points = np.array(
        [
            (2.4, 3),
            (1.68, 4.9),
            (3.18, 5.54),
            (5.32, 3.6),
            (18.68, 11.49),
            (20.14, 9.56),
            (19.85, 10.33),
            (21.28, 10.9),
            (23, 11.5),
        ]
    )
    assert vmdav(points, 3).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert mdav(points, 3).tolist() == [0, 0, 0, 2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [(0.0, [1, 1, 2, 2, 0, 0]), (0.0625, [1, 1, 2, 2, 0, 0]), (0.0626, [1, 1, 1, 0, 0, 0])],
)
def test_the_extension_by_hand(gamma: float, expected: list[int]) -> None:
    """k = 2: 12 is farthest from the mean 5.92 and takes 10.5. 10 is 0.5 from that and 8 from 2, the nearest
    other record: it joins if 0.5 < 8 gamma, so not at 1/16. Then 0 and 1 are a class; 2 (1 from it, 8 from
    10) does not join, and it is left with 10, a class of two, or alone, to join the mean 0.5.
    """
    points = np.array([[0.0], [1.0], [2.0], [10.0], [10.5], [12.0]])
    assert vmdav(points, 2, gamma=gamma).tolist() == expected


def test_a_class_is_extended_to_2k_minus_1_and_the_last_records_may_join_it() -> None:
    """By hand, k = 2: 100 and 102 are a class. 0 then takes 1 and is extended by 3, which is 2 from it and 4
    from 7 (2 < 0.7 * 4), and no farther, though 7 is near too. 7 is left and joins the nearest class.
    """
    points = np.array([[0.0], [1.0], [3.0], [7.0], [100.0], [102.0]])
    labels = vmdav(points, 2, gamma=0.7)
    assert labels.tolist() == [1, 1, 1, 1, 0, 0]
    assert np.bincount(labels).max() == 3 * 2 - 2


@pytest.mark.parametrize("gamma", [-0.1, np.nan, np.inf])
def test_an_unusable_gamma_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma must be a finite number of at least 0"):
        vmdav(np.zeros((4, 1)), 2, gamma=gamma)
