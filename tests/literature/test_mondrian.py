"""Mondrian: the example of the paper, hand calculation, and a slow recursive reference."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon import measures
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.kernels.points import minmax, zscore
from duckanon.literature.mondrian import ColumnTree, level_widths, mondrian
from duckanon.literature.partitions import information_loss, partition
from duckanon.release.stages import bucket
from tests.examples import examples
from tests.kernels.test_ledger import DISTANCES, Attribute, attribute_of, meets
from tests.kernels.test_mdav import Labels, Points, free_points, tied_points
from tests.oracle_release import assert_release_valid
from tests.oracle_shares import MODELS
from tests.strategies import records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import duckdb

PATIENTS = np.array(
    [
        [53711, 25, 1],
        [53712, 25, 0],
        [53711, 26, 1],
        [53710, 27, 1],
        [53712, 27, 0],
        [53711, 28, 1],
    ],
    dtype=float,
)
"""Figure 1 of the paper: zip code, age, and sex with male as 1."""


Sides = tuple[list[int], list[int]]
"""The records on the left and on the right."""


def common(tree: ColumnTree, one: float, other: float) -> int:
    """Return the level of the lowest node above two values."""
    return next(level for level, nodes in enumerate(tree.paths.T) if nodes[int(one)] == nodes[int(other)])


def branches(points: Points, k: int, records: list[int], column: int, tree: ColumnTree) -> list[Sides]:
    """Return the cut below the highest node that is nearest to the middle, and that of all; none if no side has k."""
    values = sorted({points[record, column] for record in records})
    found = []
    for low, high in pairwise(values):
        sides = (
            [r for r in records if points[r, column] <= low],
            [r for r in records if points[r, column] > low],
        )
        if min(map(len, sides)) >= k:
            found.append((common(tree, low, high), abs(len(sides[0]) - len(sides[1])), sides))
    orders = (lambda one: (-one[0], one[1])), (lambda one: one[1])
    return [min(found, key=order)[2] for order in orders if found]


def slow_cut(
    points: Points,
    k: int,
    allowed: Callable[[list[int]], bool],
    records: list[int],
    *,
    relaxed: bool,
    above: Mapping[int, ColumnTree],
) -> Sides | None:
    """Return the sides of the first allowed cut of some records, found by comparing values."""

    def cuts(records: list[int], column: int, widest: list[int]) -> list[Sides]:
        values = {record: points[record, column] for record in records}
        between = branches(points, k, records, column, above[column]) if column in above else []
        if relaxed:
            ascending = sorted(records, key=lambda r: (values[r], *points[r, widest].tolist(), r))
            half = -(-len(records) // 2)
            return [*between, (ascending[:half], ascending[half:])]
        if column in above:
            return between
        median = median_low(values.values())
        at_most = [record for record in records if values[record] <= median]
        less = [record for record in at_most if values[record] < median]
        found = [(left, [r for r in records if r not in left]) for left in (at_most, less)]
        equally = abs(2 * len(at_most) - len(records)) == abs(2 * len(less) - len(records))
        if equally and gap(values, found[1]) > (1 + 2.0**-30) * gap(values, found[0]):
            return found[::-1]
        return sorted(found, key=lambda sides: abs(len(sides[0]) - len(sides[1])))

    width = [width_of(points, records, column, above) for column in range(points.shape[1])]
    widest = sorted(range(points.shape[1]), key=lambda column: -width[column])
    for column in widest:
        for left, right in cuts(records, column, widest):
            if all(len(side) >= k and allowed(side) for side in (left, right)):
                return sorted(left), sorted(right)
    return None


def gap(values: Mapping[int, Any], sides: Sides) -> float:
    """Return how far apart the sides of a cut are; 0 where one is empty."""
    left, right = ([values[record] for record in side] for side in sides)
    return float(min(right) - max(left)) if left and right else 0.0


def width_of(points: Points, records: list[int], column: int, above: Mapping[int, ColumnTree]) -> float:
    """Return how wide some records are in a column."""
    low, high = points[records, column].min(), points[records, column].max()
    return float(above[column].widths[common(above[column], low, high)] if column in above else high - low)


def slow_mondrian(
    points: Points,
    k: int,
    allowed: Callable[[list[int]], bool],
    *,
    relaxed: bool,
    trees: Mapping[int, ColumnTree] | None = None,
) -> Labels:
    """Mondrian as its docstring describes it: recursion over lists of records."""

    def classes(records: list[int]) -> list[list[int]]:
        sides = slow_cut(points, k, allowed, records, relaxed=relaxed, above=trees or {})
        return [part for side in sides for part in classes(side)] if sides else [records]

    labels = np.full(len(points), -1)
    for number, members in enumerate(classes(list(range(len(points))))):
        labels[members] = number
    return labels


def kept(attributes: Sequence[Attribute]) -> Callable[[list[int]], bool]:
    """Return what tells by the oracle whether a class keeps all thresholds."""
    return lambda members: all(meets(attribute, members) for attribute in attributes)


def run(points: Points, k: int, attributes: Sequence[Attribute] = (), *, relaxed: bool = False) -> Labels:
    """Return the classes of the kernel."""
    codes, thresholds = [a.codes for a in attributes], [a.threshold for a in attributes]
    return mondrian(points, k, codes=codes, thresholds=thresholds, relaxed=relaxed)


def test_the_patients_of_the_paper() -> None:
    """Figure 3: [25-26] male 53711, [27-28] male [53710-53711], [25-27] female 53712."""
    labels = run(minmax(PATIENTS), 2)
    assert labels.tolist() == [0, 2, 0, 1, 2, 1]
    assert partition(PATIENTS, 2, "mondrian", scale="minmax").tolist() == labels.tolist()


def test_the_first_of_equally_wide_columns_is_cut() -> None:
    """All three ranges are those of the table: by age, 25, 25, 26 and 27, 27, 28; by sex, men and women."""
    age_first, sex_first = PATIENTS[:, [1, 2, 0]], PATIENTS[:, [2, 0, 1]]
    assert run(minmax(age_first), 2).tolist() == [0, 0, 0, 1, 1, 1]
    # No value is above the median, 1: women are below it. Of the men two have each half of the ages; in zip
    # codes, which are narrower, one is below the median and none above it.
    assert run(minmax(sex_first), 2).tolist() == [1, 0, 1, 2, 0, 2]


def test_of_equally_unequal_cuts_the_wider_one_is_made() -> None:
    """By hand: the median is 4, two are below and two above it; 1 | 4 are three apart, 4 | 5 one."""
    for far, expected in ((5.0, [0, 0, 1, 1, 1]), (9.0, [0, 0, 0, 1, 1]), (7.0, [0, 0, 0, 1, 1])):
        assert run(np.array([[0.0], [1.0], [4.0], [far], [9.5]]), 2).tolist() == expected


def test_a_threshold_forbids_a_cut() -> None:
    """Two values of s, 3 records each. By age: s = 0, 0, 0 | 1, 1, 1 has EMD 1/2 on both sides.

    By zip code, at the median 53711: 0, 0, 1, 1 with EMD 0 | 0, 1 with EMD 0.
    """
    s = np.array([0, 0, 0, 1, 1, 1])
    points = minmax(PATIENTS[:, [1, 0]])
    for wanted in ({"t": Fraction(49, 100)}, {"l": Decimal(2)}):
        attribute = attribute_of(s, "equal", **wanted)
        assert run(points, 2, [attribute]).tolist() == [0, 1, 0, 0, 1, 0]
        assert run(points, 2, [attribute], relaxed=True).tolist() == [0, 1, 0, 0, 1, 1]
    assert run(points, 2, [attribute_of(s, "equal", t=Fraction(1, 2))]).tolist() == [0, 0, 0, 1, 1, 1]


def test_a_class_at_exactly_t_is_allowed() -> None:
    """By hand: values 0..3 against pairs of neighbours, |1/2 - 1/4| + 1/2 + 1/4 = 1 over m - 1 = 3."""
    points = np.arange(4.0)[:, None]
    for t, expected in ((Fraction(1, 3), [0, 0, 1, 1]), (Fraction(333333333333, 10**12), [0, 0, 0, 0])):
        assert run(points, 2, [attribute_of(np.arange(4), "ordered", t=t)]).tolist() == expected


@pytest.mark.parametrize(
    ("column", "k", "strict", "relaxed"),
    [
        ([0, 0, 0, 0, 0, 9], 2, [0] * 6, [0, 0, 0, 1, 1, 1]),  # nobody, or one, on the right
        ([5, 0, 5, 5, 5, 0], 2, [1, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 0]),  # nothing above the median: below it
        ([1, 0, 1, 2, 2, 2], 2, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]),
        ([0, 1, 1, 1, 1, 2, 2], 2, [0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 2]),
        ([7, 7, 7, 7], 2, [0] * 4, [0, 0, 1, 1]),
        ([3, 1, 2], 2, [0, 0, 0], [0, 0, 0]),
    ],
)
def test_medians_of_equal_values(column: list[int], k: int, strict: list[int], relaxed: list[int]) -> None:
    points = np.array(column, dtype=float)[:, None]
    assert run(points, k).tolist() == strict
    assert run(points, k, relaxed=True).tolist() == relaxed


def test_relaxed_divides_the_median_value_by_the_next_widest_columns() -> None:
    """The ranges are 30, 9 and 1. Record 0 and two of the four with the median 1 go to the left.

    Of these, record 1 is above the others in the second column; of the others record 3 is least in the third
    one, and record 2 comes before 4, which is equal to it.
    """
    points = np.array([[0, 5, 1], [1, 9, 0], [1, 2, 1], [1, 2, 0], [1, 2, 1], [30, 0, 0]], dtype=float)
    assert run(points, 3, relaxed=True).tolist() == [0, 1, 0, 0, 1, 1]


cases = st.one_of(tied_points(), free_points())


@settings(max_examples=examples(300))
@given(case=cases, relaxed=st.booleans())
def test_with_k_alone_labels_are_those_of_the_slow_reference(
    case: tuple[Points, int], *, relaxed: bool
) -> None:
    points, k = case
    labels = run(points, k, relaxed=relaxed)
    assert np.array_equal(labels, slow_mondrian(points, k, kept([]), relaxed=relaxed))
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    equal = np.unique(points, axis=0, return_counts=True)[1].max()
    # Theorems 3 and 2 of the paper.
    assert sizes.max() <= (2 * k - 1 if relaxed else 2 * points.shape[1] * (k - 1) + equal)


@st.composite
def cases_with_trees(draw: st.DrawFn) -> tuple[Points, int, dict[int, ColumnTree]]:
    """Draw points of which some columns are places in a hierarchy of up to four levels."""
    points, k = draw(tied_points())
    trees = {}
    for column in draw(st.sets(st.integers(0, points.shape[1] - 1), min_size=1)):
        size, height = draw(st.integers(1, 8)), draw(st.integers(1, 4))
        levels = [np.arange(size)]
        for _ in range(height - 1):
            joined = [0, *(draw(st.integers(0, 1)) for _ in range(int(levels[-1].max())))]
            levels.append(np.cumsum(joined)[levels[-1]])
        paths = np.stack([*levels, np.zeros(size, np.int64)], axis=1)
        trees[column] = ColumnTree(paths, level_widths(height, draw(st.sampled_from([0.5, 1.0, 20.0]))))
        points[:, column] = points[:, column] % size
    return points, k, trees


@settings(max_examples=examples(300))
@given(case=cases_with_trees(), relaxed=st.booleans(), data=st.data())
def test_with_hierarchies_labels_are_those_of_the_slow_reference(
    case: tuple[Points, int, dict[int, ColumnTree]], data: st.DataObject, *, relaxed: bool
) -> None:
    points, k, trees = case
    limited = data.draw(st.just([]) | attributes(len(points)))
    codes, thresholds = [a.codes for a in limited], [a.threshold for a in limited]
    labels = mondrian(points, k, codes=codes, thresholds=thresholds, relaxed=relaxed, trees=trees)
    slow = slow_mondrian(points, k, kept(limited), relaxed=relaxed, trees=trees)
    assert np.array_equal(labels, slow)


def test_a_cut_lies_between_two_branches() -> None:
    """By hand: leaves a, b | c, d | e; a cut at the median, 4 of 9 records, would part c from d.

    Between the branches it leaves 3 and 6, or 7 and 2 records; the former is nearer to the middle. Of the second
    part, c, c, d, d, e, e, only the border before e lies between branches; c and d are parted after that. With k = 4
    no cut between branches is left, and of the others only the one after c has four on both sides.
    """
    paths = [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0], [4, 2, 0]]
    leaves = np.array([0, 0, 1, 2, 2, 3, 3, 4, 4], dtype=float)[:, None]
    options: dict[str, Any] = {"method": "mondrian", "hierarchies": {0: paths}, "scale": "none"}
    assert partition(leaves, 2, **options).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert partition(leaves, 3, **options).tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert partition(leaves, 4, **options).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    # Leaves may stand in any order: here d comes first.
    turned = np.array([1, 1, 2, 3, 3, 0, 0, 4, 4], dtype=float)[:, None]
    options["hierarchies"] = {0: [paths[3], *paths[:3], paths[4]]}
    assert partition(turned, 2, **options).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([[0, 0], [1, 0]], "a hierarchy has 2 rows for 3 different values"),
        ([[0, 0], [1, 0], [2, 1]], "the hierarchy has more than one root"),
        ([[0], [0, 1], [2]], "inhomogeneous"),
    ],
)
def test_a_hierarchy_that_is_none_is_refused(paths: list[list[int]], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        partition([[0.0], [1.0], [2.0]], 2, "mondrian", hierarchies={0: paths})


@pytest.mark.parametrize("given", [{1: [[0, 0]]}, {-2: [[0, 0]]}, {"zip": [[0, 0]]}, "zip", [[0, 0]]])
def test_hierarchies_name_columns_by_number(given: object) -> None:
    with pytest.raises(
        PolicyError, match=r"hierarchies takes paths by column, as in \{0: paths\}, of columns 0\.\.0"
    ):
        partition([[0.0], [1.0], [2.0]], 2, "mondrian", hierarchies=given)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("method", ["mondrian", "mondrian_relaxed"])
def test_a_view_is_cut_along_its_hierarchy(fresh_db: duckdb.DuckDBPyConnection, method: str) -> None:
    """By hand: four towns of two lands, two records each. With k = 4 each class is a land, whatever the alphabet says."""
    fresh_db.execute(
        "CREATE TABLE p AS SELECT ['ulm', 'wien', 'bonn', 'graz'][1 + range % 4] AS town FROM range(8)"
    )
    land = {"ulm": ["D", "*"], "bonn": ["D", "*"], "wien": ["A", "*"], "graz": ["A", "*"]}
    policy = duckanon.Policy(
        quasi_identifiers="town", k=4, method=method, hierarchies={"town": land}, recode={"town": "hierarchy"}
    )
    duckanon.anonymize(fresh_db, "p", policy, name="v")
    assert fresh_db.execute("FROM v ORDER BY ALL").fetchall() == [("A",)] * 4 + [("D",)] * 4


@st.composite
def attributes(draw: st.DrawFn, n: int, *, shares: bool = False) -> list[Attribute]:
    """Draw one to three sensitive attributes with t, l or both, or with bounds of shares."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        values = draw(st.lists(st.integers(0, draw(st.sampled_from([1, 5, 9]))), min_size=n, max_size=n))
        wanted: dict[str, Any] = {}
        if draw(st.booleans()):
            wanted["t"] = Fraction(draw(st.integers(0, 12)), 12)
        if not wanted or draw(st.booleans()):
            kind = draw(st.sampled_from(["distinct", "entropy", "recursive"]))
            wanted |= {"l_kind": kind, "l": Decimal(draw(st.integers(1, 3)))}
            if kind == "recursive":
                wanted["c"] = Decimal(draw(st.sampled_from(["0.5", "1", "2.5"])))
        if shares and draw(st.booleans()):
            wanted = {"shares": {draw(st.sampled_from(MODELS)): Decimal("0.7")}}
        found.append(attribute_of(values, draw(st.sampled_from(DISTANCES)), **wanted))
    return found


@settings(max_examples=examples(400))
@given(case=cases, relaxed=st.booleans(), data=st.data())
def test_under_thresholds_labels_are_those_of_the_slow_reference(
    case: tuple[Points, int], data: st.DataObject, *, relaxed: bool
) -> None:
    points, k = case
    k = min(k, 3)
    limited = data.draw(attributes(len(points), shares=True))
    labels = run(points, k, limited, relaxed=relaxed)
    assert np.array_equal(labels, slow_mondrian(points, k, kept(limited), relaxed=relaxed))
    whole_keeps = kept(limited)(list(range(len(points))))
    for number in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == number).tolist()
        assert len(members) >= k
        assert kept(limited)(members) or (number == labels.max() == 0 and not whole_keeps)


def test_all_columns_are_tried_and_each_keeps_its_threshold() -> None:
    """More records and columns than hypothesis tries, and thresholds that forbid about half of the cuts."""
    draw = np.random.default_rng(8)
    points = np.column_stack([draw.normal(size=(600, 3)), draw.integers(0, 4, (600, 2)) / 2])
    limited = [
        attribute_of(draw.integers(0, 30, 600), "ordered", t=Fraction(15, 100)),
        attribute_of(draw.integers(0, 6, 600), "hierarchical", t=Fraction(3, 10), l=Decimal(3)),
    ]
    for relaxed in (False, True):
        labels = run(points, 4, limited, relaxed=relaxed)
        assert np.array_equal(labels, slow_mondrian(points, 4, kept(limited), relaxed=relaxed))
        assert 10 < labels.max() < 100


def test_strict_classes_are_boxes_that_share_no_value_with_another() -> None:
    """Any two boxes have a column in which all values of one are below all of the other."""
    points = np.random.default_rng(3).integers(0, 9, (400, 3)).astype(float)
    labels = run(points, 5)
    boxes = [
        (own.min(axis=0), own.max(axis=0)) for own in (points[labels == c] for c in range(labels.max() + 1))
    ]
    assert len(boxes) > 20
    for number, (low, high) in enumerate(boxes):
        assert all((high < low_2).any() or (high_2 < low).any() for low_2, high_2 in boxes[:number])


def test_stopped_between_levels_it_leaves_classes_that_keep_what_is_asked() -> None:
    """Asked before each level: two levels make four parts of 64 different numbers, none makes one."""
    points = np.arange(64.0)[:, None]
    for levels, sizes in ((0, [64]), (2, [16] * 4)):
        answers = iter([False] * levels + [True])
        assert np.bincount(mondrian(points, 3, stop=lambda: next(answers))).tolist() == sizes  # noqa: B023


@pytest.mark.parametrize("method", ["mondrian", "mondrian_relaxed"])
def test_exchange_loses_less_and_keeps_k_and_t(method: str) -> None:
    draw = np.random.default_rng(4)
    points, pay, ward = draw.normal(size=(300, 3)), draw.permutation(300), draw.integers(0, 4, 300)
    asked: dict[str, Any] = {
        "sensitive": np.column_stack([pay, ward]), "t": ["0.2", "0.3"], "distance": ["ordered", "equal"],
    }  # fmt: skip
    for given_t in ({}, asked):
        plain = partition(points, 4, method, **given_t)
        refined = partition(points, 4, method, refine=True, effort="fast", **given_t)
        assert np.bincount(refined).min() >= 4
        assert information_loss(points, refined) < 0.9 * information_loss(points, plain)
        if given_t:
            for labels in (plain, refined):
                assert measures.maximum_emd(labels, pay) <= 0.2
                assert measures.maximum_emd(labels, ward, "equal") <= 0.3


def test_what_it_cannot_use_is_refused() -> None:
    attribute = attribute_of([0, 1, 1, 0], "ordered", t=Fraction(1, 2))
    points = np.zeros((4, 1))
    with pytest.raises(ValueError, match=r"there are 1 thresholds for 0 attributes"):
        mondrian(points, 2, thresholds=[attribute.threshold])
    with pytest.raises(ValueError, match=r"codes must hold one value a record, of shape \(4,\), not \(3,\)"):
        mondrian(points, 2, codes=[[0, 1, 1]], thresholds=[attribute.threshold])
    with pytest.raises(ValueError, match=r"value codes must be within 0\.\.1"):
        mondrian(points, 2, codes=[[0, 1, 2, 0]], thresholds=[attribute.threshold])
    with pytest.raises(
        PolicyError, match="method 'mondrian' has no option 'relaxed': it has paths, hierarchies"
    ):
        partition(points, 2, "mondrian", relaxed=True)


PEOPLE = """
CREATE TABLE people AS
SELECT
    range * 7919 % 83 AS age, CASE WHEN range % 11 > 0 THEN range * 31 % 7 END AS ward,
    ['bath', 'cork', 'deal'][1 + range % 3] AS town, true AS alive,
    range * 17 % 19 AS pay, ['flu', 'gout', 'ache', 'none'][1 + (range + range // 4) % 4] AS ill
FROM range({n})
"""
ROLES: dict[str, Any] = {"quasi_identifiers": ["age", "ward", "town", "alive"], "sensitive": ["pay", "ill"]}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("method", ["mondrian", "mondrian_relaxed"])
@pytest.mark.parametrize(
    "asked",
    [{}, {"t": {"pay": "0.2"}}, {"l": {"ill": 3}}, {"t": "0.25", "l": 2, "l_diversity": "entropy"}],
    ids=str,
)
def test_views_keep_k_l_and_t(
    fresh_db: duckdb.DuckDBPyConnection, method: str, asked: dict[str, Any]
) -> None:
    fresh_db.execute(PEOPLE.format(n=350))
    policy = {**ROLES, "k": 4, "method": method, **asked}
    release = duckanon.anonymize(fresh_db, "people", duckanon.Policy(**policy), name="v")
    assert release.classes > 8
    assert_release_valid(records_of(fresh_db, "people"), records_of(fresh_db, "v"), policy)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_view_is_the_partition_of_the_whole_table(
    fresh_db: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a tile; the time of refinement, which is up at once, does not cut it short."""
    monkeypatch.setattr(bucket, "TILE_RECORDS", 32)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 32)
    fresh_db.execute(
        "CREATE TABLE people AS SELECT range * 71 % 397 AS a, range * 37 % 401 AS b FROM range(397)"
    )
    rows = np.array(fresh_db.execute("FROM people").fetchall(), dtype=float)
    policy = duckanon.Policy(quasi_identifiers=["a", "b"], k=5, method="mondrian", time_limit=1e-9)
    duckanon.anonymize(fresh_db, "people", policy, name="v")
    labels = run(zscore(rows), 5)
    sizes = fresh_db.execute("SELECT count(*) FROM v GROUP BY a, b ORDER BY 1").fetchall()
    assert [size for (size,) in sizes] == sorted(np.bincount(labels).tolist())
    told = fresh_db.execute("SELECT DISTINCT a FROM v").fetchall()
    assert {a for (a,) in told} == {
        int(np.floor(rows[labels == c, 0].mean() + 0.5)) for c in set(labels.tolist())
    }


def test_an_l_that_the_table_does_not_have_is_refused(fresh_db: duckdb.DuckDBPyConnection) -> None:
    fresh_db.execute(PEOPLE.format(n=60))
    policy = duckanon.Policy(**ROLES, k=4, l={"ill": 5}, method="mondrian")
    with pytest.raises(InfeasibleError, match=r"the whole table has l = 4; ask for l <= 4"):
        duckanon.anonymize(fresh_db, "people", policy, name="v")


def test_threads_and_the_order_of_rows_do_not_matter(fresh_db: duckdb.DuckDBPyConnection) -> None:
    fresh_db.execute(PEOPLE.format(n=350))
    fresh_db.execute("CREATE TABLE turned AS FROM people ORDER BY hash(pay, age)")
    policy = duckanon.Policy(**ROLES, k=4, t="0.3", method="mondrian")
    releases = []
    for number, (threads, source) in enumerate(((1, "people"), (4, "people"), (4, "turned"))):
        fresh_db.execute(f"SET threads = {threads}")
        duckanon.anonymize(fresh_db, source, policy, name=f"v{number}")
        releases.append(fresh_db.execute(f"FROM v{number}").fetchall())
    assert releases[0] == releases[1] == releases[2]
