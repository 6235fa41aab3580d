"""Fingerprints: hashes of texts and of the rows of a relation in any order."""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, sorted_rows, templates
from duckanon.database.relations import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pyarrow as pa

STAGE = "evidence"

RECIPE = "v2:"
"""What a fingerprint begins with: the name of the recipe that makes it."""

_ZONED = re.compile(r"\bWITH TIME ZONE\b|\bTIMESTAMPTZ_NS\b|\bVARIANT\b")


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """SHA-256 of the rows of a relation, whatever their order: ``v2:`` and 64 hex digits.

    The rows are sorted by all their values; names and types of the columns are hashed, and of each column
    its lengths and values in that order (`sorted_rows`). (A sum of row hashes would need no sort, but rows
    with a wanted sum can be found.) Each NaN is the same, and inside a VARIANT two values that have the same
    text and JSON, as a date and its text. Times with a zone are read in UTC. O(n log n); a batch of rows in
    memory, the sort spills to disk.
    """
    columns = columns_of(con, relation, STAGE)
    with _in_utc(con, columns):
        batches = engine.batches(con, sorted_rows.in_order(relation, columns), STAGE)
        pieces = (piece for batch in batches for piece in sorted_rows.pieces(batch))
        return named(sorted_rows.combined(columns, pieces))


def named(of_rows: str) -> str:
    """Fingerprint as it is recorded, by the hash of the rows."""
    return f"{RECIPE}{of_rows}"


def row_digests(con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the rows of a relation in their order, as the session writes them."""
    values = [(name, sorted_rows.carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/fingerprint.sql.j2:rows", relation=relation, columns=values)
    state = hashlib.sha256(sorted_rows.head(columns))
    for batch in engine.batches(con, query, STAGE):
        state.update(bytes_of(batch.column(0)))
    return state.hexdigest()


def bytes_of(texts: pa.Array) -> memoryview:
    """Texts in UTF-8, or bytes, none of them NULL, one after the other."""
    ends, data = sorted_rows.texts_of(texts)
    return data[ends[0] : ends[-1]]


@contextlib.contextmanager
def _in_utc(con: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Make the text of times with a zone the same in every session."""
    if not any(_ZONED.search(type_text) for _, type_text in columns):
        yield
        return
    before = engine.rows(con, templates.render("session.sql.j2:setting", name="TimeZone"), STAGE)[0][0]
    with interrupts.cleanup(con, lambda: _set_zone(con, before)):
        _set_zone(con, "UTC")
        yield


def _set_zone(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    engine.run(con, templates.render("session.sql.j2:set", name="TimeZone", value=zone, session=False), STAGE)
