"""SABRE: t and k always hold, its bound against a transport problem, hand calculation, and a slow reference."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import linprog

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.points import zscore
from duckanon.literature.sabre import buckets_within, class_sizes, obeys, sabre, table_of
from tests.examples import examples
from tests.kernels.distances import ground_distance, magnified, slow_emd, transport_emd
from tests.reference import eia_points, reference_points

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

PATHS = [[0, 0, 0, 0], [1, 1, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0], [4, 3, 1, 0], [5, 3, 1, 0], [6, 4, 1, 0]]


def limit_of(known, t) -> Fraction:
    """t as the two phases take it: in records and steps of the distance."""
    return Fraction(t) * known.total * known.scale


@st.composite
def tables(draw: st.DrawFn, most: int = 7):
    """Draw the counts of a table by value, with a distance and its tree."""
    m = draw(st.integers(1, most))
    counts = draw(st.lists(st.integers(1, 6), min_size=m, max_size=m))
    distance = draw(st.sampled_from(["ordered", "ordered", "equal", "hierarchical"]))
    chosen = sorted(draw(st.permutations(range(7)))[:m])
    paths = [PATHS[v] for v in chosen] if distance == "hierarchical" and m <= 7 else None
    return reference(counts, distance, paths), paths


def bound_of_bucket(known, values, paths) -> Fraction:
    """The greatest EMD between one value and the table inside a bucket: all of its mass goes to the value."""
    m, counts = len(known.counts), known.counts
    whole = sum(int(counts[i]) for i in values)
    return max(
        sum(Fraction(int(counts[i]), whole) * ground_distance(i, v, m, known.distance, paths) for i in values)
        for v in values
    )


def slow_buckets(known, t, paths) -> list[list[int]]:
    """Greedy bucketization by its description: lists of values, each with its share times its bound."""

    def weighed(values) -> Fraction:
        share = Fraction(sum(int(known.counts[i]) for i in values), known.total)
        return share * bound_of_bucket(known, values, paths)

    def parts(values) -> list[list[int]]:
        if len(values) == 1:
            return [values]
        if known.distance == "ordered":
            cuts = [[values[:i], values[i:]] for i in range(1, len(values))]
            return min(cuts, key=lambda cut: weighed(cut[0]) + weighed(cut[1]))
        tree = paths if known.distance == "hierarchical" else [[v, 0] for v in range(len(known.counts))]
        for level in range(len(tree[0]) - 1, -1, -1):
            nodes = list(dict.fromkeys(tree[v][level] for v in values))
            if len(nodes) > 1:
                return [[v for v in values if tree[v][level] == node] for node in nodes]
        raise AssertionError(values)

    buckets = [list(range(len(known.counts)))]
    while sum(weighed(bucket) for bucket in buckets) > t:
        gains = [weighed(bucket) - sum(weighed(part) for part in parts(bucket)) for bucket in buckets]
        which = gains.index(max(gains))
        buckets[which : which + 1] = parts(buckets[which])
    return buckets


def spread_share(known, buckets, taken) -> list[Fraction]:
    """P: what a class takes from each bucket, spread inside it as the table is."""
    share = [Fraction(0)] * len(known.counts)
    for bucket, records in zip(buckets, taken, strict=True):
        whole = sum(int(known.counts[i]) for i in bucket)
        for i in bucket:
            share[i] = Fraction(int(records), int(sum(taken))) * Fraction(int(known.counts[i]), whole)
    return share


def slow_bound(known, buckets, taken, paths) -> Fraction:
    """The bound of a class: P against the table by `slow_emd` on records enough to be whole, and the buckets."""
    share = spread_share(known, buckets, taken)
    denominator = int(np.lcm.reduce([x.denominator for x in share]))
    records = [i for i, x in enumerate(share) for _ in range(int(x * denominator))]
    inside = sum(
        (
            Fraction(int(a), int(sum(taken))) * bound_of_bucket(known, bucket, paths)
            for bucket, a in zip(buckets, taken, strict=True)
        ),
        Fraction(0),
    )
    return slow_emd(records, known.counts, known.distance, paths) + inside


def slow_sabre(points: Points, codes: Labels, k: int, known, t: Fraction, paths) -> Labels:
    """Both phases line by line, in fractions and sets of records."""
    buckets, points = slow_buckets(known, t, paths), magnified(points)

    def halves(taken) -> list[list[int]]:
        first, up = [], True
        for a in taken:
            first.append((a + 1) // 2 if up else a // 2)
            up = up != bool(a % 2)
        return [first, [a - b for a, b in zip(taken, first, strict=True)]]

    def leaves(taken) -> list[list[int]]:
        both = halves(taken)
        if all(sum(half) >= k and slow_bound(known, buckets, half, paths) <= t for half in both):
            return leaves(both[0]) + leaves(both[1])
        return [taken]

    def far(record: int, query: Points) -> float:
        total = 0.0
        for value, other in zip(points[record], query, strict=True):
            total += (value - other) ** 2
        return total

    pools = [{r for r in range(len(points)) if codes[r] in bucket} for bucket in buckets]
    labels, rest = np.full(len(points), -1), np.zeros(points.shape[1])
    for point in points:
        rest += point
    for label, due in enumerate(leaves([len(pool) for pool in pools])):
        centre = rest / sum(len(pool) for pool in pools)
        open_pools = set().union(*[pool for pool, a in zip(pools, due, strict=True) if a])
        seed = min(open_pools, key=lambda r: (-far(r, centre), r))
        for pool, a in zip(pools, due, strict=True):
            for record in sorted(pool, key=lambda r: (far(r, points[seed]), r))[:a]:
                pool.remove(record)
                rest -= points[record]
                labels[record] = label
    return labels


@st.composite
def cases(draw: st.DrawFn):
    """Draw points with many ties or none, the codes of a drawn table in any order, k and t."""
    known, paths = draw(tables())
    codes = np.array(draw(st.permutations(np.repeat(np.arange(len(known.counts)), known.counts).tolist())))
    elements = draw(st.sampled_from([st.integers(0, 2).map(float), st.floats(-1e3, 1e3), st.just(1.5)]))
    points = draw(arrays(np.float64, (known.total, draw(st.integers(1, 2))), elements=elements))
    t = draw(st.fractions(0, Fraction(1, 2), max_denominator=30))
    return points, codes, draw(st.integers(1, known.total)), known, t, paths


@settings(max_examples=examples(150), deadline=None)
@given(case=cases())
def test_labels_are_those_of_the_slow_reference(case) -> None:
    points, codes, k, known, t, paths = case
    labels = sabre(points, codes, k, Threshold(known, t=t))
    assert labels.dtype == np.int64
    assert np.array_equal(labels, slow_sabre(points, codes, k, known, t, paths))


@settings(max_examples=examples(200), deadline=None)
@given(case=cases())
def test_k_and_t_hold_always(case) -> None:
    """Source: the guarantee, with exact EMD; the labels do not change from run to run."""
    points, codes, k, known, t, paths = case
    labels = sabre(points, codes, k, Threshold(known, t=t))
    assert np.bincount(labels).min() >= k
    for label in range(labels.max() + 1):
        assert slow_emd(codes[labels == label], known.counts, known.distance, paths) <= t
    assert np.array_equal(labels, sabre(points, codes, k, Threshold(known, t=t)))


@settings(max_examples=examples(100), deadline=None)
@given(table=tables(), t=st.fractions(0, 1, max_denominator=30))
def test_buckets_are_those_of_the_slow_reference(table, t: Fraction) -> None:
    """Source: the abstract's greedy partition, every value in one bucket; bounds by all values of a bucket."""
    known, paths = table
    buckets = buckets_within(known, limit_of(known, t))
    code = np.argsort(known.position)
    values = [code[bucket.first : bucket.last].tolist() for bucket in buckets]
    assert values == slow_buckets(known, t, paths)
    for bucket, own in zip(buckets, values, strict=True):
        whole = int(known.counts[own].sum())
        assert Fraction(bucket.bound, whole * known.scale) == bound_of_bucket(known, own, paths)


@settings(max_examples=examples(60), deadline=None)
@given(table=tables(5), t=st.fractions(0, 1, max_denominator=12), data=st.data())
def test_no_class_exceeds_the_bound(table, t: Fraction, data: st.DataObject) -> None:
    """Every class that takes its records so has an EMD of at most t if its bound obeys t: all are tried."""
    known, paths = table
    cut = table_of(known, limit_of(known, data.draw(st.fractions(0, 1, max_denominator=12))))
    taken = np.array([data.draw(st.integers(0, min(3, int(size)))) for size in cut.sizes])
    code = np.argsort(known.position)
    buckets = [code[bucket.first : bucket.last].tolist() for bucket in cut.buckets]
    if taken.sum() == 0:
        taken[0] = 1
    bound = slow_bound(known, buckets, taken, paths)
    assert obeys(cut._replace(limit=limit_of(known, t)), taken) == (bound <= t)
    assert obeys(cut._replace(limit=limit_of(known, bound)), taken)
    classes = [[]]
    for bucket, records in zip(buckets, taken, strict=True):
        pool = [v for v in bucket for _ in range(int(known.counts[v]))]
        choices = set(combinations(pool, int(records)))
        classes = [[*rest, *choice] for rest in classes for choice in choices][:2000]
    for members in classes:
        assert slow_emd(members, known.counts, known.distance, paths) <= bound


def test_the_parts_of_the_bound_as_transport_problems() -> None:
    """Source: the definition of EMD, by linear programming, for buckets {0, 1, 2} and {3, 4} of a path."""
    known = reference([2, 1, 3, 4, 2], "ordered")
    cost = [abs(i - j) / 4 for i in range(5) for j in range(5)]
    rows, columns = np.kron(np.eye(5), np.ones(5)), np.kron(np.ones(5), np.eye(5))

    def moved(start, end) -> float:
        ends = [float(x) for x in (*start, *end)]
        return linprog(cost, A_eq=np.vstack([rows, columns]), b_eq=ends, method="highs").fun

    buckets = [[0, 1, 2], [3, 4]]
    inside = [
        max(moved(np.eye(5)[v], spread_share(known, buckets, own)) for v in bucket)
        for bucket, own in zip(buckets, ([1, 0], [0, 1]), strict=True)
    ]
    share = spread_share(known, buckets, [3, 1])
    between = moved(share, known.counts / 12)
    expected = between + 0.75 * inside[0] + 0.25 * inside[1]
    assert float(slow_bound(known, buckets, [3, 1], None)) == pytest.approx(expected)
    assert transport_emd([0, 0, 0, 4], known.counts, "ordered") <= expected


def test_buckets_by_hand() -> None:
    """Four values, one record each: all in one, 6 steps of 1 / 3 for 4 records, EMD 1/2; in two, 1/6.

    With a tree the root goes to its children, the values 0 to 2 and 3 to 6.
    """
    known = reference([1, 1, 1, 1], "ordered")

    def cut(t: Fraction) -> list[tuple[int, int, int]]:
        return [bucket[:3] for bucket in buckets_within(known, limit_of(known, t))]

    assert cut(Fraction(1, 2)) == [(0, 4, 6)]
    assert cut(Fraction(499, 1000)) == [(0, 2, 1), (2, 4, 1)]
    assert cut(Fraction(1, 6)) == [(0, 2, 1), (2, 4, 1)]
    assert cut(Fraction(1, 7)) == [(0, 1, 0), (1, 2, 0), (2, 4, 1)]
    assert cut(Fraction(0)) == [(i, i + 1, 0) for i in range(4)]
    tree = reference([1] * 7, "hierarchical", PATHS)
    assert [bucket[:2] for bucket in buckets_within(tree, limit_of(tree, "0.6"))] == [(0, 3), (3, 7)]


def test_classes_by_hand() -> None:
    """Two values, six and three records, t = 0: classes of (2, 1) would do, but halves of (6, 3) do not.

    With t = 1/12 the halves (3, 2) and (3, 1) do: 3/5 is 1/15 away from 2/3, 3/4 is 1/12 away.
    """
    known = reference([6, 3], "equal")
    assert class_sizes(table_of(known, limit_of(known, 0)), 1).tolist() == [[6, 3]]
    twelfth = table_of(known, limit_of(known, Fraction(1, 12)))
    assert class_sizes(twelfth, 4).tolist() == [[3, 2], [3, 1]]
    assert class_sizes(twelfth, 5).tolist() == [[6, 3]]
    even = reference([4, 4], "ordered")
    assert class_sizes(table_of(even, limit_of(even, 0)), 2).tolist() == [[1, 1]] * 4
    assert class_sizes(table_of(even, limit_of(even, 0)), 3).tolist() == [[2, 2]] * 2


@pytest.mark.parametrize(("k", "t"), [(3, "0.05"), (3, "0.15"), (10, "0.25")])
def test_guarantee_on_eia(k: int, t: str) -> None:
    """RESREVENUE of EIA, which has many ties, as the sensitive attribute; EMD dense in floats."""
    raw = eia_points()
    codes = np.unique(raw[:, 1], return_inverse=True)[1]
    known = reference(np.bincount(codes), "ordered")
    labels = sabre(zscore(raw), codes, k, Threshold(known, t=Decimal(t)))
    table = np.cumsum(known.counts) / len(codes)
    assert labels.max() > 10
    for label in range(labels.max() + 1):
        inside = np.cumsum(np.bincount(codes[labels == label], minlength=len(table)))
        assert inside[-1] >= k
        assert np.abs(inside / inside[-1] - table).sum() / (len(table) - 1) <= float(t) + 1e-12


def test_guarantee_with_equal_distance() -> None:
    """MONTH of EIA as a category, with dense EMD in floats."""
    points = zscore(eia_points())
    codes = np.unique(reference_points("eia.csv", ["MONTH"])[1][:, 0], return_inverse=True)[1]
    known = reference(np.bincount(codes), "equal")
    labels = sabre(points, codes, 5, Threshold(known, t=Decimal("0.3")))
    assert np.bincount(labels).min() >= 5
    assert labels.max() > 50
    shares = known.counts / len(codes)
    for label in range(labels.max() + 1):
        own = np.bincount(codes[labels == label], minlength=len(shares))
        assert np.abs(own / own.sum() - shares).sum() / 2 <= 0.3 + 1e-12


def test_unusable_codes_and_thresholds_are_refused() -> None:
    known = reference([2, 2], "ordered")
    points, codes, threshold = np.zeros((4, 1)), np.array([0, 0, 1, 1]), Threshold(known, t=Decimal("0.1"))
    with pytest.raises(ValueError, match=r"codes must hold one value a record, of shape \(4,\)"):
        sabre(points, codes[:3], 2, threshold)
    with pytest.raises(ValueError, match=r"within 0\.\.1"):
        sabre(points, codes + 1, 2, threshold)
    with pytest.raises(ValueError, match="does not count these codes"):
        sabre(points, [0, 1, 1, 1], 2, threshold)
    for useless in (Threshold(known, l=Decimal(2)), Threshold(known, t=Decimal("0.1"), l=Decimal(2))):
        with pytest.raises(ValueError, match="with t and without l"):
            sabre(points, codes, 2, useless)
