"""Means on Spark: rounded to the digits that DuckDB finds, and none of fewer than k values."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle_recode import class_value, digits_of

if TYPE_CHECKING:
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
