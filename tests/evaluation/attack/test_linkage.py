"""Linkage attack: hand-computed tables, a slow attacker in plain Python, and what holds for every release."""

from __future__ import annotations

import json
import math
import statistics
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import SourceError
from duckanon.evaluation.linkage import estimate, linkage
from tests.e2e.scenes import patients
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.evaluation.linkage import Linkage, SubsetRisk

Row = dict[str, Any]


def of(found: Linkage, *known: str) -> SubsetRisk:
    """Give the risk of one attacker."""
    (risk,) = [risk for risk in found.attacks if risk.known == known]
    return risk


@pytest.fixture
def towns(fresh_db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Give six persons and a release in classes of two: ages 21 (1, 2), 34 (3, 4) and 43 (5, 6)."""
    fresh_db.execute("""
        CREATE TABLE original AS FROM (VALUES
            (1, 20, 'x', 10), (2, 22, 'x', 20), (3, 30, 'x', 30),
            (4, 38, 'y', 40), (5, 40, 'y', 50), (6, 46, 'y', 60)) AS t(id, age, town, pay)""")
    fresh_db.execute("""
        CREATE TABLE released AS FROM (VALUES
            (1, 21, 'x', 10), (2, 21, 'x', 20), (3, 34, 'x', 30),
            (4, 34, 'x', 40), (5, 43, 'y', 50), (6, 43, 'y', 60)) AS t(id, age, town, pay)""")
    return fresh_db


def test_linked_with_the_truth_by_hand(towns: duckdb.DuckDBPyConnection) -> None:
    """By age: 20, 22 -> 21; 30 -> 34; 38 -> 34 (distance 4, 43 has 5); 40, 46 -> 43: all right, 1/2 each.

    By town: x has 1, 2, 3, 4 and y has 5, 6. Records 1, 2, 3 look among four and are there: 1/4 each; 4 is
    released as x but looks in y: 0; 5 and 6 are two of y: 1/2 each. Together (3/4 + 1) / 6.
    """
    found = linkage(towns, "original", "released", ["age", "town"], id="id")
    assert found.truth == "id"
    assert (found.records, found.released, found.sample, found.left_out) == (6, 6, 6, 0)
    age, town, blind = of(found, "age"), of(found, "town"), of(found)
    assert (age.linked.value, age.groups, age.smallest, age.ceiling) == (0.5, 3, 2, 0.5)
    assert age.in_group is not None
    assert age.in_group.value == 1.0
    assert town.linked.value == pytest.approx(1.75 / 6)
    assert town.in_group is not None
    assert town.in_group.value == pytest.approx(5 / 6)
    assert (town.groups, town.ceiling) == (2, 2 / 6)
    assert blind.linked.value == pytest.approx(1 / 6)
    assert blind.linked.low == blind.linked.high == blind.linked.value, "all records: no interval"


def test_without_the_truth_the_nearest_is_an_upper_bound(towns: duckdb.DuckDBPyConnection) -> None:
    """By town: 1, 2, 3 among four, 4, 5, 6 among two: (3/4 + 3/2) / 6 = 0.375, cut at 2 groups / 6."""
    found = linkage(towns, "original", "released", ["age", "town"])
    assert found.truth == "nearest"
    assert of(found, "town").linked.value == pytest.approx(2 / 6)
    assert of(found, "town").in_group is None
    assert found.own is None
    assert found.left_out is None
    assert "upper bound" in found.to_text()


def test_disclosure_by_hand(towns: duckdb.DuckDBPyConnection) -> None:
    """Range of age 26, 10 % is 2.6; of pay 50, so 5.

    Own values: |20-21|, |22-21| in; |30-34|, |38-34| out; |40-43|, |46-43| out. By age the same records are
    linked, so age is disclosed alike. Pay by age: of two equally near records one is within 5 in every case.
    Blind: a released 21 (2 of 6) is near 20 and 22; 34 near none of the others, 43 near none but (40, 46 out).
    """
    found = linkage(
        towns, "original", "released", ["age", "town"], columns=["age", "pay", "town"], percent=10, id="id"
    )
    assert of(found, "age").disclosed["age"].value == pytest.approx(2 / 6)
    assert of(found, "age").disclosed["pay"].value == pytest.approx(1 / 2)
    assert of(found).disclosed["age"].value == pytest.approx(2 * (2 / 6) / 6)
    assert of(found).disclosed["town"].value == pytest.approx((3 * 4 / 6 + 3 * 2 / 6) / 6)
    assert found.own is not None
    assert found.own["age"].value == pytest.approx(2 / 6)
    assert found.own["town"].value == pytest.approx(5 / 6)
    assert "pay" not in found.own, "pay is released as it is"
    assert found.own_jointly is None, "one number only"


def test_rank_interval_by_hand(towns: duckdb.DuckDBPyConnection) -> None:
    """Middle ranks of 20..46 are 0.5, 1.5, .. 5.5; 21 has rank 1, 34 rank 3, 43 rank 5; 10 % of 6 is 0.6."""
    found = linkage(towns, "original", "released", ["age"], interval="rank", percent=10, id="id")
    assert found.own is not None
    assert found.own["age"].value == 1.0
    narrow = linkage(towns, "original", "released", ["age"], interval="rank", percent=8, id="id")
    assert narrow.own is not None
    assert narrow.own["age"].value == 0.0, "8 % of 6 is 0.48, less than half a rank"


def test_sd_interval_is_that_of_sdcmicro(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Function dRisk: x within xm +- k sd(xm) in all columns but at most one (sdcMicro, R/dRisk.R)."""
    generator = np.random.default_rng(3)
    original = np.round(generator.normal(size=(200, 3)) * [1, 10, 100], 3)
    released = original + generator.normal(size=original.shape) * [0.3, 3, 30]
    fresh_db.execute("CREATE TABLE o (id INT, a DOUBLE, b DOUBLE, c DOUBLE); CREATE TABLE r AS FROM o")
    for table, values in (("o", original), ("r", released)):
        fresh_db.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?)", [[i, *map(float, v)] for i, v in enumerate(values)]
        )
    found = linkage(fresh_db, "o", "r", ["a", "b", "c"], interval="sd", percent=20, id="id")
    outside = np.abs(original - released) > 0.2 * np.array([statistics.stdev(c) for c in released.T])
    assert found.own_jointly is not None
    assert found.own_jointly.value == pytest.approx(np.mean(outside.sum(axis=1) <= 1))
    assert found.own is not None
    assert [found.own[c].value for c in "abc"] == pytest.approx(list(1 - outside.mean(axis=0)))


def distance(row: Row, cells: Row, known: Sequence[str], spread: dict[str, float | None]) -> float:
    """Give the squared distance as docs/linkage.md defines it."""
    total = 0.0
    for name in known:
        true, cell = row[name], cells[name]
        alternatives = cell if isinstance(cell, list) else [cell]
        total += min(apart(true, one, spread[name]) for one in alternatives)
    return total


def apart(true: Any, cell: Any, spread: float | None) -> float:
    if spread is None:
        return 0.0 if true == cell else 1.0
    center = CENTERS.get(spread, 0.0)
    if isinstance(cell, dict):
        if true is None:
            low, high = ((cell[end] - center) / spread for end in ("low", "high"))
            return max(0.0, low, -high) ** 2 + 1
        return (max(0.0, cell["low"] - true, true - cell["high"]) / spread) ** 2
    if (true is None) != (cell is None):
        present = true if cell is None else cell
        return ((present - center) / spread) ** 2 + 1
    return 0.0 if true is None else ((true - cell) / spread) ** 2


CENTERS: dict[float, float] = {}


def slow(original: list[Row], released: list[Row], known: Sequence[str]) -> tuple[float, float, Row]:
    """Give linked share with and without the truth (record i of both is the same), and what is disclosed."""
    spread: dict[str, float | None] = {}
    for name in known:
        values = [row[name] for row in original if row[name] is not None]
        if name in "st":
            spread[name] = None
        else:
            spread[name] = statistics.pstdev(values)
            CENTERS[statistics.pstdev(values)] = statistics.fmean(values)
    right = bound = 0.0
    disclosed = dict.fromkeys(original[0], 0.0)
    for at, row in enumerate(original):
        far = [distance(row, cells, known, spread) for cells in released]
        nearest = [place for place, d in enumerate(far) if d <= min(far) * (1 + 1e-9)]
        bound += 1 / len(nearest)
        right += (at in nearest) / len(nearest)
        for name in disclosed:
            guesses = [middle(released[place][name]) for place in nearest]
            width = 0.0 if name in "st" else five_percent([other[name] for other in original])
            disclosed[name] += sum(near(row[name], guess, width) for guess in guesses) / len(nearest)
    size = len(original)
    return right / size, bound / size, {name: total / size for name, total in disclosed.items()}


def middle(cell: Any) -> Any:
    if isinstance(cell, dict):
        return (cell["low"] + cell["high"]) / 2
    if isinstance(cell, list):
        return cell[0] if len(cell) == 1 else "several"
    return cell


def five_percent(values: list[int | None]) -> float:
    present = [value for value in values if value is not None] or [0]
    return 0.05 * (max(present) - min(present)) * (1 + 1e-9)


def near(true: Any, guess: Any, width: float) -> bool:
    if true is None or guess is None or isinstance(true, str) or isinstance(guess, str):
        return bool(true == guess)
    return bool(abs(true - guess) <= width)


def load(con: duckdb.DuckDBPyConnection, table: str, types: dict[str, str], rows: list[Row]) -> None:
    con.execute(f"CREATE TABLE {table} (id INTEGER, {', '.join(f'{n} {t}' for n, t in types.items())})")
    marks = ", ".join("?" * (len(types) + 1))
    con.executemany(
        f"INSERT INTO {table} VALUES ({marks})",
        [[at, *(row[name] for name in types)] for at, row in enumerate(rows)],
    )


NUMBERS = st.none() | st.integers(-3, 3) | st.sampled_from([10**6, -7])
TEXTS = st.none() | st.sampled_from(["a", "b", "cc", "it's"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Give an original, and a release whose classes of any sizes share a value, a range or a set."""
    original: list[Row] = draw(
        st.lists(
            st.fixed_dictionaries({"n": NUMBERS, "r": NUMBERS, "s": TEXTS, "t": TEXTS}),
            min_size=1,
            max_size=14,
        )
    )
    labels = draw(st.lists(st.integers(0, 4), min_size=len(original), max_size=len(original)))
    released = []
    for at in range(len(original)):
        members = [row for row, label in zip(original, labels, strict=True) if label == labels[at]]
        numbers = [row["r"] for row in members if row["r"] is not None]
        released.append(
            {
                "n": members[0]["n"],
                "r": {"low": min(numbers), "high": max(numbers)} if numbers else None,
                "s": sorted({row["s"] for row in members}, key=lambda s: (s is None, s)),
                "t": members[-1]["t"],
            }
        )
    return original, released


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(tables())
def test_it_is_what_a_slow_attacker_finds(case: tuple[list[Row], list[Row]]) -> None:
    """Values, ranges, sets, NULL, ties; every subset of the columns."""
    original, released = case
    CENTERS.clear()
    types = {"n": "INTEGER", "r": "INTEGER", "s": "VARCHAR", "t": "VARCHAR"}
    shown = {"n": "INTEGER", "r": "STRUCT(low INTEGER, high INTEGER)", "s": "VARCHAR[]", "t": "VARCHAR"}
    subsets = [list(c) for size in (1, 2, 3, 4) for c in combinations(types, size)]
    for name in ("n", "r"):
        present = {row[name] for row in original} - {None}
        if len(present) < 2:
            # A constant column is scaled by its release: its own test.
            subsets = [subset for subset in subsets if name not in subset]
    with duckanon.connect() as con:
        load(con.duckdb, "o", types, original)
        load(con.duckdb, "r", shown, released)
        for truth in ("id", None):
            found = linkage(con, "o", "r", list(types), id=truth, subsets=subsets or None)
            for subset in subsets:
                risk = of(found, *subset)
                right, bound, disclosed = slow(original, released, subset)
                expected = right if truth else min(bound, risk.ceiling)
                assert risk.linked.value == pytest.approx(expected), subset
                assert {n: share.value for n, share in risk.disclosed.items()} == pytest.approx(disclosed)


@st.composite
def microaggregated(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    size = draw(st.integers(6, 40))
    k = draw(st.integers(2, 3))
    rows = draw(st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=2), min_size=size, max_size=size))
    return rows, k


@settings(max_examples=examples(20))
@given(microaggregated())
def test_no_attack_links_more_than_one_in_k(case: tuple[list[list[int]], int]) -> None:
    """Proposition: correct links <= classes / n <= 1 / k, with equality if the nearest class is always right.

    Each of the s records of a class is linked with probability 1 / s at most, so a class adds 1 at most.
    """
    rows, k = case
    points = np.array(rows, dtype=float)
    labels = duckanon.partition(points, k, method="mdav")
    means = np.array([points[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    with duckanon.connect() as con:
        for table, values in (("o", points), ("r", means[labels])):
            con.execute(f"CREATE TABLE {table} (id INTEGER, a DOUBLE, b DOUBLE)")
            con.duckdb.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?)",
                [[i, *map(float, row)] for i, row in enumerate(values)],
            )
        found = linkage(con, "o", "r", ["a", "b"], id="id")
        bound = linkage(con, "o", "r", ["a", "b"])
    for risk, above in zip(found.attacks, bound.attacks, strict=True):
        assert risk.linked.value <= risk.ceiling + 1e-12
        assert risk.ceiling <= 1 / k
        assert risk.linked.value <= above.linked.value + 1e-12, "the bound holds"
        assert risk.in_group is not None
        if risk.in_group.value == 1.0:
            assert risk.linked.value == pytest.approx(risk.ceiling), "nearest always right: equality"
    assert of(found, "a", "b").ceiling == len(np.unique(means, axis=0)) / len(rows)


def test_the_policy_gives_the_same_truth_as_the_id() -> None:
    """The release made with the id kept, and the truth computed from the policy, agree record by record."""
    with patients() as con:
        options = {"quasi_identifiers": ["age", "zip"], "sensitive": ["charge", "diagnosis"], "k": 3}
        policy = duckanon.Policy(identifiers=["id"], **options)  # type: ignore[arg-type]
        kept = duckanon.Policy(sensitive=["charge", "diagnosis", "id"], quasi_identifiers=["age", "zip"], k=3)
        duckanon.anonymize(con, "patients", policy, name="plain")
        with pytest.warns(duckanon.DuckanonWarning, match="what both say together is not known"):
            duckanon.anonymize(con, "patients", kept, name="owners")
        by_policy = linkage(con, "patients", "plain", ["age", "zip"], id="id", policy=policy)
        by_id = linkage(con, "patients", "owners", ["age", "zip"], id="id")
        other = duckanon.Policy(identifiers=["id"], **{**options, "k": 7})  # type: ignore[arg-type]
        with pytest.raises(SourceError, match="another size in the release than by this policy"):
            linkage(con, "patients", "plain", ["age", "zip"], id="id", policy=other)
        left = con.duckdb.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall()
    assert [risk.linked for risk in by_policy.attacks] == [risk.linked for risk in by_id.attacks]
    assert left == [(0,)], "nothing temporary is left, not even after an error"


def test_class_id_of_equivalence_classes_says_the_truth(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """A class number in both tables will do: NULL is a record that was left out."""
    fresh_db.execute("""
        CREATE TABLE o AS FROM (VALUES (1, 0), (2, 0), (9, 1), (10, 1), (500, NULL)) AS t(a, class_id);
        CREATE TABLE r AS FROM (VALUES (1, 0), (1, 0), (9, 1), (9, 1)) AS t(a, class_id)""")
    found = linkage(fresh_db, "o", "r", ["a"], id="class_id")
    assert found.left_out == 1
    assert of(found, "a").linked.value == pytest.approx(4 * 0.5 / 5)
    assert of(found, "a").ceiling == 2 / 5


def test_a_constant_original_is_scaled_by_its_release(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Original 5 everywhere; released 4, 5, 5, 6: the fives are nearest, two of them."""
    fresh_db.execute("CREATE TABLE o AS SELECT 5 AS a, i AS b FROM range(4) t(i)")
    fresh_db.execute("CREATE TABLE r AS FROM (VALUES (4, 0), (5, 1), (5, 2), (6, 3)) AS t(a, b)")
    assert of(linkage(fresh_db, "o", "r", ["a"]), "a").linked.value == pytest.approx(0.5)


def test_extremes_dates_and_null(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Numbers near the end of DOUBLE, -0.0 and 0.0, dates, all NULL, one row, quoted names."""
    fresh_db.execute("""
        CREATE TABLE o AS FROM (VALUES
            (1e308, DATE '2000-01-01', NULL::INT, 0.0), (-1e308, DATE '2020-01-01', NULL, -0.0)
        ) AS t("my col", "a'b", "a""b", z)""")
    fresh_db.execute("CREATE TABLE r AS FROM o")
    names = ["my col", "a'b", 'a"b', "z"]
    found = linkage(fresh_db, "o", "r", names, columns=["MY COL", "a'b"])
    assert of(found, "my col").linked.value == 1.0
    assert of(found, "a'b").linked.value == 1.0
    assert of(found, 'a"b').linked.value == 0.5
    assert of(found, "z").linked.value == 0.5, "-0.0 is 0.0"
    assert of(found, "my col").disclosed["my col"].value == 1.0
    json.loads(found.to_json())
    fresh_db.execute("CREATE TABLE one AS SELECT 1 AS a")
    assert of(linkage(fresh_db, "one", "one", ["a"]), "a").linked.value == 1.0


@pytest.mark.slow
def test_the_sample_is_reproducible_and_does_not_depend_on_the_order(
    fresh_db: duckdb.DuckDBPyConnection,
) -> None:
    fresh_db.execute(
        "CREATE TABLE o AS SELECT i AS id, (i * 37) % 1000 AS a, i % 7 AS b FROM range(5000) t(i)"
    )
    fresh_db.execute("CREATE TABLE turned AS FROM o ORDER BY id DESC")
    fresh_db.execute("CREATE TABLE r AS SELECT id, a // 50 * 50 AS a, b // 4 AS b FROM o")
    first = linkage(fresh_db, "o", "r", ["a", "b"], sample=300)
    turned = linkage(fresh_db, "turned", "r", ["a", "b"], sample=300)
    assert first.attacks == turned.attacks
    assert first.sample == 300
    assert first.attacks != linkage(fresh_db, "o", "r", ["a", "b"], sample=300, seed=1).attacks
    whole = linkage(fresh_db, "o", "r", ["a", "b"], id="id", sample=10**9)
    inside = 0
    for seed in range(40):
        linked = of(linkage(fresh_db, "o", "r", ["a", "b"], id="id", sample=300, seed=seed), "a", "b").linked
        inside += linked.low <= of(whole, "a", "b").linked.value <= linked.high
    assert inside >= 36, "an interval of 95 % misses 4 of 40 in 1 of 20 series at most"


def test_wilson_by_hand() -> None:
    """10 of 100 draws, endless population: 0.0552 to 0.1744 (Wilson's interval without correction)."""
    found = estimate(np.repeat([1.0, 0.0], [10, 90]), 10**12)
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.0552, 0.1744), abs=1e-4)
    scaled = estimate(np.repeat([0.2, 0.0], [10, 90]), 10**12, 0.2)
    assert scaled.high == pytest.approx(found.high / 5)
    half = estimate(np.repeat([1.0, 0.0], [10, 90]), 200)
    assert half.high - half.low == pytest.approx(0.0838, abs=2e-3), "like 199 draws"
    assert estimate(np.zeros(5), 50).high > 0, "no event is no proof"
    every = estimate(np.array([0.5, 0.0]), 2)
    assert (every.value, every.low, every.high) == (0.25, 0.25, 0.25), "all records are no sample"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 100))
def test_an_interval_holds_its_estimate(values: list[float], more: int) -> None:
    found = estimate(np.array(values), len(values) + more)
    assert 0 <= found.low <= found.value <= found.high <= 1 + 1e-12
    assert math.isclose(found.value, statistics.fmean(values), abs_tol=1e-12)
