"""How finely means are rounded: what a column has, by DuckDB and by numpy, against decimals and fractions."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from duckanon.database import engine
from duckanon.policy.bind import Attribute, Role
from duckanon.policy.policy import Policy
from duckanon.release.stages import digits
from duckanon.release.stages.digits import digits_in, unit_in, with_digits
from duckanon.release.stages.stage import Field, stage
from tests.oracle_recode import digits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAWS: dict[str, Callable[[random.Random], float]] = {
    "whole": lambda draw: float(draw.randint(-50, 50)),
    "tenths": lambda draw: draw.randint(360, 420) / 10,
    "cents": lambda draw: draw.randint(-(10**7), 10**7) / 100,
    "six digits": lambda draw: draw.randint(0, 10**6) / 10**6,
    "seven digits": lambda draw: draw.randint(0, 10**7) / 10**7,
    "any": lambda draw: draw.uniform(-1e5, 1e5),
    "lognormal": lambda draw: draw.lognormvariate(10, 1),
    "small": lambda draw: draw.uniform(0, 1e-9),
    "very small": lambda draw: draw.choice([5e-324, 1.5e-323, 2.3e-308]),
    "large": lambda draw: draw.uniform(-1e300, 1e300),
    "largest": lambda draw: draw.choice([1.7e308, -1.7e308, 1.0]),
    "one": lambda draw: draw.choice([1 / 3]),
    "noise": lambda draw: draw.choice([0.1 + 0.2, 0.3, 1 / 3]),
    "mixed": lambda draw: draw.choice([0.5, draw.random(), 1e6]),
}


def found_by_duckdb(values: Sequence[object], type_text: str) -> Field:
    """The only quasi-identifier of a table of these values, with its rounding."""
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE p (x {type_text})")
        con.executemany("INSERT INTO p VALUES (?)", [[value] for value in values])
        with engine.temporary(con) as workspace:
            staged = stage(con, "FROM p", Policy(quasi_identifiers="x", k=2), workspace)
            return with_digits(con, staged)[0]


@pytest.mark.sampled
@pytest.mark.parametrize("type_text", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("kind", DRAWS)
def test_digits_of_random_columns_are_those_of_the_oracle(kind: str, type_text: str) -> None:
    if type_text == "FLOAT" and kind in {"large", "largest", "very small"}:
        pytest.skip("beyond a FLOAT")
    for seed in range(3):
        draw = random.Random(f"{kind} {seed}")
        numbers: list[float | None] = [DRAWS[kind](draw) for _ in range(draw.choice([2, 12, 60]))]
        values = [*numbers, None]
        if type_text == "FLOAT":
            values = [None if value is None else float(np.float32(value)) for value in values]
        expected = digits_of(values, type_text)
        assert found_by_duckdb(values, type_text).rounding.digits == expected
        assert digits_in(np.array(values, dtype=np.float64), type_text) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([36.6, 36.7, 41.0], 1),
        ([20.0, 30.0], 0),
        ([1234.56, 0.5], 2),
        ([0.1 + 0.2, 0.3, 0.7], 1),  # 0.30000000000000004 is 0.3 after arithmetic, and 0.4 from 0.7
        ([1 / 3, 2 / 3], 1),
        ([1 / 3, 1 / 3 + 0.0004], 4),
        ([1 / 3, 1 / 3 + 1e-9], 6),  # six digits of 0.333333
        ([1000 / 3, 1000 / 3 + 1e-9], 3),  # six digits of 333.333
        ([1e9 / 3, 1e9 / 3 + 1e-3], 0),
        ([None, None], 0),
        ([1 / 3, 1 / 3], 6),  # one value keeps 0.333333: it would leave as 0
        ([1e-9 / 3, None], 15),  # 0.000000000333333
        ([1e9 / 3, 1e9 / 3], 0),
    ],
)
def test_digits_by_hand(values: list[float | None], expected: int) -> None:
    assert digits_of(values, "DOUBLE") == expected
    assert found_by_duckdb(values, "DOUBLE").rounding.digits == expected
    assert digits_in(np.array(values, dtype=np.float64), "DOUBLE") == expected


@pytest.mark.parametrize("places", [[1], [30, 4], [4, 30]])
def test_records_beyond_the_first_count(monkeypatch: pytest.MonkeyPatch, places: list[int]) -> None:
    """The first records have whole numbers; at some place another has hundredths, or a third."""
    monkeypatch.setattr(digits, "FIRST_LOOK_RECORDS", 8)
    values = [float(number) for number in range(40)]
    for place in places:
        values[place] += 0.25
    assert found_by_duckdb(values, "DOUBLE").rounding.digits == 2
    values[places[0]] += 1 / 3
    assert found_by_duckdb(values, "DOUBLE").rounding.digits == digits_of(values, "DOUBLE")


def test_records_beyond_the_first_count_where_these_have_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records are a third each, another is two thirds: tenths tell them apart."""
    monkeypatch.setattr(digits, "FIRST_LOOK_RECORDS", 8)
    assert found_by_duckdb([1 / 3] * 20 + [2 / 3], "DOUBLE").rounding.digits == 1


UNITS = {
    "TIMESTAMP": 10**6,
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 1000,
    "TIMESTAMP_NS": 10**9,
    "TIMESTAMP WITH TIME ZONE": 10**6,
}


@pytest.mark.parametrize("type_text", UNITS)
@pytest.mark.parametrize(("seconds", "expected"), [(86400, 86400), (7200, 3600), (90, 1), (180, 60), (1, 1)])
def test_timestamps_are_rounded_to_the_coarsest_unit_that_all_have(
    type_text: str, seconds: int, expected: int
) -> None:
    # 90 s and 180 s have no whole minute together.
    values = [datetime(1969, 12, 30) + timedelta(seconds=seconds * number) for number in range(1, 9)]
    field = found_by_duckdb([*values, None], type_text)
    assert field.rounding.step == expected * UNITS[type_text]
    numbers = np.array([(value - datetime(1970, 1, 1)).total_seconds() for value in values])
    assert unit_in((numbers * UNITS[type_text]).astype(np.int64), field) == expected * UNITS[type_text]


def test_parts_of_a_second_are_kept() -> None:
    values = [datetime(2000, 1, 1, 0, 0, 0, 1000 * number) for number in range(3)]
    assert found_by_duckdb(values, "TIMESTAMP").rounding.step == 1000
    assert found_by_duckdb([*values, datetime(2000, 1, 1, 0, 0, 0, 7)], "TIMESTAMP").rounding.step == 1
    attribute = Attribute("x", Role.QUASI_IDENTIFIER, "TIMESTAMP", "timestamp", recode="mean")
    assert unit_in(np.array([7000, 7]), Field(attribute, "q1")) == 1
