"""CSV files: how one is written is found once, and a column has a type only where that loses nothing."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.errors import SourceError, tell
from duckanon.policy.names import DELIMITERS, fold, twice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import duckdb

_NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")
_ROOM = 38
"""Digits of the widest DECIMAL."""


@dataclass(frozen=True)
class _Form:
    """How a CSV is written, and the types of its columns."""

    path: Path
    delimiter: str
    quote: str
    escape: str
    comment: str
    skip: int
    date_format: str | None
    timestamp_format: str | None
    columns: tuple[tuple[str, str], ...]

    @property
    def stage(self) -> str:
        """The file, for errors."""
        return f"file {str(self.path)!r}"

    def typed(self, types: Mapping[str, str]) -> _Form:
        """Return the form with types by column; a column without one is text."""
        return replace(self, columns=tuple((name, types.get(name, "VARCHAR")) for name, _ in self.columns))

    def relation(self, *, header: bool = True) -> str:
        """Return what stands after FROM."""
        return templates.render("files/csv.sql.j2", form=self, header=header).strip()


def csv_relation(con: duckdb.DuckDBPyConnection, path: Path, *, apart: Iterable[str] = ()) -> str:
    """Relation, as SQL text, of a CSV file with a header: one scan, and two more for columns kept `apart`.

    Types are those of its first 20,480 rows; codes with leading zeros stay text, and numbers that DOUBLE does
    not keep apart are DECIMAL. No two texts of a column `apart` become one value, as 1 and 1.0 would: it
    stays text, with a DuckanonWarning, where no type keeps them apart.
    """
    kept = {fold(name) for name in apart}
    form = _sniffed(con, path)
    _check_header(con, form)
    _warn_of_one_column(con, form)
    form, facts = _scanned(con, form)
    types = {name: _type(con, form, name, facts[name], kept=fold(name) in kept) for name in facts}
    lost = {name for name, kind in types.items() if kind is None}
    typed = {name: kind for name, kind in types.items() if kind not in {None, "VARCHAR"}}
    checked = [name for name in typed if fold(name) in kept or facts[name]["fine"]]
    merged = _merged(con, form.typed(typed), checked)
    for name in (name for name in types if name in lost | merged and fold(name) not in kept):
        words = f"no type keeps apart all that column {name!r} holds: it is read as text"
        tell(f"{form.stage}: {words}")
    return form.typed({name: kind for name, kind in typed.items() if name not in merged}).relation()


def _sniffed(con: duckdb.DuckDBPyConnection, path: Path) -> _Form:
    """Find how a file is written, without taking records for comments."""
    form = _sniff(con, path, plain=False)
    if not form.comment:
        return form
    plain = _sniff(con, path, plain=True)
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


def _sniff(con: duckdb.DuckDBPyConnection, path: Path, *, plain: bool) -> _Form:
    query = templates.render("files/sniff.sql.j2", path=path, plain=plain)
    (dialect,) = engine.rows(con, query, f"file {str(path)!r}", error=SourceError)
    delimiter, quote, escape, comment = ("" if sign == "(empty)" else sign for sign in dialect[:4])
    columns = tuple((column["name"], column["type"]) for column in dialect[7])
    skip, date_format, timestamp_format = dialect[4:7]
    return _Form(
        path, delimiter, quote, escape or quote, comment, skip, date_format, timestamp_format, columns
    )


def _check_header(con: duckdb.DuckDBPyConnection, form: _Form) -> None:
    query = templates.render("relation/rows.sql.j2", relation=form.typed({}).relation(header=False), limit=1)
    for row in engine.rows(con, query, form.stage, error=SourceError):
        if any("\0" in name for name in row if name):
            raise SourceError(f"{form.stage}: this is no text: its first line holds the byte 0")
        again = twice(name.strip() for name in row if name)
        if again is not None:
            raise SourceError(f"{form.stage}: the header has the column {again!r} twice: rename one")


def _warn_of_one_column(con: duckdb.DuckDBPyConnection, form: _Form) -> None:
    """Say why a file that looks as if it had several columns has one: DuckDB read no delimiter in it."""
    ((name, _), *others) = form.columns
    delimiter = next((sign for sign in DELIMITERS if sign in name and sign != form.delimiter), None)
    if others or delimiter is None:
        return
    columns = tuple((f"column {number}", "VARCHAR") for number in range(name.count(delimiter) + 1))
    several = replace(form, delimiter=delimiter, quote='"', escape='"', comment="", columns=columns)
    query = templates.render("relation/count.sql.j2", relation=several.relation())
    try:
        engine.rows(con, query, form.stage, error=SourceError)
    except SourceError as refused:
        words = f"it has one column: read with the delimiter {delimiter!r}, {engine.first_line(refused)}"
        tell(words)


def _scanned(con: duckdb.DuckDBPyConnection, form: _Form) -> tuple[_Form, dict[str, dict[str, bool]]]:
    """Tell of every column that is not text what its type would take from it.

    Where the first rows have no quotes, later ones may: they are the usual ones, if the file can be read so.
    """
    if not form.quote:
        with contextlib.suppress(SourceError):
            return _scanned(con, replace(form, quote='"', escape='"'))
    columns = [(name, kind) for name, kind in form.columns if kind != "VARCHAR"]
    query = templates.render(
        "files/texts.sql.j2", relation=form.typed({}).relation(), columns=columns, numbers=_NUMBERS
    )
    (row,) = engine.rows(con, query, form.stage, error=SourceError)
    return form, {name: facts for (name, _), facts in zip(columns, row[1:], strict=True)}


def _type(
    con: duckdb.DuckDBPyConnection, form: _Form, name: str, facts: Mapping[str, bool], *, kept: bool
) -> str | None:
    """Type of a column that looks like numbers, dates, times or booleans; None where none is right."""
    kind = dict(form.columns)[name]
    if kind == "BIGNUM" or facts["padded"] or (kept and facts["foreign"]):
        return "VARCHAR"
    if not facts["digits"]:
        return kind
    query = templates.render("files/digits.sql.j2", relation=form.typed({}).relation(), column=name)
    numbers, doubles, plain, whole, fraction = engine.rows(con, query, form.stage, error=SourceError)[0]
    if numbers == doubles:
        return kind
    whole = max(whole, 1)
    return f"DECIMAL({whole + fraction},{fraction})" if plain and whole + fraction <= _ROOM else None


def _merged(con: duckdb.DuckDBPyConnection, typed: _Form, columns: Sequence[str]) -> set[str]:
    """Find the columns in which two texts become one value."""
    if not columns:
        return set()
    texts, values = (
        engine.rows(
            con,
            templates.render("files/distinct.sql.j2", relation=form.relation(), columns=columns),
            form.stage,
            error=SourceError,
        )[0]
        for form in (typed.typed({}), typed)
    )
    return {name for name, text, value in zip(columns, texts, values, strict=True) if value < text}
