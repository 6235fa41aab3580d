"""A guard process cuts the output file back to whole classes if the writing process is killed in a `write`.

No process can handle SIGKILL, and the system may stop a `write` half-way: the file would then end within a
class. So the guard holds the file open and is told of each `write` beforehand. The guard ends with the
writing process.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

from duckanon.database import interrupts
from duckanon.errors import ReleaseError
from duckanon.streams import watch

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileGuard:
    """The guard process of a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._process = descriptor, _started(descriptor)
        self._ready = False

    def announce(self, size: int) -> None:
        """Announce a `write` of so many bytes to a file of whole classes; a ReleaseError without a guard."""
        whole = os.fstat(self._descriptor).st_size
        places = watch.PLACES.pack(whole, whole + size)
        if self._hears(places):
            return
        # Another process has ended the guard: a new guard takes its place.
        self.close()
        self._process, self._ready = _started(self._descriptor), False
        if not self._hears(places):
            raise ReleaseError("the process that guards the output ends at once: use `| cat > FILE`")

    def close(self) -> None:
        """End the guard, and wait until it has looked at the file."""
        with self._process:
            pass

    def _hears(self, places: bytes) -> bool:
        """Send the places to the guard when it is ready; False if the guard is gone."""
        pipe, answer = self._process.stdin, self._process.stdout
        if pipe is None or answer is None:
            return False
        self._ready = self._ready or answer.read(1) == watch.READY_SIGN
        try:
            return self._ready and os.write(pipe.fileno(), places) == len(places)
        except BrokenPipeError:
            return False


@contextlib.contextmanager
def guarded(descriptor: int) -> Iterator[FileGuard | None]:
    """Guard a regular file during the block; None for a pipe, for a device, and on Windows.

    Windows cannot hand a descriptor to another process.
    """
    if os.name != "posix" or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        yield None
        return
    with interrupts.undivided():
        guard = FileGuard(descriptor)
    try:
        yield guard
    finally:
        with interrupts.undivided():
            guard.close()


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    """Start the guard in its own session, so that signals to our process group do not reach it."""
    # A duplicate descriptor, since the guard has its own standard output.
    own = os.dup(descriptor)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", watch.__file__, str(own)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            cwd=os.sep, pass_fds=[own], start_new_session=True,
        )  # fmt: skip
    except OSError as failure:
        raise ReleaseError(
            f"no process can be started to guard the output: {failure.strerror}: use `| cat > FILE`"
        ) from failure
    finally:
        os.close(own)
