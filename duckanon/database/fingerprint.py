"""Fingerprints: hashes of texts and of the rows of a relation in any order."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, templates
from duckanon.database.relations import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

STAGE = "evidence"

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_TYPED = re.compile(r"\bUNION\(|\bVARIANT(?![^\[,)])")
_VARIANT = re.compile(r"\bVARIANT(?![^\[,)])")
_ZONED = re.compile(r"\bWITH TIME ZONE\b|\bTIMESTAMPTZ_NS\b|\bVARIANT\b")


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        64 digits.
    """
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """SHA-256 of the rows of a relation, whatever their order.

    It is the hash of a JSON line with names and types of the columns, and of the digests of all rows in
    ascending order. (A sum of row hashes would need no sort, but rows with a wanted sum can be found.)

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation; times with a zone are read in UTC.
    relation : str
        What stands after FROM.

    Returns
    -------
    str
        64 hex digits. Another value, type, name, or number of equal rows gives other digits; only inside a
        VARIANT are two values one that have the same text and the same JSON, as a date and its text.

    Raises
    ------
    SourceError
        The relation cannot be read.

    Notes
    -----
    O(n log n); a batch of digests in memory, the sort spills to disk.
    """
    columns = columns_of(con, relation, STAGE)
    with _in_utc(con, columns):
        return row_digests(con, relation, columns, ordered=True)


def row_digests(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]], *, ordered: bool
) -> str:
    """SHA-256 of the rows of a relation, as the session writes them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation.
    relation : str
        What stands after FROM.
    columns : sequence of (str, str)
        Its columns: name and type.
    ordered : bool
        Whether the order of the rows is left out of account, by sorting their digests.

    Returns
    -------
    str
        64 hex digits, see `fingerprint`.

    Raises
    ------
    DuckanonError
        The relation cannot be read.
    """
    values = [(name, carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/rows.sql.j2", relation=relation, columns=values, ordered=ordered)
    state = hashlib.sha256(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    for batch in engine.batches(con, query, STAGE):
        state.update("".join(batch.column(0).to_pylist()).encode())
    return state.hexdigest()


def tells_all(type_text: str) -> bool:
    """Whether two values of a type always differ in what `fingerprint` hashes: not so inside a VARIANT.

    Parameters
    ----------
    type_text : str
        As DESCRIBE writes it.

    Returns
    -------
    bool
        False for a VARIANT and for a type that holds one.
    """
    return _VARIANT.search(_QUOTED.sub("", type_text)) is None


def carries_its_type(type_text: str) -> bool:
    """Whether values of a type have types of their own, which their text does not tell: 1 or '1'.

    Parameters
    ----------
    type_text : str
        As DESCRIBE writes it.

    Returns
    -------
    bool
        True for a UNION, a VARIANT, and a type that holds one.
    """
    return _TYPED.search(_QUOTED.sub("", type_text)) is not None


@contextlib.contextmanager
def _in_utc(con: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Make the text of times with a zone the same in every session."""
    if not any(_ZONED.search(type_text) for _, type_text in columns):
        yield
        return
    before = engine.rows(con, templates.render("session/setting.sql.j2", name="TimeZone"), STAGE)[0][0]
    with interrupts.cleanup(con, lambda: _set_zone(con, before)):
        _set_zone(con, "UTC")
        yield


def _set_zone(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    engine.run(con, templates.render("session/set.sql.j2", name="TimeZone", value=zone, session=False), STAGE)
