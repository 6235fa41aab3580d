"""The program of the guard process of `duckanon.streams.output`; it imports the standard library only.

Its argument is the descriptor of the file. Before each `write` its standard input gets the present length of
the file and the length after the `write`.
"""

from __future__ import annotations

import os
import signal
import struct
import sys

PLACES = struct.Struct("=qq")
"""A message to the guard: bytes of the whole file, and bytes after the next `write`."""

READY_SIGN = b"."
"""The answer of a guard that listens; no signal but SIGKILL ends it from then on."""


def watch(descriptor: int) -> None:
    """Listen until the writing process ends; then cut the file if it ends within an announced `write`."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    os.write(1, READY_SIGN)
    whole = upto = 0
    with open(0, "rb") as pipe:
        while len(message := pipe.read(PLACES.size)) == PLACES.size:
            whole, upto = PLACES.unpack(message)
    size = os.fstat(descriptor).st_size
    if whole < size < upto:
        os.ftruncate(descriptor, whole)
        # A shell continues with the same descriptor: its next command must write after the whole classes.
        if os.lseek(descriptor, 0, os.SEEK_CUR) == size:
            os.lseek(descriptor, whole, os.SEEK_SET)


if __name__ == "__main__":
    watch(int(sys.argv[1]))
