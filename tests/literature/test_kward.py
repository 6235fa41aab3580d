"""Multivariate k-Ward: hand calculation, and a slow reference by the formula of Lance and Williams."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from duckanon.kernels.loss import information_loss
from duckanon.literature.kward import k_ward
from duckanon.literature.maximum_distance import maximum_distance
from tests.kernels.test_mdav import dataset, squared

Points = NDArray[np.float64]


def test_joins_by_hand() -> None:
    """At k = 2 the extremes take 1 and 9; joining 5 and 5.5 adds 0.125, then 4 to them 1.04, to {0, 1} 8.17."""
    line = np.array([[0.0], [1.0], [4.0], [5.0], [5.5], [9.0], [10.0]])
    assert k_ward(line, 2).tolist() == [0, 0, 1, 1, 1, 2, 2]


def test_large_groups_are_taken_up_anew_by_hand() -> None:
    """At k = 2: 4 and 4.1 (adds 0.005), 4.6 to them (0.20 < 0.5 with 5.6), 5.6 to the three (1.40): four records.

    On their own, their extremes 4 and 5.6 take 4.1 and 4.6.
    """
    line = np.array([[0.0], [1.0], [4.0], [4.1], [4.6], [5.6], [20.0], [21.0]])
    assert k_ward(line, 2).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_large_groups_are_never_joined_by_hand() -> None:
    """At k = 2, {4, 4.1} and {4.2, 4.3} have two records each: Ward would join them next, k-Ward is done."""
    line = np.array([[-50.0], [-49.0], [4.0], [4.1], [4.21], [4.3], [60.0], [61.0]])
    assert k_ward(line, 2).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def slow_level(points: Points, k: int) -> list[list[int]]:
    """Return the groups of one application: a table of all costs, updated by Lance and Williams."""
    n = len(points)
    table = np.array([squared(points, point) for point in points])
    r = int(np.argmax(table.max(axis=1)))
    first = [r, *sorted((i for i in range(n) if i != r), key=lambda i: (table[r, i], i))[: k - 1]]
    left = [i for i in range(n) if i not in first]
    s = max(left, key=lambda i: (table[r, i], -i))
    second = [s, *sorted((i for i in left if i != s), key=lambda i: (table[s, i], i))[: k - 1]]
    groups = {min(g): sorted(g) for g in (first, second, *([i] for i in left if i not in second))}
    cost = {(a, b): ward(points[groups[a]], points[groups[b]]) for a in groups for b in groups if a != b}
    while small := [a for a in groups if len(groups[a]) < k]:
        a, b = min(((a, b) for a in small for b in groups if a != b), key=lambda p: (cost[p], *p))
        low, high = min(a, b), max(a, b)
        one, two = len(groups[a]), len(groups[b])
        for c in groups.keys() - {a, b}:
            m = len(groups[c])
            new = (one + m) * cost[a, c] + (two + m) * cost[b, c] - m * cost[a, b]
            cost[low, c] = cost[c, low] = new / (one + two + m)
        groups[low] = sorted(groups[a] + groups[b])
        del groups[high]
    return list(groups.values())


def ward(one: Points, two: Points) -> float:
    """Return what joining two groups adds to the sum of squares within groups, from its definition."""

    def within(points: Points) -> float:
        return float(((points - points.mean(axis=0)) ** 2).sum())

    return within(np.vstack([one, two])) - within(one) - within(two)


def slow_k_ward(points: Points, k: int) -> list[int]:
    """Apply `slow_level` to all records, then to every group of 2k or more."""
    pending, done = [list(range(len(points)))], []
    while pending:
        records = pending.pop()
        if len(records) < 2 * k:
            done.append(records)
        else:
            pending += [[records[i] for i in group] for group in slow_level(points[records], k)]
    labels = np.zeros(len(points), np.int64)
    for label, records in enumerate(sorted(done)):
        labels[records] = label
    return [int(label) for label in labels]


@pytest.mark.parametrize("seed", range(15))
def test_equals_the_slow_reference(seed: int) -> None:
    """Source: `slow_k_ward`. Points drawn from continuous distributions, so that no costs are equal."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(int(generator.integers(2, 60)), 1 + seed % 5)) ** (1 + 2 * (seed % 2))
    k = int(generator.integers(1, min(9, len(points)) + 1))
    assert k_ward(points, k).tolist() == slow_k_ward(points, k)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tarragona", "eia"])
def test_loses_less_than_the_fixed_sizes_of_md(name: str) -> None:
    """Source: the purpose of k-Ward, sizes that follow the data, against MD, which starts the same way."""
    points = dataset(name)
    assert information_loss(points, k_ward(points, 3)) < information_loss(points, maximum_distance(points, 3))
