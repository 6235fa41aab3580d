"""The form of a CSV file: its dialect, as DuckDB finds it or the user states it, and its text after FROM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon.database import csv_dates, engine, templates
from duckanon.errors import SourceError, tell
from duckanon.policy.names import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import duckdb

NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")
"""Types of numbers that DuckDB finds in a CSV."""

SNIFFED_ROWS = 20_480
"""Rows from which DuckDB learns the types of columns; marks of missing values are sought in them."""

_BYTES_PER_READ = 1 << 20
"""Bytes of a file that are read at a time."""


@dataclass(frozen=True)
class Reading:
    """What a user states about the CSV files of a command; None is found by DuckDB."""

    date_format: str | None = None
    nulls: tuple[str, ...] = ()
    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    skip: int | None = None  # lines before the header
    decimal: str | None = None  # sign before the fraction of a number


AS_FOUND = Reading()
"""The user says nothing."""


@dataclass(frozen=True)
class Form:
    """The dialect of a CSV file, and the types of its columns."""

    path: Path
    delimiter: str
    quote: str
    escape: str
    comment: str
    skip: int
    date_format: str | None
    timestamp_format: str | None
    columns: tuple[tuple[str, str], ...]
    nulls: tuple[str, ...] = ()
    ordered: bool = False  # whether the user states the order of day, month and year
    called: str = ""  # name of the source, if the file is a copy
    decimal: str | None = None  # sign before the fraction of a number, if the user states it
    commas: tuple[str, ...] = ()  # columns whose texts get a point for that sign

    @property
    def stage(self) -> str:
        """The file, for errors."""
        return _stage(self.path, self.called)

    @property
    def has_preface(self) -> bool:
        """Whether lines before the header or comments are left out."""
        return bool(self.skip or self.comment)

    @property
    def as_written(self) -> Form:
        """The form in which no text changes."""
        return replace(self, commas=())

    @property
    def replaced(self) -> list[str]:
        """Text columns that get a point for the sign before the fraction."""
        return [name for name, kind in self.columns if kind == "VARCHAR" and name in self.commas]

    def typed(self, types: Mapping[str, str]) -> Form:
        """Return the form with the given types by column; a column without a type is text."""
        return replace(self, columns=tuple((name, types.get(name, "VARCHAR")) for name, _ in self.columns))

    def format_of(self, kind: str) -> str | None:
        """Format of a type of dates or timestamps; None if a cast reads them."""
        return {"DATE": self.date_format, "TIME": None}.get(kind, self.timestamp_format)

    def relation(self, *, header: bool = True, given: str | None = None) -> str:
        """Return the SQL text after FROM; `given` is a name for DuckDB instead of the path."""
        form = self if header else self.as_written
        return templates.render("files/csv_form.sql.j2:csv", form=form, header=header, given=given).strip()


def stated(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    reading: Reading,
    needed: Iterable[str] | None,
    *,
    called: str,
) -> Form:
    """Find the dialect of a file. The stated format of dates is used unless dates begin with the year."""
    found = sniffed(con, path, replace(reading, date_format=None), called=called)
    dates = {name for name, kind in found.columns if kind == "DATE"}
    stated = reading.date_format
    if stated is None or (dates and csv_dates.year_first(found.date_format)):
        return found
    form = sniffed(con, path, reading, called=called)
    types = dict(form.columns)
    for name in (name for name in types if name in dates and types[name] != "DATE"):
        if needed is None or fold(name) in {fold(each) for each in needed}:
            raise SourceError(
                f"{form.stage}: the dates in column {name!r} are not written as dateformat {stated!r}, "
                f"but as {found.date_format!r}"
            )
    return replace(form, timestamp_format=csv_dates.with_order(form.timestamp_format, stated), ordered=True)


def sniffed(con: duckdb.DuckDBPyConnection, path: Path, reading: Reading, *, called: str = "") -> Form:
    """Find the dialect of a file, without taking records for comments."""
    form = _sniff(con, path, reading, called, plain=False)
    if not form.comment:
        return form
    plain = _sniff(con, path, reading, called, plain=True)
    if [name for name, _ in plain.columns] == [name for name, _ in form.columns]:
        return plain
    start, delimiter = form.comment.encode(), form.delimiter.encode()
    with path.open("rb") as lines:
        if any(line.startswith(start) and line.count(delimiter) + 1 >= len(form.columns) for line in lines):
            raise SourceError(
                f"{form.stage}: a line that begins with {form.comment!r} could be a comment or a record: "
                "remove the comments"
            )
    return form


def _sniff(con: duckdb.DuckDBPyConnection, path: Path, reading: Reading, called: str, *, plain: bool) -> Form:
    """Find the dialect of a file; single quotes delimit values only if no other dialect reads the file.

    pandas, R and spreadsheets take a single quote for a part of the value.
    """
    form = _dialect(con, path, reading, called, plain=plain)
    if form.quote != "'" or reading.quote is not None:
        return form
    try:
        usual = _dialect(con, path, replace(reading, quote='"'), called, plain=plain)
        if len(usual.columns) != len(form.columns):
            return form
        query = templates.render("relation.sql.j2:count", relation=usual.typed({}).relation())
        engine.rows(con, query, form.stage, error=SourceError)
    except SourceError:
        return form
    tell(f"{form.stage}: single quotes around a text are read as a part of it: write double quotes, or none")
    return usual


def _dialect(
    con: duckdb.DuckDBPyConnection, path: Path, reading: Reading, called: str, *, plain: bool
) -> Form:
    # Trying each quote with each escape takes most of the time: 2 of 2.3 seconds for 10,000 columns.
    query = templates.render(
        "files/csv_form.sql.j2:sniff",
        path=path,
        plain=plain,
        unquoted=reading.quote is None and not _has_quotes(path),
        reading=reading,
    )
    (dialect,) = engine.rows(con, query, _stage(path, called), error=SourceError)
    delimiter, quote, escape, comment = ("" if sign == "(empty)" else sign for sign in dialect[:4])
    # BIGNUM becomes text: no number type of a release holds so many digits.
    kinds = ((column["name"], column["type"]) for column in dialect[7])
    columns = tuple((name, "VARCHAR" if kind == "BIGNUM" else kind) for name, kind in kinds)
    # A cast reads dates that begin with the year (2020-1-2, 2020/01/02). A format would apply to all columns.
    date_format, timestamp_format = (None if csv_dates.year_first(one) else one for one in dialect[5:7])
    return Form(
        path, delimiter, quote, escape or quote, comment, dialect[4], date_format, timestamp_format, columns,
        reading.nulls, called=called, decimal=reading.decimal,
        commas=tuple(name for name, kind in columns if reading.decimal and kind in NUMBERS),
    )  # fmt: skip


def _stage(path: Path, called: str) -> str:
    """The file for errors, by the name that the user gave it."""
    return f"file {called or str(path)!r}"


def _has_quotes(path: Path) -> bool:
    """Whether the rows from which DuckDB learns the dialect contain a quote that DuckDB knows."""
    lines = 0
    with path.open("rb") as file:
        # DuckDB skips some lines, so twice as many lines as rows are read.
        while lines <= 2 * SNIFFED_ROWS and (part := file.read(_BYTES_PER_READ)):
            if b'"' in part or b"'" in part:
                return True
            lines += part.count(b"\n")
    return False
