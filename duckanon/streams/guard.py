"""A guard process cuts the output file back to whole classes if the writing process is killed in a `write`.

No process can answer SIGKILL, and the system may end a `write` half-way: the file then ends within a class.
So the guard holds the file, too, and hears of each `write` before. It ends when the writing process ends.
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
        """Announce a `write` of so many bytes to a file that is whole; a ReleaseError if no guard hears."""
        whole = os.fstat(self._descriptor).st_size
        places = watch.PLACES.pack(whole, whole + size)
        if self._hears(places):
            return
        # Somebody has ended the guard: another one takes its place.
        self.close()
        self._process, self._ready = _started(self._descriptor), False
        if not self._hears(places):
            raise ReleaseError("the process that guards the output ends at once: use `| cat > FILE`")

    def close(self) -> None:
        """End the guard, and wait until it has looked at the file."""
        with self._process:
            pass

    def _hears(self, places: bytes) -> bool:
        """Send the places to the guard as soon as it listens; False if it is gone."""
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
    """Guard a regular file while the block runs; None for a pipe or a device.

    None on Windows, too, where no descriptor can be handed on.
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
    """Start the guard in a session of its own, away from signals to our group."""
    # A new number, since standard output of the guard is another file.
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
