"""Arrow columns of every type, encoding, nesting and shape; what is in them is told by ``to_pylist`` alone."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 12
"""Rows of a column."""

_LEAVES = 60
"""Values from which the columns are built: lists take several a row."""

_EVERY = 3
"""One in so many combinations is a cell: each pair of encoding and nesting meets every type of the next."""


class Own(pa.ExtensionType):
    """A type that nobody but its maker knows."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


_TEXTS = ["a", "bb", None, "a text that is longer than twelve bytes"]
_BYTES = [b"a", b"b\0", None, b"bytes of which there are more than twelve"]
_DAYS = [dt.date(2020, 1, 1), dt.date(1969, 12, 30), None, dt.date(2021, 5, 6)]
_TIMES = [dt.time(1), dt.time(2, 3), None, dt.time(4, 5, 6)]
_COUNTS = [1, 2_000_000, None, -3_000_000]
_NUMBERS = [Decimal("1.5"), Decimal("-2.5"), None, Decimal("3.1")]
_FLOATS = [1.5, 2.0, None, 0.25]
LEAVES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, None, True]),
    "int8": (pa.int8(), [1, -2, None, 3]),
    "uint8": (pa.uint8(), [1, 200, None, 3]),
    "int64": (pa.int64(), [1, -(2**62), None, 2**53 + 1]),
    "uint64": (pa.uint64(), [1, 2**64 - 1, None, 3]),
    "half": (pa.float16(), [None if one is None else np.float16(one) for one in _FLOATS]),
    "float": (pa.float32(), _FLOATS),
    "double": (pa.float64(), _FLOATS),
    "string": (pa.string(), _TEXTS),
    "large_string": (pa.large_string(), _TEXTS),
    "string_view": (pa.string_view(), _TEXTS),
    "binary": (pa.binary(), _BYTES),
    "large_binary": (pa.large_binary(), _BYTES),
    "binary_view": (pa.binary_view(), _BYTES),
    "fixed_binary": (pa.binary(2), [b"aa", b"bb", None, b"cc"]),
    "date32": (pa.date32(), _DAYS),
    "date64": (pa.date64(), _DAYS),
    "time_s": (pa.time32("s"), _TIMES),
    "time_ms": (pa.time32("ms"), _TIMES),
    "time_us": (pa.time64("us"), _TIMES),
    "time_ns": (pa.time64("ns"), [3_600_000_000_000, 5_000, None, 4_000]),
    **{f"time_of_{unit}": (pa.timestamp(unit), _COUNTS) for unit in ("s", "ms", "us")},
    "time_of_ns": (pa.timestamp("ns"), [1_000, 2_000, None, -3_000]),
    "berlin_s": (pa.timestamp("s", "Europe/Berlin"), _COUNTS),
    "utc_us": (pa.timestamp("us", "UTC"), _COUNTS),
    "utc_ns": (pa.timestamp("ns", "UTC"), [1_000, 2_000, None, -3_000]),
    **{f"length_{unit}": (pa.duration(unit), [1_000, 2_000, None, 3_000]) for unit in ("s", "ms", "us", "ns")},
    "decimal32": (pa.decimal32(5, 1), _NUMBERS),
    "decimal64": (pa.decimal64(15, 1), _NUMBERS),
    "decimal128": (pa.decimal128(30, 1), _NUMBERS),
    "decimal256": (pa.decimal256(30, 1), _NUMBERS),
    "null": (pa.null(), [None] * 4),
    "interval": (pa.month_day_nano_interval(), [(1, 2, 3_000), (0, 0, 1_000), None, (4, 0, 0)]),
    "uuid": (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes, None, uuid.UUID(int=3).bytes]),
    "json": (pa.json_(), ['{"a":1}', "[1]", None, "2"]),
    "bool8": (pa.bool8(), [1, 0, None, 1]),
    "own": (Own(), _TEXTS),
}  # fmt: skip
ENCODINGS = (
    "plain",
    "codes",
    "ordered",
    "codes of NULL",
    "codes of twins",
    "runs",
    "runs of codes",
    "wide codes",
)
NESTINGS = (
    "", "list", "large_list", "array", "pairs", "view", "large_view", "struct", "map", "sparse", "dense",
    "list struct", "struct list", "pairs struct", "struct pairs", "list array", "array list", "pairs pairs",
    "map struct", "list list", "view struct", "sparse list", "list sparse",
)  # fmt: skip
"""What is around the values, the outermost first."""

SHAPES = ("whole", "sliced", "chunked")


def cells() -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Name and column of every cell: type, encoding, nesting, shape."""
    every = itertools.product(LEAVES, ENCODINGS, NESTINGS)
    for number, (leaf, encoding, nesting) in enumerate(itertools.islice(every, 0, None, _EVERY)):
        shape = SHAPES[number % 3]
        column = cell(leaf, encoding, nesting, shape)
        if column is not None:
            yield f"{leaf}, {encoding}, {nesting or 'top'}, {shape}", column


def cell(leaf: str, encoding: str, nesting: str, shape: str = "whole") -> pa.ChunkedArray | None:
    """A column of `ROWS` rows; None where Arrow has none such, or ends the process that looks at it."""
    kind, values = LEAVES[leaf]
    extension = isinstance(kind, pa.BaseExtensionType)
    if encoding == "runs of codes" and (extension or leaf == "half"):
        return None
    array = _encoded(kind, [values[(i * i + i // 3) % 4] for i in range(_LEAVES)], encoding)
    for around in reversed(nesting.split()):
        array = _around(array, around)
    if shape == "whole":
        return pa.chunked_array([array.slice(0, ROWS)])
    if shape == "sliced":
        return pa.chunked_array([array.slice(1, ROWS)])
    return pa.chunked_array([array.slice(0, 2), array.slice(2, 0), array.slice(2, ROWS - 2)])


def made(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of values of the storage of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def _encoded(kind: pa.DataType, values: list[Any], encoding: str) -> pa.Array:
    if encoding == "plain":
        return made(kind, values)
    if encoding.startswith("runs"):
        ends = [i + 1 for i in range(len(values)) if i + 1 == len(values) or values[i] != values[i + 1]]
        inner = _encoded(kind, [values[end - 1] for end in ends], "codes" if "codes" in encoding else "plain")
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), inner)
    known = list(dict.fromkeys(one for one in values if one is not None))
    if encoding == "codes of NULL" or not known:
        known.insert(1, None)
    places: list[int | None] = [known.index(one) if one in known else None for one in values]
    if encoding == "codes of twins":
        places = [one if one is None or i % 2 else one + len(known) for i, one in enumerate(places)]
        known *= 2
    codes = pa.array(places, pa.uint64() if encoding == "wide codes" else pa.int8())
    return pa.DictionaryArray.from_arrays(codes, made(kind, known), ordered=encoding == "ordered")


def _around(array: pa.Array, what: str) -> pa.Array:
    """Put values into lists, structs, maps or unions, some of which are NULL over values that nobody sees."""
    size = len(array)
    ends = [0]
    while ends[-1] < size:
        ends.append(min(size, ends[-1] + (1, 2, 0, 3)[len(ends) % 4]))
    lists, numbers = len(ends) - 1, pa.array(range(size), pa.int8())

    def absent(rows: int) -> pa.Array:
        return pa.array([i % 5 == 3 for i in range(rows)])

    if what == "list":
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), array, mask=absent(lists))
    if what == "large_list":
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), array, mask=absent(lists))
    if what in ("view", "large_view"):
        make, code = (pa.ListViewArray, pa.int32()) if what == "view" else (pa.LargeListViewArray, pa.int64())
        begins, sizes = ends[-2::-1], [b - a for a, b in itertools.pairwise(ends)][::-1]
        return make.from_arrays(pa.array(begins, code), pa.array(sizes, code), array, mask=absent(lists))
    if what == "array":
        return pa.FixedSizeListArray.from_arrays(array, 1, mask=absent(size))
    if what == "pairs":
        return pa.FixedSizeListArray.from_arrays(array.slice(0, size // 2 * 2), 2, mask=absent(size // 2))
    if what == "struct":
        return pa.StructArray.from_arrays([array, numbers], ["x", "y"], mask=absent(size))
    if what == "map":
        keys = pa.array([f"k{i % 3}{i}" for i in range(size)])
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, array, mask=absent(lists))
    others = pa.array([f"other {i % 3}" for i in range(size)])
    turns = pa.array([i % 2 for i in range(size)], pa.int8())
    if what == "sparse":
        return pa.UnionArray.from_sparse(turns, [array, others], ["u", "w"])
    places = pa.array([i // 2 for i in range(size)], pa.int32())
    return pa.UnionArray.from_dense(turns, places, [array, others], ["u", "w"])


def plain(value: Any) -> Any:
    """A value of Python as something that can be compared and hashed, apart from every other."""
    if isinstance(value, pa.MonthDayNano) and not value.months and not value.days:
        value = dt.timedelta(microseconds=value.nanoseconds // 1000)
    if isinstance(value, dt.timedelta):
        return "length", value // dt.timedelta(microseconds=1)
    if isinstance(value, dt.datetime):
        return "instant", str(value.astimezone(dt.UTC) if value.tzinfo else value)
    if isinstance(value, float | np.floating):
        return "float", float(value)
    if isinstance(value, dict):
        return "struct", tuple((name, plain(one)) for name, one in value.items())
    if isinstance(value, uuid.UUID):
        return "str", str(value)
    if isinstance(value, list | tuple) and not isinstance(value, pa.MonthDayNano):
        return "list", tuple(map(plain, value))
    return type(value).__name__, str(value)
