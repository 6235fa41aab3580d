"""Combining, dissolving and forests: never more loss, sizes kept, against slow definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.compose import combine, dissolve, groups
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.spanning_tree import clusters, forest, spanning_tree
from duckanon.kernels.loss import sse
from tests.examples import examples


@settings(max_examples=examples(200))
@given(st.integers(1, 30), st.integers(0, 2**20))
def test_of_two_partitions_the_better_parts_are_taken(n: int, seed: int) -> None:
    """Groups by walking from class to class; each class of the result is one of the two partitions'."""
    random = np.random.default_rng(seed)
    points = random.integers(0, 9, (n, 2)).astype(float)
    one, other = (np.unique(random.integers(0, 1 + n // 2, n), return_inverse=True)[1] for _ in range(2))
    group = groups(one, other)[one]
    for record in range(n):
        reached = {record}
        while True:
            more = {i for i in range(n) for j in reached if one[i] == one[j] or other[i] == other[j]}
            if more == reached:
                break
            reached = more
        assert reached == set(np.flatnonzero(group == group[record]).tolist())
    labels = combine(points, one, other)
    assert sse(points, labels) <= min(sse(points, one), sse(points, other)) * (1 + 1e-12)
    classes = [
        {frozenset(np.flatnonzero(p == c).tolist()) for c in set(p.tolist())} for p in (one, other, labels)
    ]
    assert classes[2] <= classes[0] | classes[1]


def test_each_group_comes_from_the_partition_that_loses_less_in_it() -> None:
    """By hand: left the second partition loses nothing, right the first."""
    points = np.array([[0.0], [1.0], [0.0], [1.0], [8.0], [8.0], [9.0], [9.0]])
    labels = combine(points, np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3]))
    assert sse(points, labels) == 0.0


@settings(max_examples=examples(100))
@given(st.integers(2, 60), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**20))
def test_dissolving_never_loses_more_and_keeps_sizes(n: int, k: int, d: int, seed: int) -> None:
    k = min(k, n)
    random = np.random.default_rng(seed)
    points = random.normal(size=(n, d)) if seed % 2 else random.integers(0, 4, (n, d)).astype(float)
    labels = mdav(points, k)
    left = dissolve(points, labels, k)
    sizes = np.bincount(left)
    assert k <= sizes.min()
    assert sizes.max() <= max(2 * k - 1, np.bincount(labels).max())
    assert sse(points, left) <= sse(points, labels) * (1 + 1e-12)


def test_a_class_between_two_others_is_dissolved() -> None:
    """By hand: 0, 1, 2 and 9, 10, 11 stay, and the class of 3 and 8 loses 12.5 where they join: 3 + 3."""
    points = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0], [3.0], [8.0]])
    left = dissolve(points, np.array([0, 0, 0, 1, 1, 1, 2, 2]), 2)
    assert left.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    left = dissolve(points, np.array([0, 0, 0, 1, 1, 1, 2, 2]), 3)
    assert left.tolist() == [0, 0, 0, 1, 1, 1, 0, 1]


def test_a_forest_keeps_the_clusters_apart_and_sizes_between_k_and_2k() -> None:
    random = np.random.default_rng(7)
    points = np.repeat(random.normal(size=(40, 3)) * 50, 13, axis=0) + random.normal(size=(520, 3)) / 100
    own = clusters(spanning_tree(points), 4)
    labels = forest(points, 4, largest=1000)
    assert np.bincount(labels).min() >= 4
    assert np.bincount(labels).max() <= 7
    assert all(len(set(own[labels == c])) == 1 for c in range(int(labels.max()) + 1))
    in_blocks = forest(points, 4, largest=100)
    assert np.bincount(in_blocks).min() >= 4
    assert np.bincount(in_blocks).max() <= 7
