"""Own copies: rows of foreign files are copied to our tables before they are queried.

A file states the minimum, the maximum and the NULLs of a column, and more. DuckDB uses these statements to
filter, sort, group and count, so a file with false statements could choose its answers. A plain scan reads
the rows instead. Queries on the copy use statistics that DuckDB computed from the copied rows.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, stated, templates
from duckanon.database.relations import Target, columns_of, relation_of
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import duckdb

BELIEVERS = ("statistics_propagation", "compressed_materialization")
"""Optimizers of DuckDB that rely on the statistics of a file."""

_OPTIMIZERS, _ORDER = "disabled_optimizers", "preserve_insertion_order"

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
            last = first + stated.rows(con, name, stage)
            flat = stated.flat(con, path, stage)
            numbered = [(flat[column], column, kind) for column, kind in columns if column in flat]
            found += stated.misplaced(con, path, flat, last - first, stage)
            found += stated.unread(con, path, stage)
            found += stated.contradictions(con, name, table, numbered, stage, first=first, last=last)
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
        return stated.contradictions(con, name, table, numbered, stage, last=records, shortened=True)
