"""A process beside this one that cuts a file back to whole classes where this one is killed in a `write`.

Nothing in a process can answer SIGKILL, and the kernel looks for it within a `write`: it may cut the last
class of a file. So another process holds the file, too, and is told of each `write` before. It ends when this
one does, however that ends.
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
    """The process beside this one that guards a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._process = descriptor, _started(descriptor)
        self._ready = False

    def announce(self, size: int) -> None:
        """Say that what is there is whole, and how many bytes come next; a ReleaseError if nobody hears."""
        whole = os.fstat(self._descriptor).st_size
        places = watch.PLACES.pack(whole, whole + size)
        if self._told(places):
            return
        # Somebody has ended it: another one takes its place.
        self.close()
        self._process, self._ready = _started(self._descriptor), False
        if not self._told(places):
            raise ReleaseError("the process that guards the output ends at once: use `| cat > FILE`")

    def close(self) -> None:
        """End the process, and wait until it has looked at the file."""
        with self._process:
            pass

    def _told(self, places: bytes) -> bool:
        """Tell it, as soon as it listens; False where it is gone."""
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
    """Guard what is written to a regular file while the block runs; None where there is none to guard.

    That is a pipe or a device, or any file on Windows, where no descriptor can be handed on.
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
    """Start the process: without our folders, and in a session of its own, away from signals to a group."""
    # Under a number of its own: standard output, if it is that, is another one there.
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
