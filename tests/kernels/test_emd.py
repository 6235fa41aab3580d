"""Exact EMD: worked examples of Li 2007, and independent oracles for all three ground distances."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.closeness.emd import emd, emd_fraction, emd_ordered, emd_per_class
from duckanon.kernels.closeness.reference import reference
from tests.examples import examples
from tests.kernels.distances import (
    DISEASE_PATHS,
    DISEASES,
    ground_distance,
    slow_emd,
    transport_emd,
)

SALARIES = [3, 4, 5, 6, 7, 8, 9, 10, 11]
TABLE_3_DISEASES = [
    "gastric ulcer", "gastritis", "stomach cancer", "gastritis", "flu", "bronchitis", "bronchitis",
    "pneumonia", "stomach cancer",
]  # fmt: skip


def salary_emd(*thousands: int) -> Fraction:
    known = reference(np.ones(9, dtype=np.int64), "ordered")
    return Fraction(*emd_fraction(known, [SALARIES.index(x) for x in thousands]))


def disease_emd(counts: list[int], *names: str) -> Fraction:
    known = reference(counts, "hierarchical", DISEASE_PATHS)
    return Fraction(*emd_fraction(known, [DISEASES.index(x) for x in names]))


def real_frequencies() -> list[int]:
    return [TABLE_3_DISEASES.count(x) for x in DISEASES]


def test_salary_classes_of_li_section_5_3() -> None:
    """Li 2007, section 5.3: 0.375 and 0.167, in the footnote exactly 27/72."""
    assert salary_emd(3, 4, 5) == Fraction(3, 8)
    assert salary_emd(6, 8, 11) == Fraction(1, 6)


def test_salary_classes_of_li_table_5() -> None:
    """Li 2007, Table 5, is 0.167-close: by hand 1/6, 1/6 and 1/12."""
    assert [salary_emd(3, 5, 9), salary_emd(6, 8, 11), salary_emd(4, 7, 10)] == [
        Fraction(1, 6),
        Fraction(1, 6),
        Fraction(1, 12),
    ]


def test_disease_classes_of_li_read_uniformly() -> None:
    """Li 2007, section 5.3, prints 0.5 and 0.278: so it is with the six diseases equally frequent."""
    uniform = [1] * 6
    assert disease_emd(uniform, "gastric ulcer", "gastritis", "stomach cancer") == Fraction(1, 2)
    assert disease_emd(uniform, "gastric ulcer", "stomach cancer", "pneumonia") == Fraction(5, 18)


def test_disease_classes_of_li_with_the_frequencies_of_table_3() -> None:
    """The same classes against the nine records of Table 3, and the classes of Table 5 (hand calculation)."""
    counts = real_frequencies()
    assert disease_emd(counts, "gastric ulcer", "gastritis", "stomach cancer") == Fraction(4, 9)
    assert disease_emd(counts, "gastric ulcer", "stomach cancer", "pneumonia") == Fraction(7, 27)
    assert disease_emd(counts, "gastritis", "flu", "bronchitis") == Fraction(8, 27)
    assert disease_emd(counts, "gastritis", "bronchitis", "stomach cancer") == Fraction(5, 27)


def test_ground_distances_of_li_section_5_3() -> None:
    """Li 2007, section 5.3: flu to bronchitis 1/3, flu to stomach cancer 3/3; a point mass moves so far."""
    counts = [1, 1, 1, 10**6, 1, 1]
    flu = DISEASES.index("flu")
    for name, expected in (("bronchitis", Fraction(1, 3)), ("stomach cancer", Fraction(1))):
        assert ground_distance(flu, DISEASES.index(name), 6, "hierarchical", DISEASE_PATHS) == expected
        assert abs(disease_emd(counts, name) - expected) < Fraction(1, 10**5)


@st.composite
def tables(draw: st.DrawFn, largest_m: int) -> tuple[list[int], str, np.ndarray | None]:
    m = draw(st.integers(1, largest_m))
    counts = draw(st.lists(st.integers(1, 9), min_size=m, max_size=m))
    distance = draw(st.sampled_from(["ordered", "equal", "hierarchical"]))
    if distance != "hierarchical":
        return counts, distance, None
    levels = [draw(st.permutations(range(m)))]
    for _ in range(draw(st.integers(0, 3))):
        nodes = sorted(set(levels[-1]))
        up = {x: draw(st.integers(0, 2)) for x in nodes}
        levels.append([up[x] for x in levels[-1]])
    return counts, distance, np.array([*levels, [0] * m]).T


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_equals_the_transport_problem(data: st.DataObject) -> None:
    """EMD is by definition the optimum of a transport problem; scipy's LP solver finds it independently."""
    counts, distance, paths = data.draw(tables(6))
    codes = data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1, max_size=8))
    known = reference(counts, distance, paths)
    assert emd(known, codes) == pytest.approx(transport_emd(codes, counts, distance, paths), abs=1e-9)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_equals_the_dense_formulas(data: st.DataObject) -> None:
    """Dense Fractions over the whole domain (Li 2007, sections 5.1 and 5.2), for all classes at once."""
    counts, distance, paths = data.draw(tables(40))
    code = st.integers(0, len(counts) - 1)
    classes = data.draw(st.lists(st.lists(code, min_size=1, max_size=12), min_size=1, max_size=4))
    known = reference(counts, distance, paths)
    expected = [slow_emd(own, counts, distance, paths) for own in classes]
    assert [Fraction(*emd_fraction(known, own)) for own in classes] == expected
    offsets = np.cumsum([0, *(len(own) for own in classes)])
    per_class = emd_per_class(known, np.concatenate(classes), offsets)
    assert per_class.tolist() == [float(x) for x in expected]


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_a_part_without_some_values_equals_the_dense_formulas(data: st.DataObject) -> None:
    """Dense Fractions over the values of the whole table, of which the part may lack some."""
    m = data.draw(st.integers(1, 200))
    counts = data.draw(st.lists(st.sampled_from([0, 0, 1, 5]), min_size=m, max_size=m).filter(any))
    distance = data.draw(st.sampled_from(["ordered", "equal"]))
    there = [code for code, count in enumerate(counts) if count]
    own = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=12))
    known = reference(counts, distance, part=True)
    expected = slow_emd(own, counts, distance, None)
    assert Fraction(*emd_fraction(known, own)) == expected
    assert emd_per_class(known, own, [0, len(own)]).tolist() == [float(expected)]
    with pytest.raises(ValueError, match="has count 0: codes must be dense ranks"):
        reference([1, 0], distance)
    with pytest.raises(ValueError, match="has count 0"):
        reference([0, 0], distance, part=True)


@pytest.mark.parametrize("distance", ["ordered", "equal", "hierarchical"])
def test_the_whole_table_has_distance_zero(distance: str) -> None:
    """EMD of a distribution to itself is 0; several copies of the table have the same distribution."""
    known = reference(
        [3, 1, 2, 5], distance, [[0, 0], [1, 0], [2, 0], [3, 0]] if distance[0] == "h" else None
    )
    table = np.repeat(np.arange(4), [3, 1, 2, 5])
    assert emd_fraction(known, table)[0] == 0
    assert emd_fraction(known, np.concatenate([table, table]))[0] == 0


@pytest.mark.parametrize(("distance", "paths"), [("ordered", None), ("equal", None), ("hierarchical", [[7]])])
def test_a_single_value_has_distance_zero(distance: str, paths: list[list[int]] | None) -> None:
    """With m = 1 there is nowhere to move mass: 0, not a division by zero."""
    assert emd(reference([4], distance, paths), [0, 0]) == 0.0


def test_exact_where_products_exceed_64_bits() -> None:
    """Whole numbers by hand: n = 2^30 on 2^14 values, 2^21 records at the first; EMD 1/2, s n m = 2^65."""
    known = reference(np.full(2**14, 2**16), "ordered")
    numerator, denominator = emd_fraction(known, np.zeros(2**21, dtype=np.int64))
    assert denominator == 2**30 * 2**21 * (2**14 - 1)
    assert 2 * numerator == denominator
    assert numerator > 2**63


def test_exact_in_large_random_tables() -> None:
    """Python integers over the whole domain, where 64 bits do not hold the sum."""
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 2**18, size=2**13)
    codes = np.sort(rng.integers(0, 2**10, size=2**21))
    numerator, _ = emd_fraction(reference(counts, "ordered"), codes)
    n, s = int(counts.sum()), len(codes)
    own = np.cumsum(np.bincount(codes, minlength=len(counts))).tolist()
    table = np.cumsum(counts).tolist()
    assert numerator == sum(abs(n * p - s * q) for p, q in zip(own, table, strict=True))
    assert numerator > 2**62


def test_emd_ordered_takes_values() -> None:
    """Li 2007, section 5.3, by values instead of codes; NaN is one value, the last."""
    assert emd_ordered([4.0, 3.0, 5.0], SALARIES) == 0.375
    nan = float("nan")
    assert emd_ordered([nan], [1.0, 2.0, nan, nan]) == emd_ordered([3.0], [1.0, 2.0, 3.0, 3.0])
    assert emd_ordered([0.0], [-0.0, 1.0]) == 0.5


@pytest.mark.parametrize(
    ("own", "population", "message"),
    [
        ([2.5], [1.0, 2.0, 3.0], "2.5 does not occur"),
        ([9.0], [1.0, 2.0], "9.0 does not occur"),
        ([float("nan")], [1.0, 2.0], "nan does not occur"),
        ([], [1.0], "the class has no values"),
        ([1.0], [], "the population has no values"),
    ],
)
def test_emd_ordered_refuses(own: list[float], population: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        emd_ordered(own, population)


@pytest.mark.parametrize(
    ("counts", "distance", "paths", "message"),
    [
        ([], "ordered", None, "counts must be"),
        ([1.5], "ordered", None, "counts must be"),
        ([2, 0], "ordered", None, "value code 1 has count 0"),
        ([2**30, 2**30], "ordered", None, "2\\^31"),
        ([1], "near", None, "unknown distance 'near'"),
        ([1], "ordered", [[0]], "takes no paths"),
        ([1], "hierarchical", None, "needs paths"),
        ([1, 1], "hierarchical", [[0, 0]], "row for each of the 2"),
        ([1, 1], "hierarchical", [[0, 0], [0, 0]], "share a leaf"),
        ([1, 1], "hierarchical", [[0, 0], [1, 1]], "more than one root"),
        ([1, 1, 1], "hierarchical", [[0, 0, 1, 0], [1, 0, 2, 0], [2, 1, 2, 0]], "two parents"),
    ],
)
def test_reference_refuses(counts, distance, paths, message) -> None:
    with pytest.raises(ValueError, match=message):
        reference(counts, distance, paths)


@pytest.mark.parametrize(
    ("codes", "offsets", "message"),
    [
        ([0, 3], [0, 2], "within 0..2"),
        ([0, -1], [0, 2], "within 0..2"),
        ([0.0, 1.0], [0, 2], "must be integers"),
        ([0, 1], [0, 1], "ascend from 0 to the 2 records"),
        ([0, 1], [0, 0, 2], "no class empty"),
        ([0, 1], [2], "at least two"),
    ],
)
def test_classes_are_checked(codes, offsets, message) -> None:
    with pytest.raises(ValueError, match=message):
        emd_per_class(reference([1, 1, 1], "ordered"), codes, offsets)


def test_an_empty_class_has_no_emd() -> None:
    with pytest.raises(ValueError, match="an empty class"):
        emd(reference([1, 1], "ordered"), [])
