"""The blocks of a DuckDB file: where the file ends, and what lies in blocks that no table uses.

A file begins with three pages of 4,096 bytes: the main header and two headers of the database. The header
with the larger number of iterations is valid. Blocks follow. The header gives the size and the number of the
blocks and the place of the list of free blocks. No query reads a free block or bytes behind the last block.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
