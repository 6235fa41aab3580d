"""Paths: a file, or a table in a database file, as named on the command line; nothing is opened."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.errors import SourceError

if TYPE_CHECKING:
    from io import BufferedReader

_NO_FILE = "is a pipe or a device: write what it gives to a file first"

_SOCKET = (errno.ENXIO, errno.EOPNOTSUPP)
"""Error numbers of a system for a socket that is opened as a file."""

_PACKED = {".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zip": "unzip"}
"""Endings of compressed files that are not read, and what unpacks them."""

_MAGIC = slice(8, 12)
"""Bytes of a database file that hold the magic word of DuckDB."""

DATABASES = (".duckdb", ".db")
"""Endings of database files."""


ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?!/)(.*)", re.DOTALL)
"""An address, s3://bucket/file; of a `Path` with one slash less. One letter is a drive of Windows."""


def local(name: str | Path) -> bool:
    """Whether a name is no remote address; the network is not asked."""
    return ADDRESS.fullmatch(str(name)) is None or Path(name).exists()


def check_local(name: str | Path) -> None:
    """Raise if a name is a remote address, where only a file of this machine is read or written."""
    remote = ADDRESS.fullmatch(str(name))
    if remote is not None and not local(name):
        raise SourceError(
            f"'{remote[1]}://{remote[2]}' is an address: give the path of a file on this machine "
            "(what lies elsewhere can be read in SQL: CREATE TABLE t AS FROM '...')"
        )


def check_unpacked(path: Path) -> None:
    """Raise if the name of a file says that it is compressed: checks read the plain text several times."""
    command = _PACKED.get(path.suffix.lower())
    if command is not None:
        raise SourceError(f"{str(path)!r} is compressed: unpack it first, {command} {shlex.quote(str(path))}")


def check_readable(path: Path) -> None:
    """Raise unless a path is a readable file with content that can be read several times, so no pipe."""
    shown = repr(str(path))
    try:
        if path.is_symlink() and not path.exists():
            raise SourceError(f"{shown} is a link to {str(path.readlink())!r}, which does not exist")
        if not path.exists():
            raise SourceError(f"{shown} does not exist{_of_table(path)}")
        if path.is_dir():
            raise SourceError(f"{shown} is a folder: give a file")
        with open_plain(path) as file:
            if not os.fstat(file.fileno()).st_size:
                raise SourceError(f"{shown} is empty")
    except OSError as unread:
        raise SourceError(f"{shown} cannot be read: {unread.strerror}") from unread


def _of_table(path: Path) -> str:
    """Hint if a path is a database with a table behind it, ``hospital.duckdb/patients``."""
    found = re.match(rf"(.*?(?:{'|'.join(map(re.escape, DATABASES))}))[./\\](.+)", str(path), re.DOTALL)
    if found is None or not Path(found[1]).is_file():
        return ""
    return f": a table of a database is named as '{found[1]}:{found[2]}'"


def database_of(file: Path) -> bool:
    """Whether a file is a DuckDB database, whatever its name."""
    try:
        with open_plain(file) as opened:
            return opened.read(_MAGIC.stop)[_MAGIC] == b"DUCK"
    except (OSError, SourceError):
        return False


def check_encoding(path: Path) -> None:
    """Raise if a text is UTF-16, as "Unicode text" of spreadsheets: DuckDB would complain of a byte 0."""
    with open_plain(path) as file:
        begin = file.read(64)
    halves = [(begin[0::2], begin[1::2]), (begin[1::2], begin[0::2])]
    # In UTF-16 without a mark every other byte of ASCII is zero.
    plain = any(not any(empty) and text and min(text) >= ord("\t") for empty, text in halves)
    if plain or begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(
            f"{str(path)!r} is UTF-16, not UTF-8: convert it, as by iconv -f UTF-16 -t UTF-8, or read it in "
            "SQL by read_csv(..., encoding = 'utf-16')"
        )


def open_plain(path: Path) -> BufferedReader:
    """Open a file to read its bytes; a SourceError for a pipe or a device, which might never end.

    The file is opened without waiting and checked afterwards, so no other file can take its place in between.
    """
    # Windows distinguishes text files, and its pipes are no files.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as refused:
        if refused.errno in _SOCKET:
            raise SourceError(f"{str(path)!r} is a socket: give a file") from refused
        raise
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise SourceError(f"{str(path)!r} {_NO_FILE}")


def check_opened(path: Path) -> None:
    """Raise if the file of a database, or its log, is a pipe or a device."""
    if path.exists() and not path.is_dir():
        open_plain(path).close()
    check_log(path)


def check_log(path: Path) -> None:
    """Raise if the log of a database exists and is no plain file: DuckDB opens the log with the database."""
    log = path.with_name(f"{path.name}.wal")
    if os.path.lexists(log) and not log.is_file():
        raise SourceError(
            f"{str(log)!r}, which DuckDB would read with the database, is no plain file: remove it"
        )


def split(name: str) -> tuple[Path, str | None]:
    """Path and table (None for a plain file) of ``file`` or ``file.duckdb:table``.

    SourceError for an address, ``s3://bucket/file``.
    """
    check_local(name)
    for ending in DATABASES:
        path, separator, table = name.rpartition(f"{ending}:")
        if separator:
            return Path(path + ending), table
    return Path(name), None
