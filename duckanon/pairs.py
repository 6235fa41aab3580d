"""Two tables on the command line: an original and its release, which may lie in one database file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon import engine, files, sqlfiles
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb


class Pair(NamedTuple):
    """Original and release as SQL text, and the files they lie in."""

    original: str
    release: str
    paths: tuple[Path, ...]


def pair(con: duckdb.DuckDBPyConnection, original: str, release: str) -> Pair:
    """Relations of two files or tables that were named on the command line.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Where database files are attached, read-only: as ``source``, and a second one as ``release``.
    original, release : str
        Each ``file.csv``, ``file.parquet`` or ``file.duckdb:table``.

    Returns
    -------
    Pair
        What stands after FROM.

    Raises
    ------
    SourceError
        A file does not exist, cannot be read, or its name has another form.
    """
    first = files.relation(con, original)
    (path, table), (before, known) = files.split(release), files.split(original)
    if table is None or known is None:
        return Pair(first, files.relation(con, release), (before, path))
    if not path.exists():
        raise SourceError(f"{str(path)!r} does not exist")
    alias = "source"
    if not path.samefile(before):
        # files.relation attaches every database under one name, and one file only once.
        alias = "release"
        statement = sqlfiles.render("files/attach_second.sql.j2", path=str(path), alias=alias)
        engine.run(con, statement, f"database {str(path)!r}", error=SourceError)
    schema, _, name = table.rpartition(".")
    second = sqlfiles.render("export/relation.sql.j2", catalog=alias, schema=schema or "main", name=name)
    return Pair(first, second, (before, path))
