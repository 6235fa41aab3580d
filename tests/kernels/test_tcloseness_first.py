"""t-closeness-first: Table 3, Eq. 3 and 4 by hand, Proposition 2, and a slow line-by-line reference."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from duckanon.kernels.first.tcloseness_first import class_size, stratified_parts, tcloseness_first
from duckanon.kernels.points import zscore
from tests.examples import examples
from tests.kernels.distances import magnified
from tests.reference import reference_points

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def stratified(points: Points, order: NDArray[np.float64], size: int) -> Labels:
    """Give the classes of a table that is not cut into parts."""
    return stratified_parts(points, order, size, len(points))


T_VALUES = (0.01, 0.05, 0.09, 0.13, 0.17, 0.21, 0.25)

# Soria-Comas et al. 2015, Table 3: "minimum/average" class size; the printed columns MCD (FEDTAX) and HCD
# (FICA) are equal. Averages are printed without decimals: 1080 records in 22 classes are 49.09 on average.
TABLE_3 = {
    2: "49/49 10/10 6/6 4/4 3/3 3/3 2/2",
    5: "49/49 10/10 6/6 5/5 5/5 5/5 5/5",
    10: "49/49 10/10 10/10 10/10 10/10 10/10 10/10",
    15: "49/49 15/15 15/15 15/15 15/15 15/15 15/15",
    20: "49/49 20/20 20/20 20/20 20/20 20/20 20/20",
    25: "49/49 25/25 25/25 25/25 25/25 25/25 25/25",
    30: "49/49 30/30 30/30 30/30 30/30 30/30 30/30",
}


@pytest.mark.parametrize("sensitive", ["FEDTAX", "FICA"])
def test_table_3(sensitive: str) -> None:
    """Source: Soria-Comas et al. 2015, Table 3, all 49 cells; quasi-identifiers TAXINC and POTHVAL."""
    points = zscore(reference_points("census.csv", ["TAXINC", "POTHVAL"])[1])
    order = reference_points("census.csv", [sensitive])[1][:, 0]
    table = {}
    for k in TABLE_3:
        sizes = [np.bincount(tcloseness_first(points, order, k, t)) for t in T_VALUES]
        table[k] = " ".join(f"{size.min()}/{size.mean():.0f}" for size in sizes)
    assert table == TABLE_3


@pytest.mark.parametrize(
    ("n", "k", "t", "size"),
    [
        (1080, 2, 0.25, 2),  # 1080 / 540.5 = 1.998
        (1080, 2, 0.01, 49),  # 1080 / 22.58 = 47.8 -> 48; 24 records remain for 22 classes: one more each
        (21, 1, 0.01, 21),  # 21 / 1.4 = 15 exactly (16 in floats); 6 remain for 1 class: 21
        (41, 1, Decimal("0.05"), 10),  # 41 / 5 = 8.2 -> 9; 5 remain for 4 classes: 10
        (7, 4, 1.0, 7),  # one class of 4 leaves 3: 7
        (11, 4, 1, 5),  # two classes of 4 leave 3: 5
        (12, 4, "1", 4),
        (10, 1, 0, 10),  # EMD 0 needs everything
        (10, 10, 0.5, 10),
        (1, 1, 0.5, 1),
        (100, 1, Fraction(1, 3), 2),  # 100 / 67 = 1.49 -> 2
    ],
)
def test_class_size_by_hand(n: int, k: int, t: float | Decimal | Fraction | str, size: int) -> None:
    """Source: Eq. 3 and Eq. 4 (with the floor of the text), worked in the comments."""
    assert class_size(n, k, t) == size


def slow_strata(order: NDArray[np.float64], size: int) -> list[set[int]]:
    """Return S_1..S_k: floor(n / k) records each, the remainder in the central one or two."""
    n = len(order)
    ranked = sorted(range(n), key=lambda record: (order[record], record))
    lengths = [n // size] * size
    if size % 2:
        lengths[(size + 1) // 2 - 1] += n % size
    else:
        lengths[size // 2 - 1] += (n % size) // 2
        lengths[size // 2] += n % size - (n % size) // 2
    ends = np.cumsum(lengths)
    return [set(ranked[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def slow_stratified(points: Points, order: NDArray[np.float64], size: int) -> Labels:
    """Algorithm 3 line by line, with sets S_1..S_k of records; `size` is final."""
    points, strata = magnified(points), slow_strata(order, size)
    left = set(range(len(points)))
    rest = np.zeros(points.shape[1])
    for record in range(len(points)):
        rest += points[record]
    labels = np.full(len(points), -1)

    def distance(record: int, query: Points) -> float:
        total = 0.0
        for value, other in zip(points[record], query, strict=True):
            total += (value - other) ** 2
        return total

    def form(seed: int, label: int) -> None:
        formed: list[int] = []
        for i in range(1, size + 1):
            stratum = strata[i - 1]

            def closest(stratum: set[int] = stratum) -> None:
                record = min(stratum, key=lambda r: (distance(r, points[seed]), r))
                formed.append(record)
                stratum.remove(record)
                left.remove(record)

            closest()
            if len(stratum) > len(strata[0]) and len(formed) == i:
                closest()
        for record in formed:
            rest[:] -= points[record]
        labels[formed] = label

    label = 0
    while left:
        average = rest / len(left)
        x0 = min(left, key=lambda r: (-distance(r, average), r))
        form(x0, label)
        if left:
            x1 = min(left, key=lambda r: (-distance(r, points[x0]), r))
            form(x1, label + 1)
        label += 2
    return labels


@st.composite
def cases(draw: st.DrawFn) -> tuple[Points, NDArray[np.float64], int]:
    """Draw points and sensitive values, both with many ties or none, and a class size."""
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    elements = draw(st.sampled_from([st.integers(0, 2).map(float), st.floats(-1e6, 1e6), st.just(1.5)]))
    points = draw(arrays(np.float64, (n, d), elements=elements))
    order = draw(
        arrays(np.float64, n, elements=st.integers(0, draw(st.sampled_from([0, 3, 1000]))).map(float))
    )
    return points, order, draw(st.integers(1, n))


@settings(max_examples=examples(150))
@given(case=cases())
def test_labels_are_those_of_the_slow_reference(case: tuple[Points, NDArray[np.float64], int]) -> None:
    points, order, size = case
    labels = stratified(points, order, size)
    final = class_size(len(points), size, 1) if len(points) > 1 else 1
    assert np.array_equal(labels, slow_stratified(points, order, final))


def test_long_strata_agree_with_the_slow_reference() -> None:
    """Strata of several scans each (more than 64 records), with ties in points and values."""
    draw = np.random.default_rng(8)
    points = draw.integers(0, 6, (431, 2)).astype(float)
    order = draw.integers(0, 50, 431).astype(float)
    for size in (2, 3, 4):
        assert np.array_equal(stratified(points, order, size), slow_stratified(points, order, size))


@settings(max_examples=examples(100))
@given(case=cases(), t=st.decimals(0, 1, places=2))
def test_classes_keep_k_and_spread_over_the_strata(
    case: tuple[Points, NDArray[np.float64], int], t: Decimal
) -> None:
    """Source: section 7; sizes are k' or k' + 1, and floor(n / k') classes are formed."""
    points, order, k = case
    labels = tcloseness_first(points, order, k, t)
    size = class_size(len(points), k, t)
    sizes = np.bincount(labels)
    assert labels.dtype == np.int64
    assert size >= k
    assert len(sizes) == len(points) // size
    assert set(sizes.tolist()) <= {size, size + 1}
    assert np.array_equal(labels, tcloseness_first(points, order, k, t))


@settings(max_examples=examples(60))
@given(
    classes=st.integers(1, 12), k=st.integers(1, 8), part=st.integers(1, 96), seed=st.integers(0, 2**32 - 1)
)
def test_proposition_2(classes: int, k: int, part: int, seed: int) -> None:
    """Source: Proposition 2: without ties and remainder, EMD <= (n - k) / (2 (n - 1) k); exact fractions."""
    n = classes * k
    assume(n > 1)
    draw = np.random.default_rng(seed)
    ranks = draw.permutation(n)
    labels = stratified_parts(draw.normal(size=(n, 2)), ranks, k, part)
    assert np.bincount(labels).tolist() == [k] * classes
    for label in range(classes):
        members = set(ranks[labels == label].tolist())
        below, emd = 0, Fraction(0)
        for rank in range(n - 1):
            below += rank in members
            emd += abs(Fraction(below, k) - Fraction(rank + 1, n))
        assert emd / (n - 1) <= Fraction(n - k, 2 * (n - 1) * k)


@settings(max_examples=examples(100))
@given(case=cases(), part=st.integers(1, 60))
def test_parts_form_as_many_classes_of_the_same_sizes(
    case: tuple[Points, NDArray[np.float64], int], part: int
) -> None:
    """Source: Figures 3 and 4: a class takes one record of each stratum, and one in the middle that is over."""
    points, order, size = case
    labels, whole = stratified_parts(points, order, size, part), stratified(points, order, size)
    assert np.sort(np.bincount(labels)).tolist() == np.sort(np.bincount(whole)).tolist()
    if part >= len(points):
        assert np.array_equal(labels, whole)


def test_parts_hold_neighbours_from_every_stratum() -> None:
    """By hand: strata {0..3}, {4..7}; x up to 1 on the left, from 10 on the right, two of each in each stratum."""
    x = np.array([[0.0], [10.0], [1.0], [11.0], [10.0], [0.0], [11.0], [1.0]])
    assert stratified_parts(x, np.arange(8), 2, 4).tolist() == [0, 2, 1, 3, 2, 0, 3, 1]
    assert stratified_parts(x, np.arange(8), 2, 8).tolist() == [0, 2, 3, 1, 2, 0, 1, 3]


def test_parts_of_equal_points_are_cut_by_the_order_of_their_values() -> None:
    """By hand: strata {0..3}, {4..7}; no point differs, so that the first two of each stratum go left."""
    labels = stratified_parts(np.zeros((8, 1)), np.arange(8), 2, 4)
    assert labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_of_some_equal_points_the_first_of_their_stratum_go_left() -> None:
    """By hand: strata {0..3}, {4..7}; the two lowest of each are 1 and 2 (of three equal ones), 6 and 7."""
    x = np.array([[5.0], [1.0], [1.0], [1.0], [5.0], [5.0], [1.0], [1.0]])
    assert stratified_parts(x, np.arange(8), 2, 4).tolist() == [3, 0, 1, 2, 2, 3, 0, 1]


def test_order_may_be_text_and_ties_go_to_the_lowest_record() -> None:
    """By hand: equal values make the strata {0, 1} and {2, 3}; records 0 and 2 are alike, 1 and 3 too."""
    points = np.array([[0.0], [9.0], [0.0], [9.0]])
    assert stratified(points, np.array(["a", "a", "a", "a"]), 2).tolist() == [0, 1, 0, 1]
    assert stratified(points, np.array(["b", "a", "b", "a"]), 2).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("order", "k", "t", "message"),
    [
        (np.zeros(3), 2, 0.1, r"order must hold one value a record, of shape \(4,\)"),
        (np.array([0.0, np.nan, 1.0, 2.0]), 2, 0.1, "NaN in record 1"),
        (np.zeros(4), 2, 1.5, r"t must be a number within 0\.\.1, not 1.5"),
        (np.zeros(4), 2, -0.1, "t must be"),
        (np.zeros(4), 2, float("nan"), "t must be"),
        (np.zeros(4), 2, "little", "t must be"),
        (np.zeros(4), 2, "1/0", r"t must be a number within 0\.\.1, not 1/0"),
    ],
)
def test_unusable_input_is_refused(order: Points, k: int, t: float | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tcloseness_first(np.zeros((4, 1)), order, k, t)


def test_stratified_refuses_a_size_out_of_range() -> None:
    with pytest.raises(ValueError, match="k = 5 needs"):
        stratified(np.zeros((4, 1)), np.zeros(4), 5)
