"""Intake: Arrow tables of users become plain tables, which DuckDB reads correctly.

DuckDB 2.0.1 reads a dictionary inside a fixed-size list or in runs as the codes of its values. A dictionary
of NULL or of structs may end the process. DuckDB has no half floats, no nanoseconds in an INTERVAL and no
dense unions. So each table of a user is decoded at every depth before DuckDB sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.database import engine
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_PLAIN_TYPES = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
    pa.float16(): pa.float32(),
    pa.duration("ns"): pa.duration("us"),
}
"""Replacement of types without children: Arrow cannot take rows of views."""

_DECIMAL_DIGITS = 38
"""Most digits of a decimal number of DuckDB."""


def readable(table: pa.Table, *, categories: bool = True) -> pa.Table:
    """Rows in plain types; a SourceError names a column that cannot be decoded.

    With `categories`, a dictionary whose values have no children stays a dictionary: DuckDB reads it.
    """
    for place, field in enumerate(table.schema):
        column = table.column(place)
        try:
            decoded = _categories(column) if categories and _is_flat(field.type) else _decoded(column)
        except (pa.ArrowException, ValueError, TypeError, IndexError) as lost:
            raise SourceError(
                f"column {field.name!r} has type {field.type}, and DuckDB would lose digits of it, or cannot "
                f"read {plain_type(field.type)}: {engine.first_line(lost)}; round or cast it"
            ) from lost
        if decoded is not column:
            table = table.set_column(place, pa.field(field.name, decoded.type), decoded)
    return table


def register_source(con: duckdb.DuckDBPyConnection, source: pa.Table, name: str = "source") -> None:
    """Register a table under a name; a SourceError names a column that DuckDB cannot read."""
    source = readable(source)
    try:
        con.register(name, source)
    except duckdb.Error as refused:
        for field in source.schema:
            try:
                con.register(name, source.select([field.name]))
            except duckdb.Error as cause:
                raise SourceError(
                    f"column {field.name!r} has type {field.type}, which DuckDB does not read: "
                    f"{engine.first_line(cause)}; cast it"
                ) from cause
        raise SourceError(f"the table cannot be read: {engine.first_line(refused)}") from refused


def plain(array: pa.Array) -> pa.Array:
    """Values of an array in their `plain_type`."""
    kind, made = array.type, plain_type(array.type)
    if kind == made:
        return array
    if not len(array):
        return pa.nulls(0, made)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        runs = np.searchsorted(np.asarray(array.run_ends), array.offset + np.arange(len(array)), side="right")
        return plain(array.values).take(pa.array(runs))
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return plain(_lists(array))
    if pa.types.is_union(kind) and kind.mode == "dense":
        return plain(_sparse(array))
    if not is_of_lists(kind):
        return array.cast(made)
    return rebuilt(array, [plain(child) for child in children(array)], made)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Type of the values of a type, without dictionaries, runs and views at any depth."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        storage = plain_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    if pa.types.is_decimal256(kind) and kind.precision <= _DECIMAL_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if not kind.num_fields:
        return _PLAIN_TYPES.get(kind, kind)
    return with_children(kind, [_plain_field(kind.field(place)) for place in range(kind.num_fields)])


def with_children(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Type of lists, structs, maps or sparse unions with other children; of a view of lists, lists."""
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_union(kind):
        return pa.sparse_union(fields)
    if pa.types.is_map(kind):
        return pa.map_(fields[0].type.field(0), fields[0].type.field(1), keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return pa.large_list(fields[0]) if large else pa.list_(fields[0])


def children(array: pa.Array) -> list[pa.Array]:
    """Children of plain lists, structs, maps or unions, without values outside every list."""
    kind = array.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return [array.values.slice(array.offset * size, len(array) * size)]
    begin, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
    inner = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
    return [child.slice(begin, end - begin) for child in inner]


def rebuilt(array: pa.Array, inner: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Lists, structs, maps or sparse unions of a type, with the form of an array and other `children`."""
    if pa.types.is_union(kind):
        return _union(kind, _places_of_types(array), inner)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(inner[0], type=kind, mask=mask)
    offsets = np.asarray(array.offsets) if len(array) else np.zeros(1, np.int64)
    begins = pa.array(offsets - offsets[0], pa.int64() if pa.types.is_large_list(kind) else pa.int32())
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(begins, *inner, type=kind, mask=mask)
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(begins, inner[0], type=kind, mask=mask)


def is_of_lists(kind: pa.DataType) -> bool:
    """Whether the values of a type have children: lists, structs, maps, unions."""
    return pa.types.is_nested(kind) and not pa.types.is_dictionary(kind)


def _plain_field(field: pa.Field) -> pa.Field:
    kind = plain_type(field.type)
    # Metadata about another type, such as its categories, is wrong for this type.
    return field if kind == field.type else pa.field(field.name, kind, field.nullable)


def _is_flat(kind: pa.DataType) -> bool:
    """Whether a type is a dictionary that DuckDB reads."""
    if not pa.types.is_dictionary(kind):
        return False
    values = kind.value_type
    return not (values.num_fields or pa.types.is_null(values) or isinstance(values, pa.BaseExtensionType))


def _categories(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dictionaries of plain values."""
    kind, values = column.type, plain_type(column.type.value_type)
    if values == kind.value_type:
        return column
    parts = [pa.DictionaryArray.from_arrays(part.indices, plain(part.dictionary)) for part in column.chunks]
    return pa.chunked_array(parts, pa.dictionary(kind.index_type, values))


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = plain_type(column.type)
    return column if kind == column.type else pa.chunked_array([plain(part) for part in column.chunks], kind)


def _lists(array: pa.Array) -> pa.Array:
    """Return views of lists, which may lie anywhere, as consecutive lists."""
    kind = array.type
    lengths = np.where(np.asarray(array.is_valid()), np.asarray(array.sizes), 0)
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) + np.repeat(np.asarray(array.offsets) - ends + lengths, lengths)
    offsets = np.append(0, ends)
    if isinstance(kind, pa.LargeListViewType):
        make, offsets = pa.LargeListArray, pa.array(offsets, pa.int64())
    else:
        make, offsets = pa.ListArray, pa.array(offsets, pa.int32())
    values = plain(array.values).take(pa.array(places))
    field = pa.field(kind.value_field.name, values.type, kind.value_field.nullable)
    mask = array.is_null() if array.null_count else None
    return make.from_arrays(offsets, values, type=with_children(kind, [field]), mask=mask)


def _sparse(array: pa.Array) -> pa.Array:
    """Return a dense union as a sparse union, whose children have a value for each row."""
    found, offsets = _places_of_types(array), _integers(array, 2, np.int32)
    inner = [
        plain(array.field(place)).take(pa.array(offsets, mask=found != place))
        for place in range(array.type.num_fields)
    ]  # fmt: skip
    fields = [pa.field(field.name, child.type) for field, child in zip(array.type, inner, strict=True)]
    return _union(pa.sparse_union(fields), found, inner)


def _places_of_types(array: pa.Array) -> npt.NDArray[np.int8]:
    """Return for each row of a union the place of the child with its value."""
    places = np.zeros(128, np.int8)
    places[array.type.type_codes] = np.arange(array.type.num_fields)
    return np.asarray(places[_integers(array, 1, np.int8)])


def _integers(array: pa.Array, place: int, dtype: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Return a buffer of a union by row: Arrow's own arrays begin before a slice."""
    if not len(array):
        return np.zeros(0, dtype)
    begin = array.offset
    return np.frombuffer(array.buffers()[place], dtype)[begin : begin + len(array)]


def _union(kind: pa.DataType, places: npt.NDArray[np.int8], inner: Sequence[Any]) -> pa.Array:
    names = [kind.field(place).name for place in range(kind.num_fields)]
    return pa.UnionArray.from_sparse(pa.array(places), list(inner), names)
