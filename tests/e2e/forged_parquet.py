"""Parquet files whose footer lies: the records as they were, and other statistics of them.

No library writes wrong statistics. So the footer, a struct in the compact protocol of Thrift, is read into lists,
changed and written again in front of its length.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Fields = dict[int, tuple[int, Any]]
"""Number of each field of a struct, with its type in Thrift and its value."""

ROW_GROUPS, COLUMNS, META_DATA, PATH, STATISTICS = 4, 1, 3, 3, 12
"""Numbers of fields from the footer down to the statistics of a column in a row group."""

STATES = {"null count": 3, "distinct count": 4, "max": 5, "min": 6}
"""Numbers of fields of statistics."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def taken(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def struct(self) -> Fields:
        fields: Fields = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.signed()
            fields[number] = (head & 15, self.value(head & 15))
        return fields

    def value(self, kind: int, *, listed: bool = False) -> Any:
        if kind in {_TRUE, _FALSE}:
            return self.byte() if listed else None
        if kind == _BYTE:
            return self.byte()
        if kind in {_I16, _I32, _I64}:
            return self.signed()
        if kind == _DOUBLE:
            return self.taken(8)
        if kind == _BINARY:
            return self.taken(self.number())
        if kind in {_LIST, _SET}:
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.number()
            return head & 15, [self.value(head & 15, listed=True) for _ in range(size)]
        assert kind == _STRUCT, kind
        return self.struct()


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _written(kind: int, value: Any, *, listed: bool = False) -> bytes:
    if kind in {_TRUE, _FALSE}:
        return bytes([value]) if listed else b""
    if kind == _BYTE:
        return bytes([value])
    if kind in {_I16, _I32, _I64}:
        return _number(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == _DOUBLE:
        return bytes(value)
    if kind == _BINARY:
        return _number(len(value)) + value
    if kind in {_LIST, _SET}:
        inner, values = value
        size = len(values)
        head = bytes([size << 4 | inner]) if size < 15 else bytes([0xF0 | inner]) + _number(size)
        return head + b"".join(_written(inner, each, listed=True) for each in values)
    written, before = bytearray(), 0
    for number, (field, each) in sorted(value.items()):
        far = not 0 < number - before < 16
        written += bytes([field if far else (number - before) << 4 | field])
        written += (_written(_I16, number) if far else b"") + _written(field, each)
        before = number
    return bytes(written) + b"\0"


def with_footer(path: Path, change: Callable[[Fields], object]) -> Path:
    """Change the footer of a file, in place."""
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    fields = _Reader(data[start:-8]).struct()
    change(fields)
    footer = _written(_STRUCT, fields)
    path.write_bytes(data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def chunks(footer: Fields, column: str) -> list[Fields]:
    """Give the description of a column in every row group; a column inside another one by its last name."""
    found = []
    for group in footer[ROW_GROUPS][1][1]:
        for chunk in group[COLUMNS][1][1]:
            described = chunk[META_DATA][1]
            if described[PATH][1][1][-1] == column.encode():
                found.append(described)
    return found


def forged(path: Path, column: str, **stated: bytes | int | None) -> Path:
    """State other statistics of a column in every row group: min, max as bytes, counts as numbers; None for none."""

    def change(footer: Fields) -> None:
        found = chunks(footer, column)
        assert found, column
        for chunk in found:
            _, fields = chunk.setdefault(STATISTICS, (_STRUCT, {}))
            for name, value in stated.items():
                number = STATES[name.replace("_", " ")]
                fields.pop(number, None)
                if number in {5, 6}:  # the deprecated ones beside them, and whether they are exact
                    for other in (number - 4 if number == 5 else 2, number + 2):
                        fields.pop(other, None)
                if value is not None:
                    fields[number] = (_BINARY, value) if isinstance(value, bytes) else (_I64, value)

    return with_footer(path, change)
