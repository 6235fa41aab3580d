"""Fingerprints: hashes of texts and of the rows of a relation in any order."""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

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
    """SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """SHA-256, in hex, of the rows of a relation, whatever their order.

    Of a JSON line with names and types of the columns, and of the digests of all rows in ascending order. (A
    sum of row hashes would need no sort, but rows with a wanted sum can be found.) Only inside a VARIANT are
    two values one that have the same text and JSON, as a date and its text. Times with a zone are read in
    UTC. O(n log n); a batch of digests in memory, the sort spills to disk.
    """
    columns = columns_of(con, relation, STAGE)
    with _in_utc(con, columns):
        return row_digests(con, relation, columns, ordered=True)


def row_digests(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]], *, ordered: bool
) -> str:
    """SHA-256 of the rows of a relation as the session writes them; their order counts unless `ordered`."""
    values = [(name, carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/rows.sql.j2", relation=relation, columns=values, ordered=ordered)
    state = hashlib.sha256(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    for batch in engine.batches(con, query, STAGE):
        digests = bytes_of(batch.column(0))
        state.update(binascii.hexlify(digests) if ordered else digests)
    return state.hexdigest()


def bytes_of(texts: pa.Array) -> memoryview:
    """Texts in UTF-8, or bytes, none of them NULL, one after the other; to make a list of them is dear."""
    # The session says how Arrow gets its texts; a cast, if to what they are, loads all of Arrow's functions.
    if texts.type not in (pa.string(), pa.binary()):
        bare = texts.type in (pa.large_binary(), pa.binary_view())
        texts = texts.cast(pa.binary() if bare else pa.string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[ends[0] : ends[-1]]


def tells_all(type_text: str) -> bool:
    """Whether two values of a type always differ in what `fingerprint` hashes: not so inside a VARIANT."""
    return _VARIANT.search(_QUOTED.sub("", type_text)) is None


def carries_its_type(type_text: str) -> bool:
    """Whether values have types of their own that their text does not tell, 1 or '1': UNION, VARIANT."""
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
