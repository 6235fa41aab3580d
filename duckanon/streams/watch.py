"""The program of the process that `duckanon.streams.guard` starts; it imports the standard library only.

Its argument is the descriptor of a file. On standard input it is told, before each `write` to the file, where
the file is whole and how long it will be.
"""

from __future__ import annotations

import os
import signal
import struct
import sys

PLACES = struct.Struct("=qq")
"""What it is told: bytes that are whole, and bytes with what is written next."""

READY_SIGN = b"."
"""What it says when it listens, and no signal but SIGKILL ends it."""


def watch(descriptor: int) -> None:
    """Listen until nobody is there who tells, then cut the file if it ends within what was announced.

    Parameters
    ----------
    descriptor : int
        Of the file, as the process has it that writes.
    """
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    os.write(1, READY_SIGN)
    whole = upto = 0
    with open(0, "rb") as pipe:
        while len(told := pipe.read(PLACES.size)) == PLACES.size:
            whole, upto = PLACES.unpack(told)
    size = os.fstat(descriptor).st_size
    if whole < size < upto:
        os.ftruncate(descriptor, whole)
        # Who goes on with the same descriptor, as a shell does, goes on there.
        if os.lseek(descriptor, 0, os.SEEK_CUR) == size:
            os.lseek(descriptor, whole, os.SEEK_SET)


if __name__ == "__main__":
    watch(int(sys.argv[1]))
