"""What a frame holds is what is released: every dtype of pandas and polars, in every role, in one release each.

Expected values are those of the frame itself, in plain Python.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon
from duckanon.api.frames import arrow_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The tables are small, so that columns single records out, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

BIG = 2**53 + 1
"""The least whole number that no DOUBLE holds."""

BERLIN = list(
    pd.to_datetime(["2020-01-01", "2020-03-29", "2020-07-01", "2020-10-25"]).tz_localize("Europe/Berlin")
)
"""Midnights in winter and in summer: in UTC they are evenings before."""

INSTANTS = list(pd.to_datetime(["2020-01-01", "2020-01-02", "2021-01-01", "2021-01-02"]))
DAYS = [one.date() for one in INSTANTS]
CODES = [UUID(int=number) for number in (1, 2, 3, 4)]
MONTHS = list(pd.period_range("2020-01", periods=4, freq="M"))
SPANS = list(pd.interval_range(0, 4))
LENGTHS = list(pd.to_timedelta([1, 2, 3, 4], "s"))

SCALARS: dict[str, list[Any]] = {
    "int": [1, 2, 3, 4],
    "big": [BIG, BIG + 2, BIG + 4, BIG + 6],
    "float": [1.5, 2.5, 3.5, 4.5],
    "text": ["w", "x", "y", "z"],
    "bytes": [b"w", b"x", b"y", b"z"],
    "decimal": [Decimal("1.50"), Decimal("2.5"), Decimal(3), Decimal("4.25")],
    "date": DAYS,
    "time": [datetime.time(1), datetime.time(2, 3, 4, 5), datetime.time(3), datetime.time(4)],
    "instant": INSTANTS,
    "zoned": BERLIN,
    "datetime": [one.to_pydatetime() for one in INSTANTS],
    "zoned datetime": [one.to_pydatetime() for one in BERLIN],
    "fixed zone": [one.to_pydatetime().astimezone(datetime.timezone(datetime.timedelta(hours=2))) for one in BERLIN],
    "length": LENGTHS,
    "timedelta": [one.to_pytimedelta() for one in LENGTHS],
    "month": MONTHS,
    "span": SPANS,
    "code": CODES,
    "tuple": [(1, 2), (3, 4), (5,), (6,)],
}  # fmt: skip
"""Four values of each type of Python that a cell or a category may be, in their order."""

CELLS: dict[str, list[Any]] = {
    **SCALARS,
    "mixed numbers": [1, 2.5, 3, 4.5],
    "flag": [True, False] * 2,
    "int64": list(np.array(SCALARS["big"])),
    "int8": list(np.array([1, 2, 3, 4], np.int8)),
    "float32": list(np.array([1.1, 2, 3, 4], np.float32)),
    "bool_": list(np.array([True, False] * 2)),
    "str_": list(np.array(SCALARS["text"])),
    "seconds": list(np.array([1, 2, 3, 4], "m8[s]")),
    "datetime64": list(np.array(["2020-01-01T01", "2020-01-02", "2021-01-01", "2021-01-02"], "M8[us]")),
    "days of numpy": list(np.array(["2020-01-01", "2020-01-02", "2021-01-01", "2021-01-02"], "M8[D]")),
    "instants of numpy in lists": [[one] for one in np.array(["2020-01-01", "2020-01-02"] * 2, "M8[us]")],
    "bytearray": [bytearray(b"x"), bytearray(b"y")] * 2,
    "list": [[BIG, None], [], [3], [4]],
    "lists of instants": [[one] for one in BERLIN],
    "lists of lengths": [[one] for one in LENGTHS],
    "array": [np.array([1, 2]), np.array([3]), np.array([4]), np.array([5])],
    "set": [{1}, {2}, {3}, {4}],
    "dict": [{"x": BIG}, {"x": None}, {"x": 1}, {"x": 2}],
    "other names": [{"x": 1}, {"y": 2}, {}, {"x": 3}],
    "ordered": [OrderedDict(x=1), OrderedDict(x=2), OrderedDict(x=3), OrderedDict(x=4)],
    "nested": [{"x": {"y": [BIG, None]}}, {"x": None}, {"x": {"y": []}}, {"x": {"y": [1]}}],
    "instants in dicts": [{"x": one} for one in BERLIN],
}
MISSING = {"None": None, "NaN": np.nan, "NaT": pd.NaT, "NA": pd.NA}

ARROW: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.int64()), [[BIG, None], None, [1], []]),
    "large list": (pa.large_list(pa.int64()), [[BIG], None, [1], []]),
    "fixed list": (pa.list_(pa.int64(), 1), [[BIG], [1], [2], [3]]),
    "struct": (pa.struct([("x", pa.int64())]), [{"x": BIG}, {"x": None}, {"x": 1}, {"x": 2}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", BIG), ("b", None)], None, [], [("a", 1)]]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y", "x"]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal(2), Decimal(3)]),
    "small decimal": (pa.decimal32(5, 2), [Decimal("1.50"), None, Decimal(2), Decimal(3)]),
    "day": (pa.date32(), [DAYS[0], None, *DAYS[2:]]),
    "long day": (pa.date64(), [DAYS[0], None, *DAYS[2:]]),
    "time": (pa.time64("ns"), [datetime.time(1), None, datetime.time(2), datetime.time(3)]),
    "bytes": (pa.binary(), [b"x", None, b"y", b"z"]),
    "fixed bytes": (pa.binary(1), [b"x", None, b"y", b"z"]),
    "view": (pa.string_view(), ["x", None, "y", "z"]),
    "zoned": (pa.timestamp("ms", "Europe/Berlin"), [one.to_pydatetime() for one in BERLIN]),
    "length": (pa.duration("ms"), [datetime.timedelta(1), None, datetime.timedelta(2), datetime.timedelta(3)]),
    "lengths": (pa.list_(pa.duration("s")), [[datetime.timedelta(1)], None, [], [datetime.timedelta(3)]]),
    "zoned instants": (pa.list_(pa.timestamp("us", "Europe/Berlin")), [[one.to_pydatetime()] for one in BERLIN]),
    "int": (pa.int64(), [BIG, None, 1, 2]),
    "half": (pa.float16(), [np.float16(1), None, np.float16(2), np.float16(3)]),
    "nothing": (pa.null(), [None] * 4),
}  # fmt: skip


def arrow_columns() -> dict[str, pa.Array]:
    columns = {name: pa.array(values, kind) for name, (kind, values) in ARROW.items()}
    least = np.array([1, np.iinfo("int64").min, 2, 3])
    lengths = [pa.py_buffer(bytes([0b1101])), pa.py_buffer(least.tobytes())]
    code = pa.array([one.bytes for one in CODES], pa.binary(16))
    json = pa.array(['{"a": 1}', None, "[]", "1"])
    return columns | {
        "seconds above a NaT of numpy": pa.Array.from_buffers(pa.duration("s"), 4, lengths),
        "code": pa.ExtensionArray.from_storage(pa.uuid(), code),
        "json": pa.ExtensionArray.from_storage(pa.json_(), json),
    }


def series() -> dict[str, pd.Series]:
    """Give columns of four records, one of every dtype."""
    numbers = [
        "int8",
        "uint64",
        "float16",
        "float64",
        "bool",
        "datetime64[s]",
        "datetime64[ns]",
        "timedelta64[us]",
    ]
    columns = {name: pd.Series(np.array([1, 0, 1, 1]).astype(name)) for name in numbers}
    for unit in ("s", "ms", "us", "ns"):
        columns[f"instants in {unit}"] = pd.Series(np.array(["2020-01-01", "NaT"] * 2, f"M8[{unit}]"))
        columns[f"zoned in {unit}"] = pd.Series(pd.DatetimeIndex(BERLIN).as_unit(unit))
        columns[f"lengths in {unit}"] = pd.Series(np.array([5_000_000, "NaT"] * 2, f"m8[{unit}]"))
    for name in ("Int8", "Int64", "UInt64", "Float32", "Float64", "boolean", "string", "str", "object"):
        columns[f"{name} dtype"] = pd.Series(
            [1, None, 1, 1] if name[-1] in "2468" else [None, None] * 2, dtype=name
        )
    columns["Int64 beyond DOUBLE"] = pd.Series([BIG, None, 1, 2], dtype="Int64")
    numbers, absent = np.array([np.nan, 1.0, 2.0, np.nan]), np.array([False, True, False, False])
    columns["NaN beside NA"] = pd.Series(pd.arrays.FloatingArray(numbers, absent))
    columns["period"] = pd.Series(MONTHS)
    columns["interval"] = pd.Series(SPANS)
    columns["interval of instants"] = pd.Series(pd.interval_range(BERLIN[0], periods=4))
    for storage in ("python", "pyarrow"):
        columns[f"string in {storage}"] = pd.Series(["x", None] * 2, dtype=pd.StringDtype(storage))
    for name, values in SCALARS.items():
        columns[f"category of {name}"] = pd.Series(pd.Categorical(values))
        columns[f"category of {name}, some missing"] = pd.Series(
            pd.Categorical.from_codes([2, -1, 1, 2], pd.Categorical(values).categories, ordered=True)
        )
    for number, (name, values) in enumerate(CELLS.items()):
        columns[f"objects: {name}"] = of_objects(values)
        marks = list(MISSING) if name in {"int", "text"} else [list(MISSING)[number % len(MISSING)]]
        for word in marks:
            mark = MISSING[word]
            columns[f"objects: {name} and {word}"] = of_objects([values[0], mark, values[2], mark])
    for name, array in arrow_columns().items():
        columns[f"Arrow: {name}"] = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))
    return columns


def of_objects(values: Iterable[Any]) -> pd.Series:
    return pd.Series(np.fromiter(values, object), dtype=object)


def shown(values: Iterable[Any]) -> list[str]:
    return sorted(f"{type(one).__name__} {one!r}" for one in values)


def policy(**options: Any) -> duckanon.Policy:
    return duckanon.Policy(quasi_identifiers="a", insensitive="*", k=2, effort="fast", **options)


SOME = slice(None, None, 7)
"""Columns in the role that costs more: a few of each part of `series`."""


@pytest.mark.sampled
@pytest.mark.parametrize("role", ["insensitive", "sensitive"])
def test_pandas_gets_back_the_values_and_dtypes_that_it_held(role: str) -> None:
    columns = series()
    if role == "sensitive":
        columns = dict(list(columns.items())[SOME])
    frame = pd.DataFrame({"a": [1, 2, 3, 4], **columns})
    # A part of a longer frame, in two pieces, with labels of rows in another order.
    part = pd.concat([frame, frame]).iloc[2:6]
    asked = duckanon.Policy(quasi_identifiers="a", k=2, effort="fast", **{role: list(columns)})
    released = duckanon.anonymize_table(part, asked)
    wrong = {}
    for name, column in columns.items():
        given, back = column.dtype, released[name].dtype
        if isinstance(given, pd.CategoricalDtype) and isinstance(back, pd.CategoricalDtype):
            assert set(back.categories) == set(released[name].dropna()), name
            assert [one for one in given.categories if one in set(back.categories)] == list(
                back.categories
            ), name
            assert back.ordered == given.ordered, name
            given, back = given.categories.dtype, back.categories.dtype
        if given != back or shown(column) != shown(released[name]):
            wrong[name] = (given, back, list(column), list(released[name]))
    assert not wrong
    assert len(columns) > (150 if role == "insensitive" else 20)


def test_arrow_gets_back_the_values_and_types_that_it_held() -> None:
    columns = arrow_columns()
    table = pa.table({"a": [1, 2, 3, 4], **columns})
    released = duckanon.anonymize_table(table, policy())
    assert released.schema.types == table.schema.types
    for name in columns:
        assert shown(released.column(name).to_pylist()) == shown(table.column(name).to_pylist()), name


def test_polars_gets_back_the_values_and_types_that_it_held() -> None:
    zoned = pl.Datetime("ms", "Europe/Berlin")
    plain = [one.tz_convert("UTC").to_pydatetime().replace(tzinfo=None) for one in BERLIN]
    columns = {
        str(kind): pl.Series([1, None, 2, 3], dtype=kind)
        for kind in (pl.Int8, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, pl.Decimal(38, 2))
    } | {
        "NaN beside NULL": pl.Series([math.nan, None, 1.0, math.nan]),
        "zoned": pl.Series(plain, dtype=zoned),
        "lists of zoned": pl.Series([[one] for one in plain], dtype=pl.List(zoned)),
        "nanoseconds": pl.Series(plain, dtype=pl.Datetime("ns")),
        "lengths": pl.Series([[datetime.timedelta(1)], None, [], [datetime.timedelta(2)]]),
        "lists": pl.Series([[BIG, None], None, [], [1]]),
        "structs": pl.Series([{"x": BIG, "y": None}, {"x": None, "y": "z"}] * 2),
        "enums": pl.Series([["x"], ["y"]] * 2, dtype=pl.List(pl.Enum(["y", "x"]))),
        "categories": pl.Series([["x"], ["y"]] * 2, dtype=pl.List(pl.Categorical)),
        "bytes": pl.Series([b"x", None] * 2),
        "time": pl.Series([datetime.time(1, 2, 3, 4), None] * 2),
    }
    frame = pl.DataFrame({"a": [1, 2, 3, 4], **columns})
    released = duckanon.anonymize_table(frame, policy())
    assert dict(released.schema) == dict(frame.schema)
    for name in columns:
        assert shown(released[name].to_list()) == shown(frame[name].to_list()), name


QUASI: dict[str, pd.Series] = {
    **{f"objects: {name}": of_objects(SCALARS[name])
       for name in ("int", "big", "float", "text", "decimal", "date", "instant", "zoned", "datetime", "zoned datetime",
                    "month", "code")},
    **{f"category of {name}": pd.Series(pd.Categorical(SCALARS[name]))
       for name in ("int", "text", "decimal", "date", "instant", "zoned", "month", "code")},
    **{f"instants in {unit}": pd.Series(pd.DatetimeIndex(INSTANTS).as_unit(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"zoned in {unit}": pd.Series(pd.DatetimeIndex(BERLIN).as_unit(unit)) for unit in ("s", "ms", "us")},
    "np.int64 objects": of_objects(np.array(SCALARS["big"])),
    "period": pd.Series(MONTHS),
    "Int64": pd.Series(SCALARS["big"], dtype="Int64"),
    "float32": pd.Series(np.array([1.5, 2.5, 3.5, 4.5], "float32")),
    "string": pd.Series(SCALARS["text"], dtype="string"),
    "Arrow decimal": pd.Series(SCALARS["decimal"], dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
    "Arrow zoned": pd.Series(BERLIN, dtype=pd.ArrowDtype(pa.timestamp("ms", "Europe/Berlin"))),
}  # fmt: skip
"""Columns of four values in their order that may be quasi-identifiers."""

TEXTS = {name for name in QUASI if "text" in name or "code" in name or name == "string"}


@pytest.mark.sampled
@pytest.mark.parametrize("rule", ["mode", "median", "set", "range"])
def test_recoded_columns_of_pandas_hold_values_of_the_source(rule: str) -> None:
    """By hand: the first three records are a class, the others another, since `a` has weight.

    The values are w, x, x and y, z, z: mode and median are x and z.
    """
    numbers = rule in {"median", "range"}
    columns = {
        name: column.iloc[[0, 1, 1, 2, 3, 3]].reset_index(drop=True)
        for name, column in QUASI.items()
        if not (numbers and name in TEXTS)
    }
    frame = pd.DataFrame({"a": [0, 0, 0, 1000, 1000, 1000], **columns})
    recode = dict.fromkeys(columns, rule)
    asked = duckanon.Policy(quasi_identifiers=list(frame), k=3, weights={"a": 1000}, recode=recode)
    released = duckanon.anonymize_table(frame, asked)
    wrong = {}
    for name, column in columns.items():
        w, x, _, y, z, _ = column.tolist()
        expected: list[Any] = {
            "set": [[w, x], [y, z]],
            "range": [{"low": w, "high": x}, {"low": y, "high": z}],
        }.get(rule, [x, z])
        if rule in {"mode", "median"}:
            assert name.startswith("category") or released[name].dtype == column.dtype, name
        expected = [one for one in expected for _ in range(3)]
        back = released[name].tolist()
        if name.startswith("Arrow"):
            assert isinstance(released[name].dtype, pd.ArrowDtype)
        # pandas reads times from nested Arrow as datetimes, which equal its Timestamps.
        same = expected == back if name.startswith("Arrow") else repr(expected) == repr(back)
        if not same:
            wrong[name] = (expected, back)
    assert not wrong


def test_a_polars_enum_becomes_a_set_of_its_texts() -> None:
    frame = pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Enum(["y", "x", "never"]))})
    released = duckanon.anonymize_table(
        frame, duckanon.Policy(quasi_identifiers="a", k=2, recode={"a": "set"})
    )
    assert released["a"].to_list() == [["x", "y"]] * 2
    assert "never" not in repr(released.schema)


def test_one_value_that_was_written_in_several_ways_comes_back_in_one() -> None:
    """The audit sees one value: 1 and 1.0, 1.5 and 1.50, an instant in two zones."""
    frame = pd.DataFrame(
        {
            "a": [1, 1],
            "number": of_objects([1, 1.0]),
            "decimal": of_objects([Decimal("1.5"), Decimal("1.50")]),
            "instant": of_objects([BERLIN[0], BERLIN[0].tz_convert("UTC")]),
            "missing": of_objects([None, np.nan]),
        }
    )
    released = duckanon.anonymize_table(frame, policy())
    # It does not tell which way came first.
    again = duckanon.anonymize_table(frame.iloc[::-1], policy())
    for name in frame:
        assert len(set(map(repr, released[name]))) == 1, name
        assert repr(released[name][0]) == repr(again[name][0]), name
        if name != "missing":
            assert list(released[name]) == list(frame[name]), name


def test_whole_numbers_beside_missing_ones_stay_whole() -> None:
    """By hand: 1 and 3 become their mean, which is no category; the other class has no value."""
    frame = pd.DataFrame({"a": [0, 0, 9, 9], "b": pd.Categorical([1, 3, None, None])})
    asked = duckanon.Policy(quasi_identifiers=["a", "b"], k=2, effort="fast")
    assert duckanon.anonymize_table(frame, asked)["b"].equals(pd.Series([2, 2, None, None], dtype="Int64"))


class Name(str):
    """A text that may hold more than its letters."""


REFUSED: Mapping[str, tuple[Any, str]] = {
    "complex": (np.array([1j, 2j]), "'b' has type complex128"),
    "sparse": (pd.arrays.SparseArray([0, 1]), "'b' has type Sparse"),
    "huge": (of_objects([2**64, 1]), "'b' has type object.*too large"),
    "a date beside an instant": (of_objects([DAYS[0], INSTANTS[0].to_pydatetime()]), "'b' has type object.*Arrow reads"),
    "a text beside bytes": (of_objects(["x", b"x"]), "'b' has type object.*Arrow reads 'x' as b'x'"),
    "nanoseconds": (of_objects([pd.Timestamp("2020-01-01 00:00:00.000000001")] * 2), "'b' has type object.*Arrow reads"),
    "times in a zone": (of_objects([datetime.time(1, tzinfo=datetime.UTC)] * 2), "'b' has type object.*Arrow reads"),
    "a subclass": (of_objects([Name("x")] * 2), "'b' has type object.*its Name objects"),
    "a subclass in a list": (of_objects([[Name("x")]] * 2), "'b' has type object.*its Name objects"),
    "lists of codes": (of_objects([[one] for one in CODES[:2]]), "'b' has type object, which has no exact form in Arrow"),
    "fractions": (of_objects([Fraction(1, 2)] * 2), "'b' has type object.*Fraction"),
    "frozensets": (of_objects([frozenset({1})] * 2), "'b' has type object.*frozenset"),
    "numbers and texts": (of_objects([1, "x"]), "'b' has type object"),
    "categories of both": (pd.Categorical([1, "x"]), "'b' has type category"),
    "with and without a zone": (of_objects([INSTANTS[0], BERLIN[0]]), "'b' has type object"),
    "numpy's instants and numbers": (of_objects([np.datetime64("2020-01-01", "us"), np.int8(1)]), "'b' has type object"),
    "these in lists": (of_objects([[np.datetime64("2020-01-01", "us"), np.int8(1)]] * 2), "'b' has type object"),
    "these as categories": (pd.Categorical(of_objects([np.datetime64("2020-01-01", "us"), np.int8(1)])), "'b' has type category"),
    "two frequencies": (of_objects([MONTHS[0], pd.Period("2020", "Y")]), "'b' has type object"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_come_back_is_refused_with_column_and_type(name: str) -> None:
    values, words = REFUSED[name]
    with pytest.raises(duckanon.SourceError, match=words):
        arrow_table(pd.DataFrame({"a": [1, 2], "b": values}))


@pytest.mark.parametrize("kind", [pl.Object, pl.List(pl.Int128), pl.Int128, pl.UInt128])
def test_what_polars_has_no_arrow_for_is_refused_with_column_and_type(kind: Any) -> None:
    """Of an object polars would give the place in memory."""
    values = CODES if kind == pl.Object else [[1], None] if kind == pl.List(pl.Int128) else [1, None]
    frame = pl.DataFrame({"a": [1] * len(values), "b": pl.Series(values, dtype=kind)})
    with pytest.raises(duckanon.SourceError, match=re.escape(f"'b' has type {frame['b'].dtype}")):
        arrow_table(frame)


def test_labels_of_columns_come_back_as_they_are() -> None:
    frame = pd.DataFrame(
        [[1, 2], [1, 3]], columns=pd.MultiIndex.from_tuples([("x", 1), ("x", 2)], names=["p", "q"])
    )
    policy = duckanon.Policy(quasi_identifiers="('x', 1)", insensitive="*", k=2)
    assert duckanon.anonymize_table(frame, policy).columns.equals(frame.columns)
    numbers = pd.DataFrame([[1, 2], [1, 3]])
    released = duckanon.anonymize_table(numbers, duckanon.Policy(quasi_identifiers="0", insensitive="1", k=2))
    assert list(released.columns) == [0, 1]
    assert not released.attrs


@pytest.mark.filterwarnings("default::duckanon.DuckanonWarning")
def test_an_index_with_a_name_is_left_out_with_a_warning() -> None:
    frame = pd.DataFrame({"a": [1, 1]}, index=pd.Index([7, 8], name="id"))
    with pytest.warns(duckanon.DuckanonWarning, match=r"index \(id\) .*reset_index"):
        released = duckanon.anonymize_table(frame, duckanon.Policy(quasi_identifiers="a", k=2))
    assert list(released.index) == [0, 1]
    assert list(released.columns) == ["a"]
