"""Fingerprints: hashes of texts, and of the rows of a relation in any order.

Rows are sorted by all their values. The hash covers names and types of the columns, and the lengths and
values of each column in sorted order. A sum of row hashes would need no sort, but an attacker
can find rows with a given sum. All NaN are equal. Inside a VARIANT two values are equal if text and JSON are
equal, as for a date and its text. Times with a zone are read in UTC.
"""

from __future__ import annotations

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
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb
    from numpy.typing import NDArray

STAGE = "evidence"

RECIPE = "v2:"
"""First characters of a fingerprint: the version of its recipe."""

NULL = 0xFFFFFFFF
"""Length with which a NULL is written; no value is so long."""

_FORMS = {
    "signed": re.compile("TINYINT|SMALLINT|INTEGER|BIGINT"),
    "unsigned": re.compile("U(TINYINT|SMALLINT|INTEGER|BIGINT)"),
    "bits": re.compile("DOUBLE|FLOAT"),
}
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_VARIANT = re.compile(r"\bVARIANT(?![^\[,)])")
_TYPED = re.compile(r"\bUNION\(|\bVARIANT(?![^\[,)])")
_ZONED = re.compile(r"\bWITH TIME ZONE\b|\bTIMESTAMPTZ_NS\b|\bVARIANT\b")


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str) -> str:
    """SHA-256 of the rows of a relation in any order: ``v2:`` and 64 hex digits.

    O(n log n); one batch of rows is in memory, and DuckDB may spill the sort.
    """
    columns = columns_of(con, relation, STAGE)
    with _in_utc(con, columns):
        return session_fingerprint(con, relation, columns)


def session_fingerprint(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]]
) -> str:
    """As `fingerprint`, with times in the zone of the session: to compare relations within it alone."""
    batches = engine.batches(con, in_order(relation, columns), STAGE)
    given = (piece for batch in batches for piece in pieces(batch))
    return named(hashed(columns, given))


def named(of_rows: str) -> str:
    """Fingerprint as it is recorded, from the hash of the rows."""
    return f"{RECIPE}{of_rows}"


def row_digests(con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the rows of a relation in their order, in the text forms of the session."""
    values = [(name, carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/fingerprint.sql.j2:rows", relation=relation, columns=values)
    state = hashlib.sha256(head(columns))
    for batch in engine.batches(con, query, STAGE):
        state.update(bytes_of(batch.column(0)))
    return state.hexdigest()


def bytes_of(texts: pa.Array) -> memoryview:
    """Concatenated UTF-8 bytes of texts, or of blobs, without NULL."""
    ends, data = texts_of(texts)
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


def carries_its_type(type_text: str) -> bool:
    """Whether values carry types that their text does not show (1 or '1'): UNION, VARIANT."""
    return _TYPED.search(_QUOTED.sub("", type_text)) is not None


def tells_all(type_text: str) -> bool:
    """Whether two different values of a type always differ in text and JSON; false inside a VARIANT."""
    return _VARIANT.search(_QUOTED.sub("", type_text)) is None


def in_order(relation: str, columns: Sequence[tuple[str, str]], bounds: str | None = None) -> str:
    """Query of the rows of a relation (SQL text), written in canonical form and sorted. DuckDB may spill.

    Numbers come first, which sort fastest. The sort key is the whole written row, so only equal rows are
    interchangeable. `bounds` is a relation of written rows that are added.
    """
    forms = [(name, _form(type_text)) for name, type_text in columns]
    forms.sort(key=lambda column: column[1] not in _FORMS)
    return templates.render(
        "evidence/fingerprint.sql.j2:sorted", relation=relation, columns=forms, bounds=bounds
    )


def written_in_order(relation: str, names: Sequence[str]) -> str:
    """Query that sorts written rows with columns of these names."""
    forms = [(name, "as written") for name in names]
    return templates.render(
        "evidence/fingerprint.sql.j2:sorted", relation=relation, columns=forms, bounds=None
    )


def _form(type_text: str) -> str:
    for form, types in _FORMS.items():
        if types.fullmatch(type_text):
            return form
    return "typed" if carries_its_type(type_text) else "text"


def pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes, bytes | memoryview]]:
    """Give the place of each column of `in_order`, with its lengths and its values as bytes.

    A length has 4 bytes, a number 8, most significant first. A NULL has the length `NULL` and no value.
    """
    for place, column in enumerate(batch.columns):
        there = _there(column)
        values: bytes | memoryview
        if pa.types.is_integer(column.type):
            lengths = np.full(len(column), 8, ">u4")
            signed = pa.types.is_signed_integer(column.type)
            numbers = np.frombuffer(column.buffers()[1], "<i8" if signed else "<u8")
            numbers = numbers[column.offset : column.offset + len(column)]
            values = numbers[there].astype(numbers.dtype.newbyteorder(">")).tobytes()
        else:
            # Arrow stores no bytes for NULL, so nothing has to be left out.
            ends, data = texts_of(column)
            lengths, values = np.diff(ends).astype(">u4"), data[ends[0] : ends[-1]]
        lengths[~there] = NULL
        yield place, lengths.tobytes(), values


def _there(column: pa.Array) -> NDArray[np.bool_]:
    """Whether each row of a column (n,) has a value."""
    if not column.null_count:
        return np.ones(len(column), bool)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    return np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)].astype(bool)


def texts_of(texts: pa.Array) -> tuple[NDArray[np.int32], memoryview]:
    """Offsets (n + 1,) and bytes of UTF-8 texts or blobs, without a slow list of Python objects."""
    # A session may use large strings or views. Even a cast to the same type loads pyarrow.compute.
    if texts.type not in (pa.string(), pa.binary()):
        bare = texts.type in (pa.large_binary(), pa.binary_view())
        texts = texts.cast(pa.binary() if bare else pa.string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return ends, memoryview(data or b"")


def hashed(columns: Sequence[tuple[str, str]], given: Iterable[tuple[int, bytes, bytes | memoryview]]) -> str:
    """SHA-256, in hex, of the columns' names and types and of the `pieces` of all rows. O(n).

    The hashed text is a JSON line, then for each column the SHA-256 of its lengths and that of its values, in
    hex. In memory: one item of `given`.
    """
    written = sum(2 if carries_its_type(type_text) else 1 for _, type_text in columns)
    states = [(hashlib.sha256(), hashlib.sha256()) for _ in range(written)]
    for place, lengths, values in given:
        states[place][0].update(lengths)
        states[place][1].update(values)
    whole = hashlib.sha256(head(columns))
    for state in (one for both in states for one in both):
        whole.update(state.hexdigest().encode())
    return whole.hexdigest()


def head(columns: Sequence[tuple[str, str]]) -> bytes:
    """Names and types of columns as a line of JSON."""
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
