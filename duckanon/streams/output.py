"""Lines of whole classes: the output ends with a whole class at any time.

No process can handle SIGKILL, and the system may stop a `write` half-way: a file would then end within a
class. So a guard process holds the file open, and is told of each `write` beforehand. The guard cuts the file
back to whole classes if the writing process is killed, and ends with the writing process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, interrupts, templates
from duckanon.database.intake import register_source
from duckanon.database.relations import columns_of
from duckanon.errors import ReleaseError
from duckanon.streams import watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import duckdb
    from numpy.typing import NDArray

    from duckanon.streams.stream import Part
    from duckanon.streams.texts import Form

STAGE = "stream"

_TUPLES = "duckanon_tuples"
_TEMPLATES: Mapping[Form, str] = {"csv": "stream/output.sql.j2:csv", "jsonl": "stream/output.sql.j2:json"}
_PIPE_ATOMIC_BYTES = getattr(select, "PIPE_BUF", 512)
"""Bytes that a pipe takes whole or not at all."""

_FILE_PIECE_BYTES = 1 << 18
"""Bytes of one `write` to a file, unless a class is longer: `kill -9` may lose so many beside held tuples."""


def created(path: Path | None, source: int) -> int:
    """Descriptor of a new file, of an existing pipe or device, or of standard output.

    A ReleaseError if the file exists, or if the output is the input with descriptor `source`.
    """
    try:
        if path is None:
            _check_apart(os.fstat(sys.stdout.fileno()), source)
            return sys.stdout.fileno()
        if path.exists():
            found = path.stat()
            _check_apart(found, source)
            if passing(path):
                return os.open(path, os.O_WRONLY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        return os.open(path, flags, 0o666)
    except FileExistsError as there:
        raise ReleaseError(
            f"{str(path)!r} exists and a stream never overwrites: remove it or choose another name"
        ) from there
    except OSError as unwritten:
        raise ReleaseError(f"cannot write {str(path)!r}: {unwritten.strerror}") from unwritten


def passing(path: Path) -> bool:
    """Whether a path is a pipe or a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _check_apart(found: os.stat_result, source: int) -> None:
    if stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.fstat(source)):
        raise ReleaseError("the output is the input: name another file")


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


@dataclass
class Writer:
    """Writes a stream to a descriptor, and counts what is written."""

    con: duckdb.DuckDBPyConnection
    descriptor: int
    form: Form
    guard: FileGuard | None = None  # None unless the output is a regular file
    columns: tuple[tuple[str, str], ...] = ()
    written: int = 0  # tuples
    classes: int = 0
    alone: int = 0  # tuples written after their class

    def begin(self, schema: pa.Schema) -> None:
        """Learn the columns, and write the header of a CSV."""
        register_source(self.con, pa.Table.from_batches([], schema))
        found = columns_of(self.con, "source", STAGE)
        self.con.unregister("source")
        ranges = {name for name, kind in found if kind.startswith("STRUCT(low ") and self.form == "csv"}
        self.columns = tuple((name, "range" if name in ranges else kind) for name, kind in found)
        if self.form == "csv":
            names = pa.table({f"c{place}": arrow.texts([name]) for place, (name, _) in enumerate(found)})
            line = self._lines(names, tuple((one, "VARCHAR") for one in names.column_names))
            data, ends = _bytes(line, np.array([1]))
            self._put(data, ends)

    def write(self, part: Part) -> None:
        """Write a batch of whole runs; if space runs out, the file keeps the runs that fit."""
        data, ends = _bytes(self._lines(pa.Table.from_batches([part.batch]), self.columns), part.ends)
        regular = stat.S_ISREG(os.fstat(self.descriptor).st_mode)
        most = _FILE_PIECE_BYTES if regular else _PIPE_ATOMIC_BYTES
        first = 0
        while first < len(ends):
            begin = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, begin + most, side="right")), first + 1)
            if not regular:
                # Ctrl-C can end this wait for a reader; a ready pipe takes this many bytes at once.
                select.select([], [self.descriptor], [])
            with interrupts.undivided():
                self._put(data[begin : int(ends[last - 1])], ends[first:last] - begin, part, first)
            first = last

    def _lines(self, tuples: pa.Table, columns: tuple[tuple[str, str], ...]) -> pa.Array:
        query = templates.render(_TEMPLATES[self.form], relation=_TUPLES, columns=columns)
        with engine.registered(self.con, {_TUPLES: tuples}):
            return engine.table(self.con, query, STAGE).column(0).combine_chunks()

    def _put(
        self, data: memoryview, ends: NDArray[np.int64], part: Part | None = None, first: int = 0
    ) -> None:
        """Write bytes and count the runs of a part from `first` on; a partly written run is removed."""
        if self.guard is not None:
            self.guard.announce(len(data))
        done = 0
        try:
            while done < len(data):
                done += os.write(self.descriptor, data[done:])
        except OSError as full:
            whole = int(np.searchsorted(ends, done, side="right"))
            with contextlib.suppress(OSError):
                size = os.fstat(self.descriptor).st_size
                os.ftruncate(self.descriptor, size - done + (int(ends[whole - 1]) if whole else 0))
                if self.guard is not None:
                    self.guard.announce(0)
            self._count(part, first, first + whole)
            if full.errno == errno.EPIPE:
                raise
            raise ReleaseError(f"the output cannot be written: {full.strerror}") from full
        self._count(part, first, first + len(ends))

    def _count(self, part: Part | None, first: int, last: int) -> None:
        """Count the runs of a part from first to last."""
        if part is not None and last > first:
            self.written += int(part.ends[last - 1]) - (int(part.ends[first - 1]) if first else 0)
            alone = int(part.alone[first:last].sum())
            self.classes, self.alone = self.classes + last - first - alone, self.alone + alone


def _bytes(lines: pa.Array, ends: NDArray[np.int64]) -> tuple[memoryview, NDArray[np.int64]]:
    """Bytes of lines, and for each number in `ends` the place after so many lines."""
    _, offsets, data = lines.cast(pa.large_string()).buffers()
    places = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[places[0] : places[-1]], places[ends] - places[0]
