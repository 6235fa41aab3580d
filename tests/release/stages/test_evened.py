"""An l above that of the whole table, where suppression may leave more: by brute force over small tables."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import InfeasibleError
from duckanon.release.stages.limit import most_even
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

CLOSE = 1e-6
"""Entropies so near to log l are the business of `ENTROPY_MARGIN`."""

WAYS = ("auto", "plain", "mondrian", "full_domain")


def keeps(counts: list[int], asked: dict[str, Any]) -> bool:
    """Whether a class with so many records of each value is l-diverse, as the papers define it."""
    found = sorted((count for count in counts if count), reverse=True)
    if asked["l_diversity"] == "recursive":
        return bool(found) and found[0] < asked["c"] * sum(found[asked["l"] - 1 :])
    total = sum(found)
    if len(set(found)) == 1:
        return len(found) >= asked["l"]
    return math.exp(-sum(one / total * math.log(one / total) for one in found)) >= asked["l"] * (1 + CLOSE)


def parts(counts: list[int], most: int, k: int) -> Iterator[tuple[int, ...]]:
    """Every table that is left where at most so many records go, by the records of each value."""
    for left in itertools.product(*(range(count + 1) for count in counts)):
        if k <= sum(left) and sum(counts) - sum(left) <= most:
            yield left


def released(
    con: duckanon.Connection, way: str, rows: list[tuple[int, int]], more: str
) -> list[tuple[Any, ...]] | None:
    """Give the rows of a release, None where it is refused."""
    con.execute("CREATE OR REPLACE TABLE people (q INTEGER, s INTEGER)")
    con.duckdb.executemany("INSERT INTO people VALUES (?, ?)", rows)
    how = {
        "auto": "method = 'auto'",
        "plain": "method = 'auto', refine = false",
        "mondrian": "method = 'mondrian'",
        "full_domain": "method = 'full_domain', hierarchies = {q: 'tree'}",
    }[way]
    try:
        con.execute(
            "CREATE OR REPLACE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = q, sensitive = s, k = 2, "
            f"{how}, effort = 'fast', {more})"
        )
    except InfeasibleError:
        return None
    return con.duckdb.execute("FROM v").fetchall()


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.execute(
            "CREATE TABLE tree AS SELECT i AS leaf, i // 2 AS pair, 'any' AS root FROM range(5) r(i)"
        )
        yield connection


ASKED = st.one_of(
    st.fixed_dictionaries({"l_diversity": st.just("entropy"), "l": st.sampled_from([1.5, 2, 2.5, 3, 4])}),
    st.fixed_dictionaries(
        {"l_diversity": st.just("recursive"), "l": st.integers(2, 3), "c": st.sampled_from([0.5, 1, 1.5, 2])}
    ),
)


def full_domain_finds(rows: list[tuple[int, int]], most: int, asked: dict[str, Any]) -> bool:
    """Whether some level has classes that keep all, and the others may go."""
    for level in (lambda q: q, lambda q: q // 2, lambda _: 0):
        classes: dict[int, list[int]] = {}
        for q, s in rows:
            classes.setdefault(level(q), []).append(s)
        kept = [of for of in classes.values() if len(of) >= 2 and keeps(list(Counter(of).values()), asked)]
        if kept and len(rows) - sum(map(len, kept)) <= most:
            return True
    return False


@pytest.mark.slow
@settings(max_examples=examples(150, 15), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 0, 0, 1, 2, 3])), min_size=3, max_size=10),
    asked=ASKED,
    tenths=st.integers(0, 8),
    way=st.sampled_from(WAYS),
)
def test_a_release_is_found_wherever_suppression_leaves_one(
    con: duckanon.Connection, rows: list[tuple[int, int]], asked: dict[str, Any], tenths: int, way: str
) -> None:
    """Source: all tables that suppression may leave. All of a table that keeps it is a class that does."""
    most, counts = len(rows) * tenths // 10, list(Counter(s for _, s in rows).values())
    loose = {**asked, "l": asked["l"] * (1 - 3 * CLOSE)} if asked["l_diversity"] == "entropy" else asked
    possible = any(keeps(list(left), asked) for left in parts(counts, most, 2))
    assume(possible or not any(keeps(list(left), loose) for left in parts(counts, most, 2)))
    if way == "full_domain":
        possible = full_domain_finds(rows, most, asked)
    more = ", ".join(f"{name} = {value!r}" for name, value in asked.items())
    found = released(con, way, rows, f"{more}, suppression_limit = {tenths / 10}")
    assert (found is not None) == possible
    if found is not None:
        assert len(rows) - len(found) <= most
        for where in {row[0] for row in found}:
            of = Counter(row[1] for row in found if row[0] == where)
            assert sum(of.values()) >= 2
            assert keeps(list(of.values()), loose)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_whole_table_misses_a_part_may_have(con: duckanon.Connection, way: str) -> None:
    """By hand: four values in one place, six zeros in another, entropy l = 4; where six may go, the four are left."""
    rows = [(0, value) for value in range(4)] + [(4, 0)] * 6
    asked = "l_diversity = 'entropy', l = 4, suppression_limit = "
    found = released(con, way, rows, f"{asked}0.6")
    assert found is not None
    assert sorted(row[1] for row in found) == [0, 1, 2, 3]
    assert released(con, way, rows, f"{asked}0.5") is None


def test_the_error_says_what_suppression_leaves(con: duckanon.Connection) -> None:
    """By hand: of 0 six times and 1, 2, 3, five may go: 2, 1, 1, 1 of five have exp H = 5 / 2 ** 0.4 = 3.79."""
    con.execute("CREATE OR REPLACE TABLE people AS SELECT i AS q, greatest(0, i - 5) AS s FROM range(9) r(i)")
    with pytest.raises(
        InfeasibleError, match=r"what 4 suppressed records leave has l = 3\.789291416"
    ) as raised:
        con.execute(
            "CREATE ANONYMIZED VIEW w AS FROM people WITH (quasi_identifiers = q, sensitive = s, k = 2, "
            "l_diversity = 'entropy', l = 4, suppression_limit = 0.5)"
        )
    assert raised.value.best == pytest.approx(5 / 2**0.4)


@settings(max_examples=examples(150), deadline=None)
@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=4), most=st.integers(0, 12))
def test_the_most_even_part_has_the_most_entropy(counts: list[int], most: int) -> None:
    def entropy(left: Any) -> float:
        total = sum(left)
        return -sum(one / total * math.log(one / total) for one in left if one)

    most = min(most, sum(counts) - 1)
    found = most_even(np.array(counts, dtype=np.int64), most)
    assert sum(counts) - found.sum() <= most
    assert (found <= counts).all()
    assert entropy(found.tolist()) == pytest.approx(max(map(entropy, parts(counts, most, 1))))


def test_recursive_l_is_out_of_reach_at_the_bound() -> None:
    """By hand: of 2, 1 and 1 records, 2 < c (1 + 1) does not hold at c = 1, and holds one step above."""
    held = "SELECT i % 2 AS q, unnest(['x', 'x', 'y', 'z']) AS s FROM range(4) AS r(i)"
    asked = "quasi_identifiers = (q), sensitive = (s), k = 2, l = 2, l_diversity = 'recursive'"
    with duckanon.connect() as con:
        with pytest.raises(InfeasibleError, match="needs c above 1"):
            con.execute(f"CREATE ANONYMIZED VIEW v AS {held} WITH ({asked}, c = 1)")
        con.execute(f"CREATE ANONYMIZED VIEW v AS {held} WITH ({asked}, c = 1.000000000001)")
