"""Types and values that a format of files carries: what was written is read back and compared."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.database.fingerprint import carries_its_type
from duckanon.database.relations import columns_of
from duckanon.database.templates import plain
from duckanon.errors import DuckanonError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    Columns = list[tuple[str, str]]


def require_same(
    con: duckdb.DuckDBPyConnection,
    reader: duckdb.DuckDBPyConnection,
    relation: str,
    columns: Columns,
    written: Callable[[Columns], str],
    *,
    csv: bool = False,
) -> None:
    """Raise unless the file has the types and values of the release; the error names the first lossy column.

    Not every format has every type. A CSV has no types and is read with those of the release.
    """
    with contextlib.suppress(DuckanonError):
        back = columns_of(reader, written(columns), "export")
        ours, theirs = (
            _fingerprint(where, rows, columns, csv=csv)
            for where, rows in ((con, relation), (reader, written(columns)))
        )
        if back == columns and ours == theirs:
            return
    for column in columns:
        # One unreadable column makes the whole file unreadable, so the other columns are read as text.
        try:
            rows = written([one if one == column else (one[0], "VARCHAR") for one in columns])
            back = [one for one in columns_of(reader, rows, "export") if one[0] == column[0]]
            same = _fingerprint(con, relation, [column], csv=csv) == _fingerprint(
                reader, rows, [column], csv=csv
            )
        except DuckanonError as refused:
            raise _not_carried(column) from refused
        if back != [column] or not same:
            raise _not_carried(column, back[0][1] if same else "VARCHAR")
    raise ReleaseError("the file does not hold the rows of the release, so nothing was written")


def _not_carried(column: tuple[str, str], instead: str = "VARCHAR") -> ReleaseError:
    name, type_text = column
    return ReleaseError(
        f"column {name!r} of type {type_text} does not survive this format, so nothing was written: "
        f"CAST it to {instead} in the source query, or export to another format"
    )


def _fingerprint(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Columns, *, csv: bool
) -> tuple[object, ...]:
    listed: dict[str, list[str]] = {}
    for name, type_text in columns:
        if plain(type_text) or type_text == "VARCHAR":
            listed.setdefault(type_text, []).append(name)
    values = [(name, carries_its_type(type_text)) for name, type_text in columns if type_text not in listed]
    query = templates.render(
        "export/contents.sql.j2:fingerprint",
        columns=values,
        lists=list(listed.values()),
        relation=relation,
        csv=csv,
    )
    return engine.rows(con, query, "export", error=ReleaseError)[0]


def blamed(columns: Columns, refused: ReleaseError) -> ReleaseError:
    """The error with the name of the column, where DuckDB names only the unsupported type."""
    message = str(refused).upper()
    for column in columns:
        words = re.findall(r"[A-Z_]{3,}", column[1])
        if "SUPPORT" in message and any(re.search(rf"\b{word}S?\b", message) for word in words):
            return _not_carried(column)
    return refused
