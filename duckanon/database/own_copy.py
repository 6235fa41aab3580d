"""Rows that others stored, copied to tables of our own before anything is asked of them.

A file states the least and the greatest value of a column, how many NULLs it has and more. DuckDB believes
it where rows are filtered, sorted, grouped or counted, so a file that lies gets the answers that it likes. A
plain scan reads the rows. What is asked of the copy is answered by statistics that DuckDB made of its rows.
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
"""Optimizers of DuckDB that compute with what a file states."""

_OPTIMIZERS, _ORDER = "disabled_optimizers", "preserve_insertion_order"

_SETTINGS_LOCK = threading.RLock()
"""Held while a setting of a database, which all its connections have, is another one."""


@contextlib.contextmanager
def plain_scans(con: duckdb.DuckDBPyConnection, stage: str) -> Iterator[None]:
    """Let no optimizer believe what a file states, also where the rows are those of a view of the user.

    Rows keep the order in which they stand in the file, by which they are compared with what it states.
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
    """Copy the rows of a relation, in their order, to a table, SQL text like the relation; return the table.

    O(n), and DuckDB spills. The table is temporary unless `kept`.
    """
    statement = templates.render("files/stored.sql.j2:copy", table=table, relation=relation, kept=kept)
    with plain_scans(con, stage):
        engine.run(con, statement, stage, error=SourceError)
    return table


@contextlib.contextmanager
def room(con: duckdb.DuckDBPyConnection, schemas: Iterable[str], stage: str) -> Iterator[str]:
    """Give the name of a database in memory with some schemas, for copies; it is gone in the end."""
    name = f"{engine.workspace()}_copies"
    detach = templates.render("catalog/databases.sql.j2:detach", catalog=name)
    with interrupts.cleanup(con, lambda: engine.run(con, detach, stage)):
        engine.run(con, templates.render("files/stored.sql.j2:room", catalog=name, schemas=schemas), stage)
        yield name


def lies(con: duckdb.DuckDBPyConnection, source: Path | Target, table: str, stage: str) -> list[str]:
    """Tell where a Parquet file, or that of a stored table, states what is not true of its copied rows."""
    if isinstance(source, Target):
        return _of_table(con, source, table, stage)
    return of_parquet(con, [source], table, stage)


def of_parquet(con: duckdb.DuckDBPyConnection, files: Iterable[Path], table: str, stage: str) -> list[str]:
    """Compare Parquet files with their rows, which were copied to a table, file after file.

    Where a row group states that a column is NULL throughout, DuckDB does not read it: pyarrow does.
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
    """Sentence that says what is wrong with a file."""
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
