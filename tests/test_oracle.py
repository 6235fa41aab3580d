"""The oracle itself: printed values of the literature, hand calculation, the transportation problem."""

from __future__ import annotations

import csv
import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests import oracle
from tests.examples import examples
from tests.reference import REPOSITORY
from tests.strategies import TREE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from tests.oracle import Distance, Key

QUASI = ["zip_code", "age"]


def fixture(name: str) -> list[dict[str, Any]]:
    with (REPOSITORY / "fixtures" / name).open(newline="", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = list(csv.DictReader(lines))
    for row in rows:
        row |= {"salary": int(row["salary"])} if "salary" in row else {}
    return rows


def diseases() -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in fixture("li_2007_disease_hierarchy.csv")]


def tally(*values: Any) -> Counter[Key]:
    return Counter(oracle.key(value) for value in values)


def test_salary_distances_of_section_5_3() -> None:
    salaries = tally(*range(3, 12))
    assert oracle.emd(tally(3, 4, 5), salaries, "ordered") == Fraction(3, 8)
    assert oracle.emd(tally(6, 8, 11), salaries, "ordered") == Fraction(1, 6)


def test_table_4_by_salary() -> None:
    # First two classes: section 5.3. {7, 9, 10}: by hand, sums of p - q are -1 -2 -3 -4 -2 -3 -1 1 ninths.
    emds = oracle.class_emds(fixture("li_2007_table_4.csv"), QUASI, "salary")
    assert emds == [Fraction(3, 8), Fraction(1, 6), Fraction(17, 72)]


def test_table_5_by_salary_is_0_167_close() -> None:
    # Third class {4, 7, 10} by hand: sums of p - q are -1 1 0 -1 1 0 -1 1 ninths, together 6/72.
    emds = oracle.class_emds(fixture("li_2007_table_5.csv"), QUASI, "salary")
    assert emds == [Fraction(1, 6), Fraction(1, 6), Fraction(1, 12)]


@pytest.mark.parametrize(
    ("other", "distance"),
    [("bronchitis", (1, 3)), ("pulmonary embolism", (2, 3)), ("stomach cancer", (1, 1))],
)
def test_ground_distances_from_flu_of_section_5_3(other: str, distance: tuple[int, int]) -> None:
    flu, leaf = oracle.key("flu"), oracle.key(other)
    assert oracle.ground_distance(flu, leaf, "hierarchical", (), diseases()) == Fraction(*distance)


def test_disease_distances_of_section_5_3_hold_for_the_uniform_distribution() -> None:
    # The printed 0.5 and 0.278 take each of the six diseases of Table 3 as equally frequent.
    uniform = tally("gastric ulcer", "gastritis", "stomach cancer", "flu", "bronchitis", "pneumonia")
    first = tally("gastric ulcer", "gastritis", "stomach cancer")
    second = tally("gastric ulcer", "stomach cancer", "pneumonia")
    assert oracle.emd(first, uniform, "hierarchical", diseases()) == Fraction(1, 2)
    assert oracle.emd(second, uniform, "hierarchical", diseases()) == Fraction(5, 18)


def test_disease_distances_with_the_frequencies_of_table_3() -> None:
    # By hand: nine records with gastritis, stomach cancer and bronchitis twice; so Table 5 is 8/27-close.
    emds = [
        oracle.class_emds(
            fixture(f"li_2007_table_{n}.csv"), QUASI, "disease", distance="hierarchical", tree=diseases()
        )
        for n in (4, 5)
    ]
    assert emds[0][0] == Fraction(4, 9)
    assert emds[1] == [Fraction(7, 27), Fraction(8, 27), Fraction(5, 27)]


def test_equal_distance_of_section_8() -> None:
    # (0.01, 0.99) against (0.11, 0.89) is 0.1.
    part, whole = tally(*"a" * 1, *"b" * 99), tally(*"a" * 11, *"b" * 89)
    assert oracle.emd(part, whole, "equal") == Fraction(1, 10)


def test_table_2_is_3_anonymous_and_not_2_diverse() -> None:
    rows = fixture("li_2007_table_2.csv")
    assert oracle.k_anonymity(rows, QUASI) == 3
    assert [oracle.distinct_l(oracle.counts(m, "disease")) for m in oracle.classes(rows, QUASI)] == [1, 3, 2]


def test_table_4_is_distinct_and_entropy_3_diverse() -> None:
    for name, members in product(
        ("salary", "disease"), oracle.classes(fixture("li_2007_table_4.csv"), QUASI)
    ):
        held = oracle.counts(members, name)
        assert oracle.reaches_l(held, Fraction(3))
        assert oracle.reaches_l(held, Fraction(3), "entropy")
        assert not oracle.reaches_l(held, Fraction("3.000000000001"), "entropy")
        assert oracle.entropy_l(held) == pytest.approx(3, rel=1e-12)


def test_recursive_diversity_of_counts_8_1_1() -> None:
    # r_1 = 8 < c * r_3 = c * 1 holds for c > 8 only; with l = 2 the tail is 2; a fourth value does not occur.
    held = tally(*"a" * 8, "b", "c")
    assert [oracle.recursive_c(held, l) for l in (1, 2, 3, 4)] == [Fraction(8, 10), 4, 8, None]  # noqa: E741
    assert not oracle.reaches_l(held, Fraction(3), "recursive", Fraction(8))
    assert oracle.reaches_l(held, Fraction(3), "recursive", Fraction("8.000000000001"))
    assert not oracle.reaches_l(held, Fraction(4), "recursive", Fraction(10**9))


def test_entropy_diversity_of_two_to_one() -> None:
    # H = log 3 - (2/3) log 2, so exp H = 3 / 2^(2/3) = 1.8899.
    held = tally("a", "a", "b")
    assert oracle.entropy_l(held) == pytest.approx(3 / 2 ** (2 / 3), rel=1e-12)
    assert oracle.reaches_entropy(held, Fraction("1.8898"))
    assert not oracle.reaches_entropy(held, Fraction("1.8899"))


def test_null_counts_as_a_value_and_skewed_classes_are_equally_diverse() -> None:
    assert oracle.distinct_l(tally(1, None, None)) == 2
    positive, negative = tally(*"p" * 49, "n"), tally("p", *"n" * 49)  # Li 2007, section 3, skewness attack
    assert oracle.entropy_l(positive) == oracle.entropy_l(negative)


def transport(
    part: Counter[Key], whole: Counter[Key], distance: Distance, tree: Sequence[Sequence[Any]]
) -> float:
    """Solve the linear program (c1) to (c3) of Li 2007, section 4, over all pairs of values."""
    domain = sorted(whole)
    size = len(domain)
    cost = [float(oracle.ground_distance(a, b, distance, domain, tree)) for a, b in product(domain, domain)]
    leaves = np.kron(np.eye(size), np.ones(size))
    arrives = np.kron(np.ones(size), np.eye(size))
    masses = [part[v] / part.total() for v in domain] + [whole[v] / whole.total() for v in domain]
    solution = linprog(cost, A_eq=np.vstack([leaves, arrives]), b_eq=masses)
    assert solution.fun is not None, solution.message
    return float(solution.fun)


@given(
    values=st.lists(st.sampled_from([*"abcdef", None]), min_size=1, max_size=20),
    size=st.integers(1, 20),
    distance=st.sampled_from(["ordered", "equal", "hierarchical"]),
)
@settings(max_examples=examples(150))
def test_emd_is_the_optimum_of_the_transportation_problem(
    values: list[str | None], size: int, distance: Distance
) -> None:
    part, whole = tally(*values[:size]), tally(*values)
    assert float(oracle.emd(part, whole, distance, TREE)) == pytest.approx(
        transport(part, whole, distance, TREE), abs=1e-7
    )


@given(
    values=st.lists(st.sampled_from([row[0] for row in diseases()]), min_size=1, max_size=20),
    size=st.integers(1, 20),
)
@settings(max_examples=examples(50))
def test_emd_on_a_tree_of_height_3(values: list[str], size: int) -> None:
    part, whole = tally(*values[:size]), tally(*values)
    optimum = transport(part, whole, "hierarchical", diseases())
    assert float(oracle.emd(part, whole, "hierarchical", diseases())) == pytest.approx(optimum, abs=1e-7)


def test_null_hangs_below_the_root_and_comes_last_in_the_order() -> None:
    whole = tally("a", "d", None)
    # Half of {a, NULL} is NULL, 1/6 more than in the whole, as is a: 1/3 moves to d over the root.
    assert oracle.emd(tally("a", None), whole, "hierarchical", TREE) == Fraction(1, 3)
    # a, d, NULL in a row: {a} carries 1/3 one step and 1/3 two steps, a step is 1/2.
    assert oracle.emd(tally("a"), whole, "ordered") == Fraction(1, 2)
    assert oracle.emd(tally(math.nan), tally(1.0, math.nan, None), "ordered") == Fraction(1, 3)
    assert oracle.emd(tally(None), tally(None, None), "ordered") == 0


def test_keys_group_and_sort_as_duckdb_does(fresh_db: duckdb.DuckDBPyConnection) -> None:
    values = [1.5, math.nan, None, -0.0, 0.0, math.inf, -math.nan, -math.inf, None, 1e300]
    fresh_db.execute("CREATE TABLE t (v DOUBLE)")
    fresh_db.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
    expected = fresh_db.execute("SELECT v, count(*) FROM t GROUP BY v ORDER BY v NULLS LAST").fetchall()
    assert [(oracle.key(v), n) for v, n in expected] == sorted(tally(*values).items())


def test_default_distance_follows_the_type() -> None:
    ordered = [1, 1.5, Decimal(1), date(2000, 1, 1), datetime(2000, 1, 1)]
    assert [oracle.default_distance([None, value]) for value in ordered] == ["ordered"] * 5
    assert [oracle.default_distance([value]) for value in (True, "a")] == ["equal"] * 2


def test_information_loss_worked_by_hand() -> None:
    # One column 0 0 2 4 with mean 1.5: SST = 11; classes {0, 0} and {2, 4}: SSE = 2; the scale cancels.
    labels = [0, 0, 1, 1]
    one = [[0.0], [0.0], [2.0], [4.0]]
    assert [oracle.il(one, labels, s) for s in ("zscore", "minmax", "none")] == [float(Fraction(200, 11))] * 3
    # A second column 0 8 0 8: SST = 64, SSE = 64; a third is constant. z: (2/11 + 1) / 2; min-max: divided
    # by 4^2 and 8^2: (2/16 + 1) / (11/16 + 1) = 18/27; as it is: 66/75.
    three = [[0.0, 0.0, 5.0], [0.0, 8.0, 5.0], [2.0, 0.0, 5.0], [4.0, 8.0, 5.0]]
    found = [oracle.il(three, labels, s) for s in ("zscore", "minmax", "none")]
    assert found == [float(Fraction(100 * 13, 22)), float(Fraction(200, 3)), 88.0]
    assert oracle.il([[5.0], [5.0]], [0, 0]) == 0.0
