"""Free blocks and the end of a file, against what DuckDB itself says of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.database import file_room

if TYPE_CHECKING:
    from pathlib import Path


def with_free_blocks(file: Path, block_size: int, rows: int) -> tuple[int, int]:
    """Make a database in which a table was dropped; give the bytes that its blocks end at, and its free blocks."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file}' AS d (BLOCK_SIZE {block_size})")
        for table in ("gone", "kept"):
            con.execute(
                f"CREATE TABLE d.{table} AS SELECT hash(i) AS a FROM range({rows}) AS r(i); CHECKPOINT d"
            )
        con.execute("DROP TABLE d.gone; CHECKPOINT d")
    with duckdb.connect(str(file), read_only=True) as con:
        ((_, _, size, total, _, free, *_),) = con.execute("PRAGMA database_size").fetchall()
    return 12_288 + size * total, free


@pytest.mark.parametrize(("block_size", "rows"), [(16_384, 1_200_000), (262_144, 200_000)])
def test_free_blocks_are_those_that_duckdb_counts(tmp_path: Path, block_size: int, rows: int) -> None:
    """More than 500 of the small blocks are free: their list takes several pieces of metadata."""
    file = tmp_path / "d.duckdb"
    end, free = with_free_blocks(file, block_size, rows)
    assert free > (500 if block_size == 16_384 else 2)
    found = file_room.room(file)
    assert (found.behind, found.size, len(set(found.free))) == (
        max(0, file.stat().st_size - end),
        block_size,
        free,
    )
    assert file_room.filled(file, found) > 0
    file_room.clear(file)
    assert file_room.filled(file, found) == 0
    with duckdb.connect(str(file)) as con:
        kept = f"SELECT count(*) = {rows} FROM kept SEMI JOIN (SELECT hash(i) AS a FROM range({rows}) AS r(i)) USING (a)"
        assert con.execute(kept).fetchall() == [(True,)]
        con.execute("CREATE TABLE again AS FROM kept; CHECKPOINT")
        assert con.execute(kept.replace("kept", "again")).fetchall() == [(True,)]


def test_bytes_behind_the_end(tmp_path: Path) -> None:
    file = tmp_path / "d.duckdb"
    with duckdb.connect(str(file)) as con:
        con.execute("CREATE TABLE t AS FROM range(9)")
    assert file_room.room(file).behind == 0
    file.write_bytes(file.read_bytes() + b"hidden")
    assert file_room.room(file).behind == 6


@pytest.mark.parametrize("pointer", [2**40, (63 << 56) | 2**30, 2**63])
def test_a_list_of_free_blocks_that_leads_nowhere_is_an_error(tmp_path: Path, pointer: int) -> None:
    file = tmp_path / "d.duckdb"
    with_free_blocks(file, 262_144, 200_000)
    content = bytearray(file.read_bytes())
    for page in (4096, 8192):
        struct.pack_into("<Q", content, page + 24, pointer)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="the list of free blocks"):
        file_room.room(file)
