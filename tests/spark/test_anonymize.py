"""Releases on Spark, by the oracle of releases and by DuckDB's audit of the same rows."""

from __future__ import annotations

import math
import random
import warnings
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.audits.run import audit_relation
from duckanon.policy.policy import AuditPolicy
from tests.oracle_release import assert_release_valid

if TYPE_CHECKING:
    from tests.spark.running import Running

pytestmark = pytest.mark.slow

RULES: tuple[dict[str, Any], ...] = (
    {}, {"t": 0.3}, {"l": 2}, {"l": 2.5, "l_diversity": "entropy"}, {"l": 2, "l_diversity": "recursive", "c": 3},
    {"t": 0.25, "l": 2},
)  # fmt: skip


def table(draw: random.Random, size: int) -> pa.Table:
    """A table of all kinds of columns, with ties, NULLs and duplicates."""
    rows: list[dict[str, Any]] = []
    for number in range(size):
        if rows and draw.random() < 0.2:
            rows.append({**draw.choice(rows), "Insens": number})
            continue
        rows.append(
            {
                "age": None if draw.random() < 0.1 else draw.randrange(40),
                "we`ird name": draw.choice([-0.0, 0.0, 1.5, 1e300, -1e300, 0.1 * draw.randrange(9)]),
                "zip": draw.choice(["", "a", "A", "ä", None, f"z{draw.randrange(90)}"]),
                "born": date(1999, 12, 30) + timedelta(draw.randrange(700)),
                "seen": datetime(2024, 3, 31, tzinfo=UTC) + timedelta(seconds=draw.randrange(10**6)),
                "cost": Decimal(draw.randrange(-300, 300)).scaleb(-2),
                "ill": draw.choice(["flu", "cold", "acne", None, ""]),
                "pay": draw.choice([0.0, -0.0, math.inf, 2.5, float(draw.randrange(9))]),
                "Insens": number,
            }
        )
    schema = pa.schema(
        [
            ("age", pa.int16()), ("we`ird name", pa.float64()), ("zip", pa.string()), ("born", pa.date32()),
            ("seen", pa.timestamp("us", "UTC")), ("cost", pa.decimal128(9, 2)), ("ill", pa.string()),
            ("pay", pa.float64()), ("Insens", pa.int64()),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def policy(draw: random.Random) -> dict[str, Any]:
    """A policy of such a table."""
    quasi = draw.sample(["age", "we`ird name", "zip", "born", "seen", "cost"], draw.randint(1, 4))
    rule = draw.choice(RULES)
    recode = {
        name: draw.choice(["mean", "median", "mode", "range", "set"]) for name in quasi if name != "zip"
    }
    recode |= {"zip": draw.choice(["mode", "set"])} if "zip" in quasi else {}
    return {
        "quasi_identifiers": quasi, "k": draw.randint(2, 4), "recode": recode, "insensitive": "*",
        "identifiers": ["cost"] if "cost" not in quasi else [],
        "sensitive": draw.sample(["ill", "pay"], draw.randint(1, 2)) if rule else [], **rule,
        "effort": "fast", "refine": draw.random() < 0.5,
        "nulls": draw.choice(["category", "category", "suppress"]),
        "suppression_limit": draw.choice([0, 0, 0.05, 0.3]) if rule else 0,
    }  # fmt: skip


def released(path: str) -> list[dict[str, Any]]:
    """The rows that stand there, as DuckDB alone reads them."""
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        return con.sql(f"FROM read_parquet('{path}/*.parquet')").to_arrow_table().to_pylist()


def loss(rows: pa.Table, found: list[dict[str, Any]]) -> float:
    """100 SSE / SST of the age of the records that are left, which `n` numbers, with the means of classes as released."""
    age = dict(zip(rows["n"].to_pylist(), rows["age"].to_pylist(), strict=True))
    whole = sum(age[row["n"]] for row in found) / len(found)
    within = sum((age[row["n"]] - row["age"]) ** 2 for row in found)
    return float(100 * within / sum((age[row["n"]] - whole) ** 2 for row in found))


def same_report(found: list[list[Any]], path: str, asked: dict[str, Any]) -> None:
    """The rows of Spark's report are those of DuckDB's audit of the rows that stand there, which tell no `min_values`."""
    found = [row for row in found if row[0] != "min_values"]
    with duckdb.connect() as con:
        names = ("quasi_identifiers", "sensitive", "distance", "k", "t", "l", "l_diversity", "c")
        asks = AuditPolicy(**{name: asked[name] for name in names if name in asked})
        report = audit_relation(con, f"read_parquet('{path}/*.parquet')", asks, name="released")
    assert len(found) == len(report.measures)
    for row, measure in zip(found, report.measures, strict=True):
        wanted = [None if x is None else float(x) if isinstance(x, Decimal) else x for x in measure.row()]
        for one, other in zip(row, wanted, strict=True):
            assert one == other or math.isclose(float(one), float(other), rel_tol=1e-12), (row, wanted)


def check(running: Running, draw: random.Random, *, size: int, **more: Any) -> None:
    rows, asked = table(draw, size), policy(draw)
    answer = running.anonymize(rows, asked, partitions=draw.randint(1, 7), **more)
    if "error" in answer:
        if "or anonymize with DuckDB" in answer["error"]:
            # DuckDB looks for a part of the table that has the l, Spark does not: see docs/spark.md.
            assert asked["suppression_limit"] > 0
            assert asked["l_diversity"] in ("entropy", "recursive")
            return
        # A rule may be out of reach of the whole table: then DuckDB says so, too.
        with pytest.raises(duckanon.DuckanonError) as other:
            duckanon.anonymize_table(rows, duckanon.Policy(**asked))
        assert answer["error"].partition(":")[0] == type(other.value).__name__, answer["error"]
        return
    found = released(answer["path"])
    assert_release_valid(rows.to_pylist(), found, asked)
    same_report(answer["report"], answer["path"], asked)
    assert answer["evidence"]["suppressed"] == size - len(found)


def test_an_l_that_only_a_part_of_the_table_has(running: Running) -> None:
    """By hand: one record of each of four values has entropy l = 4, with six zeros more it is 2.56."""
    rows = pa.table({"age": range(10), "ill": [0, 1, 2, 3, *[0] * 6]})
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 2, "l": 4, "l_diversity": "entropy"}
    for limit, said in ((0.6, True), (0, False)):
        error = running.anonymize(rows, {**asked, "suppression_limit": limit})["error"]
        assert error.startswith("InfeasibleError: entropy l-diversity with l = 4 is out of reach for 'ill': ")
        assert ("or anonymize with DuckDB" in error) is said
    with warnings.catch_warnings(action="ignore"):
        made = duckanon.anonymize_table(rows, duckanon.Policy(**asked, suppression_limit=0.6))
    assert sorted(made["ill"].to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(8))
def test_small_tables(running: Running, seed: int) -> None:
    draw = random.Random(seed)
    check(running, draw, size=draw.choice([4, 5, 9, 40, 200]))


@pytest.mark.parametrize("seed", range(8))
def test_an_audit_in_parts(running: Running, seed: int) -> None:
    """Some parts are empty, where there are few classes."""
    draw = random.Random(300 + seed)
    check(running, draw, size=draw.choice([9, 40, 200]), part=draw.choice([3, 20]))


@pytest.mark.parametrize(("limit", "least"), [("TASK_MAX_RECORDS", 30), ("SENT_MAX_VALUES", 2)])
def test_an_audit_that_tasks_have_no_room_for(running: Running, limit: str, least: int) -> None:
    """Parts of more than 30 records, or columns of more than two values: Spark's own text answers the same."""
    running.run(f"from duckanon.spark import audits\naudits.held, audits.{limit} = audits.{limit}, {least}\n")
    try:
        check(running, random.Random(5), size=200, part=60)
    finally:
        running.run(f"from duckanon.spark import audits\naudits.{limit} = audits.held\n")


@pytest.mark.parametrize("name", ["age", "we`ird name", "zip", "born", "seen", "cost"])
def test_one_quasi_identifier_of_each_kind(running: Running, name: str) -> None:
    """Numbers with NULL and without, few texts (three values) and many: with k alone one column is cut optimally."""
    for many in (True, False):
        rows = table(random.Random(12), 150)
        if not many and name == "zip":
            rows = rows.set_column(
                2, "zip", pa.array([["a", "b", None][i % 3] for i in range(150)], pa.string())
            )
        asked = {"quasi_identifiers": name, "insensitive": "*", "k": 4, "effort": "fast"}
        answer = running.anonymize(rows, asked)
        assert "error" not in answer, answer["error"]
        assert_release_valid(rows.to_pylist(), released(answer["path"]), asked)
        same_report(answer["report"], answer["path"], asked)


@pytest.mark.parametrize("seed", range(4))
def test_an_audit_that_sends_nothing_to_every_task(running: Running, seed: int) -> None:
    """So it is where classes and values are many: each class is dealt to one task, and steps are compiled."""
    running.run("from duckanon.spark import steps\nsteps.BROADCAST_MAX_ROWS = 0\n")
    try:
        draw = random.Random(200 + seed)
        check(running, draw, size=draw.choice([40, 200]), steps=True)
    finally:
        running.run("from duckanon.spark import steps\nsteps.BROADCAST_MAX_ROWS = 100_000\n")


@pytest.mark.parametrize("seed", range(8))
def test_several_tiles(running: Running, seed: int) -> None:
    draw = random.Random(100 + seed)
    check(running, draw, size=draw.choice([300, 1500]), tile=draw.choice([30, 100]), part=[0, 100][seed % 2])


@pytest.mark.parametrize("distance", ["ordered", "equal"])
def test_more_sensitive_values_than_codes(running: Running, distance: str) -> None:
    """Some 300 values have 40 codes: t is kept by the values as they are, which the oracle and DuckDB count."""
    draw = random.Random(31)
    for values, t in ((300, 0.3), (5000, 0.9)):
        pay = [None if draw.random() < 0.02 else draw.randrange(values) ** 2 / 7 for _ in range(600)]
        often = [7.0 if draw.random() < 0.6 else value for value in pay] if distance == "equal" else pay
        kinds = (pa.array(often, pa.float64()), pa.array(map(str, often)))
        for kind in kinds:
            rows = pa.table({"age": [draw.randrange(90) for _ in pay], "pay": kind})
            asked = {
                "quasi_identifiers": "age", "sensitive": "pay", "distance": {"pay": distance}, "k": 4, "t": t,
                "l": 2, "effort": "fast",
            }  # fmt: skip
            answer = running.anonymize(rows, asked, partitions=3, tile=200, codes=(100, 40))
            assert "error" not in answer, answer["error"]
            sorted_in = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "5"}
            again = running.anonymize(rows, asked, tile=200, codes=(100, 40), settings=sorted_in)
            assert again["evidence"]["fingerprint"] == answer["evidence"]["fingerprint"]
            assert_release_valid(rows.to_pylist(), released(answer["path"]), asked)
            same_report(answer["report"], answer["path"], asked)


def test_a_t_that_codes_cannot_tell_is_refused(running: Running) -> None:
    """Of 600 values, each once, 20 are told apart and 580 are not: a class may differ by their share, 580 / 600."""
    rows = pa.table({"age": np.arange(600) % 90, "pay": np.arange(600)})
    asked = {"quasi_identifiers": "age", "sensitive": "pay", "distance": {"pay": "equal"}, "k": 4, "t": 0.9}
    answer = running.anonymize(rows, asked, codes=(100, 40))
    assert answer["error"].startswith(
        "PolicyError: t = 0.9 is too small for 'pay', of whose 600 values Spark"
    )
    assert "ask for t >= 0.966667, or round its values" in answer["error"]
    # Ranges of 15 of the 600: 14 / 599 is 0.02337229, and less is out of reach.
    answer = running.anonymize(rows, {**asked, "distance": {"pay": "ordered"}, "t": 0.02}, codes=(100, 40))
    assert "ask for t >= 0.023373," in answer["error"]


@pytest.mark.parametrize("tile", [0, 60])
def test_suppression_leaves_out_no_more_than_is_allowed(running: Running, tile: int) -> None:
    """Ten of 300 records have an illness of their own; t is against those that are left.

    Not refined: exchanges would make all classes keep t, and none would have to go.
    """
    age = [*(float(number % 40) for number in range(290)), *map(float, range(900, 910))]
    ill = [*("flu" if number % 2 else "cold" for number in range(290)), *["acne"] * 10]
    rows = pa.table({"age": age, "ill": ill, "n": np.arange(300)})
    asked = {
        "quasi_identifiers": "age", "sensitive": "ill", "insensitive": "n", "k": 5, "t": 0.1, "refine": False,
        "suppression_limit": 0.05, "digits": 12,
    }  # fmt: skip
    answer = running.anonymize(rows, asked, tile=tile, partitions=3)
    found = released(answer["path"])
    assert_release_valid(rows.to_pylist(), found, asked)
    same_report(answer["report"], answer["path"], asked)
    assert 0 < answer["evidence"]["suppressed"] == 300 - len(found) <= 15
    assert answer["evidence"]["information_loss"] == float(f"{loss(rows, found):.3g}")
    again = running.anonymize(rows, asked, tile=tile, partitions=1)
    assert again["evidence"]["fingerprint"] == answer["evidence"]["fingerprint"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_many_tables(running: Running, seed: int) -> None:
    draw = random.Random(1000 + seed)
    audit = draw.choice([{}, {"part": 10}, {"part": 300}, {"steps": True}])
    check(running, draw, size=draw.choice([1, 2, 30, 700, 5000]), tile=draw.choice([0, 50, 400]), **audit)
