"""CSV and JSON lines as record batches of a stream; the first tuples fix the types."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.database import arrow, engine, templates
from duckanon.errors import SourceError
from duckanon.policy.names import DELIMITERS, fold, twice
from duckanon.streams.feed import Block, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import duckdb

STAGE = "stream"

Form = Literal["csv", "jsonl"]

SNIFFED_TUPLES = 20_480
"""Tuples of a file that tell the types: as many as DuckDB looks at."""

FIRST_SNIFFED_TUPLES = 100
"""Tuples that are tried first: they rule most types out."""

_GZIP = b"\x1f\x8b"
"""First bytes of a file that is packed by gzip."""

_TEXTS = "duckanon_texts"
_NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_OF_CSV = ("BOOLEAN", *_NUMBERS, *_TIMES)
_OF_JSON: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("UBIGINT", "BIGINT", "HUGEINT", "DOUBLE"), _NUMBERS),
    "BOOLEAN": ("BOOLEAN",),
    "VARCHAR": _TIMES,
}


@dataclass(frozen=True)
class _Texts:
    """Tuples of a block, every value a text; or the lines of a block of JSON."""

    table: pa.Table
    block: Block


def csv_batches(
    con: duckdb.DuckDBPyConnection,
    chunks: Iterator[bytes],
    *,
    first: int,
    waiting: Callable[[int], object],
    numbers: Collection[str] = (),
    typed: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Record batches of a CSV with a header; its `first` tuples fix the types of the `typed` columns.

    A column of `numbers` without a value is DOUBLE. `waiting` gets the number of tuples that wait for types.
    """
    begin, header = _header(chunks)
    outside = "".join(header.split('"')[0::2])
    # A comma for a single name.
    delimiter = max(DELIMITERS, key=lambda sign: (outside.count(sign), sign == ","))
    records = blocks(itertools.chain([begin], chunks), delimiter)
    block = next(records, None)
    if block is None:
        raise SourceError("the input is empty: there is no line with the names of the columns")
    names, block = _names(block)
    _check_names(names)
    tables = (_of_csv(one, names) for one in itertools.chain([block], records))
    needed = {fold(name) for name in (names if typed is None else typed)}
    possible = {name: _OF_CSV if fold(name) in needed else () for name in names}
    head = _waited(tables, first, waiting)
    types = _types(con, _joined(head, first), possible, numbers)
    yield from _typed(con, itertools.chain(head, tables), types)


def json_batches(
    con: duckdb.DuckDBPyConnection,
    chunks: Iterator[bytes],
    *,
    first: int,
    waiting: Callable[[int], object],
    numbers: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Record batches of JSON lines, one object a line; the keys of the first tuples are the columns.

    Parameters as of `csv_batches`. A missing key is NULL; a key that no first tuple has is an error.
    """
    lines = map(_lines, blocks(chunks, None))
    begun = _waited(lines, first, waiting)
    if not any(len(one.table) for one in begun):
        raise SourceError("the input is empty: there is no tuple that tells the columns")
    names = _keys(con, begun, first)
    possible = _kinds(con, _joined(begun, first), names)
    _check_names(names)
    head = [_of_json(con, one, names) for one in begun]
    types = _types(con, _joined(head, first), possible, numbers)
    rest = (_of_json(con, one, names) for one in lines)
    yield from _typed(con, itertools.chain(head, rest), types)


def _waited(tables: Iterator[_Texts], first: int, waiting: Callable[[int], object]) -> list[_Texts]:
    """Read the tables of the first tuples."""
    read: list[_Texts] = []
    count = 0
    for texts in tables:
        read.append(texts)
        count += len(texts.table)
        waiting(count)
        if count >= first:
            break
    return read


def _joined(tables: Sequence[_Texts], first: int) -> pa.Table:
    """Return the first tuples of some tables."""
    return pa.concat_tables([texts.table for texts in tables]).slice(0, first)


def _check_names(names: Sequence[str]) -> None:
    """Raise a SourceError if a name has a NUL character."""
    nul = next((name for name in names if "\0" in name), None)
    if nul is not None:
        raise SourceError(f"column {nul!r}: its name has a NUL character, which none in SQL has: rename it")


def with_nulls_of(batch: pa.RecordBatch, form: Form, columns: Collection[str]) -> pa.RecordBatch:
    """Return tuples with NULL for values of some columns that the format cannot distinguish from NULL.

    In a CSV that is the empty text, as DuckDB reads it; in JSON it is NaN or infinity.
    """
    asked = {fold(name) for name in columns}
    for place, field in enumerate(batch.schema):
        if fold(field.name) not in asked:
            continue
        values = batch.column(place)
        if form == "csv" and pa.types.is_string(field.type):
            distinct = pc.not_equal(values, "")
        elif form == "jsonl" and pa.types.is_floating(field.type):
            distinct = pc.is_finite(values)
        else:
            continue
        batch = batch.set_column(place, field, pc.if_else(distinct, values, pa.scalar(None, field.type)))
    return batch


def _header(chunks: Iterator[bytes]) -> tuple[bytes, str]:
    """Read until the first line is complete; return all bytes read, and that line."""
    begin = b""
    for chunk in chunks:
        begin += chunk
        if b"\n" in begin:
            break
    if begin.startswith(_GZIP):
        raise SourceError("the input is packed by gzip: unpack it first, as gunzip -c FILE | duckanon stream")
    return begin, begin.split(b"\n", 1)[0].decode(errors="replace")


def _names(block: Block) -> tuple[list[str], Block]:
    """Names of the columns, and the block without its header."""
    block.check()
    delimiter = str(block.delimiter)
    rows = csv.reader(block.data.decode().splitlines(keepends=True), delimiter=delimiter)
    names = next((row for row in rows if row), [])
    if not names:
        raise SourceError("line 1: there are no names of columns")
    for place, name in enumerate(names, start=1):
        if not name.strip():
            raise SourceError(f"line 1: column {place} has no name")
    again = twice(name.strip() for name in names)
    if again is not None:
        raise SourceError(f"line 1: the header has the column {again!r} twice: rename one")
    lines = block.data.split(b"\n", rows.line_num)
    data = lines[rows.line_num] if len(lines) > rows.line_num else b""
    return names, Block(data, block.line + rows.line_num, delimiter)


def _of_csv(block: Block, names: Sequence[str]) -> _Texts:
    """Fields of a block as texts."""
    # This import takes a tenth of the start of every command, and few commands need it.
    from pyarrow import csv as arrow_csv

    block.check()
    wrong: list[tuple[int, int]] = []

    def refuse(row: arrow_csv.InvalidRow) -> str:
        wrong.append((row.number, row.actual_columns))
        return "error"

    blanks = len(names) == 1
    if not block.data:
        return _Texts(pa.Table.from_batches([], pa.schema([(name, pa.string()) for name in names])), block)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(block.data),
            arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block.data) + 1),
            arrow_csv.ParseOptions(
                delimiter=str(block.delimiter), newlines_in_values=b'"' in block.data,
                ignore_empty_lines=not blanks, invalid_row_handler=refuse,
            ),
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(names, pa.string()), null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid as cause:
        if not wrong:
            raise SourceError(f"lines from {block.line} on: {engine.first_line(cause)}") from cause
        line = block.line_of(wrong[0][0] - 1, blanks=blanks)
        raise SourceError(
            f"line {line}: it has {wrong[0][1]} fields, not {len(names)} as the header: mend that line"
        ) from cause
    return _Texts(table, block)


def _lines(block: Block) -> _Texts:
    """Lines of a block that are not blank."""
    block.check()
    lines = [line for line in block.data.decode().split("\n") if line.strip()]
    return _Texts(pa.table({"line": arrow.texts(lines)}), block)


def _keys(con: duckdb.DuckDBPyConnection, waiting: Sequence[_Texts], first: int) -> list[str]:
    """Keys of the first tuples, in the order of their first occurrence."""
    known: dict[str, None] = {}
    query = templates.render("stream/json.sql.j2:json_keys", relation=_TEXTS)
    for lines in waiting:
        with engine.registered(con, {_TEXTS: lines.table.slice(0, first)}):
            found = engine.table(con, query, STAGE).to_pydict()
        for name, fault in (("valid", 1), ("object", 2)):
            if False in found[name]:
                raise _malformed(lines.block, found[name].index(False), fault)
        known |= dict.fromkeys(key for keys in found["keys"] for key in keys)
        first -= len(lines.table)
    if not known:
        raise SourceError("line 1: an object without keys: there is no column")
    return list(known)


def _kinds(
    con: duckdb.DuckDBPyConnection, lines: pa.Table, names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Types to try for each key: a text may be a date, but never a number."""
    with engine.registered(con, {_TEXTS: lines}):
        query = templates.render("stream/json.sql.j2:json_kinds", relation=_TEXTS)
        kinds = json.loads(engine.rows(con, query, STAGE)[0][0])
    possible: dict[str, tuple[str, ...]] = {}
    for name in names:
        kind = kinds[name]
        if isinstance(kind, (dict, list)):
            raise SourceError(f"column {name!r} holds lists or objects: give each value a key")
        possible[name] = _OF_JSON.get(kind, ())
    return possible


def _of_json(con: duckdb.DuckDBPyConnection, lines: _Texts, names: Sequence[str]) -> _Texts:
    """Values of a block of objects as texts."""
    with engine.registered(con, {_TEXTS: lines.table}):
        query = templates.render("stream/json.sql.j2:json_lines", relation=_TEXTS, names=names)
        wrong = arrow.numbers(engine.table(con, query, STAGE).column(0))
        places = np.flatnonzero(wrong)
        if len(places):
            raise _malformed(lines.block, int(places[0]), int(wrong[places[0]]))
        columns = [(name, "/" + name.replace("~", "~0").replace("/", "~1")) for name in names]
        query = templates.render("stream/json.sql.j2:json_texts", relation=_TEXTS, columns=columns)
        return _Texts(engine.table(con, query, STAGE), lines.block)


def _malformed(block: Block, record: int, fault: int) -> SourceError:
    words = {
        1: "this is no JSON",
        2: 'this is no JSON object: give one a line, as in {"age": 31}',
        3: "a key that no tuple had at first: name all keys in the first line, null without a value",
    }
    return SourceError(f"line {block.line_of(record)}: {words[fault]}")


def _typed(
    con: duckdb.DuckDBPyConnection, tables: Iterator[_Texts], types: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    columns, plain = list(types.items()), True
    for texts in tables:
        values, misfit = _values(con, texts, columns, plain=plain)
        if plain and misfit is not None:
            # If one number has another form, more numbers probably have it.
            plain = False
            values, misfit = _values(con, texts, columns, plain=plain)
        if misfit is not None:
            raise _misfit(con, texts, misfit, columns)
        yield values


def _types(
    con: duckdb.DuckDBPyConnection,
    head: pa.Table,
    possible: Mapping[str, tuple[str, ...]],
    numbers: Collection[str],
) -> dict[str, str]:
    """First type, by column, that fits all texts of the column."""
    few, _ = _fitting(con, head.slice(0, FIRST_SNIFFED_TUPLES), possible)
    fitting, known = _fitting(con, head, few)
    types, needed = {}, {fold(name) for name in numbers}
    for name, kinds in fitting.items():
        empty = "DOUBLE" if fold(name) in needed else "VARCHAR"
        types[name] = next(iter(kinds), "VARCHAR") if name in known else empty
    return types


def _fitting(
    con: duckdb.DuckDBPyConnection, head: pa.Table, possible: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Types that fit all texts of a column, by column, and the columns with a text."""
    with engine.registered(con, {_TEXTS: head}):
        query = templates.render("stream/types.sql.j2:types", relation=_TEXTS, columns=list(possible.items()))
        (row,) = engine.rows(con, query, STAGE)
    found = list(zip(possible.items(), row, strict=True))
    fitting = {name: tuple(kind for kind in tried if facts[kind]) for (name, tried), facts in found}
    return fitting, {name for (name, _), facts in found if facts["known"]}


def _values(
    con: duckdb.DuckDBPyConnection, texts: _Texts, columns: Sequence[tuple[str, str]], *, plain: bool
) -> tuple[pa.RecordBatch, int | None]:
    """Values of tuples in the types of their columns, and the place of the first value that does not fit."""
    fit = max((name for name, _ in columns), key=len) + " fits"  # longer than the name of any column
    query = templates.render(
        "stream/types.sql.j2:typed", relation=_TEXTS, columns=columns, fit=fit, plain=plain
    )
    with engine.registered(con, {_TEXTS: texts.table}):
        found = engine.table(con, query, STAGE).combine_chunks()
    misfits = found.column(fit).unique().to_pylist() != [True] and len(found) > 0
    place = found.column(fit).to_pylist().index(False) if misfits else None
    values = found.drop_columns([fit])
    batches = values.to_batches()
    return (batches[0] if batches else arrow.nothing(values.schema)), place


def _misfit(
    con: duckdb.DuckDBPyConnection, texts: _Texts, place: int, columns: Sequence[tuple[str, str]]
) -> SourceError:
    query = templates.render("stream/types.sql.j2:misfit", relation=_TEXTS, columns=columns)
    with engine.registered(con, {_TEXTS: texts.table.slice(place, 1)}):
        (row,) = engine.rows(con, query, STAGE)
    name, kind, text = next(
        (name, kind, text) for (name, kind), text in zip(columns, row, strict=True) if text is not None
    )
    line = texts.block.line_of(place, blanks=len(columns) == 1)
    return SourceError(
        f"line {line}: {text!r} in column {name!r} is no {kind}, which the first tuples were: mend that line"
    )
