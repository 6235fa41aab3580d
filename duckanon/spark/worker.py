"""The database of a Python process of Spark, kept from task to task."""

from __future__ import annotations

import gc
import sys
import zipimport
from functools import cache
from typing import TYPE_CHECKING

from duckanon.database import engine, templates

if TYPE_CHECKING:
    import duckdb


def database() -> duckdb.DuckDBPyConnection:
    """Database in memory for all tasks of this process, one after the other, with times in UTC.

    Tasks leave nothing in it and change no setting. Opening a database takes some 10 ms.
    """
    _forget_archives()
    return _opened()


def in_utc(con: duckdb.DuckDBPyConnection) -> None:
    """Let a database read and write times with a zone in UTC."""
    zone = templates.render("session.sql.j2:set", name="TimeZone", value="UTC", session=False)
    engine.run(con, zone, "open")


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    con = engine.in_memory(threads=1)
    in_utc(con)
    # Spark collects garbage after every task. Frozen modules are not searched again.
    gc.freeze()
    return con


def _forget_archives() -> None:
    """Close the archives of Spark that were searched for modules; an import opens them again.

    Otherwise Spark reads the contents of each archive before every task, a tenth of a second in all.
    """
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimport.zipimporter)]:
        del known[path]
