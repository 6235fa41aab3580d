"""Files and tables on the command line: what ``patients.csv`` or ``hospital.duckdb:patients`` means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckanon import engine, sqlfiles
from duckanon.errors import SourceError

if TYPE_CHECKING:
    import duckdb

DATABASES = (".duckdb", ".db")


def relation(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Relation, as SQL text, of a file or table that was named on the command line.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Where a database file is attached, read-only, once a file
    name : str
        ``file.csv``, ``file.parquet`` or ``file.duckdb:table`` (also ``:schema.table``).

    Returns
    -------
    str
        What stands after FROM.

    Raises
    ------
    SourceError
        The file does not exist, cannot be read, or the name has another form.
    """
    path, table = split(name)
    if not path.exists():
        raise SourceError(f"{str(path)!r} does not exist")
    if table is not None:
        return _attached(con, path, table)
    if path.suffix.lower() == ".parquet":
        return sqlfiles.render("export/read_parquet.sql.j2", path=str(path)).strip()
    if path.suffix.lower() in {".csv", ".tsv"}:
        return _csv(con, path)
    raise SourceError(f"{name!r}: give file.csv, file.parquet or file.duckdb:table")


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
    if catalog is None:
        catalog = f"source_{len(known)}" if "source" in known else "source"
        statement = sqlfiles.render("files/attach.sql.j2", path=str(path), catalog=catalog)
        engine.run(con, statement, stage, error=SourceError)
    schema, _, name = table.rpartition(".")
    return sqlfiles.render("export/relation.sql.j2", catalog=catalog, schema=schema or "main", name=name)


def _csv(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    stage = f"file {str(path)!r}"
    plain = sqlfiles.render("files/csv.sql.j2", path=str(path), text=[]).strip()
    described = sqlfiles.render("export/describe.sql.j2", relation=plain)
    columns = engine.rows(con, described, stage, error=SourceError)
    numbers = [row[0] for row in columns if row[1] in {"BIGINT", "DOUBLE"}]
    if not numbers:
        return plain
    query = sqlfiles.render("files/leading_zeros.sql.j2", path=str(path), columns=numbers)
    padded = engine.rows(con, query, stage, error=SourceError)[0]
    text = [name for name, found in zip(numbers, padded, strict=True) if found]
    return sqlfiles.render("files/csv.sql.j2", path=str(path), text=text).strip()
