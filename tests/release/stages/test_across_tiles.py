"""What tiles cannot repair alone is merged or left out across them: the release is valid, its means those of its classes.

Tiles of 32 records instead of 16,384 make a small table one of many tiles; the oracle is tests/oracle_release.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.kernels.recipes import Recipe
from duckanon.release import pipeline
from duckanon.release.stages import bucket, repair
from duckanon.release.stages.partition import partition
from duckanon.release.stages.partition.plan import Plan
from tests.examples import slowly
from tests.oracle_release import assert_release_valid
from tests.strategies import records_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

N = 400

POLICIES: dict[str, dict[str, Any]] = {
    "merged": {"t": "0.03"},
    "left out, then merged": {"t": "0.03", "suppression_limit": "0.2"},
    "left out, then merged in parts": {"t": "0.03", "suppression_limit": "0.1"},
    "merged by Algorithm 1": {"t": "0.03", "method": "kanonymity_first"},
}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("how", POLICIES)
def test_a_repair_across_tiles_keeps_the_policy(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "TILE_RECORDS", 32)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 32)
    monkeypatch.setattr(pipeline, "other_ways", lambda *_: iter(()))
    if "in parts" in how:
        monkeypatch.setattr(repair, "MERGED_IN_PARTS_MIN_CLASSES", 0)
        monkeypatch.setattr(repair, "PART_MAX_CLASSES", 10)
    repaired: list[NDArray[np.int64]] = []
    mended = repair.mended

    def seen(*given: Any) -> Any:
        labels, classes = mended(*given)
        repaired.append(labels)
        return labels, classes

    monkeypatch.setattr(repair, "mended", seen)
    draw = np.random.default_rng(6)
    people = {
        "age": draw.normal(size=N),
        "weight": draw.normal(size=N) * 1e-5,
        "ward": draw.integers(0, 9, N),
        "pay": draw.integers(0, 40, N),
    }
    policy = {"quasi_identifiers": ["age", "weight", "ward"], "sensitive": ["pay"], "k": 3, **POLICIES[how]}
    with duckanon.connect() as con:
        con.duckdb.register("people", pa.table(people))
        con.sql("CREATE TABLE staff AS FROM people")
        duckanon.anonymize(con, "staff", duckanon.Policy(**policy), name="v")
        source, released = records_of(con.duckdb, "staff"), records_of(con.duckdb, "v")
    assert_release_valid(source, released, policy)
    (labels,) = repaired
    assert len(released) == (labels >= 0).sum()
    assert ("left out" in how) == (len(released) < N)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_tiles_merge_where_far_more_violate_than_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty values a class of five has five: none is within .2 of the table, and 2 % may go."""
    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    of_five = Plan(Recipe("tcloseness_first", 5), "as of a million records")
    monkeypatch.setattr(partition, "choose_plan", lambda *_: of_five)
    monkeypatch.setattr(pipeline, "other_ways", lambda *_: iter(()))
    merged: list[bool] = []
    merges = partition.merges

    def seen(*given: Any) -> bool:
        merged.append(merges(*given))
        return merged[-1]

    monkeypatch.setattr(partition, "merges", seen)
    draw = np.random.default_rng(6)
    ill = [f"illness {number % 20}" for number in draw.permutation(N)]
    people = {"age": draw.normal(size=N), "weight": draw.normal(size=N), "ill": ill}
    given = {"quasi_identifiers": ["age", "weight"], "sensitive": ["ill"], "t": "0.2"}
    released = []
    with duckanon.connect() as con:
        con.duckdb.register("people", pa.table(people))
        con.sql("CREATE TABLE staff AS FROM people")
        for number, limit in enumerate(["0", "0.02", "0.2"]):
            policy = duckanon.Policy(**given, k=5, suppression_limit=limit)
            duckanon.anonymize(con, "staff", policy, name=f"v{number}")
            released.append(sorted(map(str, records_of(con.duckdb, f"v{number}"))))
    assert merged == [True, True, False]
    assert released[1] == released[0]
    assert 0.8 * N <= len(released[2]) < N


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_no_more_is_lost_than_without_suppression_where_tiles_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """With suppression there are fewer recipes: here only one with classes of forty."""
    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    choose = partition.choose_plan

    def poor(con: Any, embedded: Any, limits: Any, tiles: Any, policy: duckanon.Policy, stop: Any) -> Plan:
        if policy.suppression_limit and policy.method == "auto":
            return Plan(Recipe("tcloseness_first", 40), "poor")
        return choose(con, embedded, limits, tiles, policy, stop)

    monkeypatch.setattr(partition, "choose_plan", poor)
    monkeypatch.setattr(partition, "merges", lambda *_: True)
    draw = np.random.default_rng(6)
    people = {"age": draw.normal(size=N), "weight": draw.normal(size=N), "pay": draw.permutation(N) % 20}
    lost = []
    with duckanon.connect() as con:
        con.duckdb.register("people", pa.table(people))
        con.sql("CREATE TABLE staff AS FROM people")
        for limit in ("0", "0.02"):
            policy = duckanon.Policy(
                quasi_identifiers=["age", "weight"], sensitive="pay", k=5, t="0.2", suppression_limit=limit
            )
            report = duckanon.anonymize(con, "staff", policy, name="v", or_replace=True).report
            told = {measure.measure: measure.value or 0.0 for measure in report.measures}
            gone = told["suppressed_records"] / N
            lost.append((1 - gone) * told["information_loss"] + gone * 100)
    assert lost[1] <= lost[0] * (1 + 1e-6)


BY_SAMPLE: dict[str, dict[str, Any]] = {
    "k alone": {"sensitive": [], "insensitive": ["pay", "code"]},
    "t": {"t": "0.2"},
    "two sensitive columns": {"sensitive": ["pay", "code"], "t": "0.4"},
    "l": {"l": "2"},
    "left out by NULL": {"t": "0.2", "nulls": "suppress"},
    "subjects": {"t": "0.3", "subject": ["who"]},
    "swap": {"t": "0.2", "release": "swap"},
}

BY_CUTS: dict[str, dict[str, Any]] = {
    "Algorithm 3 has no repair": {"t": "0.1", "method": "tcloseness_first"},
    "left out": {"t": "0.1", "suppression_limit": "0.1"},
}


def by_sample(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make tiles of 32 records, by the bounds of a sample of a hundred; return what will hold their numbers."""
    monkeypatch.setattr(bucket, "TILE_RECORDS", 32)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 32)
    monkeypatch.setattr(bucket, "SAMPLED_TABLE_MIN_RECORDS", 100)
    monkeypatch.setattr(bucket, "SAMPLE_MIN_RECORDS", 100)
    monkeypatch.setattr(bucket, "SAMPLE_RECORDS_PER_TILE", 1)
    counts: list[int] = []
    deal = bucket._deal_by_sample

    def seen(*given: Any, **named: Any) -> int:
        counts.append(deal(*given, **named))
        return counts[-1]

    monkeypatch.setattr(bucket, "_deal_by_sample", seen)
    return counts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("how", slowly([*BY_SAMPLE, *BY_CUTS]))
def test_tiles_of_a_sample_keep_the_policy(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, draw = by_sample(monkeypatch), np.random.default_rng(8)
    monkeypatch.setattr(pipeline, "other_ways", lambda *_: iter(()))
    people = {
        "age": pa.array(draw.normal(size=N), mask=draw.random(N) < 0.1),
        "city": draw.choice(["a", "b", "c"], N),
        "ward": draw.integers(0, 3, N),
        "pay": draw.integers(0, 40, N),
        "code": draw.choice(["x", "y", "z"], N),
        "who": draw.integers(0, 250, N),
    }
    given = {"quasi_identifiers": ["age", "city", "ward"], "sensitive": ["pay"], "insensitive": ["code"]}
    policy = {**given, "nulls": "category", "k": 3, **(BY_SAMPLE | BY_CUTS)[how]}
    policy["insensitive"] = [name for name in ("pay", "code") if name not in policy["sensitive"]]
    policy["identifiers"] = ["who"]
    rows = pa.table(people)
    made = []
    with duckanon.connect() as con:
        for source in (rows, rows.take(draw.permutation(N))):
            con.duckdb.register("people", source)
            con.sql("CREATE OR REPLACE TABLE staff AS FROM people")
            con.sql("DROP VIEW IF EXISTS v")
            duckanon.anonymize(con, "staff", duckanon.Policy(**policy), name=f"v{len(made)}")
            made.append(records_of(con.duckdb, f"v{len(made)}"))
        source_rows = records_of(con.duckdb, "staff")
    if policy.get("release", "table") == "table":
        assert_release_valid(source_rows, made[0], policy)
    # The order in which a source holds its rows says nothing, and leaves no trace.
    assert made[0] == made[1]
    if how in BY_SAMPLE:
        assert counts == [counts[0]] * 2
        assert counts[0] > 4
    else:
        assert not counts


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_sample_has_a_record_of_every_part_or_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    # 400 records in tiles of 32 are 13 tiles, and each has a share of 3 strata at least: 39 parts, for 38 records.
    counts = by_sample(monkeypatch)
    monkeypatch.setattr(bucket, "SAMPLE_MIN_RECORDS", 38)
    with duckanon.connect() as con:
        con.execute(
            f"CREATE TABLE staff AS SELECT i * 37 % {N} AS age, i % 40 AS pay FROM range({N}) AS r(i)"
        )
        policy = duckanon.Policy(quasi_identifiers=["age"], sensitive=["pay"], k=3, t="0.3")
        assert duckanon.anonymize(con, "staff", policy, name="v").report.passed
    assert not counts


def test_a_tile_that_is_too_small_joins_the_one_before() -> None:
    # By hand: 3 and 9 make 12; 10 stands alone; 0 and 2 join it; 11 stands alone, and 9 joins it.
    assert bucket._homes(np.array([3, 9, 10, 0, 2, 11, 9]), 10).tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert bucket._homes(np.array([0, 0, 1]), 10).tolist() == [0, 0, 0]
