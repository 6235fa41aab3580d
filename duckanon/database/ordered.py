"""Values of Arrow columns in the order of an audit: ascending, NaN after all numbers and NULL last."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values in a type that Arrow can sort, with 0.0 for -0.0 and one form of NaN."""
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
    """Each value once, ascending, NaN and NULL last."""
    once = pc.unique(values)
    return once.take(pc.array_sort_indices(once))


def places(values: pa.Array, known: pa.Array) -> pa.Array:
    """Place of each value, NULL included, among the known values; NULL for an unknown value."""
    return pc.index_in(values, value_set=known, skip_nulls=False)
