"""Python objects in cells of a pandas frame: their Arrow form, and the same objects for released values.

Arrow guesses one type from the objects of a column and may lose information. Of dates beside timestamps it
keeps the days, and of text beside bytes the bytes. Such a column is refused before any of it is read.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections import OrderedDict
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

_EXACT_TYPES = {str, int, bool, bytes, float, datetime.date}
"""Types that Arrow returns without loss: a column of one such type needs no comparison."""

_SCALARS = {
    str,
    int,
    bool,
    bytes,
    Decimal,
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
}
_LISTS = {list, tuple, set, np.ndarray}
_SEVERAL_VALUES = object()
"""Marks different objects that are one value to Arrow, such as 1 and 1.0."""


def library(name: str) -> Any:
    """Return a library that is already loaded, since the user passed one of its frames."""
    return sys.modules[name]


def key_of(value: Any) -> Any:
    """Hashable key that an object shares with its Arrow form, None if missing; a TypeError if unknown."""
    # Subclasses are unknown types: they may hold data that no audit has seen.
    pd = library("pandas")

    kind = type(value)
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        if isinstance(value, np.datetime64 | np.timedelta64):
            return key_of((pd.Timestamp if isinstance(value, np.datetime64) else pd.Timedelta)(value))
        return key_of(value.item())
    if kind is float:
        return None if math.isnan(value) else ("-0",) if value == 0 and math.copysign(1, value) < 0 else value
    if kind in _SCALARS or kind is pd.Timestamp or kind is pd.Timedelta:
        return None if kind is Decimal and value.is_nan() else value
    if kind is UUID:
        return str(value)
    if kind is bytearray or kind is memoryview:
        return bytes(value)
    if kind in _LISTS:
        return tuple(map(key_of, value))
    if kind is dict or kind is OrderedDict:
        return frozenset((name, key) for name, one in value.items() if (key := key_of(one)) is not None)
    if kind is pd.Period:
        return value.ordinal
    if kind is pd.Interval:
        return key_of({"left": value.left, "right": value.right})
    raise TypeError(f"its {kind.__name__} objects have no type in Arrow")


def array_of(values: npt.NDArray[np.object_]) -> pa.Array:
    """Arrow form of objects; a TypeError if an object would come back changed."""
    pd = library("pandas")

    absent, exact = pd.isna(values), _is_exact(values)
    if pd.api.types.infer_dtype(values[~absent]) in {"period", "interval"}:
        whole = values.copy()
        whole[absent] = None
        array = pa.array(pd.array(whole))
    else:
        array = pa.array(values if exact else list(map(_without_numpy, values)), from_pandas=True)
    if pa.types.is_timestamp(array.type):
        zones = {str(getattr(one, "tzinfo", None)) for one in values[~absent]}
        if len(zones) > 1:
            # Arrow has one time zone for a column, and would take the zone of the first record.
            array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    if not exact:
        for value, read in zip(values, array.to_pylist(), strict=True):
            if key_of(value) != key_of(read):
                raise TypeError(f"Arrow reads {value!r} as {read!r}: give its objects one type")
    return array


def _without_numpy(value: Any) -> Any:
    """A value, at every depth, with timestamps and durations of pandas in place of those of numpy."""
    # pyarrow 26 crashes on a timestamp of numpy beside a number of numpy.
    if isinstance(value, np.datetime64):
        return library("pandas").Timestamp(value)
    if isinstance(value, np.timedelta64):
        return library("pandas").Timedelta(value)
    if type(value) in _LISTS and (not isinstance(value, np.ndarray) or value.dtype.kind == "O"):
        return list(map(_without_numpy, value))
    if type(value) is dict:
        return {name: _without_numpy(one) for name, one in value.items()}
    return value


def _is_exact(values: npt.NDArray[np.object_]) -> bool:
    pd = library("pandas")

    kinds = set(map(type, values[~pd.isna(values)]))
    return len(kinds) < 2 and kinds <= _EXACT_TYPES


def known_objects(values: Iterable[Any], source: pa.Array | pa.ChunkedArray) -> dict[Any, Any]:
    """Objects by the key of their Arrow value; a value with several forms of object gets a mark instead."""
    known: dict[Any, Any] = {}
    for value, read in zip(values, source.to_pylist(), strict=True):
        if read is None:
            continue
        before = known.setdefault(key_of(read), value)
        if before is not value and (type(before) is not type(value) or repr(before) != repr(value)):
            known[key_of(read)] = _SEVERAL_VALUES
    return known


def objects_of(
    released: pa.ChunkedArray, known: dict[Any, Any], make: Callable[[Any], Any], missing: Any = None
) -> npt.NDArray[np.object_]:
    """Released values as objects: those of the source, also in ranges and sets, or new ones of their type."""

    def given(value: Any) -> Any:
        if value is None:
            return None
        found = known.get(key_of(value), _SEVERAL_VALUES) if known else _SEVERAL_VALUES
        if found is not _SEVERAL_VALUES:
            return found
        if isinstance(value, dict):
            return {name: given(one) for name, one in value.items()}
        return [given(one) for one in value] if isinstance(value, list) else make(value)

    values = released.to_pylist()
    # numpy would read lists of one length as a matrix.
    return np.fromiter((missing if one is None else given(one) for one in values), object, len(values))


def back(
    released: pa.ChunkedArray, values: npt.NDArray[np.object_], source: pa.ChunkedArray
) -> npt.NDArray[np.object_]:
    """Released values of a column of objects, as objects of the original types."""
    pd = library("pandas")

    absent = pd.isna(values)
    kinds = set(map(type, values[~absent]))
    marks = {repr(one): one for one in values[absent]}
    missing = next(iter(marks.values())) if len(marks) == 1 else None
    known = {} if _is_exact(values) else known_objects(values, source)
    return objects_of(released, known, _maker(kinds), missing)


def _maker(kinds: set[type]) -> Callable[[Any], Any]:
    """Return the function that makes an object of a value that the source lacks, such as a mean."""
    pd = library("pandas")

    (kind,) = kinds if len(kinds) == 1 else (object,)
    made: Callable[[Any], Any] = kind
    return made if issubclass(kind, np.generic | pd.Timestamp | pd.Timedelta) else lambda value: value
