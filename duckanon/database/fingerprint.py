"""Fingerprints: hashes of texts and of the rows of a relation in any order, by the recipe of their record."""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import re
from typing import TYPE_CHECKING

from duckanon.database import engine, interrupts, sorted_rows, templates
from duckanon.database.relations import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb
    import pyarrow as pa

STAGE = "evidence"

RECIPE = 2
"""Recipe of a fingerprint that is recorded today; the first one sorted a digest of each row."""

_RECORDED = re.compile(r"v(\d{1,4}):[0-9a-f]{64}")
_ZONED = re.compile(r"\bWITH TIME ZONE\b|\bTIMESTAMPTZ_NS\b|\bVARIANT\b")


def digest(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str, recipe: int = RECIPE) -> str:
    """SHA-256 of the rows of a relation, whatever their order: ``v2:`` and 64 hex digits, or these alone.

    Recipe 2 sorts the rows by all their values, and hashes names and types of the columns, and of each column
    its lengths and values in that order (`sorted_rows`). Recipe 1, of records before version 4 of the
    metadata, of the chain of audits and of trees, hashes names, types, and the SHA-256 of each row in
    ascending order. (A sum of row hashes would need no sort, but rows with a wanted sum can be found.) Only
    inside a VARIANT are two values one that have the same text and JSON, as a date and its text; in recipe 2
    each NaN is the same. Times with a zone are read in UTC. O(n log n); a batch of rows in memory, the sort
    spills to disk.
    """
    columns = columns_of(con, relation, STAGE)
    with _in_utc(con, columns):
        if recipe == 1:
            return row_digests(con, relation, columns, ordered=True)
        batches = engine.batches(con, sorted_rows.in_order(relation, columns), STAGE)
        pieces = (piece for batch in batches for piece in sorted_rows.pieces(batch))
        return named(sorted_rows.combined(columns, pieces))


def named(of_rows: str) -> str:
    """Fingerprint of today's recipe as it is recorded, by the hash of the rows."""
    return f"v{RECIPE}:{of_rows}"


def recipe_of(recorded: str | None) -> int:
    """Recipe of a recorded fingerprint: what names none is of the first one; of none, today's."""
    if recorded is None:
        return RECIPE
    found = _RECORDED.fullmatch(recorded)
    return min(int(found[1]), RECIPE) if found else 1


def by_recipe(
    con: duckdb.DuckDBPyConnection, relation: str, recorded: Iterable[str | None]
) -> dict[int, str]:
    """Fingerprints of the rows of a relation by the recipes of recorded ones, the oldest first."""
    recipes = sorted({recipe_of(one) for one in recorded}) or [RECIPE]
    return {recipe: fingerprint(con, relation, recipe) for recipe in recipes}


def row_digests(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]], *, ordered: bool
) -> str:
    """SHA-256 of the rows of a relation as the session writes them; their order counts unless `ordered`."""
    values = [(name, sorted_rows.carries_its_type(type_text)) for name, type_text in columns]
    query = templates.render("evidence/rows.sql.j2", relation=relation, columns=values, ordered=ordered)
    state = hashlib.sha256(sorted_rows.head(columns))
    for batch in engine.batches(con, query, STAGE):
        digests = bytes_of(batch.column(0))
        state.update(binascii.hexlify(digests) if ordered else digests)
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
    before = engine.rows(con, templates.render("session/setting.sql.j2", name="TimeZone"), STAGE)[0][0]
    with interrupts.cleanup(con, lambda: _set_zone(con, before)):
        _set_zone(con, "UTC")
        yield


def _set_zone(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    engine.run(con, templates.render("session/set.sql.j2", name="TimeZone", value=zone, session=False), STAGE)
