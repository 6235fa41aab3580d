"""Drafts: a file is written aside and gets its name when it is whole; what the killed leave is removed.

A draft lies in a folder ``.duckanon-<8 hexadecimal digits>`` beside the file that it becomes. The process
that writes keeps the file ``lock`` in it locked, and the system gives a lock back when its process ends,
however it ends. So a lock that can be taken says that nobody writes there any more: numbers of processes,
which are given again and differ from container to container, do not matter.
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
except ImportError:  # Windows: nothing is locked, so nothing is ever taken for abandoned.
    fcntl = None  # type: ignore[assignment]

from duckanon.database import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = re.compile(r"\.duckanon-[0-9a-f]{8}")
_LOCK = "lock"
_MARK = b"a draft of duckanon: it is removed when nobody writes it any more\n"
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file of others is opened: not behind a link, and without waiting for the other end of a pipe."""

_DRAFT_FILES = re.compile(r"(tmp_)?draft(\.\w+)*|duckdb_temp_[\w.-]+")
"""Files in the folder: COPY of DuckDB puts ``tmp_`` before a name until the file is whole; what it spills."""


@contextlib.contextmanager
def draft(file: Path) -> Iterator[Path]:
    """Give a name beside a file under which it is written, to be linked or renamed.

    Its folder is for its owner only. Nothing of it is left in the end, nor of drafts that nobody writes any
    more.
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
    """Give a folder for what DuckDB spills, for its owner only; None where none can be made.

    DuckDB would make one that everybody can read, with values of the source.
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(draft(parent / "spill"))
        except OSError:
            yield None
            return
        yield place.parent


def sweep(parent: Path) -> None:
    """Remove the drafts in a folder that were left by processes that are gone; all else stays as it is."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _sweep(Path(entry.path))


def _make(parent: Path, begun: list[Path], held: list[tuple[Path, int]]) -> None:
    """Make a folder for a draft and hold its lock; one that was swept in between is not taken.

    Ctrl-C may come after any step: `begun` has each folder before it is there, `held` each lock before it is
    taken, for one that is taken and forgotten would keep the folder from being swept.
    """
    while True:
        folder = parent / f".duckanon-{secrets.token_hex(4)}"
        begun.append(folder)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            continue
        held.append((folder, lock))
        taken = _taken(lock)
        # On a file system without locks there is no mark, and so nobody removes the folder.
        if taken is None or (taken and _still(folder, lock)):
            return
        held.clear()
        os.close(lock)


def _still(folder: Path, lock: int) -> bool:
    """Tell whether the lock is that of the folder, and mark it then as one that may be swept."""
    try:
        same = os.path.samestat(os.fstat(lock), (folder / _LOCK).stat())
    except FileNotFoundError:
        return False
    if same:
        os.write(lock, _MARK)
    return same


def _taken(lock: int) -> bool | None:
    """Take a lock; False where another process has it, None where there are no locks."""
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
        # Whoever made it a moment ago makes another one.
        folder.rmdir()
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | _PLAINLY)
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            # Whoever put a pipe there would let each writer of the parent folder wait for ever.
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
