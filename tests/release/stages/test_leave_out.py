"""Suppression: those go that cost most, never more than may, and never so that more is lost than without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.release import pipeline, ways
from duckanon.release.stages import bucket
from tests.examples import slowly
from tests.oracle_release import assert_release_valid
from tests.strategies import records_of

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


def released(rows: pa.Table, **asked: Any) -> tuple[float, int, list[dict[str, Any]]]:
    """Loss of all records in per cent, where a suppressed one counts as lost, how many are, and the release."""
    with duckanon.connect() as con:
        con.duckdb.register("rows", rows)
        con.sql("CREATE TABLE people AS FROM rows")
        report = duckanon.anonymize(con, "people", duckanon.Policy(**asked), name="v").report
        source, found = records_of(con.duckdb, "people"), records_of(con.duckdb, "v")
    told = {measure.measure: measure.value for measure in report.measures}
    assert_release_valid(source, found, asked)
    gone = len(source) - len(found)
    assert told["suppressed_records"] == gone
    assert gone <= float(asked.get("suppression_limit", 0)) * len(source)
    loss, share = told["information_loss"], gone / len(source)
    assert loss is not None
    return (1 - share) * loss + share * 100, gone, found


def outlying() -> pa.Table:
    """290 people of 0 to 39 years with flu or a cold, by turns, and ten of 900 and more with an illness apart."""
    age = [*(float(number % 40) for number in range(290)), *map(float, range(900, 910))]
    ill = [*("flu" if number % 2 else "cold" for number in range(290)), *["acne"] * 10]
    return pa.table({"age": age, "ill": ill})


@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
def test_the_ten_go_that_keep_all_others_from_keeping_t(effort: str) -> None:
    """By hand: classes of two ages have as much flu as colds, and each record is .5 from the mean.

    A class that differs by less than t may lose a little less.
    """
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 5, "t": "0.1", "effort": effort}
    loss, gone, found = released(outlying(), **asked, suppression_limit="0.05")
    assert gone == 10
    assert {row["ill"] for row in found} == {"flu", "cold"}
    ages = np.arange(290) % 40
    assert 100 * 10 / 300 < loss <= 100 * (290 / 300 * 0.25 / ages.var() + 10 / 300) * 1.0001


def test_a_limit_of_nine_is_not_ten() -> None:
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 5, "t": "0.1", "effort": "fast"}
    assert released(outlying(), **asked, suppression_limit="0.033")[1] <= 9


def drawn(seed: int) -> tuple[pa.Table, dict[str, Any]]:
    """Give columns of normal, few, outlying and heavy values, and a sensitive one that goes with the first."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(40, 700))
    kinds = (
        lambda: draw.normal(size=n),
        lambda: draw.integers(0, draw.integers(2, 40), n).astype(float),
        lambda: np.where(draw.random(n) < 0.03, draw.normal(100, 3, n), draw.normal(size=n)),
        lambda: draw.standard_t(2, n),
    )
    names = [f"q{number}" for number in range(int(draw.integers(1, 4)))]
    columns = {name: kinds[draw.integers(0, 4)]() for name in names}
    rare = columns["q0"] > np.quantile(columns["q0"], 0.96)
    near = np.round(np.clip(columns["q0"], -50, 200) * 3 + draw.normal(size=n)).astype(int)
    columns["s"] = (draw.integers(0, 4, n), np.where(rare, 5, draw.integers(0, 3, n)), near)[
        draw.integers(0, 3)
    ]
    wanted = {"t": str(draw.choice([0.05, 0.1, 0.2, 0.3]))} if draw.random() < 0.7 else {"l": "2"}
    asked = {"quasi_identifiers": names, "sensitive": "s", "k": int(draw.integers(2, 8)), **wanted}
    return pa.table(columns), asked


@pytest.mark.slow
@pytest.mark.parametrize("tile", [None, 64])
@pytest.mark.parametrize("seed", slowly(range(12)))
def test_no_more_is_lost_than_without_or_by_mondrian(
    seed: int, tile: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tile:
        monkeypatch.setattr(bucket, "TILE_RECORDS", tile)
        monkeypatch.setattr(bucket, "BROAD_TILE_RECORDS", tile)
    rows, asked = drawn(seed)
    limit = ("0.01", "0.03", "0.1")[seed % 3]
    ours = released(rows, **asked, suppression_limit=limit, effort="fast")[0]
    assert ours <= released(rows, **asked, effort="fast")[0] * (1 + 1e-4)
    assert ours <= released(rows, **asked, suppression_limit=limit, method="mondrian")[0] * (1 + 1e-4)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("records", "coordinates", "tried"), [(300, 300, True), (299, 300, False), (300, 299, False)]
)
def test_mondrian_is_tried_on_what_memory_holds(
    records: int, coordinates: int, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 records in one column."""
    methods: list[str] = []
    partition = pipeline.partition

    def seen(*given: Any) -> Any:
        methods.append(given[-1].method)
        return partition(*given)

    monkeypatch.setattr(pipeline, "partition", seen)
    monkeypatch.setattr(ways, "MONDRIAN_MAX_RECORDS", records)
    monkeypatch.setattr(ways, "MONDRIAN_MAX_COORDINATES", coordinates)
    released(outlying(), quasi_identifiers="age", sensitive="ill", k=3, l=2, suppression_limit="0.05")
    assert ("mondrian" in methods) == tried


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_nor_without_refinement(seed: int) -> None:
    rows, asked = drawn(100 + seed)
    plain = released(rows, **asked, refine=False)[0]
    assert released(rows, **asked, refine=False, suppression_limit="0.05")[0] <= plain * (1 + 1e-4)


def test_all_may_go_and_some_stay() -> None:
    """Each age has an illness of its own: one class of all, and no better one of half of them."""
    rows = pa.table(
        {"age": [float(number % 4) for number in range(40)], "ill": [number % 4 for number in range(40)]}
    )
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 3, "t": "0.1"}
    assert released(rows, **asked, suppression_limit="1")[2]


def test_none_goes_where_nothing_is_won() -> None:
    """All records are equal but for what is sensitive: nothing is lost, and nothing can be won."""
    rows = pa.table({"age": [7.0] * 60, "ill": ["flu", "cold"] * 30})
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 5, "t": "0.1"}
    assert released(rows, **asked, suppression_limit="0.2")[:2] == (0.0, 0)
