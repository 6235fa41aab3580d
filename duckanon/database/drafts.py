"""Drafts: a file is written in a folder beside its place, and gets its name when it is whole.

A draft lies in a folder ``.duckanon-<8 hexadecimal digits>`` beside the final file. The writing process keeps
the file ``lock`` in the folder locked. The system releases a lock when its process ends, however it ends. So
a lock that can be taken means that the draft is abandoned. Process numbers would not do: they are reused and
differ from container to container.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows has no locks here, so no draft counts as abandoned.
    fcntl = None  # type: ignore[assignment]

from duckanon.database import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = re.compile(r"\.duckanon-[0-9a-f]{8}")
_LOCK = "lock"
_MARK = b"a draft of duckanon: it is removed when nobody writes it any more\n"
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open a foreign file: follow no link, and do not wait for the other end of a pipe."""

_DRAFT_FILES = re.compile(r"(tmp_)?draft(\.\w+)*|duckdb_temp_[\w.-]+")
"""Files in the folder: COPY of DuckDB puts ``tmp_`` before a name until the file is whole; what it spills."""


@contextlib.contextmanager
def draft(file: Path) -> Iterator[Path]:
    """Give a name beside a file, under which the file is written before it is linked or renamed.

    The folder is for its owner only. At the end this draft and all abandoned drafts are removed.
    """
    sweep(file.parent)
    begun: list[Path] = []
    held: list[tuple[Path, int]] = []

    def remove() -> None:
        for folder, lock in held:
            _remove(folder)
            os.close(lock)
        for folder in begun:
            with contextlib.suppress(OSError):
                _sweep(folder)
        held.clear()
        begun.clear()

    with interrupts.cleanup(None, remove):
        _make(file.parent, begun, held)
        ending = file.suffix if _DRAFT_FILES.fullmatch(f"draft{file.suffix}") else ""
        yield held[0][0] / f"draft{ending}"


@contextlib.contextmanager
def spill(parent: Path) -> Iterator[Path | None]:
    """Give a folder for DuckDB's temporary files, for its owner only; None if none can be made.

    A folder made by DuckDB would let everybody read values of the source.
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(draft(parent / "spill"))
        except OSError:
            yield None
            return
        yield place.parent


def sweep(parent: Path) -> None:
    """Remove the drafts of ended processes from a folder; every other file stays."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _sweep(Path(entry.path))


def _make(parent: Path, begun: list[Path], held: list[tuple[Path, int]]) -> None:
    """Make a folder for a draft and hold its lock; a folder that another process has swept is not taken.

    Ctrl-C may come after any step. So `begun` gets a folder before it exists, and `held` a lock before it is
    taken: a forgotten lock would keep the folder for ever.
    """
    while True:
        folder = parent / f".duckanon-{secrets.token_hex(4)}"
        begun.append(folder)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as refused:
            raise OSError(refused.errno, refused.strerror, str(parent)) from refused
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            continue
        held.append((folder, lock))
        taken = _taken(lock)
        # A file system without locks has no mark, so nobody removes the folder.
        if taken is None or (taken and _still(folder, lock)):
            return
        held.clear()
        os.close(lock)


def _still(folder: Path, lock: int) -> bool:
    """Tell whether a lock is still the lock of the folder, and then mark the folder as removable."""
    try:
        same = os.path.samestat(os.fstat(lock), (folder / _LOCK).stat())
    except FileNotFoundError:
        return False
    if same:
        os.write(lock, _MARK)
    return same


def _taken(lock: int) -> bool | None:
    """Take a lock; False if another process holds it, None if there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sweep(folder: Path) -> None:
    names = os.listdir(folder)
    if not names:
        # The process that has just made the folder makes another one.
        folder.rmdir()
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | _PLAINLY)
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            # A pipe of this name would block every process that writes to the parent folder.
            return
        others = [name for name in names if name != _LOCK]
        marked = os.read(lock, len(_MARK) + 1)
        whole = marked == _MARK or (not others and _MARK.startswith(marked))
        if whole and all(_DRAFT_FILES.fullmatch(name) for name in others) and _taken(lock):
            _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove our files of a folder, the lock last, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder), key=lambda name: name == _LOCK):
            if name == _LOCK or _DRAFT_FILES.fullmatch(name):
                (folder / name).unlink()
        folder.rmdir()
