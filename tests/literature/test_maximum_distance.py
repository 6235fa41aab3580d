"""MD: published information losses, hand calculation, and a slow reference on the full distance matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.loss import information_loss
from duckanon.literature.maximum_distance import maximum_distance
from tests.examples import examples
from tests.kernels.test_mdav import by_leaves, dataset, free_points, nasty_sets, squared, tied_points
from tests.literature.test_fixed_size import Labels, Points, Slow

# Kabir et al., Tables VI to VIII, row MD-MHM at k = 3, 5, 10: the classes of MD, split and merged along the
# order of the records in them so that the loss is the least possible.
MD_MHM = {
    "tarragona": ((3, 16.9829), (5, 22.5269), (10, 33.1834)),
    "census": ((3, 5.69724), (5, 8.98594), (10, 14.3965)),
    "eia": ((3, 0.4422), (5, 1.2627), (10, 3.6374)),
}


def test_the_published_loss_of_census_at_ten() -> None:
    """Source: Kabir et al., Table VII, MD-MHM at k = 10: 14.3965.

    That the classes of MD have this loss too means that no split of their order is better there.
    """
    points = dataset("census")
    assert information_loss(points, maximum_distance(points, 10)) == pytest.approx(14.3965, rel=0, abs=5e-5)


@pytest.mark.parametrize("name", MD_MHM)
def test_no_loss_is_below_that_of_the_optimal_split_of_its_order(name: str) -> None:
    """Source: Kabir et al., Tables VI to VIII, MD-MHM, in which MD's own classes are one of the splits."""
    points = dataset(name)
    for k, printed in MD_MHM[name]:
        assert information_loss(points, maximum_distance(points, k)) >= printed - 5e-5


def slow_maximum_distance(points: Points, k: int) -> Labels:
    """MD line by line: the greatest of all distances between the records left, every round."""
    slow = Slow(points)
    distances = np.array([squared(points, query) for query in points])
    while len(slow.left) >= 2 * k:
        among = distances[np.ix_(slow.left, slow.left)]
        row, column = np.unravel_index(np.argmax(among), among.shape)
        r, s = slow.left[row], slow.left[column]
        slow.form(r, k)
        if s not in slow.left:
            s = next(other for other in slow.left if distances[r, other] == among.max())
        slow.form(s, k)
    if len(slow.left) >= k:
        slow.form(slow.left[0], len(slow.left))
    return slow.finished()


@settings(max_examples=examples(150))
@given(case=st.one_of(tied_points(), free_points()), leaf=st.sampled_from([1, 2, 5, 99]))
def test_labels_are_those_of_the_slow_reference(case: tuple[Points, int], leaf: int) -> None:
    points, k = case
    expected = slow_maximum_distance(points, k)
    assert np.array_equal(by_leaves(leaf, maximum_distance, points, k), expected)
    assert np.array_equal(maximum_distance(points, k), expected)


@pytest.mark.parametrize("name", nasty_sets())
@pytest.mark.parametrize("k", [2, 7])
def test_pruning_does_not_change_the_result(name: str, k: int) -> None:
    points = nasty_sets()[name][::3]
    expected = slow_maximum_distance(points, k)
    for leaf in (1, 32, len(points)):
        assert np.array_equal(by_leaves(leaf, maximum_distance, points, k), expected)


@pytest.mark.parametrize("name", ["tarragona", "census"])
def test_reference_data_give_the_labels_of_the_slow_reference(name: str) -> None:
    points = dataset(name)
    assert np.array_equal(maximum_distance(points, 5), slow_maximum_distance(points, 5))


def test_the_seeds_are_the_most_distant_pair_by_hand() -> None:
    """(-11, 0) and (11, 0) are 22 apart, the most; then (0, -16) and (0, 4), 20 apart.

    MDAV begins with (0, -16), which is 13 from the mean (0, -3), while (-11, 0) is 11.4 from it.
    """
    points = np.array(
        [[-11, 0], [-10, 0], [11, 0], [10, 0], [0, -16], [0, -15], [0, 4], [0, 3]], dtype=np.float64
    )
    assert maximum_distance(points, 2).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert mdav(points, 2).tolist()[4:6] == [0, 0]


def test_a_seed_that_the_other_class_takes_is_replaced_by_one_as_far() -> None:
    """By hand: all five are sqrt(2) apart, so 0 takes 1, though 1 is its first partner; 2 is as far."""
    assert maximum_distance(np.eye(5), 2).tolist() == [0, 0, 1, 1, 0]


def test_fewer_than_k_records_left_join_one_by_one() -> None:
    """By hand, k = 3: {0, 1, 2} and {98, 99, 100}; 40 is 39 from the mean 1, 60 is 39 from the mean 99."""
    points = np.array([[0.0], [1.0], [2.0], [98.0], [99.0], [100.0], [40.0], [60.0]])
    assert maximum_distance(points, 3).tolist() == [0, 0, 0, 1, 1, 1, 0, 1]


def test_distances_whose_squares_are_the_least_numbers_still_count() -> None:
    """By hand, in units of 1e-162: 1.5 squared is 0 in floating point, 3 squared is 1e-323. So all records are
    0 from the centroid, and yet 2 and 3 are 2e-323 apart, the others 1e-323 at most.
    """
    points = np.array([[1.5, 0.0], [-1.5, 0.0], [1.5, 1.5], [-1.5, -1.5]]) * 1e-162
    assert maximum_distance(points, 1).tolist() == [2, 3, 0, 1]
