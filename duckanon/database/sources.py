"""Sources: the plain local files that a name on the command line means.

A name is a file, a folder, a pattern, an address or ``-`` for standard input. Whatever is no plain file
becomes one before it is read: standard input, packed files and addresses are written to a private folder,
and CSV files with the same header are joined there. So all checks of plain files hold for every source.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa

from duckanon.database import engine, interrupts, templates
from duckanon.database.paths import ADDRESS, check_readable, check_unpacked, local, open_plain, split
from duckanon.errors import SourceError
from duckanon.policy.names import fold, twice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STDIN = "-"
"""Name of standard input."""

Form = Literal["csv", "json", "parquet"]

FORMS: dict[str, Form] = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
}  # fmt: skip
"""Forms of files by their endings."""

PACKED = {".gz": "gzip", ".zst": "zstd"}
"""Endings of packed files that are read, with Arrow's name of the packing."""

_MARK = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
"""First bytes of a gzip file and of a Parquet file."""

_ZSTD = re.compile(rb"(?:\x28\xb5\x2f|[\x50-\x5f]\x2a\x4d)")
"""First bytes of a file of zstd."""

_OTHER_BEGINS = {
    _GZIP: "is packed by gzip: give it the ending .gz, as in .csv.gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: give it the ending .zst, as in .csv.zst",
    b"SQLite format 3\0": "is a database of SQLite: export its table as CSV",
    b"PK\x03\x04": "is a spreadsheet or an archive of zip: save it as CSV",
}
"""What a file is by its first bytes, and what to do, if it is none of `FORMS`."""

_PATTERN = re.compile(r"[*?[]")
_HIVE = re.compile(r"([^=/]+)=([^/]*)")

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Name that a partition of NULL has in a path."""

_BYTES_PER_READ = 1 << 20
"""Bytes that are copied at a time."""


@dataclass(frozen=True)
class Files:
    """The files of a name, in their order; all of one form."""

    name: str  # as written
    form: Form | None  # None for a file with another ending
    paths: tuple[Path, ...]
    origins: tuple[str, ...] = ()  # where each of them lies, if they are copies
    parts: tuple[tuple[tuple[str, str | None], ...], ...] = ()  # of each file: columns in its folders' names
    pieces: tuple[Path, ...] = ()  # CSV files that are joined to the one of `paths`

    @property
    def path(self) -> Path:
        """The only file, or the first."""
        return self.paths[0]

    @property
    def stage(self) -> str:
        """The source, for errors."""
        return "standard input" if self.name == STDIN else f"file {self.name!r}"

    def called(self, number: int) -> str:
        """Name of a file where it lies."""
        return self.origins[number] if self.origins else str(self.paths[number])

    @property
    def of_folders(self) -> tuple[str, ...]:
        """Columns in the names of folders, such as year for ``year=2026``."""
        return tuple(column for column, _ in (self.parts or ((),))[0])


def plain(name: str) -> Files:
    """One plain file."""
    path, table = split(name)
    return Files(name, FORMS.get(path.suffix.lower()) if table is None else None, (path,))


def is_plain(name: str) -> bool:
    """Whether a name is a file that is read where it lies, or a table of a database."""
    if name == STDIN or not local(name):
        return False
    path, table = split(name)
    if table is not None:
        return True
    if path.suffix.lower() in PACKED or path.is_dir():
        return False
    return os.path.lexists(path) or _PATTERN.search(name) is None


def gathered(name: str, room: Callable[[], Path]) -> Files:
    """Files of a name; those that must be written first go to the folder of `room`, which is then made."""
    if is_plain(name):
        return plain(name)
    try:
        found, origins = _found(name, room)
        if name != STDIN:
            forms = [(_form(origin), origin) for origin in origins]
            form = forms[0][0]
            other = next((origin for one, origin in forms if one != form), None)
            if other is not None:
                raise SourceError(
                    f"{name!r} means files of two forms, {origins[0]!r} and {other!r}: name one"
                )
        unpacked = [
            _unpacked(path, room, origin) if _packing(origin) else path
            for path, origin in zip(found, origins, strict=True)
        ]
        if name == STDIN:
            form = _form_of_bytes(unpacked[0])
        for path in unpacked:
            check_readable(path)
        parts = _parts(name, origins)
        files = Files(name, form, tuple(unpacked), tuple(origins), parts)
        return _joined(files, room) if form == "csv" and len(unpacked) > 1 else files
    except (OSError, pa.ArrowException) as unread:
        why = (unread.strerror if isinstance(unread, OSError) else None) or engine.first_line(unread)
        raise SourceError(f"{name!r} cannot be read: {why}") from unread


def check_form(path: Path, form: Form, called: str) -> None:
    """Raise if a file is of another form than its ending says, by its first and last bytes."""
    with open_plain(path) as file:
        begin = file.read(16)
        file.seek(-min(4, path.stat().st_size), os.SEEK_END)
        parquet = begin.startswith(_PARQUET) and file.read() == _PARQUET
    what = next((words for first, words in _OTHER_BEGINS.items() if begin.startswith(first)), None)
    if begin[8:12] == b"DUCK":
        what = "is a database of DuckDB: give it the ending .duckdb, and name a table as in file.duckdb:table"
    elif parquet and form != "parquet":
        what = "is a file of Parquet: give it the ending .parquet"
    elif form == "parquet" and what is None and not begin.startswith(b"PAR"):
        what = "is no file of Parquet: give a text the ending .csv or .json"
    if what is not None:
        raise SourceError(f"{called!r} {what}")


def named(name: str) -> list[Path]:
    """Local files that a name means, without reading one; empty for an address."""
    if name == STDIN:
        # The shell may have opened a plain file.
        return [opened] if (opened := Path("/dev/stdin")).is_file() else []
    if not local(name):
        return []
    path, table = split(name)
    if table is not None or is_plain(name) or path.is_file():
        return [path]
    return [Path(file) for file in _listed(name)]


def covers(name: str, file: Path) -> bool:
    """Whether a new file would be one of the files of a folder or of a pattern."""
    if is_plain(name) or name == STDIN or not local(name) or Path(name).is_file():
        return False
    if Path(name).is_dir():
        return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(name))
    # A link, or two dots, before the first sign of a pattern hides the folder.
    parts = Path(name).absolute().parts
    signs = next((place for place, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    pattern = Path(os.path.realpath(Path(*parts[:signs])), *parts[signs:])
    asked = Path(os.path.realpath(file.parent), file.name)
    deep = "**" in pattern.parts or len(pattern.parts) == len(asked.parts)
    return deep and fnmatch.fnmatchcase(asked.as_posix(), pattern.as_posix())


def _found(name: str, room: Callable[[], Path]) -> tuple[list[Path], list[str]]:
    """Files with the bytes of a name, and how each is called where it lies."""
    if name == STDIN:
        path = _new(room)
        with path.open("xb") as out:
            _copied(sys.stdin.buffer, out)
        if not path.stat().st_size:
            raise SourceError("standard input is empty; it is read once, by the first that asks for it")
        with path.open("rb") as file:
            return [path], [f"{STDIN}.gz" if file.read(2) == _GZIP else STDIN]
    if not local(name):
        return _fetched(name, room)
    origins = [name] if Path(name).is_file() else _listed(name)
    for origin in origins:
        check_readable(Path(origin))
    return [Path(origin) for origin in origins], origins


def _listed(name: str) -> list[str]:
    """Files of a folder, at any depth, or of a pattern as DuckDB reads it."""
    path = Path(name)
    if path.is_dir():
        found = sorted(_below(path))
        if not found:
            raise SourceError(
                f"{name!r} is a folder without a file in it that could be read: give {_ENDINGS}"
            )
        return found
    with engine.in_memory() as con:
        query = templates.render("files/stored.sql.j2:meant", name=name)
        found = sorted(file for (file,) in engine.rows(con, query, f"pattern {name!r}", error=SourceError))
    try:
        _check_reached(Path(path.anchor or os.curdir), path.parts[bool(path.anchor) :])
    except OSError as unread:
        raise SourceError(f"{name!r}: {unread.filename!r} cannot be read: {unread.strerror}") from unread
    if not found:
        raise SourceError(f"{name!r} matches no file")
    return found


def _refuse(unread: OSError) -> None:
    raise unread


def _check_reached(folder: Path, parts: Sequence[str]) -> None:
    """Raise if a folder that a pattern leads into cannot be listed: DuckDB passes over its files."""
    part, *deeper = parts
    if part == "**":
        for _ in os.walk(folder, onerror=_refuse):
            pass
    elif _PATTERN.search(part):
        with os.scandir(folder) as entries:
            below = [folder / one.name for one in entries if fnmatch.fnmatchcase(one.name, part)]
        for place in below if deeper else ():
            if place.is_dir():
                _check_reached(place, deeper)
    elif (folder / part).is_dir() and deeper:
        _check_reached(folder / part, deeper)


def _below(folder: Path) -> Iterator[str]:
    """Give the files below a folder that have one of our endings; hidden ones and marks of Spark have not."""
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [one for one in folders if not one.startswith((".", "_"))]
        for one in names:
            if not one.startswith((".", "_")) and _ending(one) in FORMS:
                yield os.path.join(place, one)


_ENDINGS = f"a file ending in {', '.join(FORMS)}"


def _fetched(name: str, room: Callable[[], Path]) -> tuple[list[Path], list[str]]:
    """Files of an address, as DuckDB fetches them; a SourceError has the words of DuckDB."""
    found, origins = [], []
    with engine.in_memory() as con:
        query = templates.render("files/stored.sql.j2:fetched", name=name)
        try:
            with interrupts.running(con):
                fetched = con.execute(query)
            while (row := fetched.fetchone()) is not None:
                path = _new(room)
                path.write_bytes(row[1])
                found.append(path)
                origins.append(str(row[0]))
        except duckdb.Error as refused:
            raise SourceError(f"{name!r} cannot be fetched: {_reason(refused)}") from refused
    if not found:
        raise SourceError(f"{name!r} matches no file")
    return found, origins


def _reason(refused: Exception) -> str:
    """DuckDB's words on one line: why an extension is missing stands in the second line."""
    lines = [line.strip() for line in str(refused).splitlines() if line.strip()]
    return " ".join(lines[:2]).rstrip(".:")


def _ending(name: str) -> str:
    """Ending of a file, or of the file in a packed one."""
    path = Path(urlsplit(name).path if ADDRESS.fullmatch(name) else name)
    return (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()


def _packing(name: str) -> str | None:
    path = Path(urlsplit(name).path if ADDRESS.fullmatch(name) else name)
    return PACKED.get(path.suffix.lower())


def _form(name: str) -> Form:
    form = FORMS.get(_ending(name))
    if form is None:
        if not ADDRESS.fullmatch(name):
            check_unpacked(Path(name))
        raise SourceError(f"{name!r}: give {_ENDINGS}, also packed as .csv.gz, or file.duckdb:table")
    return form


def _form_of_bytes(path: Path) -> Form:
    """Form of standard input, by its first bytes."""
    with path.open("rb") as file:
        begin = file.read(_BYTES_PER_READ)
    if begin.startswith(_PARQUET):
        return "parquet"
    return "json" if begin.removeprefix(_MARK).lstrip()[:1] in {b"{", b"["} else "csv"


_numbers = count()


def _new(room: Callable[[], Path]) -> Path:
    """Name of a new file in the private folder."""
    return room() / f"draft.{next(_numbers)}"


def _unpacked(path: Path, room: Callable[[], Path], called: str) -> Path:
    """Return the plain file in a packed one; its packing is told by its first bytes."""
    with open_plain(path) as file:
        begin = file.read(3)
        packing = "gzip" if begin.startswith(_GZIP) else "zstd"
        if packing == "zstd" and not _ZSTD.match(begin):
            plain_name = Path(called).stem
            raise SourceError(f"{called!r} is not packed, against its ending: rename it to {plain_name!r}")
        file.seek(0)
        target = _new(room)
        with target.open("xb") as out, pa.CompressedInputStream(pa.PythonFile(file, "r"), packing) as packed:
            _copied(packed, out)
    return target


def _copied(read: BinaryIO | pa.NativeFile, out: BinaryIO) -> bytes:
    """Copy all bytes; return the last of them."""
    last = b""
    while part := read.read(_BYTES_PER_READ):
        out.write(part)
        last = part
    return last


def _parts(name: str, origins: Sequence[str]) -> tuple[tuple[tuple[str, str | None], ...], ...]:
    """Columns in the names of folders, such as ``year=2026``, by file; a plain file has none."""
    if name == STDIN or (len(origins) == 1 and origins[0] == name):
        return ()
    found = tuple(tuple(_part(*pair) for pair in _HIVE.findall(str(Path(one).parent))) for one in origins)
    names = [[fold(column) for column, _ in one] for one in found]
    other = next((at for at, one in enumerate(names) if one != names[0]), None)
    again = twice(names[0])
    if again is not None:
        raise SourceError(f"{name!r}: the folders of {origins[0]!r} name the column {again!r} twice")
    if other is not None:
        raise SourceError(
            f"{name!r}: the folders of {origins[0]!r} and of {origins[other]!r} name different columns"
        )
    return found if names[0] else ()


def _part(column: str, value: str) -> tuple[str, str | None]:
    return unquote(column), None if value == _HIVE_NULL else unquote(value)


def _joined(files: Files, room: Callable[[], Path]) -> Files:
    """One CSV file with the records of several that have the same header."""
    # Columns with one value alone, as of a folder above all files, say nothing.
    if len(set(files.parts)) > 1:
        raise SourceError(
            f"{files.name!r}: columns in names of folders, {', '.join(files.of_folders)}, are read for "
            "Parquet and JSON: read CSV in SQL by read_csv(..., hive_partitioning = true)"
        )
    target = _new(room)
    first, end = b"", b""
    with target.open("xb") as out:
        for number, path in enumerate(files.paths):
            with open_plain(path) as file:
                header, its_end = _header(file, files.called(number))
                first = first if number else header
                if header != first or its_end not in {b"", end or its_end}:
                    what = "line ends" if header == first else "headers"
                    raise SourceError(
                        f"{files.name!r}: {files.called(0)!r} and {files.called(number)!r} have different "
                        f"{what}: {_SAME[what]}"
                    )
                if its_end and not end:
                    end = its_end
                    out.write(first + end)
                last = _copied(file, out)
                if last and not last.endswith((b"\n", b"\r")):
                    out.write(end)
        out.write(b"" if end else first)
    return replace(files, paths=(target,), pieces=files.paths)


_SAME = {
    "headers": "name files with the same columns in the same order",
    "line ends": "write all files alike, as by dos2unix",
}

_HEADER = re.compile(rb"(?>[^\"\r\n]+|\"[^\"]*\")*+(?=[\r\n]|\Z)")
"""Header of a CSV: up to the first line end outside quotes."""


def _header(file: BinaryIO, called: str) -> tuple[bytes, bytes]:
    """Read the header of a CSV, without a byte order mark; return it and its line end, if it has one."""
    begin = file.read(_BYTES_PER_READ)
    start = len(_MARK) if begin.startswith(_MARK) else 0
    # A single quote sign in a header is a part of a name.
    found = _HEADER.match(begin, start) or re.compile(rb"[^\r\n]*").match(begin, start)
    text = found[0] if found else b""
    rest = begin[start + len(text) :][:2]
    if not rest and len(begin) == _BYTES_PER_READ:
        raise SourceError(f"{called!r}: the header is longer than {_BYTES_PER_READ} bytes")
    end = rest if rest == b"\r\n" else rest[:1]
    file.seek(start + len(text) + len(end))
    return text, end
