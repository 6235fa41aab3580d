"""A Python process of Spark: what it keeps from task to task."""

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
    """A database in memory for all tasks of this process, with times in UTC: to open one takes some 10 ms.

    Nothing stays in it, and none of its settings may be changed. It ends with the process, which Spark ends
    where a task fails. Tasks alone ask for it, and none runs beside another in a process.
    """
    _forget_archives()
    return _opened()


def in_utc(con: duckdb.DuckDBPyConnection) -> None:
    """Let a database read and write times with a zone in UTC, wherever it runs."""
    zone = templates.render("session.sql.j2:set", name="TimeZone", value="UTC", session=False)
    engine.run(con, zone, "open")


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    con = engine.opened(threads=1)
    in_utc(con)
    # Spark collects garbage after every task: it need not look through all that was imported each time.
    gc.freeze()
    return con


def _forget_archives() -> None:
    """Let go of the archives of Spark in which modules were looked for; one that is needed is opened anew.

    Before every task Spark has each of them read its table of contents again, a tenth of a second in all.
    """
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimport.zipimporter)]:
        del known[path]
