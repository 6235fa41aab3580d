"""M-d: published information losses, hand calculation, and a slow reference with another tree algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duckanon.kernels.first.spanning_tree import clusters, spanning_tree
from duckanon.kernels.loss import information_loss
from duckanon.literature.maximum_distance import _diameter, m_d
from tests.examples import examples
from tests.kernels.test_mdav import by_leaves, dataset, free_points, nasty_sets, squared, tied_points
from tests.literature.test_fixed_size import Slow

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Edge = tuple[int, int]

# Information loss 100 SSE/SST of z-scored data at k = 3, 4, 5, 10: Kabir et al., Tables VI and VII, row M-d,
# quoted from two papers that quote Laszlo and Mukherjee 2005.
PUBLISHED = {"tarragona": (16.63, 19.66, 24.50, 38.58), "census": (6.11, 8.24, 10.30, 17.17)}
TO_TWO_DIGITS = {("tarragona", 3), ("tarragona", 4), ("census", 5), ("census", 10)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_information_losses_are_near_the_published_ones(name: str) -> None:
    """Source: see PUBLISHED; 0.35 % where the end of the division, which is a guess, does not give the digits."""
    points = dataset(name)
    for k, printed in zip((3, 4, 5, 10), PUBLISHED[name], strict=True):
        loss = information_loss(points, m_d(points, k))
        if (name, k) in TO_TWO_DIGITS:
            assert f"{loss:.2f}" == f"{printed:.2f}"
        assert loss == pytest.approx(printed, rel=0.0035)


def slow_tree(points: Points) -> list[Edge]:
    """Kruskal: all pairs by length, then lower, then higher end; one is kept if it joins two trees."""
    n = len(points)
    distances = np.array([squared(points, query) for query in points])
    tree, name = [], list(range(n))
    for _, low, high in sorted((distances[i, j], i, j) for i in range(n) for j in range(i + 1, n)):
        if name[low] != name[high]:
            tree.append((low, high))
            name = [name[low] if other == name[high] else other for other in name]
    return tree


def component(edges: list[Edge], start: int) -> set[int]:
    """Return the records that hang together with one."""
    seen, stack = {start}, [start]
    while stack:
        at = stack.pop()
        fresh = {i + j - at for i, j in edges if at in (i, j)} - seen
        seen |= fresh
        stack.extend(fresh)
    return seen


def slow_clusters(points: Points, k: int) -> list[list[int]]:
    """Cut the longest edges first, where both sides keep k records; clusters by their lowest records."""
    edges = slow_tree(points)
    for low, high in sorted(edges, key=lambda e: (-squared(points[e[0]][None], points[e[1]])[0], e)):
        rest = [edge for edge in edges if edge != (low, high)]
        if min(len(component(rest, low)), len(component(rest, high))) >= k:
            edges = rest
    groups = {frozenset(component(edges, record)) for record in range(len(points))}
    return sorted(sorted(group) for group in groups)


def slow_diameter(points: Points, k: int) -> Labels:
    """Divide a cluster: all distances between the records left, every round."""
    slow = Slow(points)
    distances = np.array([squared(points, query) for query in points])
    while len(slow.left) >= 2 * k:
        among = distances[np.ix_(slow.left, slow.left)]
        row, column = np.unravel_index(np.argmax(among), among.shape)
        r, s = slow.left[row], slow.left[column]
        last = len(slow.left) < 3 * k
        slow.form(r, k)
        if last:
            break
        if s not in slow.left:
            s = next(other for other in slow.left if distances[r, other] == among.max())
        slow.form(s, k)
    slow.form(slow.left[0], len(slow.left))
    return slow.labels


def slow_m_d(points: Points, k: int) -> Labels:
    """Both parts; the first class of a divided cluster keeps its number, the others follow at the end."""
    groups = slow_clusters(points, k)
    labels, total = np.full(len(points), -1), len(groups)
    for number, group in enumerate(groups):
        labels[list(group)] = number
        if len(group) >= 2 * k:
            within = slow_diameter(points[list(group)], k)
            for record, part in zip(group, within, strict=True):
                if part > 0:
                    labels[record] = total - 1 + part
            total += int(within.max())
    return labels


@settings(max_examples=examples(150), deadline=None)
@given(case=st.one_of(tied_points(), free_points()))
def test_labels_are_those_of_the_slow_reference(case: tuple[Points, int]) -> None:
    points, k = case
    assert m_d(points, k).tolist() == slow_m_d(points, k).tolist()


@settings(max_examples=examples(100), deadline=None)
@given(case=st.one_of(tied_points(), free_points()))
def test_the_tree_is_that_of_kruskal(case: tuple[Points, int]) -> None:
    """Every edge the same, ties included; and every record comes after its parent."""
    points, _ = case
    tree = spanning_tree(points)
    found = sorted((min(r, int(tree.parent[r])), max(r, int(tree.parent[r]))) for r in range(1, len(points)))
    assert found == sorted(slow_tree(points))
    place = np.argsort(tree.order)
    assert tree.parent[0] == -1
    assert all(place[tree.parent[record]] < place[record] for record in range(1, len(points)))


@settings(max_examples=examples(100), deadline=None)
@given(case=st.one_of(tied_points(), free_points()), leaf=st.sampled_from([1, 2, 5, 99]))
def test_dividing_is_that_of_the_slow_reference(case: tuple[Points, int], leaf: int) -> None:
    points, k = case
    assert np.array_equal(by_leaves(leaf, _diameter, points, k), slow_diameter(points, k))


@pytest.mark.parametrize("name", nasty_sets())
@pytest.mark.parametrize("k", [2, 7])
def test_ties_and_outliers_give_the_labels_of_the_slow_reference(name: str, k: int) -> None:
    points = nasty_sets()[name][::6]
    assert m_d(points, k).tolist() == slow_m_d(points, k).tolist()


def test_the_longest_edge_that_leaves_k_on_either_side_is_cut_by_hand() -> None:
    """On a line: gaps 1, 2, 10, 3, 1, 40. At k = 2 the gap of 40 would part one record; that of 10 is cut.

    Then 3 would part 13 alone, and 2 would part 3 alone; the 1 between 16 and 17 has two records on either side,
    the 1 between 0 and 1 has not.
    """
    line = np.array([[0.0], [1.0], [3.0], [13.0], [16.0], [17.0], [57.0]])
    assert clusters(spanning_tree(line), 2).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert clusters(spanning_tree(line), 3).tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_equal_edges_are_cut_by_their_lowest_record_by_hand() -> None:
    """Four gaps of 1 between 5 records, k = 2: the edge 1-2 goes before 2-3; after it, no other can."""
    line = np.arange(5.0)[:, None]
    assert clusters(spanning_tree(line), 2).tolist() == [0, 0, 1, 1, 1]
    assert clusters(spanning_tree(line[::-1].copy()), 2).tolist() == [0, 0, 1, 1, 1]


def test_fewer_than_3k_records_are_divided_in_two_by_hand() -> None:
    """A star: no edge has two records outside. (10, 0) and (-10, 0) are most distant; the first takes the centre.

    Five records are fewer than 3k = 6, so the rest is the last class.
    """
    star = np.array([(0, 0), (10, 0), (-10, 0), (0, 9), (0, -9)], dtype=np.float64)
    assert clusters(spanning_tree(star), 2).tolist() == [0] * 5
    assert m_d(star, 2).tolist() == [0, 0, 1, 1, 1]


def test_3k_records_give_a_class_at_either_end_by_hand() -> None:
    """A star of seven, 3k = 6 or more: the spokes 15 and 16 are most distant, 15 is the lower record.

    It takes the centre, then 16 takes the shortest spoke, 11; the three left are one class.
    """
    star = np.vstack([np.zeros((1, 6)), np.diag([11.0, 12, 13, 14, 15, 16])])
    assert clusters(spanning_tree(star), 2).tolist() == [0] * 7
    assert m_d(star, 2).tolist() == [0, 1, 2, 2, 2, 0, 1]


def test_the_further_classes_of_a_divided_cluster_come_last_by_hand() -> None:
    """The star of five far away from two records, whose cluster has the lower number here, the higher there."""
    star = np.array([(0, 0), (10, 0), (-10, 0), (0, 9), (0, -9)], dtype=np.float64)
    pair = np.array([(900.0, 0), (901, 0)])
    assert m_d(np.vstack([pair, star]), 2).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert m_d(np.vstack([star, pair]), 2).tolist() == [0, 0, 2, 2, 2, 1, 1]


@pytest.mark.parametrize("points", [np.zeros((22, 3)), np.full((22, 1), 0.5), np.zeros((22, 0))])
def test_equal_records(points: Points) -> None:
    """By hand: the tree is a star around record 0 (every edge has it as its lower end), so nothing is cut at
    k = 5; dividing takes 0..4 and 5..9, then with 12 left 10..14, and 15..21 are the last class.
    """
    assert m_d(points, 5).tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 7


def test_row_order_does_not_matter_to_clusters_where_all_distances_differ() -> None:
    """Dividing is another matter: the lower of the most distant two has the first choice."""
    draw = np.random.default_rng(5)
    points, order = draw.normal(size=(301, 4)), draw.permutation(301)
    first, second = (clusters(spanning_tree(p), 4) for p in (points, points[order]))
    assert len(set(zip(first[order].tolist(), second.tolist(), strict=True))) == first.max() + 1
