"""Bytes of a stream as they come, from a file, a growing file or a pipe, cut into blocks of whole records.

No read waits for a full block, and every record knows its line.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

try:
    import fcntl
except ImportError:  # pipes of Windows are of another kind
    fcntl = None  # type: ignore[assignment]

from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

READ_MAX_BYTES = 4 << 20
"""Bytes that are read at once, at most."""

PIPE_BYTES = 1 << 20
"""Bytes that a pipe is asked to hold while earlier tuples are worked on."""

FOLLOW_PAUSE_SECONDS = 0.1
"""Seconds between two looks at a file that is followed."""

RECORD_MAX_BYTES = 16 << 20
"""Largest record in bytes: a longer record probably has an unclosed quote."""

_NEWLINE, _RETURN, _QUOTE = b"\n"[0], b"\r"[0], b'"'[0]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def opened(path: Path | None) -> int:
    """Descriptor of a file, or of standard input without a path; a SourceError if it cannot be read."""
    if path is None:
        return sys.stdin.fileno()
    shown = repr(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as unread:
        why = "it is a socket" if path.is_socket() else unread.strerror
        raise SourceError(f"{shown} cannot be read: {why}") from unread
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceError(f"{shown} is a folder: give a file")
    return descriptor


def chunks(descriptor: int, follow: Path | None = None) -> Iterator[bytes]:
    """Give the bytes up to the end of the input, or for ever from a file to `follow`.

    A SourceError if the followed file was cut, or the name now leads to another file.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
        # A larger pipe makes fewer and larger blocks; the system may refuse it.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    place = 0
    while True:
        data = _available(descriptor)
        place += len(data)
        if data:
            yield data
        elif follow is None:
            return
        else:
            _check_same(descriptor, follow, place)
            time.sleep(FOLLOW_PAUSE_SECONDS)


def _available(descriptor: int) -> bytes:
    """Wait for the first byte, and take all bytes that are there."""
    parts = [os.read(descriptor, READ_MAX_BYTES)]
    size = len(parts[0])
    while parts[-1] and size < READ_MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
        parts.append(os.read(descriptor, READ_MAX_BYTES - size))
        size += len(parts[-1])
    return b"".join(parts)


def _check_same(descriptor: int, path: Path, place: int) -> None:
    """Raise if the followed file became shorter, or its name leads to another file."""
    shown = repr(str(path))
    if os.fstat(descriptor).st_size < place:
        raise SourceError(f"{shown} was cut while it was followed: it had {place} bytes; begin a new stream")
    try:
        same = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        same = False
    if not same:
        raise SourceError(
            f"{shown} is another file than the one that was followed, or gone: begin a new stream for it"
        )


@dataclass(frozen=True)
class Block:
    """Whole records."""

    data: bytes
    line: int  # line of the stream in which the first record begins
    delimiter: str | None  # of CSV fields; None if each line is a record, as in JSON

    def line_of(self, record: int, *, blanks: bool = False) -> int:
        """Line in which a record begins, by its number from 0; with `blanks` an empty line is a record."""
        begin, around = 0, b" \t\r\n" if self.delimiter is None else b"\r\n"
        for end in (*(_ends(self.data, self.delimiter, self.line) + 1).tolist(), len(self.data)):
            if blanks or self.data[begin:end].strip(around):
                if record == 0:
                    break
                record -= 1
            begin = end
        return self.line + self.data.count(b"\n", 0, begin)

    def check(self) -> None:
        """Raise a SourceError with the line of invalid UTF-8 or of a lone carriage return."""
        try:
            self.data.decode()
        except UnicodeDecodeError as wrong:
            line = self.line + self.data.count(b"\n", 0, wrong.start)
            raise SourceError(f"line {line}: this is no UTF-8: convert the input to it") from wrong
        if self.delimiter is None or b"\r" not in self.data:
            return
        if self.data.count(b"\r") != self.data.count(b"\r\n"):
            array = np.frombuffer(self.data, np.uint8)
            lone = np.flatnonzero((array[:-1] == _RETURN) & (array[1:] != _NEWLINE))
            outside = lone[~_inside(lone, _quotes(self.data, self.delimiter, self.line))]
            if len(outside):
                line = self.line + self.data.count(b"\n", 0, int(outside[0]))
                raise SourceError(f"line {line}: a carriage return is not at its end: quote that field")


def blocks(chunks: Iterable[bytes], delimiter: str | None) -> Iterator[Block]:
    """Cut bytes into blocks of whole records; bytes after the last whole record wait for more.

    A SourceError if the input ends within a quoted field, or a record is longer than `RECORD_MAX_BYTES`.
    """
    rest, line, first = b"", 1, True
    for chunk in chunks:
        rest += chunk
        if first:
            if len(rest) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(rest):
                continue
            rest, first = rest.removeprefix(_BYTE_ORDER_MARK), False
        if b"\n" not in chunk:
            _check_length(rest, line)
            continue
        ends = _ends(rest, delimiter, line, last=True)
        if len(ends):
            cut = int(ends[-1]) + 1
            yield Block(rest[:cut], line, delimiter)
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
        _check_length(rest, line)
    if rest.strip():
        if delimiter is not None:
            opened, closed = _quotes(rest, delimiter, line)
            if len(closed) < len(opened):
                raise SourceError(f"line {line}: a quote is opened and never closed")
        yield Block(rest, line, delimiter)


def _check_length(rest: bytes, line: int) -> None:
    if len(rest) > RECORD_MAX_BYTES:
        raise SourceError(
            f"line {line}: a record of more than {RECORD_MAX_BYTES >> 20} MB begins here: is a quote not "
            "closed?"
        )


def _ends(data: bytes, delimiter: str | None, line: int, *, last: bool = False) -> NDArray[np.int64]:
    """Places of the newlines that end a record; with `last` only the last place."""
    if last and (delimiter is None or b'"' not in data):
        return np.array([place for place in [data.rfind(b"\n")] if place >= 0], np.int64)
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    if delimiter is not None and b'"' in data:
        newlines = newlines[~_inside(newlines, _quotes(data, delimiter, line))]
    return newlines


def _inside(
    places: NDArray[np.int64], quotes: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Whether each place lies in a quoted field."""
    opened, closed = quotes
    return np.searchsorted(opened, places) > np.searchsorted(closed, places)


def _quotes(data: bytes, delimiter: str, line: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of opening and of closing quotes of fields; a doubled quote counts as both.

    Opening and closing quotes usually alternate. After a quote in an unquoted field each is checked.
    """
    array = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(array == _QUOTE)
    opened, closed = quotes[0::2], quotes[1::2]
    around = np.array([_NEWLINE, _RETURN, _QUOTE, ord(delimiter)], np.uint8)
    before, after = array[opened[opened > 0] - 1], array[closed[closed < len(array) - 1] + 1]
    if np.isin(before, around).all() and np.isin(after, around).all():
        return opened, closed
    return _one_by_one(data, delimiter.encode(), line, quotes.tolist())


def _one_by_one(
    data: bytes, delimiter: bytes, line: int, quotes: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    opened: list[int] = []
    closed: list[int] = []
    ends = (delimiter, b"\n", b"\r", b"")
    for place in quotes:
        before, after = data[max(place - 1, 0) : place], data[place + 1 : place + 2]
        if len(opened) > len(closed):
            if after not in (*ends, b'"'):
                number = line + data.count(b"\n", 0, place)
                raise SourceError(f"line {number}: text follows the end of a quoted field: double that quote")
            closed.append(place)
        elif before in ends or (closed and closed[-1] == place - 1):
            opened.append(place)
    return np.array(opened, np.int64), np.array(closed, np.int64)
