"""Outgoing: released values in the Arrow types of their source, without anything else of the source.

A dictionary holds only values of the released rows. Metadata of fields and types of unknown extensions may
name values of other records, so both are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database.intake import children, is_of_lists, plain, plain_type, rebuilt, with_children

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Path = tuple[int, ...]
    """Places of children on the way to a part of a type."""

    Orders = Mapping[Path, pa.Array]
    """Values of dictionaries in their order, by path."""

_DAY = 86_400_000_000_000
"""Nanoseconds of a day."""

_KNOWN = {"arrow.bool8", "arrow.json", "arrow.uuid", "pandas.interval", "pandas.period"}
"""Names of extensions whose parameters contain no value."""


def encoded(column: pa.ChunkedArray, kind: pa.DataType, orders: Orders) -> pa.ChunkedArray:
    """Plain values in the encodings of a type: dictionaries, runs and views at any depth.

    A dictionary has the values of `column`, in the known order, then in order of occurrence; lists and
    structs stay values. Children of a NULL are emptied. An ArrowException if values do not fit the type.
    """
    kind = bare(kind)
    if column.type == kind and not kind.num_fields:
        return column
    parts = column.chunks or [pa.nulls(0, column.type)]
    return pa.chunked_array(_encoded(parts, kind, orders, ()))


def bare(kind: pa.DataType) -> pa.DataType:
    """Type without metadata of its fields and without unknown extensions; unions are sparse."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name in _KNOWN else bare(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, bare(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, bare(kind.value_type))
    if not kind.num_fields:
        return kind
    fields = [kind.field(place) for place in range(kind.num_fields)]
    fields = [pa.field(field.name, bare(field.type), field.nullable) for field in fields]
    if pa.types.is_list_view(kind):
        return pa.list_view(fields[0])
    return pa.large_list_view(fields[0]) if pa.types.is_large_list_view(kind) else with_children(kind, fields)


def orders(parts: Sequence[pa.Array], *, declared: bool = False) -> dict[Path, pa.Array]:
    """Values of the dictionaries in some arrays, by path; with `declared`, of ordered dictionaries only."""
    found: defaultdict[Path, list[pa.Array]] = defaultdict(list)
    for part in parts:
        for path, one in _dictionaries(part, ()):
            if one.type.ordered or not declared:
                found[path].append(plain(one.dictionary))
    told = {
        path: _distinct([_cast(one, _looked_up(one.type)) for one in values])
        for path, values in found.items()
    }
    return {path: values for path, values in told.items() if values is not None}


def joined(known: Orders, new: Orders) -> dict[Path, pa.Array]:
    """Values of dictionaries by path: the known ones in their order, then the new ones."""
    return {path: _distinct([known[path], new[path]]) if path in known else new[path] for path in new}


def _dictionaries(array: pa.Array, path: Path) -> Iterator[tuple[Path, pa.DictionaryArray]]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield path, array
        inner = [array.dictionary]
    elif pa.types.is_run_end_encoded(kind):
        inner = [array.values]
    elif isinstance(kind, pa.BaseExtensionType):
        # The storage of an extension holds the dictionaries; the extension is no step of the path.
        yield from _dictionaries(array.storage, path)
        return
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        inner = [array.field(place) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [array.keys, array.items]
    else:
        inner = [array.values] if kind.num_fields else []
    for place, child in enumerate(inner):
        yield from _dictionaries(child, (*path, place))


def _looked_up(kind: pa.DataType) -> pa.DataType:
    """Type of the same values for which Arrow can build an index."""
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _distinct(parts: Sequence[pa.Array]) -> pa.Array | None:
    """Return distinct values of some arrays in order of occurrence, without NULL; None if Arrow cannot."""
    try:
        return pa.chunked_array(parts).unique().drop_null()
    except pa.ArrowNotImplementedError:
        return None


def _encoded(parts: Sequence[pa.Array], kind: pa.DataType, known: Orders, path: Path) -> list[pa.Array]:
    """Return the chunks of a column in a type, all encoded alike."""
    # This import takes a tenth of the start of every command, and few commands need it.
    import pyarrow.compute as pc

    if pa.types.is_dictionary(kind):
        return _of_values(parts, kind, known, path)
    if pa.types.is_run_end_encoded(kind):
        try:
            values = [_cast(part, _looked_up(part.type)) for part in parts]
            runs = [pc.run_end_encode(part, run_end_type=kind.run_end_type) for part in values]
        except pa.ArrowNotImplementedError:
            return _encoded(parts, kind.value_type, known, (*path, 0))
        values = _encoded([part.values for part in runs], kind.value_type, known, (*path, 0))
        make = pa.RunEndEncodedArray.from_arrays
        return [make(part.run_ends, one) for part, one in zip(runs, values, strict=True)]
    parts = [_shown(part) for part in parts]
    if not is_of_lists(kind):
        return [_cast(part, kind) for part in parts]
    types = _types_of_children(kind)
    columns = zip(*map(children, parts), strict=True)
    inner = [
        _encoded(column, child, known, (*path, place))
        for place, (column, child) in enumerate(zip(columns, types, strict=True))
    ]
    made = _with_types(kind, [column[0].type for column in inner])
    built = [rebuilt(part, below, made) for part, below in zip(parts, zip(*inner, strict=True), strict=True)]
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return [_as_views(lists) for lists in built] if views else built


def _of_values(parts: Sequence[pa.Array], kind: pa.DataType, known: Orders, path: Path) -> list[pa.Array]:
    """Return dictionaries of the values that occur; plain values if the type allows no dictionary."""
    import pyarrow.compute as pc

    to = _looked_up(plain_type(kind.value_type))
    values = [_cast(part, to) for part in parts]
    present = _distinct(values)
    if present is None or pa.types.is_null(to):
        return _encoded(parts, kind.value_type, known, (*path, 0))
    if path in known:
        order = known[path]
        kept = order.filter(pc.is_in(order, value_set=present))
        if len(kept) < len(present):
            # A mean, for example, is no category of the source.
            return _encoded(values, kind.value_type, known, (*path, 0))
    else:
        kept = present
    (told,) = _encoded([kept], kind.value_type, {}, ())
    return [
        pa.DictionaryArray.from_arrays(
            pc.index_in(part, value_set=kept).cast(kind.index_type), told, ordered=kind.ordered
        )
        for part in values
    ]


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values without children in another type."""
    if array.type == kind:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _cast(array.storage, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _cast(array, kind.storage_type))
    if pa.types.is_duration(kind) and pa.types.is_interval(array.type):
        return _lengths(array).cast(kind)
    return array.cast(kind)


def _lengths(intervals: pa.Array) -> pa.Array:
    """Return intervals without months as durations: DuckDB has one type for both."""
    amounts = intervals.to_pylist()
    if any(amount is not None and amount.months for amount in amounts):
        raise ValueError("a month has no length")
    counted = [None if one is None else one.days * _DAY + one.nanoseconds for one in amounts]
    return pa.array(counted, pa.int64()).cast(pa.duration("ns"))


def _shown(array: pa.Array) -> pa.Array:
    """Return an array whose buffers hold no value under a NULL."""
    if not array.null_count:
        return array
    absent = array.is_null()
    return array.take(pa.array(range(len(array)), pa.int64(), mask=absent.to_numpy(zero_copy_only=False)))


def _as_views(lists: pa.Array) -> pa.Array:
    large = pa.types.is_large_list(lists.type)
    make = pa.LargeListViewArray if large else pa.ListViewArray
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int64)
    mask = lists.is_null() if lists.null_count else None
    kind = (pa.large_list_view if large else pa.list_view)(lists.type.value_field)
    code = pa.int64() if large else pa.int32()
    begins, sizes = pa.array(offsets[:-1], code), pa.array(np.diff(offsets), code)
    return make.from_arrays(begins, sizes, lists.values, type=kind, mask=mask)


def _types_of_children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(place).type for place in range(kind.num_fields)]


def _with_types(kind: pa.DataType, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return a type of lists (no views), structs, maps or unions with other types of children."""
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(types[0]),
            kind.item_field.with_type(types[1]),
            keys_sorted=kind.keys_sorted,
        )
    return with_children(kind, [kind.field(place).with_type(one) for place, one in enumerate(types)])
