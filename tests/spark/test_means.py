"""Means on Spark: rounded to the digits that DuckDB finds, and none of fewer than k values."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle_recode import class_value, digits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.spark.running import Running

pytestmark = pytest.mark.slow

K = 4

DIGITS = {"cents": 2, "single": 1}


def source(draw: random.Random, size: int) -> pa.Table:
    """Classes that `n` tells, and numbers of every sort of digits with NULLs."""
    hours = datetime(2024, 1, 1)
    return pa.table(
        {
            "cents": [None if draw.random() < 0.2 else draw.randrange(10**6) / 100 for _ in range(size)],
            "any": [None if draw.random() < 0.2 else draw.uniform(0, 1e4) for _ in range(size)],
            "small": [draw.uniform(0, 1e-7) for _ in range(size)],
            "single": pa.array([draw.randrange(90) / 10 for _ in range(size)], pa.float32()),
            "seen": pa.array(
                [hours + timedelta(hours=draw.randrange(99)) for _ in range(size)], pa.timestamp("us")
            ),
            "paid": [None if draw.random() < 0.2 else draw.randrange(10**5) for _ in range(size)],
            "n": range(size),
        }
    )


@pytest.mark.parametrize("partitions", [1, 3])
def test_means_have_the_digits_and_values_that_the_oracle_says(running: Running, partitions: int) -> None:
    table = source(random.Random(partitions), 300)
    quasi = [name for name in table.column_names if name != "n"]
    policy = {"quasi_identifiers": quasi, "insensitive": "n", "k": K, "digits": {"paid": -2}}
    made = running.anonymize(table, policy, partitions=partitions)
    assert "error" not in made, made.get("error")
    rows, records = pq.read_table(made["path"]).to_pylist(), table.to_pylist()
    classes = defaultdict(list)
    for row in rows:
        classes[tuple(row[name] for name in quasi)].append(records[row["n"]])
    types = {"single": "FLOAT", "seen": "TIMESTAMP", "paid": "BIGINT"}
    for values, members in classes.items():
        for name, value in zip(quasi, values, strict=True):
            held, kind = [record[name] for record in members], types.get(name, "DOUBLE")
            if name == "seen":
                mean = class_value(held, "mean", "TIMESTAMP_S")
                assert (value.minute, value.second) == (0, 0)
                assert abs(value - mean) <= timedelta(minutes=30, seconds=1)
            elif name == "paid":
                assert value == class_value(held, "mean", kind, digits=-2, least=K)
            else:
                digits = digits_of(table.column(name).to_pylist(), kind)
                assert digits == DIGITS.get(name, digits)
                mean = class_value(held, "mean", kind, least=K)
                # Of a tie the last bit of a sum decides.
                near = None if mean is None else pytest.approx(mean, abs=0.5001 * 10.0**-digits)
                assert value == near, (name, held)
                assert value is None or value == pytest.approx(round(value, digits), rel=1e-6)
    measures = [row for row in answered(made) if row[0] == "min_values"]
    assert measures == [
        ["min_values", name, K, K, len(classes), 0, 0, True] for name in ("cents", "any", "paid")
    ]
    said = [one for one in made["evidence"]["audit"]["warnings"] if "min_values" in one]
    assert said == [line for name in ("cents", "any", "paid") for line in lost(name, classes.values())]


def answered(made: dict[str, Any]) -> list[list[Any]]:
    """The rows of a report, its thresholds as numbers."""
    return [[*row[:2], row[2] and float(row[2]), *row[3:]] for row in made["report"]]


def lost(name: str, classes: Iterable[Sequence[dict[str, Any]]]) -> list[str]:
    """What has to be said of the classes that have fewer than K values of a column, and some."""
    held = [sum(record[name] is not None for record in members) for members in classes]
    few = [count for count in held if 0 < count < K]
    verb = f"1 class with {sum(few)} value{'s' * (sum(few) != 1)} of {name!r} releases"
    if len(few) != 1:
        verb = f"{len(few)} classes with {sum(few)} values of {name!r} release"
    told = f"{verb} NULL for it: fewer than {K} records of a class have one, and a mean of few tells them (min_values)"
    return [told] if few else []


def test_means_of_few_values_are_found_before_they_are_released(running: Running) -> None:
    """Tasks are told to keep a mean of one value: what is counted beside the release contradicts them."""
    table = pa.table({"a": [0.5, None, None, None, 1.5, 1.5, 2.5, 2.5], "n": range(8)})
    running.run(
        "from duckanon.spark import recode\nrecode.kept = recode.Recoder\n"
        "recode.Recoder = lambda *a, **b: recode.kept(*a[:3], 1, **b)\n"
    )
    try:
        made = running.anonymize(
            table, {"quasi_identifiers": "a", "insensitive": "n", "k": 4, "nulls": "category"}
        )
    finally:
        running.run("from duckanon.spark import recode\nrecode.Recoder = recode.kept\n")
    assert "have a value of 'a' that fewer than min_values = 4 records of their class have" in made["error"]
    assert not Path(made["path"]).exists()
