"""Files and tables on the command line: what ``patients.csv`` or ``hospital.duckdb:patients`` means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckanon import engine, sqlfiles
from duckanon.csvfiles import csv_relation
from duckanon.errors import PolicyError, SourceError
from duckanon.names import fold, suggestion, twice
from duckanon.qualified import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

DATABASES = (".duckdb", ".db")

# Catalogs and schemas of DuckDB, and the schema of our metadata, which a database of that name would hide.
_RESERVED = frozenset(
    {"memory", "system", "temp", "main", "duckanon", "information_schema", "pg_catalog", ""}
)


def relation(con: duckdb.DuckDBPyConnection, name: str, *, apart: Iterable[str] = ()) -> str:
    """Relation, as SQL text, of a file or table that was named on the command line.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Where a database file is attached, read-only, once a file
    name : str
        ``file.csv``, ``file.parquet`` or ``file.duckdb:table`` (also ``:schema.table``).
    apart : iterable of str
        Columns of which no two texts of a CSV may become one value, as 1 and 1.0 would: an audit gives its
        quasi-identifiers, since whoever has the file tells such texts apart.

    Returns
    -------
    str
        What stands after FROM.

    Raises
    ------
    SourceError
        The file does not exist, cannot be read, has two columns of one name, or the name has another form.
    """
    path, table = split(name)
    if not path.exists():
        raise SourceError(f"{str(path)!r} does not exist")
    if path.is_dir():
        raise SourceError(f"{str(path)!r} is a folder: give a file")
    if path.is_file() and not path.stat().st_size:
        raise SourceError(f"{str(path)!r} is empty")
    if table is not None:
        return _attached(con, path, table)
    if path.suffix.lower() == ".parquet":
        return _parquet(con, path)
    if path.suffix.lower() in {".csv", ".tsv"}:
        return csv_relation(con, path, apart=apart)
    form = (
        f"{name}:table" if path.suffix.lower() in DATABASES else "file.csv, file.parquet or file.duckdb:table"
    )
    raise SourceError(f"{name!r}: give {form}")


def split(name: str) -> tuple[Path, str | None]:
    """Path and table of a name from the command line.

    Parameters
    ----------
    name : str
        ``file`` or ``file.duckdb:table``.

    Returns
    -------
    tuple of Path and str or None
        The table is None for a plain file.
    """
    for ending in DATABASES:
        path, found, table = name.rpartition(f"{ending}:")
        if found:
            return Path(path + ending), table
    return Path(name), None


def _attached(con: duckdb.DuckDBPyConnection, path: Path, table: str) -> str:
    stage = f"database {str(path)!r}"
    known = dict(engine.rows(con, sqlfiles.read("files/attached.sql"), stage))
    # DuckDB attaches a file once, so two tables of it share a name.
    catalog = next((name for name, file in known.items() if file and path.samefile(file)), None)
    own = path.name.partition(".")[0]
    other = any(file and not path.samefile(file) and fold(name) == fold(own) for name, file in known.items())
    if catalog is None:
        catalog = _free(own, known)
        statement = sqlfiles.render("files/attach.sql.j2", path=path.absolute().as_posix(), catalog=catalog)
        engine.run(con, statement, stage, error=SourceError)
    schema, name, view = _located(con, catalog, stage, table)
    if view and other:
        raise SourceError(
            f"{stage}: two files are called {own!r}, and a view may take one for the other: "
            "copy one of them to another name"
        )
    return sqlfiles.render("export/relation.sql.j2", catalog=catalog, schema=schema, name=name)


def _free(own: str, known: Iterable[str]) -> str:
    """Return the name that DuckDB gives to a file, which its views may hold, or one that is not taken."""
    taken = {fold(name) for name in known}
    if fold(own) not in taken | _RESERVED:
        return own
    numbered = (f"source_{number}" for number in range(len(taken) + 1))
    return next(name for name in numbered if name not in taken)


def _located(con: duckdb.DuckDBPyConnection, catalog: str, stage: str, table: str) -> tuple[str, str, bool]:
    """Schema and name of a table of an attached database, and whether it is a view."""
    tables = engine.rows(con, sqlfiles.render("files/tables.sql.j2", catalog=catalog), stage)
    shown = [name if schema == "main" else f"{schema}.{name}" for schema, name, _ in tables]
    listed = f"Tables: {', '.join(shown[:20])}{', ...' if len(shown) > 20 else ''}"
    if not table:
        raise SourceError(f"{stage}: which table? {listed}")
    found = [
        one
        for one, short in zip(tables, shown, strict=True)
        if fold(table) in {fold(short), fold(f"{one[0]}.{one[1]}")}
    ] or [one for one in tables if _quoted(table) == (fold(one[0]), fold(one[1]))]
    if len(found) > 1:
        written = " or ".join(f'"{schema}"."{name}"' for schema, name, _ in found)
        raise SourceError(f"{stage}: {table!r} means two tables: write {written}")
    if not found:
        raise SourceError(f"{stage}: there is no table {table!r}{suggestion(table, shown) or ':'} {listed}")
    schema, name, view = found[0]
    return str(schema), str(name), bool(view)


def _quoted(table: str) -> tuple[str, str] | None:
    """Schema and name of a table that is written with quotes, as in SQL."""
    try:
        parts = parse_name(table)
    except PolicyError:
        return None
    return None if parts.catalog else (fold(parts.schema or "main"), fold(parts.name))


def _parquet(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    stage = f"file {str(path)!r}"
    query = sqlfiles.render("files/parquet_names.sql.j2", path=path)
    columns, inside = [], 0
    # The first entry is the root; those that are inside a column follow it.
    for name, children in engine.rows(con, query, stage, error=SourceError)[1:]:
        if inside:
            inside -= 1
        else:
            columns.append(name)
        inside += children
    again = twice(columns)
    if again is not None:
        raise SourceError(f"{stage}: the file has the column {again!r} twice: rename one")
    return sqlfiles.render("files/parquet.sql.j2", path=path).strip()
