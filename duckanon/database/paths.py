"""Paths: a file, or a table in a database file, as it is named on the command line; nothing is opened."""

from __future__ import annotations

from pathlib import Path

from duckanon.errors import SourceError

DATABASES = (".duckdb", ".db")
"""Endings of database files."""


def check_readable(path: Path) -> None:
    """Raise unless a path is a file with something in it that may be read, and more than once: no pipe."""
    shown = repr(str(path))
    try:
        if path.is_symlink() and not path.exists():
            raise SourceError(f"{shown} is a link to {str(path.readlink())!r}, which does not exist")
        if not path.exists():
            raise SourceError(f"{shown} does not exist")
        if path.is_dir():
            raise SourceError(f"{shown} is a folder: give a file")
        if not path.is_file():
            raise SourceError(f"{shown} is a pipe or a device: write what it gives to a file first")
        if not path.stat().st_size:
            raise SourceError(f"{shown} is empty")
        with path.open("rb"):
            pass
    except OSError as unread:
        raise SourceError(f"{shown} cannot be read: {unread.strerror}") from unread


def check_encoding(path: Path) -> None:
    """Raise where a text is UTF-16, as spreadsheets save "Unicode text": DuckDB would name the byte 0."""
    with path.open("rb") as file:
        begin = file.read(64)
    halves = [(begin[0::2], begin[1::2]), (begin[1::2], begin[0::2])]
    # Without a mark in front every other byte of ASCII is zero.
    plain = any(not any(empty) and text and min(text) >= ord("\t") for empty, text in halves)
    if plain or begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(
            f"{str(path)!r} is UTF-16, not UTF-8: convert it, as by iconv -f UTF-16 -t UTF-8, or read it in "
            "SQL by read_csv(..., encoding = 'utf-16')"
        )


def split(name: str) -> tuple[Path, str | None]:
    """Path and table (None for a plain file) of ``file`` or ``file.duckdb:table``."""
    for ending in DATABASES:
        path, separator, table = name.rpartition(f"{ending}:")
        if separator:
            return Path(path + ending), table
    return Path(name), None
