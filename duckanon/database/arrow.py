"""Arrow columns as numpy arrays and back, without pandas, and their values in the order of an audit.

``to_numpy`` and ``pyarrow.array`` load pandas wherever it is installed, which takes a third of a second. Only
functions that need ``pyarrow.compute`` import it, which takes .06 s.
"""

from __future__ import annotations

import math
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def numbers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Numbers of an Arrow column for numpy: integers without NULL, or floats with NaN for NULL.

    Read-only. One chunk without NULL is not copied. ValueError if an integer is NULL or the type is no
    number.
    """
    whole = pa.types.is_integer(column.type)
    if not (whole or pa.types.is_floating(column.type)):
        raise ValueError(f"no numbers of at most 64 bits: {column.type}")
    if whole and column.null_count:
        raise ValueError(f"{column.null_count} of {len(column)} whole numbers are NULL")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_plain(chunk) for chunk in chunks if len(chunk)]
    dtype = column.type.to_pandas_dtype()
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


def _plain(chunk: pa.Array) -> npt.NDArray[Any]:
    """Numbers of one array with at least one row."""
    validity, data = chunk.buffers()
    dtype = np.dtype(chunk.type.to_pandas_dtype())
    values = np.frombuffer(data, dtype, len(chunk), chunk.offset * dtype.itemsize)
    if not chunk.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.where(bits[chunk.offset : chunk.offset + len(chunk)] == 1, values, np.nan)


def arrow(values: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> pa.Array:
    """Numbers of numpy for Arrow, in the same type, NaN as NULL; not copied where they are contiguous."""
    present = ~np.isnan(values)
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, buffer])


def texts(values: Sequence[str]) -> pa.Array:
    """Texts for Arrow, none of them NULL."""
    told = [value.encode() for value in values]
    ends = np.fromiter(accumulate(map(len, told), initial=0), np.int32, len(told) + 1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(told))]
    return pa.Array.from_buffers(pa.string(), len(told), buffers)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Texts, numbers or truth values for Arrow, of the type given, None as NULL."""
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    if pa.types.is_string(kind):
        buffers = texts(["" if value is None else value for value in values]).buffers()[1:]
    else:
        number = index if pa.types.is_integer(kind) else float
        plain = (number(0 if value is None else value) for value in values)
        array = np.fromiter(plain, np.dtype(kind.to_pandas_dtype()), len(values))
        whole = np.packbits(array, bitorder="little") if pa.types.is_boolean(kind) else array
        buffers = [pa.py_buffer(whole)]
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, *buffers])


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """No row of some columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def sortable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values in a type that Arrow can sort, with 0.0 for -0.0 and one form of NaN."""
    import pyarrow.compute as pc

    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):  # without a chunk
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
        values = pc.if_else(pc.equal(values, zero), zero, pc.if_else(pc.is_nan(values), nan, values))
    return values


def distinct(values: pa.Array) -> pa.Array:
    """Each value once in the order of an audit: ascending, NaN after all numbers and NULL last."""
    import pyarrow.compute as pc

    once = pc.unique(values)
    return once.take(pc.array_sort_indices(once))


def places_among(values: pa.Array, known: pa.Array) -> pa.Array:
    """Place of each value, NULL included, among the known values; NULL for an unknown value."""
    import pyarrow.compute as pc

    return pc.index_in(values, value_set=known, skip_nulls=False)
