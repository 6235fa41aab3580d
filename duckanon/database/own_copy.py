"""Own copies: rows of foreign files are copied to our tables before they are queried.

A file states the minimum, the maximum and the NULLs of a column, and more. DuckDB uses these statements to
filter, sort, group and count, so a file with false statements could choose its answers. A plain scan reads
the rows instead. Queries on the copy use statistics that DuckDB computed from the copied rows.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.database import engine, interrupts, templates
from duckanon.database.relations import Target, columns_of, relation_of
from duckanon.database.templates import ident
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb
    from pyarrow import parquet as pq

BELIEVERS = ("statistics_propagation", "compressed_materialization")
"""Optimizers of DuckDB that rely on the statistics of a file."""

_OPTIMIZERS, _ORDER = "disabled_optimizers", "preserve_insertion_order"

CELLS_PER_QUERY = 2_000
"""Statistics, one a column and part of a file, that one query compares."""

WHOLE_TABLE = -1
"""Number of the part that stands for the whole table."""

LIES_TOLD = 10
"""Contradictions listed in an error."""

_BATCH_ROWS = 65_536
"""Rows that pyarrow reads at a time."""

_VALUE_CHARACTERS_SHOWN = 60
"""Characters of a value that are shown."""

_NUMBERS = re.compile(r"DOUBLE|FLOAT")
_VALUES = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DECIMAL\(\d+,\d+\)|BOOLEAN|DATE|UUID|TIME(_NS)?"
    r"|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|TIMESTAMPTZ_NS"
)

_SETTINGS_LOCK = threading.RLock()
"""Lock held while a setting is changed that all connections of a database share."""


@contextlib.contextmanager
def plain_scans(con: duckdb.DuckDBPyConnection, stage: str) -> Iterator[None]:
    """Turn off the optimizers that rely on statements of a file, also for files behind a user's view.

    Rows keep the order of the file, as the comparison with its statements requires.
    """
    with _SETTINGS_LOCK:
        before = _setting(con, _OPTIMIZERS, stage)
        off = ",".join(dict.fromkeys([*filter(None, before.split(",")), *BELIEVERS]))
        with _changed(con, _OPTIMIZERS, off, stage), _changed(con, _ORDER, "true", stage):
            yield


@contextlib.contextmanager
def _changed(con: duckdb.DuckDBPyConnection, name: str, value: str, stage: str) -> Iterator[None]:
    before = _setting(con, name, stage)

    def change(to: str) -> None:
        engine.run(con, templates.render("session.sql.j2:set", name=name, value=to, session=False), stage)

    if before == value:
        yield
        return
    with interrupts.cleanup(con, lambda: change(before)):
        change(value)
        yield


def _setting(con: duckdb.DuckDBPyConnection, name: str, stage: str) -> str:
    ((value,),) = engine.rows(con, templates.render("session.sql.j2:setting", name=name), stage)
    return "" if value is None else str(value).lower()


def copy(con: duckdb.DuckDBPyConnection, relation: str, table: str, stage: str, *, kept: bool = False) -> str:
    """Copy the rows of a relation in their order to a table, and return the table as SQL text.

    O(n), and DuckDB may spill. The table is temporary unless `kept`.
    """
    statement = templates.render("files/stored.sql.j2:copy", table=table, relation=relation, kept=kept)
    with plain_scans(con, stage):
        engine.run(con, statement, stage, error=SourceError)
    return table


def append(con: duckdb.DuckDBPyConnection, relation: str, table: str, stage: str) -> None:
    """Add the rows of a relation in their order to a table of `copy`."""
    statement = templates.render("files/stored.sql.j2:append", table=table, relation=relation)
    with plain_scans(con, stage):
        engine.run(con, statement, stage, error=SourceError)


@contextlib.contextmanager
def room(con: duckdb.DuckDBPyConnection, schemas: Iterable[str], stage: str) -> Iterator[str]:
    """Give the name of a database in memory with some schemas, for copies; it is detached at the end."""
    name = f"{engine.workspace()}_copies"
    detach = templates.render("catalog/databases.sql.j2:detach", catalog=name)
    with interrupts.cleanup(con, lambda: engine.run(con, detach, stage)):
        engine.run(con, templates.render("files/stored.sql.j2:room", catalog=name, schemas=schemas), stage)
        yield name


def lies(con: duckdb.DuckDBPyConnection, source: Path | Target, table: str, stage: str) -> list[str]:
    """False statements about copied rows of a Parquet file, or of the file of a stored table."""
    if isinstance(source, Target):
        return _of_table(con, source, table, stage)
    return of_parquet(con, [source], table, stage)


def of_parquet(con: duckdb.DuckDBPyConnection, files: Iterable[Path], table: str, stage: str) -> list[str]:
    """Compare the statements of Parquet files with their rows, copied to a table file by file.

    If a row group states that a column is all NULL, DuckDB skips the column: pyarrow reads it.
    """
    columns, found, first = columns_of(con, table, stage), [], 0
    for path in files:
        with engine.temporary(con) as workspace:
            name = f"{workspace}_stated"
            statement = templates.render("files/stated.sql.j2:stated_parquet", stated=name, path=path)
            engine.run(con, statement, stage, error=SourceError)
            last = first + _stated_rows(con, name, stage)
            flat = _flat_columns(con, path, stage)
            numbered = [(flat[column], column, kind) for column, kind in columns if column in flat]
            found += _misplaced(con, path, flat, last - first, stage)
            found += _unread(con, path, stage)
            found += _contradictions(con, name, table, numbered, stage, first=first, last=last)
            first = last
    return list(dict.fromkeys(found))


def told(found: Sequence[str]) -> str:
    """Message: the statistics of a file and its rows contradict each other."""
    return f"the file's statistics contradict its rows: {'; '.join(found)}"


def _of_table(con: duckdb.DuckDBPyConnection, source: Target, table: str, stage: str) -> list[str]:
    relation = relation_of(source)
    columns = columns_of(con, relation, stage)
    with engine.temporary(con) as workspace:
        name = f"{workspace}_stated"
        statement = templates.render(
            "files/stated.sql.j2:stated_table",
            stated=name,
            relation=relation,
            columns=[column for column, _ in columns],
        )
        engine.run(con, statement, stage, error=SourceError)
        numbered = [(number, column, kind) for number, (column, kind) in enumerate(columns)]
        ((records,),) = engine.rows(con, templates.render("relation.sql.j2:count", relation=table), stage)
        return _contradictions(con, name, table, numbered, stage, last=records, shortened=True)


@dataclass(frozen=True)
class _StatedColumn:
    """A column whose statistics are compared with its values."""

    number: int  # of the column in the statistics
    name: str
    type: str
    form: str  # how values are compared: text, bytes, number, value; none for types without an order
    different: bool  # whether the file states the number of distinct values


def _contradictions(
    con: duckdb.DuckDBPyConnection,
    stated: str,
    copy: str,
    columns: Sequence[tuple[int, str, str]],
    stage: str,
    *,
    first: int = 0,
    last: int,
    shortened: bool = False,
) -> list[str]:
    """Contradictions between rows (`copy`) and statements (`stated`, a table of sql/files/stated_*).

    `columns` are number, name and type; rows run from `first` to before `last`. Each part is compared alone
    if its row count matches, else all parts together. O(n) a column; a sort if distinct values are stated.
    """
    sizes = engine.rows(con, templates.render("files/stated.sql.j2:parts", stated=stated), stage)
    different = {number for _, _, numbers in sizes for number in numbers or ()}
    compared = [_column(*column, different=column[0] in different) for column in columns]
    if first == last or not compared:
        return []
    parts, whole = _parts([(part, rows) for part, rows, _ in sizes], first, last)
    told: list[str] = []
    for some in _some(parts, len(compared)):
        query = templates.render(
            "files/contradicted.sql.j2",
            stated=stated,
            copy=copy,
            parts=some,
            columns=compared,
            whole=whole,
            shortened=shortened,
        )
        names = {column.number: column.name for column in compared}
        told += [
            _told(names[number], what, one, found)
            for _, number, what, one, found in engine.rows(con, query, stage)
        ]
    told = list(dict.fromkeys(told))
    return told[:LIES_TOLD] + (
        [f"and {len(told) - LIES_TOLD} more of that kind"] if len(told) > LIES_TOLD else []
    )


def _column(number: int, name: str, kind: str, *, different: bool) -> _StatedColumn:
    if kind in {"VARCHAR", "JSON"}:
        form = "text"
    elif kind == "BLOB":
        form = "bytes"
    elif _NUMBERS.fullmatch(kind):
        form = "number"
    else:
        form = "value" if _VALUES.fullmatch(kind) else "none"
    # Some writers count 0.0 and -0.0 as two values, others as one.
    return _StatedColumn(number, name, kind, form, different and form not in {"number", "none"})


def _parts(
    sizes: Sequence[tuple[int, int]], first: int, last: int
) -> tuple[list[tuple[int, int, int]], bool]:
    """Return number, first row and end of each part, and whether all parts had to be taken as one."""
    parts, end = [], first
    for part, rows in sizes:
        if part != WHOLE_TABLE:
            parts.append((part, end, end + int(rows)))
            end += int(rows)
    if end != last:
        return [(WHOLE_TABLE, first, last)], True
    whole = [(WHOLE_TABLE, first, last)] if sizes and sizes[0][0] == WHOLE_TABLE else []
    return [*whole, *parts], False


def _some(parts: Sequence[tuple[int, int, int]], columns: int) -> Iterator[Sequence[tuple[int, int, int]]]:
    step = max(1, CELLS_PER_QUERY // columns)
    for start in range(0, len(parts), step):
        yield parts[start : start + step]


def _told(name: str, what: str, stated: str | None, found: str | None) -> str:
    if stated is None:
        return f"column {ident(name)}, stated {what}, found {found}"
    return f"column {ident(name)}, stated {what} {_short(stated)}, found {_short(found or '')}"


def _short(value: str) -> str:
    return value if len(value) <= _VALUE_CHARACTERS_SHOWN else f"{value[: _VALUE_CHARACTERS_SHOWN - 3]}..."


def _misplaced(
    con: duckdb.DuckDBPyConnection, path: Path, flat: Mapping[str, int], records: int, stage: str
) -> list[str]:
    """Tell where other readers of a Parquet file would not see the `records` rows that DuckDB reads.

    Other readers may count rows by the footer, or find columns of a row group by name; DuckDB uses their
    place.
    """
    query = templates.render("files/stated.sql.j2:parquet_shape", path=path)
    ((stated, placed),) = engine.rows(con, query, stage, error=SourceError)
    told = [] if stated == records else [f"stated number of rows {stated}, found {records}"]
    names = {number: name for name, number in flat.items()}
    for one in placed:
        name = names.get(one["number"], one["name"])
        if name != one["name"]:
            told.append(f"column {ident(name)}, stated {ident(one['name'])} in its place")
    return sorted(told)


def _unread(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> list[str]:
    """Tell which columns of a Parquet file have values in a row group that states all NULL.

    DuckDB skips such a column, so a plain scan gives NULL, too.
    """
    found = engine.rows(
        con, templates.render("files/stated.sql.j2:all_null", path=path), stage, error=SourceError
    )
    if not found:
        return []
    from pyarrow import parquet  # 50 ms, and hardly a file needs it

    told = {}
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            for group, number, name in found:
                if name not in told and _has_values(file, int(group), int(number)):
                    told[name] = f"column {ident(name)}, stated NULL throughout, found values"
    except (OSError, pa.ArrowException) as failure:
        raise SourceError(f"{stage}: {engine.first_line(failure)}") from failure
    return list(told.values())


def _has_values(file: pq.ParquetFile, group: int, number: int) -> bool:
    """Whether a leaf column of a row group has a value that is not NULL."""
    path = file.schema.column(number).path
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[path], use_threads=False)
    return any(_valued(column) for batch in batches for column in batch.columns)


def _valued(values: pa.Array) -> bool:
    """Whether the innermost values of an array are not all NULL."""
    if isinstance(values, pa.ExtensionArray):
        return _valued(values.storage)
    if isinstance(values, pa.StructArray):
        return any(_valued(child) for child in values.flatten())
    if isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray | pa.MapArray):
        inner = pa.ListArray.flatten(values) if isinstance(values, pa.MapArray) else values.flatten()
        return _valued(inner)
    return bool(values.null_count < len(values))


def _stated_rows(con: duckdb.DuckDBPyConnection, stated: str, stage: str) -> int:
    """Number of rows that a file states, summed over its parts."""
    sizes = engine.rows(con, templates.render("files/stated.sql.j2:parts", stated=stated), stage)
    return sum(int(size) for part, size, _ in sizes if part != WHOLE_TABLE)


def _flat_columns(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> dict[str, int]:
    """Columns of a Parquet file without nesting: number, from 0, among the leaf columns of the file."""
    query = templates.render("files/stated.sql.j2:parquet_names", path=path)
    columns: dict[str, int] = {}
    inside = number = 0
    # The first entry is the root; the children of a column follow the column.
    for name, children, repeated in engine.rows(con, query, stage, error=SourceError)[1:]:
        if not inside and not children and not repeated:
            columns[name] = number
        inside += children - bool(inside)
        number += not children
    return columns
