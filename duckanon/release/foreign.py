"""Databases of others: opened so that nothing in them can act, and only stored rows are read.

A view and a computed column are programs of the author of the file. Such a program may read other files,
never end, or give each query another result. Stored rows are data. So a relation is read only after the
catalog has shown that it is a table of stored rows. The queries on the catalog use functions that read no
relation.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.database import drafts, engine, own_copy, templates
from duckanon.database.paths import check_log, open_plain
from duckanon.database.relations import Target, columns_of, named, relation_of
from duckanon.errors import ReleaseError, SourceError
from duckanon.policy.names import fold
from duckanon.release.metadata import METADATA, SCHEMA, is_release_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb

    from duckanon.database.sources import Files

_MAGIC = b"DUCK"
"""Bytes of a DuckDB database after the first eight bytes."""

_BACKING = re.compile(rf"FROM {SCHEMA}\.(\w+);?\s*$")

_SMALL_BYTES = 1 << 24
"""Size of all files of a command up to which rows are sorted uncompressed."""

_YOURS = "if the file is yours, give --trust"


@contextlib.contextmanager
def opened(
    files: Iterable[Path], *, folders: Iterable[Path] = (), trust: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection in memory that reaches only the named files, and writes only to the named folders.

    It has no Python variables and no progress bar. Settings are locked and extensions blocked, unless
    `trust`. DuckDB spills to a private folder in the first of the folders, or in the current one.
    """
    config: dict[str, str | bool | int | float | list[str]] = {"python_enable_replacements": False}
    if not trust:
        config |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    files, folders = list(files), list(folders)
    if sum(file.stat().st_size for file in files if file.is_file()) <= _SMALL_BYTES:
        # For few rows planning the compression takes longer than sorting: a third of a plan of 800 columns.
        config["disabled_optimizers"] = "compressed_materialization"
    with contextlib.ExitStack() as stack:
        # DuckDB's own folder for temporary files would let everybody read values of the files.
        spill = stack.enter_context(drafts.spill(next(iter(folders), Path())))
        if spill is not None:
            config["temp_directory"] = spill.absolute().as_posix()
        con = stack.enter_context(engine.in_memory(**config))
        if not trust:
            statement = templates.render(
                "files/stored.sql.j2:lock",
                paths=list(dict.fromkeys(text for file in files for text in _reached(file))),
                folders=[folder.absolute().as_posix() for folder in folders],
            )
            engine.run(con, statement, "open")
        yield con


def _reached(file: Path) -> Iterator[str]:
    """Give the paths under which DuckDB asks for a file: its name, the target of its links, and its log."""
    for path in (file.absolute().as_posix(), os.path.realpath(file)):
        yield from (path, f"{path}.wal")


def check_database(path: Path) -> None:
    """Raise unless a file is a DuckDB database; for other files DuckDB would load an extension.

    The log is read with the database, and must also be a plain file.
    """
    check_log(path)
    with open_plain(path) as head:
        if head.read(12)[8:] != _MAGIC:
            raise SourceError(
                f"{str(path)!r} is no DuckDB database: `duckanon verify` reads an exported file or a "
                "folder that Spark wrote, `duckanon audit` with --qi also CSV and Parquet files"
            )


def stored(con: duckdb.DuckDBPyConnection, target: Target, stage: str) -> Target:
    """Table with the stored rows of a name: the backing table if the name is the view of a release.

    The view must be in duckanon's own words. A SourceError for any other view and for computed columns.
    """
    is_view, definition, _, computed = _relation(con, target, stage)
    if computed:
        raise SourceError(
            f"{stage}: column {computed[0]!r} of {target.name!r} is computed when it is read, a program of "
            f"whoever made the file: {_YOURS}"
        )
    if not is_view:
        return target
    backing = _BACKING.search(definition or "")
    table = Target(target.catalog, SCHEMA, backing[1]) if backing else target
    rows = _relations(con, table, stage)
    if backing and rows and not rows[0][3] and is_release_view(con, target, table.name, rows[0][2]):
        return table
    raise SourceError(
        f"{stage}: {target.name!r} is a view, a program of whoever made the file: {_YOURS}, or name a table"
    )


def own_rows(con: duckdb.DuckDBPyConnection, relation: str, stage: str, *, of: Target | None) -> str:
    """Our table, as SQL text, with copied rows of a stored table.

    A SourceError if the file states falsehoods about its rows. `of` is None for a view, which states nothing.
    """
    # The cursors that run a user's queries do not see temporary tables.
    table = named("memory", "main", f"{engine.workspace()}_rows")
    own_copy.copy(con, relation, table, stage, kept=True)
    lies = [] if of is None else own_copy.lies(con, of, table, stage)
    if lies:
        raise SourceError(f"{stage}: {own_copy.told(lies)}")
    return table


def own_files(con: duckdb.DuckDBPyConnection, files: Files) -> str:
    """Our table, as SQL text, with the rows of Parquet files in their order, each with its `parts`.

    A SourceError if two files have different columns, or a file states falsehoods about its rows.
    """
    columns = [columns_of(con, parquet(path), files.stage) for path in files.paths]
    other = next((place for place, one in enumerate(columns) if one != columns[0]), None)
    if other is not None:
        raise SourceError(f"{files.stage}: {_different(files, columns, other)}")
    relations = [parquet(path) for path in files.paths]
    table = own_parts(con, files, relations, [name for name, _ in columns[0]])
    lies = own_copy.of_parquet(con, files.paths, table, files.stage)
    if lies:
        raise SourceError(f"{files.stage}: {own_copy.told(lies)}")
    return table


def own_parts(
    con: duckdb.DuckDBPyConnection, files: Files, relations: Sequence[str], columns: Sequence[str]
) -> str:
    """Our table, as SQL text, with the rows of the relation of each file and the columns of its folders."""
    known = {fold(name) for name in columns}
    twice = next((name for name in files.of_folders if fold(name) in known), None)
    if twice is not None:
        raise SourceError(f"{files.stage}: column {twice!r} is in a file and in the name of its folder")
    table = named("memory", "main", f"{engine.workspace()}_rows")
    types = types_of_folders(files)
    for number, relation in enumerate(relations):
        if files.parts:
            values = (value for _, value in files.parts[number])
            parts = [(name, value, kind) for (name, kind), value in zip(types.items(), values, strict=True)]
            relation = templates.render("relation.sql.j2:with_parts", relation=relation, parts=parts).strip()
        if number == 0:
            own_copy.copy(con, relation, table, files.stage, kept=True)
        else:
            own_copy.append(con, relation, table, files.stage)
    return table


def _different(files: Files, columns: Sequence[Sequence[tuple[str, str]]], other: int) -> str:
    """Words on the first column in which two files differ."""
    pairs = itertools.zip_longest(columns[0], columns[other])
    here, there = next((a, b) for a, b in pairs if a != b)
    shown = [" ".join(one) if one else "no column" for one in (here, there)]
    return (
        f"{files.called(0)!r} and {files.called(other)!r} have different columns, {shown[0]} and {shown[1]}: "
        "name files with the same columns in the same order"
    )


def types_of_folders(files: Files) -> dict[str, str]:
    """Types of the columns in names of folders: whole numbers and dates if each is written back the same."""
    types = {}
    for place, name in enumerate(files.of_folders):
        texts = {one[place][1] for one in files.parts} - {None}
        types[name] = next(
            (kind for kind, form in _OF_FOLDERS.items() if texts and all(form(str(text)) for text in texts)),
            "VARCHAR",
        )
    return types


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) is not None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


_OF_FOLDERS = {"BIGINT": _is_whole, "DATE": _is_date}
"""Types that a column in names of folders may have beside VARCHAR."""


def parquet(path: Path) -> str:
    """Relation of one Parquet file, as SQL text."""
    return templates.render("relation.sql.j2:file", name=path, form="parquet").strip()


def check_metadata(con: duckdb.DuckDBPyConnection, home: str, stage: str) -> None:
    """Raise unless relations with the names of the metadata are stored rows in the types of duckanon.

    A missing column is found when it is read; an additional column has no effect.
    """
    expected = _expected()
    for name, kind, column, type_text, computed in _layout(con, home, stage):
        if name not in METADATA:
            continue
        written = expected.get((name, column), type_text)
        what = f"{stage}: {SCHEMA}.{name}"
        if kind == "view":
            raise ReleaseError(f"{what} is a view, and duckanon writes a table: nothing was read from it")
        if computed:
            raise ReleaseError(f"{what}.{column} is computed when it is read, so nothing was read from it")
        if type_text != written:
            raise ReleaseError(f"{what}.{column} is {type_text}, and duckanon writes {written}")


def own_table(
    con: duckdb.DuckDBPyConnection, source: Target, room: str, stage: str
) -> tuple[Target, list[str]]:
    """Schema and name of our copy of a stored table, and the false statements of its file."""
    table = Target(room, source.schema, source.name)
    own_copy.copy(con, relation_of(source), relation_of(table), stage, kept=True)
    lies = own_copy.lies(con, source, relation_of(table), stage)
    return table, [f"table {source.schema}.{source.name}: {own_copy.told(lies)}"] if lies else []


def own_metadata(con: duckdb.DuckDBPyConnection, home: str, room: str, stage: str) -> list[str]:
    """Copy the metadata to our database after `check_metadata`; return the false statements of the file."""
    there = {name for name, *_ in _layout(con, home, stage)}
    tables = [Target(home, SCHEMA, name) for name in METADATA if name in there]
    lies = [lie for table in tables for lie in own_table(con, table, room, stage)[1]]
    query = templates.render("evidence/recorded.sql.j2:orders", catalog=room)
    for (name,) in engine.rows(con, query, stage) if "columns" in there else []:
        if _relations(con, Target(home, SCHEMA, name), stage):
            table = stored(con, Target(home, SCHEMA, name), stage)
            lies += own_table(con, table, room, stage)[1]
    return lies


@cache
def _expected() -> Mapping[tuple[str, str | None], str | None]:
    with engine.in_memory() as fresh:
        engine.run(fresh, templates.render("publish/metadata.sql.j2", catalog="memory"), "open")
        return {
            (name, column): type_text for name, _, column, type_text, _ in _layout(fresh, "memory", "open")
        }


def _layout(
    con: duckdb.DuckDBPyConnection, home: str, stage: str
) -> list[tuple[str, str, str | None, str | None, bool]]:
    query = templates.render("evidence/contents.sql.j2:metadata", catalog=home)
    return engine.rows(con, query, stage, error=ReleaseError)


def _relation(
    con: duckdb.DuckDBPyConnection, target: Target, stage: str
) -> tuple[bool, str | None, list[str], list[str]]:
    rows = _relations(con, target, stage)
    if not rows:
        raise SourceError(f"{stage}: there is no table {target.name!r}")
    return rows[0]


def _relations(
    con: duckdb.DuckDBPyConnection, target: Target, stage: str
) -> list[tuple[bool, str | None, list[str], list[str]]]:
    query = templates.render(
        "files/stored.sql.j2:relation", catalog=target.catalog, schema=target.schema, name=target.name
    )
    return [
        (bool(row[0]), row[1], list(row[2]), list(row[3] or []))
        for row in engine.rows(con, query, stage, error=SourceError)
    ]
