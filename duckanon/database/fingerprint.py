"""Fingerprints: hashes of texts, and of the rows of a relation in any order.

Rows are sorted by all their values. The hash covers names and types of the columns, and the lengths and
values of each column in sorted order (`sorted_rows`). A sum of row hashes would need no sort, but an attacker
can find rows with a given sum. All NaN are equal. Inside a VARIANT two values are equal if text and JSON are
equal, as for a date and its text. Times with a zone are read in UTC.
"""

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
"""First characters of a fingerprint: the version of its recipe."""

_ZONED = re.compile(r"\bWITH TIME ZONE\b|\bTIMESTAMPTZ_NS\b|\bVARIANT\b")


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """SHA-256 of the rows of a relation in any order: ``v2:`` and 64 hex digits.

    O(n log n); one batch of rows is in memory, and DuckDB may spill the sort.
    """
    with _in_utc(con, columns_of(con, relation, STAGE)):
        return session_fingerprint(con, relation)


def session_fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """As `fingerprint`, with times in the zone of the session: to compare relations within it alone."""
    columns = columns_of(con, relation, STAGE)
    batches = engine.batches(con, sorted_rows.in_order(relation, columns), STAGE)
    pieces = (piece for batch in batches for piece in sorted_rows.pieces(batch))
    return named(sorted_rows.combined(columns, pieces))


def named(of_rows: str) -> str:
    """Fingerprint as it is recorded, from the hash of the rows."""
    return f"{RECIPE}{of_rows}"


def row_digests(con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the rows of a relation in their order, in the text forms of the session."""
    values = [(name, sorted_rows.carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/fingerprint.sql.j2:rows", relation=relation, columns=values)
    state = hashlib.sha256(sorted_rows.head(columns))
    for batch in engine.batches(con, query, STAGE):
        state.update(bytes_of(batch.column(0)))
    return state.hexdigest()


def bytes_of(texts: pa.Array) -> memoryview:
    """Concatenated UTF-8 bytes of texts, or of blobs, without NULL."""
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
