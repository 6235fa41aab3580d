"""Bytes of a stream, from a file, a growing file or a pipe, as they come; no read waits for a full block."""

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
except ImportError:  # pipes of Windows are of another kind
    fcntl = None  # type: ignore[assignment]

from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_MAX_BYTES = 4 << 20
"""Bytes that are read at once, at most."""

PIPE_BYTES = 1 << 20
"""Bytes that a pipe is asked to hold while earlier tuples are worked on."""

FOLLOW_PAUSE_SECONDS = 0.1
"""Seconds between two looks at a file that is followed."""


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
