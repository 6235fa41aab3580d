"""`anonymize_table` gives back the kind of table that it got, with its types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon

# The tables are small, so that columns single records out, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


def policy(**options: Any) -> duckanon.Policy:
    """Give a policy for tables with the quasi-identifier `a`."""
    return duckanon.Policy(quasi_identifiers="a", insensitive="*", k=2, effort="fast", **options)


def test_pandas_comes_back_as_pandas_with_its_dtypes() -> None:
    """By hand: ages 1..4 in pairs, means 1.5 and 3.5 rounded half away from zero."""
    frame = pd.DataFrame(
        {
            "a": [1, 2, 3, 4],
            "nullable": pd.array([1, None] * 2, "Int64"),
            "text": list("xyxy"),
            "string": pd.array(["x", None] * 2, "string"),
            "category": pd.Categorical(list("xyxy"), ["y", "x", "never"], ordered=True),
            "length": pd.to_timedelta([1, 2] * 2, "s"),
            "moment": pd.to_datetime(["2020-01-01", "2021-01-01"] * 2),
            "zoned": pd.to_datetime(["2020-01-01", "2021-01-01"] * 2).tz_localize("Europe/Berlin"),
            "flag": [True, False] * 2,
            "boolean": pd.array([True, None] * 2, "boolean"),
            "float": [1.5, None] * 2,
            "day": [datetime.date(2020, 1, 1)] * 4,
            "arrow": pd.array([1, 2] * 2, pd.ArrowDtype(pa.int16())),
            "half": np.array([1, 2] * 2, "float16"),
            "decimal": [Decimal("1.50")] * 4,
        },
        index=[9, 8, 7, 6],
    )
    released = duckanon.anonymize_table(frame, policy())
    assert isinstance(released, pd.DataFrame)
    assert list(released["a"]) == [2, 2, 4, 4]
    assert list(released.index) == [0, 1, 2, 3]
    assert list(released["category"].cat.categories) == ["y", "x"]
    assert released["category"].cat.ordered
    same = [name for name in frame if name != "category"]
    assert released[same].dtypes.to_dict() == frame[same].dtypes.to_dict()
    # Neighbours hold the two values of each column, in an order that the release chooses.
    for name in same[1:]:
        assert sorted(map(repr, released[name])) == sorted(map(repr, frame[name])), name


def test_a_range_and_a_category_that_was_averaged_have_types_of_their_own() -> None:
    frame = pd.DataFrame({"a": pd.Categorical([1, 2, 3, 4]), "b": [1, 1, 1, 1]})
    assert list(duckanon.anonymize_table(frame, policy())["a"]) == [2, 2, 4, 4]
    ranges = duckanon.anonymize_table(frame, policy(recode={"a": "range"}))
    assert list(ranges["a"]) == [{"low": 1, "high": 2}] * 2 + [{"low": 3, "high": 4}] * 2


def test_polars_comes_back_as_polars_with_its_types() -> None:
    frame = pl.DataFrame(
        {
            "a": [1, 2, 3, 4],
            "category": pl.Series(list("xyxy"), dtype=pl.Categorical),
            "enum": pl.Series(list("xyxy"), dtype=pl.Enum(["y", "x", "never"])),
            "length": [datetime.timedelta(1)] * 4,
            "time": [datetime.time(1)] * 4,
            "decimal": [Decimal("1.5")] * 4,
            "array": pl.Series([[1], [2]] * 2, dtype=pl.Array(pl.Int8, 1)),
            "bytes": [b"x", b"y"] * 2,
            "nothing": [None] * 4,
            "zoned": pl.Series([datetime.datetime(2020, 1, 1)] * 4, dtype=pl.Datetime("ms", "Europe/Berlin")),
            "unsigned": pl.Series([1, 2, 3, 2**64 - 1], dtype=pl.UInt64),
            "struct": [{"x": 1, "y": ["z", None]}] * 4,
        }
    )
    released = duckanon.anonymize_table(frame, policy())
    assert isinstance(released, pl.DataFrame)
    expected = dict(frame.schema) | {"enum": pl.Enum(["y", "x"])}
    assert dict(released.schema) == expected
    for name in frame.columns[1:]:
        assert sorted(map(repr, released[name])) == sorted(map(repr, frame[name])), name


TYPES = {
    "dictionary": pa.array(["x", "y"] * 2).dictionary_encode(),
    "seconds": pa.array([1, 2] * 2, pa.duration("s")),
    "half": pa.array([np.float16(1), np.float16(2)] * 2, pa.float16()),
    "time": pa.array([1, 2] * 2, pa.time32("ms")),
    "day": pa.array([datetime.date(2020, 1, 1)] * 4, pa.date64()),
    "zoned": pa.array([1, 2] * 2, pa.timestamp("s", "Europe/Berlin")),
    "nanoseconds": pa.array([1, 2] * 2, pa.timestamp("ns", "UTC")),
    "large": pa.array(["x", "y"] * 2, pa.large_string()),
    "view": pa.array(["x", "y"] * 2, pa.string_view()),
    "fixed": pa.array([b"xx", b"yy"] * 2, pa.binary(2)),
    "decimal": pa.array([Decimal("1.5")] * 4, pa.decimal32(5, 1)),
    "list": pa.array([[1], [2]] * 2, pa.large_list(pa.int8())),
    "null": pa.nulls(4),
    "flag": pa.array([True, None] * 2),
}


def test_arrow_comes_back_as_the_arrow_that_was_given() -> None:
    table = pa.table({"a": [1, 2, 3, 4], **TYPES})
    released = duckanon.anonymize_table(table, policy())
    assert isinstance(released, pa.Table)
    assert released.schema.types == table.schema.types
    for name in TYPES:
        given, back = (sorted(map(repr, one.column(name).to_pylist())) for one in (table, released))
        assert given == back, name
    assert isinstance(duckanon.anonymize_table(table.to_batches()[0], policy()), pa.RecordBatch)
    reader = duckanon.anonymize_table(table.to_reader(), policy())
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all().equals(released)


def test_a_mean_of_instants_keeps_their_unit() -> None:
    """By hand: the mean of 1 ms and 2 ms is 1.5 ms, half away from zero 2 ms."""
    table = pa.table({"a": pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin"))})
    (column,) = duckanon.anonymize_table(table, policy()).columns
    assert column.type == pa.timestamp("ms", "Europe/Berlin")
    assert column.cast(pa.int64()).to_pylist() == [2, 2]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"a": [1, 2], "b": pa.array([1, 2], pa.duration("ns"))}), "'b' has type duration.ns.*lose"),
        (pa.table({"a": [1, 2], "b": pa.array([Decimal(1)] * 2, pa.decimal256(40, 1))}), "'b' has type decimal256"),
        (pl.LazyFrame({"a": [1, 2]}), "cannot read a table from LazyFrame"),
    ],
)  # fmt: skip
def test_types_that_duckdb_does_not_read_are_told(table: object, words: str) -> None:
    with pytest.raises(duckanon.DuckanonError, match=words):
        duckanon.anonymize_table(table, policy())


def test_a_released_dictionary_holds_no_value_of_a_suppressed_record() -> None:
    """By hand: three records share their class; the outlier and its category are left out."""
    table = pa.table(
        {"a": ["x", "x", "x", "y"], "b": pa.array(["p", "q", "p", "secret"]).dictionary_encode()}
    )
    released = duckanon.anonymize_table(table, policy(suppression_limit=0.25, nulls="category"))
    words = {word for chunk in released.column("b").chunks for word in chunk.dictionary.to_pylist()}
    assert words == set(released.column("b").to_pylist())
