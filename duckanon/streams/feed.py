"""Bytes of a stream as they come: from a file, one that grows, or a pipe; nothing waits for a full block."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import time
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows has pipes of another kind.
    fcntl = None  # type: ignore[assignment]

from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_MAX_BYTES = 4 << 20
"""Most bytes that are read at once."""

PIPE_BYTES = 1 << 20
"""Bytes that a pipe is asked to hold while the tuples before are worked on."""

FOLLOW_PAUSE_SECONDS = 0.1
"""Seconds after which a file that is followed is looked at again."""


def opened(path: Path | None) -> int:
    """Descriptor of a file, or of standard input; a SourceError where it cannot be read."""
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
    """Give what is there, at most `READ_MAX_BYTES` bytes at once, until the end; a file to follow has none.

    A SourceError where that is cut, or another file has its name: tuples would be read twice, or not at all.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
        # What comes while nobody reads makes fewer and larger blocks; a system may refuse.
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
    """Wait for the first byte, and take what is there beside it."""
    parts = [os.read(descriptor, READ_MAX_BYTES)]
    size = len(parts[0])
    while parts[-1] and size < READ_MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
        parts.append(os.read(descriptor, READ_MAX_BYTES - size))
        size += len(parts[-1])
    return b"".join(parts)


def _check_same(descriptor: int, path: Path, place: int) -> None:
    """Raise where the file that is followed has become shorter, or its name leads elsewhere."""
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
