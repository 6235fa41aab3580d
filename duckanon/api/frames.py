"""Tables of pandas, polars and Arrow as Arrow, and released rows as a table of the given kind."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.api import objects
from duckanon.database import engine, templates
from duckanon.database.intake import children, plain_type, readable
from duckanon.database.objects_given import instead
from duckanon.errors import DuckanonError, ReleaseError, SourceError, tell, user_frame
from duckanon.policy.names import ByColumn, fold, twice
from duckanon.statements.tokens import tokenize, unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duckanon.policy.policy import Policy

TEXTS = (pa.uuid(), pa.json_())
"""Arrow types that become text in a release, and are restored in an Arrow table."""

_UNREADABLE = (pa.ArrowException, ValueError, TypeError, AttributeError, OSError, OverflowError)


def arrow_table(table: object) -> pa.Table:
    """Arrow form of a table in memory, without a pandas index; Arrow data are not copied."""
    # A SourceError if it is no table, Arrow cannot hold its values, or two columns have one name.
    kind = type(table).__name__
    try:
        arrow = _arrow(table)
    except _UNREADABLE as cause:
        words = instead(table) or "; ".join(map(str, cause.args)) or kind
        raise SourceError(f"cannot read a table from {kind}: {words}") from cause
    if arrow is None:
        words = instead(table) or "give a pandas, polars or Arrow table"
        raise SourceError(f"cannot read a table from {kind}: {words}")
    for place, field in enumerate(arrow.schema):
        if pa.types.is_duration(field.type) and arrow.column(place).null_count:
            arrow = arrow.set_column(place, field, _with_zeros(arrow.column(place)))
    again = twice(arrow.column_names)
    if again is not None:
        raise SourceError(f"the {kind} has the column {again!r} twice: rename one")
    return arrow


def with_orders(policy: Policy, table: pa.Table) -> Policy:
    """Policy with the order of each ordered dictionary of text whose order it asks for, as of an ENUM."""
    asked = {fold(name) for name, how in policy.distance.items() if how == "ordered"}
    asked |= {fold(name) for name, how in policy.recode.items() if how in ("median", "range")}
    orders = dict(policy.order)
    for field in table.schema:
        if not (pa.types.is_dictionary(field.type) and field.type.ordered and fold(field.name) in asked):
            continue
        column = table.column(field.name).unify_dictionaries()
        places = {place for chunk in column.chunks for place in chunk.indices.unique().to_pylist()}
        values = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        held = tuple(value for place, value in enumerate(values) if place in places)
        if field.name not in policy.order and len(held) > 1 and all(isinstance(one, str) for one in held):
            orders[field.name] = held
    return replace(policy, order=ByColumn(orders)) if len(orders) > len(policy.order) else policy


@contextlib.contextmanager
def variables(con: duckdb.DuckDBPyConnection, text: str) -> Iterator[bool]:
    """Let the statement `text` see tables in the caller's variables; give whether it names one.

    As in DuckDB, a relation comes first, and the setting ``python_enable_replacements`` allows it.
    """
    frame = user_frame(sys._getframe(2))
    named = dict.fromkeys(unquoted(token) for token in tokenize(text) if token.kind in {"word", "name"})
    found = {name: frame.f_locals.get(name, frame.f_globals.get(name)) for name in named}
    tables = {name: value for name, value in found.items() if _is_table(value)}
    if tables and _allowed(con):
        tables = {name: value for name, value in tables.items() if not _known(con, name)}
    else:
        tables = {}
    seen, unread = {}, {}
    for name, value in tables.items():
        try:
            seen[name] = readable(arrow_table(value))
        except SourceError as refused:
            # The word may be a column or an alias, and no table.
            unread[name] = refused
    with engine.registered(con, seen):
        try:
            yield bool(seen)
        except (DuckanonError, duckdb.Error) as failure:
            missing = engine.MISSING_TABLE.search(str(failure))
            if missing is None or missing[1] not in unread:
                raise
            raise SourceError(f"variable {missing[1]!r}: {unread[missing[1]]}") from failure


def _is_table(value: object) -> bool:
    """Whether a variable is a table that can be read more than once."""
    if isinstance(value, type | pa.RecordBatchReader | duckdb.DuckDBPyRelation):
        return False
    return hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")


def _allowed(con: duckdb.DuckDBPyConnection) -> bool:
    query = templates.render("session.sql.j2:setting", name="python_enable_replacements")
    with contextlib.suppress(DuckanonError):
        return bool(engine.rows(con, query, "variables")[0][0])
    return False


def _known(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether a relation has a name."""
    query = templates.render("catalog/views.sql.j2:called", name=name)
    return bool(engine.rows(con, query, "variables")[0][0])


def _arrow(table: object) -> pa.Table | None:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if _library(table) == "pandas":
        return _of_pandas(table) if hasattr(table, "columns") else None
    if _library(table) == "polars" and hasattr(table, "iter_rows"):
        return _of_polars(table)
    return pa.table(table) if hasattr(table, "__arrow_c_stream__") else None


def _with_zeros(lengths: pa.ChunkedArray) -> pa.Array:
    """The same durations with 0 in place of NULL."""
    # The integer behind a NaT is the least of its type, and DuckDB fails when it multiplies that integer.
    numbers = lengths.cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array(numbers, mask=lengths.is_null().to_numpy()).cast(lengths.type)


def _library(table: object) -> str:
    return type(table).__module__.partition(".")[0]


def in_other_form(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """Released values in a type of the source for which DuckDB or the recode uses another form; else None."""
    # Text as UUID or JSON, sets and ranges of members of the type, nested durations. An Arrow exception or a
    # ValueError if a value has no such form.
    if pa.types.is_nested(column.type) and not pa.types.is_nested(getattr(kind, "storage_type", kind)):
        member = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_list(column.type):
            return column.cast(pa.list_(member))
        return column.cast(pa.struct([(one.name, member) for one in column.type]))
    if kind in TEXTS:
        texts = column.to_pylist()
        stored = [UUID(one).bytes if one and kind == pa.uuid() else one for one in texts]
        return pa.chunked_array([pa.ExtensionArray.from_storage(kind, pa.array(stored, kind.storage_type))])
    if pa.types.is_nested(kind) and "interval" in str(column.type):
        return pa.chunked_array([pa.array(map(_with_lengths, column.to_pylist()), kind)])
    return None


def _with_lengths(value: Any) -> Any:
    """A nested value with durations in place of intervals."""
    if isinstance(value, pa.MonthDayNano):
        if value.months:
            raise ValueError("a month has no length")
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, dict):
        return {name: _with_lengths(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_with_lengths, value))
    return value


def as_given(released: pa.Table, given: object, source: pa.Table) -> Any:
    """The released rows as a table of the kind of `given`."""
    if isinstance(given, pa.RecordBatch):
        return released.combine_chunks().to_batches()[0]
    if isinstance(given, pa.RecordBatchReader):
        return released.to_reader()
    kind = _library(given)
    if kind not in {"pandas", "polars"}:
        return released
    try:
        return _pandas(released, given, source) if kind == "pandas" else _polars(released, given)
    except Exception as cause:
        # Any exception: polars, which may be missing, has its own exceptions; pandas raises those of numpy.
        raise ReleaseError(
            f"{kind} cannot hold the released rows: {cause}; give a pyarrow.Table and one comes back"
        ) from cause


def _of_pandas(frame: Any) -> pa.Table:
    named = [str(name) for name in frame.index.names if name is not None]
    if named:
        tell(
            f"the index ({', '.join(named)}) of the DataFrame is left out: reset_index() makes columns of it"
        )
    names = [str(label) for label in frame.columns]
    columns = []
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        try:
            columns.append(_array(series))
        except _UNREADABLE as cause:
            words = "; ".join(map(str, cause.args))
            raise TypeError(
                f"column {name!r} has type {series.dtype}, which has no exact form in Arrow: {words}"
            ) from cause
    return pa.table(columns, names=names)


def _array(values: Any) -> Any:
    """Arrow form of a pandas Series or Index."""
    pd = objects.library("pandas")

    if isinstance(values.dtype, pd.CategoricalDtype):
        categories = _array(values.dtype.categories)
        if isinstance(categories, pa.ChunkedArray):
            categories = categories.combine_chunks()
        numbers = values.array.codes
        codes = pa.array(numbers, mask=numbers < 0)
        if _is_plain(categories.type):
            return pa.DictionaryArray.from_arrays(codes, categories, ordered=bool(values.dtype.ordered))
        # DuckDB cannot read a dictionary of these types, or crashes on it.
        return categories.take(codes)
    if isinstance(values.dtype, np.dtype) and values.dtype.kind == "O":
        return objects.array_of(values.to_numpy())
    return pa.array(values.array, from_pandas=True)


def _is_plain(kind: pa.DataType) -> bool:
    extension = isinstance(kind, pa.BaseExtensionType)
    return not (extension or pa.types.is_nested(kind) or pa.types.is_duration(kind))


def _pandas(released: pa.Table, given: Any, source: pa.Table) -> Any:
    pd = objects.library("pandas")

    places = {str(label): place for place, label in enumerate(given.columns)}
    columns = {}
    for number, name in enumerate(released.column_names):
        column = released.column(number)
        if name in places:
            values = _column(column, given.iloc[:, places[name]], source.column(name))
        else:
            values = _of_arrow(column)
        columns[number] = pd.Series(values, dtype=getattr(values, "dtype", None))
    frame = pd.DataFrame(columns, index=pd.RangeIndex(released.num_rows))
    if places.keys() >= set(released.column_names):
        frame.columns = given.columns.take([places[name] for name in released.column_names])
    else:
        frame.columns = pd.Index(
            [given.columns[places[name]] if name in places else name for name in released.column_names]
        )
    return frame


def _column(released: pa.ChunkedArray, values: Any, source: pa.ChunkedArray) -> Any:
    """A released column as an array of its pandas dtype, if that dtype can hold the values."""
    pd = objects.library("pandas")

    dtype = values.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(released)
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(released, dtype)
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return objects.back(released, values.to_numpy(), source)
    if released.type != source.type:
        nested = pa.types.is_nested(released.type)
        return objects.objects_of(released, {}, _maker(dtype)) if nested else _of_arrow(released)
    if isinstance(dtype, pd.Float32Dtype | pd.Float64Dtype):
        # pandas would read NaN as NA.
        absent = released.is_null().to_numpy()
        return pd.arrays.FloatingArray(released.fill_null(0).to_numpy(), absent)
    if hasattr(dtype, "__from_arrow__"):
        return dtype.__from_arrow__(released)
    return released.to_pandas().astype(dtype)


def _categories(released: pa.ChunkedArray, dtype: Any) -> Any:
    """Categories of the source that a released record has, in their order; else the released values."""
    pd = objects.library("pandas")

    if pa.types.is_dictionary(released.type):
        released = pa.chunked_array(
            [one.dictionary_decode() for one in released.chunks], released.type.value_type
        )
    categories = dtype.categories
    array = _array(categories)
    place = {objects.key_of(value): number for number, value in enumerate(array.to_pylist())}
    keys = [objects.key_of(value) for value in released.to_pylist()]
    used = {place.get(key, -1) for key in keys if key is not None}
    if -1 not in used:
        kept = sorted(used)
        code = {number: code for code, number in enumerate(kept)}
        codes = [-1 if key is None else code[place[key]] for key in keys]
        return pd.Categorical.from_codes(codes, categories.take(kept), ordered=dtype.ordered)
    if pa.types.is_nested(released.type):
        return objects.objects_of(
            released, objects.known_objects(categories, array), _maker(categories.dtype)
        )
    return _of_arrow(released)


def _maker(dtype: Any) -> Callable[[Any], Any]:
    """Return the function that makes an end of a range, or a member of a set, from an Arrow value."""
    pd = objects.library("pandas")

    if isinstance(dtype, pd.PeriodDtype):
        return lambda value: pd.Period(ordinal=value, freq=dtype.freq)
    made: Callable[[Any], Any] = pd.Timestamp
    return made if pd.api.types.is_datetime64_any_dtype(dtype) else lambda value: value


def _of_arrow(released: pa.ChunkedArray) -> Any:
    """A column in the pandas dtype of its Arrow type; whole numbers with NULL stay whole."""
    pd = objects.library("pandas")

    if pa.types.is_integer(released.type) and released.null_count:
        dtype = pd.api.types.pandas_dtype(str(released.type).replace("uint", "UInt").replace("int", "Int"))
        return dtype.__from_arrow__(released)
    return released.to_pandas().array


def _of_polars(frame: Any) -> pa.Table:
    columns = []
    for name, kind in frame.schema.items():
        try:
            if "Object" in str(kind):
                raise TypeError("polars would hand over where its objects lie in memory")
            columns.append(pa.table(frame.select(name)).column(0))
        except _UNREADABLE as cause:
            raise TypeError(
                f"column {name!r} has type {kind}, which has no form in Arrow: {cause}"
            ) from cause
    return pa.table(columns, names=list(frame.columns))


def _polars(released: pa.Table, given: Any) -> Any:
    return _with_enums(objects.library("polars").from_arrow(released), given, released)


def _with_enums(frame: Any, given: Any, released: pa.Table) -> Any:
    """The released frame with the Enums of the given one, at any depth, restricted to released categories."""
    polars = objects.library("polars")
    for name, kind in given.schema.items():
        if "Enum(" not in str(kind) or name not in frame.columns:
            continue
        column = released.select([name])
        if plain_type(column.schema.types[0]) == column.schema.types[0]:
            # A set, for example, has no dictionary in Arrow.
            continue
        # Inside an array only text can become an Enum.
        texts = polars.from_arrow(readable(column, categories=False))[name]
        frame = frame.with_columns(texts.cast(_kept(kind, column.column(0).chunks)))
    return frame


def _kept(kind: Any, parts: Sequence[pa.Array]) -> Any:
    """Return a type whose Enums have the categories of the Arrow dictionaries at the same place."""
    polars = objects.library("polars")
    if isinstance(kind, polars.Enum):
        return polars.Enum(parts[0].dictionary.to_pylist())
    if not isinstance(kind, polars.List | polars.Array | polars.Struct):
        return kind
    inner = list(zip(*map(children, parts), strict=True))
    if isinstance(kind, polars.Struct):
        pairs = zip(kind.fields, inner, strict=True)
        return polars.Struct([polars.Field(one.name, _kept(one.dtype, below)) for one, below in pairs])
    within = _kept(kind.inner, inner[0])
    return polars.List(within) if isinstance(kind, polars.List) else polars.Array(within, kind.size)
