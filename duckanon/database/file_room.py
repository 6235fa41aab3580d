"""Bytes of a released file that no query reads, in a DuckDB file and in a Parquet file.

A DuckDB file begins with three pages of 4,096 bytes: the main header and two headers of the database. The
header with the larger number of iterations is valid. Blocks follow. The header gives the size and the number
of the blocks and the place of the list of free blocks. No query reads a free block or bytes behind the last
block. In a Parquet file no query reads bytes of no column, and words in the footer. Page headers and unknown
fields of the footer are not checked.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from duckanon.database import engine, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb

_PAGE_BYTES = 4096

_HEADER = struct.Struct("<8x5Q")
"""Behind a checksum: iteration, first block of metadata, free list, number of blocks, size of a block."""

_FLAGS, _WRITER, _MAIN = 20, 52, 116
"""Bytes in the first page before its flags, the version of DuckDB, and what is empty."""

_IDENTITY = slice(124, 140)
"""Number of the database, in files of newer storage."""

_STATE_BYTES = 64
"""Bytes of a header of the database, with the size of a vector and the version of the storage."""

_VERSION = re.compile(rb"v\d+\.\d+\.\d+[a-z0-9.-]{0,20}\0*")
_COMMIT = re.compile(rb"[0-9a-f]+\0*")

_WORD = struct.Struct("<Q")

_CHECKSUM_BYTES = 8

_PIECES = 64
"""Pieces of a block of metadata, each beginning with the pointer to the next one."""

_NO_BLOCK = 2**64 - 1

_BLOCK = 2**56 - 1
"""Part of a pointer that is the number of the block; the rest is that of the piece in it."""


_MAGIC, _TAIL = 4, 8
"""Bytes before the first column, and behind the footer."""

_WRITER_NAME = re.compile(r"[A-Za-z0-9 ._()+:-]{1,100}")
_SPARK_VERSION = re.compile(r"[0-9][A-Za-z0-9._-]{0,39}")
_TYPE = re.compile(r"[a-z_]+(\([0-9, ]+\))?")

SPARK_VERSION = "org.apache.spark.version"
SPARK_COLUMNS = "org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True)
class Room:
    """Bytes of a file outside the blocks in use."""

    behind: int  # bytes behind the last block
    free: tuple[int, ...]  # byte at which each free block inside the file begins
    size: int  # bytes of a block


def room(path: Path) -> Room:
    """Bytes of a file outside the blocks in use; ValueError if the headers do not tell.

    DuckDB has opened the file, so its headers are whole; nobody writes to it. The file may end before a free
    block.
    """
    end = path.stat().st_size
    with path.open("rb") as file:
        file.seek(_PAGE_BYTES)
        pages = file.read(2 * _PAGE_BYTES)
        _, _, pointer, count, size = max(_HEADER.unpack_from(pages), _HEADER.unpack_from(pages, _PAGE_BYTES))
        starts = (3 * _PAGE_BYTES + size * block for block in _free(file, pointer, count, size))
        free = tuple(start for start in starts if start + size <= end)
    return Room(max(0, end - 3 * _PAGE_BYTES - count * size), free, size)


def strange_headers(path: Path) -> Iterator[str]:
    """Tell which bytes of the first three pages EXPORT would not have written."""
    with path.open("rb") as file:
        pages = [file.read(_PAGE_BYTES) for _ in range(3)]
    first = pages[0]
    names, rest = first[_WRITER:_MAIN], first[_FLAGS:_WRITER] + first[_MAIN : _IDENTITY.start]
    if any(rest) or any(first[_IDENTITY.stop :]):
        yield "the first page of the file holds more than the version of DuckDB that wrote it"
    if not _VERSION.fullmatch(names[:32]) or not _COMMIT.fullmatch(names[32:]):
        yield "the first page of the file names no version of DuckDB"
    for number, page in enumerate(pages[1:], start=2):
        if any(page[_STATE_BYTES:]):
            hidden = len(page[_STATE_BYTES:].rstrip(b"\0"))
            yield f"page {number} of the file holds {hidden} bytes behind the places of its blocks"


def filled(path: Path, space: Room) -> int:
    """Number of free blocks that hold something; 0 in a file that EXPORT wrote."""
    with path.open("rb") as file:
        return sum(any(_at(file, start, space.size)) for start in space.free)


def clear(path: Path) -> None:
    """Overwrite the free blocks of a file that nobody has open with zeros."""
    space = room(path)
    with path.open("r+b") as file:
        for start in space.free:
            file.seek(start)
            file.write(bytes(space.size))


def _free(file: BinaryIO, pointer: int, count: int, size: int) -> list[int]:
    """Numbers of the free blocks."""
    if pointer == _NO_BLOCK:
        return []
    words = _words(file, pointer, count, size)
    free = [next(words) for _ in range(min(next(words), count))]
    if any(block >= count for block in free):
        raise ValueError("the list of free blocks names one that the file does not have")
    return free


def _words(file: BinaryIO, pointer: int, count: int, size: int) -> Iterator[int]:
    """Words of the metadata from a pointer on, page after page."""
    length = (size - _CHECKSUM_BYTES) // _PIECES // _CHECKSUM_BYTES * _CHECKSUM_BYTES
    for _ in range(_PIECES * count):
        if pointer & _BLOCK >= count:
            break
        start = 3 * _PAGE_BYTES + size * (pointer & _BLOCK) + _CHECKSUM_BYTES + length * (pointer >> 56)
        piece = _at(file, start, length)
        if len(piece) < length:
            break
        pointer, *words = (word for (word,) in _WORD.iter_unpack(piece))
        yield from words
    raise ValueError("the list of free blocks is cut off")


def _at(file: BinaryIO, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(length)


def parquet_records(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> int:
    """Number of records that the footer of a file states."""
    return int(_parquet_facts(con, path, stage)[1])


def beside_parquet(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Sequence[str],
    stage: str,
    *,
    ours: tuple[str, bytes] | None = None,
) -> Iterator[str]:
    """Tell what a file with these columns holds that Spark, or EXPORT with the entry `ours`, does not."""
    writer, _, footer, size = _parquet_facts(con, path, stage)
    free = _outside(con, path, size - _TAIL - footer, stage)
    if free:
        yield f"it holds {free} bytes that belong to no column"
    if not _WRITER_NAME.fullmatch(writer or ""):
        yield "the name of the program that wrote it is none"
    query = templates.render("evidence/parquet.sql.j2:parquet_words", path=path)
    left = ours  # A second entry of the same key could hold anything: readers take the first or the last.
    for key, value in engine.rows(con, query, stage, error=SourceError):
        name = bytes(key).decode("utf-8", "replace")
        if ours and (name, bytes(value)) == left:
            left = None
        elif ours or not _by_spark(name, bytes(value), columns):
            writer = "EXPORT" if ours else "Spark"
            yield f"its footer has {name[:80]!r}, {len(value)} bytes, which {writer} does not write like this"


def _parquet_facts(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> tuple[Any, ...]:
    query = templates.render("evidence/parquet.sql.j2:parquet_facts", path=path)
    (facts,) = engine.rows(con, query, stage, error=SourceError)
    return facts


def _outside(con: duckdb.DuckDBPyConnection, path: Path, end: int, stage: str) -> int:
    """Bytes before the footer outside every column, index and filter."""
    query = templates.render("evidence/parquet.sql.j2:file_room", path=path)
    free, at = 0, _MAGIC
    for first, length in engine.rows(con, query, stage, error=SourceError):
        free += max(0, first - at)
        at = max(at, first + length)
    return int(free + max(0, end - at))


def _by_spark(name: str, value: bytes, columns: Sequence[str]) -> bool:
    """Whether Spark writes an entry of the footer for columns without metadata."""
    try:
        text = value.decode("utf-8")
        if name == SPARK_VERSION:
            return _SPARK_VERSION.fullmatch(text) is not None
        return name == SPARK_COLUMNS and _bare(json.loads(text), text, columns)
    except ValueError:
        return False


def _bare(schema: Any, text: str, columns: Sequence[str]) -> bool:
    """Whether a schema of Spark has names and types of the columns and nothing else."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or schema != {"type": "struct", "fields": fields}:
        return False
    names = [field.get("name") for field in fields if isinstance(field, dict)]
    shortest = len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False))
    return (
        names == list(columns)
        and len(names) == len(fields)
        and len(text) <= shortest
        and all(
            field == {"name": field["name"], "type": field.get("type"), "nullable": True, "metadata": {}}
            and isinstance(field["type"], str)
            and _TYPE.fullmatch(field["type"])
            for field in fields
        )
    )
