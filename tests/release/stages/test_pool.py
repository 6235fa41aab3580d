"""Pool: what tiles have parted is searched together, and the loss that is told is that of the release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.release import pipeline
from duckanon.release.stages import bucket
from duckanon.release.stages.bucket import Records
from duckanon.release.stages.partition import partition
from duckanon.release.stages.partition.pool import LabelledRecords, parted, pooled
from tests.examples import slowly
from tests.oracle_release import assert_release_valid
from tests.strategies import records_of

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


def part_of(values: list[float], labels: list[int], first: int = 1) -> LabelledRecords:
    """Give records with one column, numbered from the first."""
    column = np.array(values)
    records = Records(
        np.arange(first, first + len(values)), {"x_a": column}, np.zeros((0, len(values)), np.int64)
    )
    return LabelledRecords(records, column[:, None], np.array(labels))


@pytest.mark.parametrize("size", [12, 50_001])
def test_a_class_goes_to_the_pool_that_loses_more_than_the_mean(size: int) -> None:
    """By hand: in five classes a record loses 0, in one 1: 1 / 6 on average, and four times that is .67."""
    near = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    stays, far = parted(part_of([*near, 9.0, 11.0], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]), size)
    assert (stays.records.record_id.tolist(), stays.labels.tolist()) == (
        [*range(1, 11)],
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
    )
    assert (far.records.record_id.tolist(), far.labels.tolist()) == ([11, 12], [0, 0])


def test_the_pool_keeps_what_loses_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: classes lose 1, 4 and 9 a record; four records are two of these classes."""
    monkeypatch.setattr("duckanon.release.stages.partition.pool.POOL_MAX_RECORDS", 4)
    pool, others = pooled(None, part_of([0.0, 2.0, 0.0, 6.0], [0, 0, 1, 1]))
    assert (len(pool.labels), len(others.labels)) == (4, 0)
    pool, others = pooled(pool, part_of([5.0, 9.0], [0, 0], first=5))
    assert sorted(pool.records.record_id.tolist()) == [3, 4, 5, 6]
    assert (others.records.record_id.tolist(), others.labels.tolist()) == ([1, 2], [0, 0])


def heavy(n: int) -> dict[str, Any]:
    """Give a column of heavy tails and a normal one; half of the tail is in each half of the other."""
    draw = np.random.default_rng(5)
    return {"pay": draw.standard_t(2, n), "age": draw.normal(size=n), "ill": draw.choice(["a", "b", "c"], n)}


def lost(people: dict[str, Any], **asked: Any) -> float:
    """Loss of a release in per cent, as told and as its rows show: 100 less the share of its class means."""
    with duckanon.connect() as con:
        con.duckdb.register("rows", pa.table(people))
        con.sql("CREATE TABLE people AS FROM rows")
        policy = {"quasi_identifiers": ["pay", "age"], "sensitive": ["ill"], "k": 4, "digits": 9, **asked}
        report = duckanon.anonymize(con, "people", duckanon.Policy(**policy), name="v").report
        source, found = records_of(con.duckdb, "people"), records_of(con.duckdb, "v")
    if len(source) < 10_000:
        assert_release_valid(source, found, policy)
    kept = 0.0
    for name in ("pay", "age"):
        means = np.array([row[name] for row in found], dtype=float)
        given = np.asarray(people[name])
        kept += ((means - given.mean()) ** 2).sum() / given.var() / len(given) / 2
    (told,) = (measure.value for measure in report.measures if measure.measure == "information_loss")
    assert told == float(f"{100 * (1 - kept):.3g}")
    return float(told)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        pytest.param({"effort": "best"}, marks=pytest.mark.slow),
        {"refine": False},
        pytest.param({"l": "2"}, marks=pytest.mark.slow),
        {"t": "0.3"},
        {"t": "0.2", "time_limit": 3600},
    ],
    ids=str,
)
def test_tails_that_tiles_part_are_put_together(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    monkeypatch.setattr(pipeline, "other_ways", lambda *_: iter(()))
    people, given = heavy(1500), {"effort": "fast", **asked}
    together = lost(people, **given)
    monkeypatch.setattr("duckanon.release.stages.partition.pool.POOL_MIN_LOSS_SHARE", 2.0)
    assert together <= lost(people, **given) * (0.9 if not {"t", "refine"} & {*asked} else 1 + 1e-9)


def test_the_search_has_the_time_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles' workers are told to stop when all tiles are done, the pool's is not."""
    stopped: list[bool] = []
    search = partition.search_pool

    def seen(pool: LabelledRecords, **how: Any) -> LabelledRecords:
        stopped.append(how["stop"]())
        return search(pool, **how)

    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    monkeypatch.setattr(partition, "search_pool", seen)
    lost(heavy(900), effort="fast", time_limit=3600)
    lost(heavy(900), effort="fast", time_limit=1e-9)
    assert stopped == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("asked", slowly([{}, {"l": "2"}]), ids=str)
def test_a_higher_effort_loses_no_more(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From better classes a search may end with more loss: here that of 'best' finds nothing at all."""
    search = partition.search_pool

    def unlucky(pool: LabelledRecords, **how: Any) -> LabelledRecords:
        return pool if how["recipe"].effort == "best" else search(pool, **how)

    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    monkeypatch.setattr(partition, "search_pool", unlucky)
    losses = [lost(heavy(900), **asked, effort=effort) for effort in ("fast", "balanced", "best")]
    assert losses == sorted(losses, reverse=True)


def lost_in_all(people: dict[str, Any], **asked: Any) -> float:
    """Loss of all records, of which those that are suppressed count as lost, by the numbers that are told."""
    with duckanon.connect() as con:
        con.duckdb.register("rows", pa.table(people))
        con.sql("CREATE TABLE people AS FROM rows")
        policy = duckanon.Policy(quasi_identifiers=["pay", "age"], sensitive=["ill"], k=4, **asked)
        report = duckanon.anonymize(con, "people", policy, name="v").report
    told = {measure.measure: measure.value for measure in report.measures}
    gone = float(told["suppressed_records"] or 0) / len(people["age"])
    return 100 * gone + (1 - gone) * float(told["information_loss"] or 0)


@pytest.mark.slow
def test_suppression_may_take_what_a_lower_effort_finds_without(monkeypatch: pytest.MonkeyPatch) -> None:
    search = partition.search_pool

    def unlucky(pool: LabelledRecords, **how: Any) -> LabelledRecords:
        lower = how["recipe"].effort != "best" and how["policy"].suppression_limit == 0
        return search(pool, **how) if lower else pool

    monkeypatch.setattr(bucket, "TILE_RECORDS", 64)
    monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", 64)
    monkeypatch.setattr(partition, "search_pool", unlucky)
    people, given = heavy(900), {"l": "2", "effort": "best"}
    without = lost_in_all(people, **given)
    assert lost_in_all(people, **given, suppression_limit="0.001") <= without * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"l": "2"}], ids=["k", "l"])
def test_of_heavy_tails_no_more_is_lost_than_by_mondrian(asked: dict[str, Any]) -> None:
    """33,000 records are three tiles; before, what lies in the tails lost twice as much."""
    people = heavy(33_000)
    assert lost(people, **asked) <= lost(people, **asked, method="mondrian")
