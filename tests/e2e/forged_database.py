"""DuckDB files whose statistics lie: bytes are replaced in the blocks, and the checksum of each block is mended.

A block of 262,144 bytes begins with its checksum: the exclusive or of 5381 and of each word of 8 bytes times a constant.
Statistics are written as numbers of 7 bits a byte, dates and decimals likewise, a DOUBLE as its 8 bytes, and of a text
the first bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

HEADERS, BLOCK, CHECKSUM = 3 * 4096, 262_144, 8
"""Bytes of the headers, of a block and of the checksum with which a block begins."""


def checksum(data: bytes) -> int:
    """Return the checksum of the bytes of a block or header behind its checksum."""
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8") * np.uint64(0xBF58476D1CE4E5B9)
    return 5381 ^ int(np.bitwise_xor.reduce(words))


def mended(file: bytearray) -> bytearray:
    """Give every header and block the checksum of what it holds."""
    starts = [(page, 4096) for page in range(0, HEADERS, 4096)]
    starts += [(block, BLOCK) for block in range(HEADERS, len(file), BLOCK)]
    for start, size in starts:
        body = bytes(file[start + CHECKSUM : start + size])
        struct.pack_into("<Q", file, start, checksum(body))
    return file


def number(value: int, length: int = 0) -> bytes:
    """Write a number as DuckDB does: 7 bits a byte, the lowest first; of at least a length."""
    written = bytearray()
    while not (-64 <= value < 64) or len(written) + 1 < length:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value & 127])


def replaced(path: Path, stated: bytes, lie: bytes) -> int:
    """Replace bytes in the blocks of a file, mend it, and tell how often they were there."""
    assert len(stated) == len(lie)
    file = bytearray(path.read_bytes())
    whole = bytes(file)
    times = whole.count(stated, HEADERS)
    path.write_bytes(mended(bytearray(whole[:HEADERS] + whole[HEADERS:].replace(stated, lie))))
    return times
