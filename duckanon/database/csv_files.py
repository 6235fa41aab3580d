"""Read CSV files: find the dialect once, and give a column a type only if no value is lost.

A column keeps the type that DuckDB finds in the first 20,480 rows if DuckDB writes every value back as the
file has it. Later rows may widen the type. Numbers with equally many digits after the point are DECIMAL, as
are numbers that DOUBLE does not distinguish. Codes with leading zeros stay text, and so do all other columns,
except `typed` columns, whose values need an order.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from duckanon.database import csv_dates, engine, templates
from duckanon.database.paths import check_encoding
from duckanon.database.relations import named, subquery
from duckanon.errors import SourceError, tell
from duckanon.policy.names import DELIMITERS, fold, twice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

_NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_WIDER_TYPES = {"BIGINT": "DOUBLE", "HUGEINT": "DOUBLE", "DATE": "TIMESTAMP", "TIME": "VARCHAR"}
"""Wider type for the type of the first rows of a column, if that type could cut values of later rows."""

_DECIMAL_DIGITS = 38
"""Digits of the widest DECIMAL."""

_MARKS = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "NaT", "<NA>", ".", "-", "?")
"""What R, pandas, SAS, spreadsheets and people write where a value is missing."""

_SNIFFED_ROWS = 20_480
"""Rows from which DuckDB learns the types of columns; marks of missing values are sought in them."""

_BYTES_PER_READ = 1 << 20
"""Bytes of a file that are read at a time."""

_COUNTS_PER_STATEMENT = 16
"""Columns whose different values one statement counts."""

_COLUMNS_PER_STATEMENT = 100
"""Columns whose texts one statement looks at: planning time grows with the square of their number."""


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


@dataclass(frozen=True)
class Csv:
    """A CSV file as it is read, and the columns whose values DuckDB would write in another way."""

    form: Form
    texts: str  # SQL text after FROM with every column as text
    rewritten: Mapping[str, Rewritten] = field(default_factory=dict)
    unnamed: tuple[str, ...] = ()  # columns without a name in the header, by DuckDB's name

    @property
    def relation(self) -> str:
        """SQL text after FROM."""
        return self.form.relation()

    def only_typed(self, columns: Iterable[str]) -> str:
        """SQL text after FROM in which values of other columns keep the text of the file."""
        asked = {fold(name) for name in columns}
        kinds = dict(self.form.columns)
        return self.form.typed(
            {name: kind for name, kind in kinds.items() if name not in self.rewritten or fold(name) in asked}
        ).relation()


@dataclass(frozen=True)
class Rewritten:
    """Type of a column that DuckDB writes in another way than the file, and the format of its times."""

    type: str
    format: str | None
    decimal: str | None = None  # sign before the fraction in the file, if it is no point
    texts: str = ""  # temporary table of `written`: the text of each value in the file


def read_csv(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    *,
    apart: Iterable[str] = (),
    typed: Iterable[str] | None = None,
    reading: Reading = AS_FOUND,
    called: str | None = None,
) -> Csv:
    """CSV file with a header. O(rows); columns that DuckDB would write in another way take a second scan.

    Two texts of a column in `apart`, as 1 and 1.0, never become one value: the column stays text, with a
    DuckanonWarning. `typed` None means all. SourceError if dates of a `typed` column are ambiguous.
    """
    check_encoding(path)
    kept = {fold(name) for name in apart}
    form = _stated(con, path, reading, typed, called=called or "")
    needed = {fold(name) for name, _ in form.columns} if typed is None else {fold(name) for name in typed}
    unnamed = _check_header(con, form)
    _warn_of_one_column(con, form)
    form, exact = _exact(con, form)
    # DuckDB writes 0.0 and -0.0 back as the file has them, although they are one value.
    exact -= {name for name, kind in form.columns if kind == "DOUBLE" and fold(name) in kept}
    types = {name: kind for name, kind in form.columns if name in exact}
    inexact = [(name, kind) for name, kind in form.columns if kind != "VARCHAR" and name not in exact]
    inexact, facts = _widened(con, form, inexact)
    form = form.typed(dict(form.columns) | dict(inexact))
    types |= {name: one["decimal"] for name, one in facts.items() if one["decimal"]}
    asked = [name for name, _ in inexact if name not in types and fold(name) in needed | kept]
    kinds = dict(form.columns)
    found = {
        name: _type(con, form, name, kinds[name], facts[name], kept=fold(name) in kept) for name in asked
    }
    texts = form.typed({}).relation()
    for name, kind in [] if form.ordered else list(found.items()):
        if kind not in _TIMES:
            continue
        orders = csv_dates.other_orders(con, form.stage, texts, name, form.format_of(str(kind)))
        if orders and fold(name) not in kept:
            raise csv_dates.ambiguous(form.stage, name, orders)
        if orders:
            found[name] = "VARCHAR"
    lost = {name for name, kind in found.items() if kind is None}
    loose = {name: kind for name, kind in found.items() if kind is not None and kind != "VARCHAR"}
    checked = [name for name in loose if fold(name) in kept or facts[name]["fine"]]
    merged = _merged(con, form.typed(types | loose), checked)
    for name in (name for name in found if name in lost | merged and fold(name) not in kept):
        words = f"no type keeps apart all that column {name!r} holds: it is read as text"
        tell(f"{form.stage}: {words}")
    _warn_of_marks(con, form, needed - kept)
    loose = {name: kind for name, kind in loose.items() if name not in merged}
    rewritten = {name: Rewritten(kind, form.format_of(kind)) for name, kind in loose.items()}
    final = form.typed(types | loose)
    # With a comma before the fraction, DuckDB writes no number back as the file has it.
    rewritten |= {
        name: Rewritten(kind, None, form.decimal)
        for name, kind in final.columns
        if name in form.commas and kind.startswith(("DOUBLE", "DECIMAL"))
    }
    return Csv(final.as_written, form.typed({}).as_written.relation(), rewritten, unnamed)


def written(con: duckdb.DuckDBPyConnection, csv: Csv, columns: Iterable[str]) -> dict[str, Rewritten]:
    """Make a temporary table (value as DuckDB writes it, text of the file) for every column that needs it.

    If one value has several texts, the table has the shortest; a DuckanonWarning says so.
    """
    asked = {fold(name) for name in columns}
    made = {}
    for name, one in csv.rewritten.items():
        if fold(name) not in asked:
            continue
        made[name] = replace(one, texts=engine.workspace())
        values = {"relation": csv.texts, "column": name, "table": made[name].texts}
        statement = templates.render(
            "files/csv_form.sql.j2:written",
            **values,
            type=one.type,
            format=one.format,
            decimal=one.decimal,
        )
        engine.run(con, statement, "read", error=SourceError)
        query = templates.render("files/csv_columns.sql.j2:several", table=made[name].texts)
        for shortest, other in engine.rows(con, query, "read"):
            tell(
                f"column {name!r} has one value in two ways, as {shortest!r} and {other!r}: each leaves "
                "as its shortest text"
            )
    return made


def _stated(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    reading: Reading,
    needed: Iterable[str] | None,
    *,
    called: str,
) -> Form:
    """Find the dialect of a file. The stated format of dates is used unless dates begin with the year."""
    found = _sniffed(con, path, replace(reading, date_format=None), called=called)
    dates = {name for name, kind in found.columns if kind == "DATE"}
    stated = reading.date_format
    if stated is None or (dates and csv_dates.year_first(found.date_format)):
        return found
    form = _sniffed(con, path, reading, called=called)
    types = dict(form.columns)
    for name in (name for name in types if name in dates and types[name] != "DATE"):
        if needed is None or fold(name) in {fold(each) for each in needed}:
            raise SourceError(
                f"{form.stage}: the dates in column {name!r} are not written as dateformat {stated!r}, "
                f"but as {found.date_format!r}"
            )
    return replace(form, timestamp_format=csv_dates.with_order(form.timestamp_format, stated), ordered=True)


def _sniffed(con: duckdb.DuckDBPyConnection, path: Path, reading: Reading, *, called: str = "") -> Form:
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
        commas=tuple(name for name, kind in columns if reading.decimal and kind in _NUMBERS),
    )  # fmt: skip


def _stage(path: Path, called: str) -> str:
    """The file for errors, by the name that the user gave it."""
    return f"file {called or str(path)!r}"


def _has_quotes(path: Path) -> bool:
    """Whether the rows from which DuckDB learns the dialect contain a quote that DuckDB knows."""
    lines = 0
    with path.open("rb") as file:
        # DuckDB skips some lines, so twice as many lines as rows are read.
        while lines <= 2 * _SNIFFED_ROWS and (part := file.read(_BYTES_PER_READ)):
            if b'"' in part or b"'" in part:
                return True
            lines += part.count(b"\n")
    return False


def _check_header(con: duckdb.DuckDBPyConnection, form: Form) -> tuple[str, ...]:
    """Return columns without a name, with a DuckanonWarning; raise if two columns have the same name."""
    query = templates.render("relation.sql.j2:rows", relation=form.typed({}).relation(header=False), limit=1)
    header = next(iter(engine.rows(con, query, form.stage, error=SourceError)), ())
    if any("\0" in name for name in header if name):
        raise SourceError(f"{form.stage}: this is no text: its first line holds the byte 0")
    again = twice(name.strip() for name in header if name)
    if again is not None:
        raise SourceError(f"{form.stage}: the header has the column {again!r} twice: rename one")
    unnamed = tuple(name for (name, _), text in zip(form.columns, header, strict=False) if not text)
    if unnamed:
        tell(
            f"{form.stage}: a column without a name is read as {unnamed[0]!r}: name it, or leave it out, as "
            "to_csv(index=False) of pandas does"
        )
    return unnamed


def _warn_of_one_column(con: duckdb.DuckDBPyConnection, form: Form) -> None:
    """Warn of a file with one column whose header contains a delimiter; say why DuckDB did not split it."""
    ((name, _), *others) = form.columns
    delimiter = next((sign for sign in DELIMITERS if sign in name and sign != form.delimiter), None)
    if others or delimiter is None:
        return
    columns = tuple((f"column {number}", "VARCHAR") for number in range(name.count(delimiter) + 1))
    several = replace(form, delimiter=delimiter, quote='"', escape='"', comment="", columns=columns)
    query = templates.render("relation.sql.j2:count", relation=several.relation())
    try:
        engine.rows(con, query, form.stage, error=SourceError)
    except SourceError as refused:
        words = f"it has one column: read with the delimiter {delimiter!r}, {engine.first_line(refused)}"
        tell(words)


def _warn_of_marks(con: duckdb.DuckDBPyConnection, form: Form, needed: Collection[str]) -> None:
    """Warn of columns that are text only because DuckDB does not know their mark of missing values."""
    columns = [name for name, kind in form.columns if kind == "VARCHAR" and fold(name) in needed]
    values = {"relation": form.typed({}).relation(), "marks": _MARKS, "limit": _SNIFFED_ROWS}
    found: dict[str, Any] = dict.fromkeys(columns, True)
    for all_texts in (False, True):
        columns = [name for name, marks in found.items() if marks]
        if not columns:
            return
        query = templates.render(
            "files/csv_columns.sql.j2:marks", **values, columns=columns, all_texts=all_texts
        )
        (row,) = engine.rows(con, query, form.stage, error=SourceError)
        found = dict(zip(columns, row, strict=True))
    for name, marks in found.items():
        if marks:
            tell(
                f"{form.stage}: column {name!r} is read as text, for {marks[0]!r} is no number or date: if "
                f"it means that a value is missing, say so by --null {marks[0]}"
            )


def _exact(con: duckdb.DuckDBPyConnection, form: Form) -> tuple[Form, set[str]]:
    """Find the columns whose every value DuckDB writes back as the file has it.

    Rows after the first may have quotes. Double quotes are assumed if DuckDB can read the file with them.
    """
    if not form.quote:
        with contextlib.suppress(SourceError):
            return _exact(con, replace(form, quote='"', escape='"'))
    columns = [(name, kind) for name, kind in form.columns if kind != "VARCHAR"]
    exact: set[str] = set()
    if len(columns) > _COLUMNS_PER_STATEMENT:
        kinds = itertools.groupby(sorted(columns, key=operator.itemgetter(1)), operator.itemgetter(1))
        listed = [(kind, [name for name, _ in alike]) for kind, alike in kinds]
        groups = [
            (kind, part) for kind, names in listed for part in engine.in_parts(names, _COLUMNS_PER_STATEMENT)
        ]
        exact = _exact_groups(con, form, form.typed({}).relation(), groups)
        columns = [column for column in columns if column[0] not in exact]
        if not columns:
            return form, exact
    for relation, part in _parts(con, form.typed({}), columns, _COLUMNS_PER_STATEMENT):
        exact |= _exact_groups(con, form, relation, [(kind, [name]) for name, kind in part])
    return form, exact


def _exact_groups(
    con: duckdb.DuckDBPyConnection, form: Form, relation: str, groups: Sequence[tuple[str, Sequence[str]]]
) -> set[str]:
    """Columns of the groups, each of one type, whose values DuckDB writes back as the file has them."""
    query = templates.render("files/csv_columns.sql.j2:exact", relation=relation, groups=groups)
    (row,) = engine.rows(con, query, form.stage, error=SourceError)
    return {name for (_, names), same in zip(groups, row[1:], strict=True) if same for name in names}


def _facts(
    con: duckdb.DuckDBPyConnection, form: Form, columns: Sequence[tuple[str, str]]
) -> dict[str, dict[str, Any]]:
    """What each type would lose of the texts of its column, and the DECIMAL that loses nothing, if any."""
    if not columns:
        return {}
    facts: dict[str, dict[str, Any]] = {}
    for relation, part in _parts(con, form.typed({}), columns, _COLUMNS_PER_STATEMENT):
        query = templates.render(
            "files/csv_columns.sql.j2:texts", relation=relation, columns=part, numbers=_NUMBERS
        )
        (row,) = engine.rows(con, query, form.stage, error=SourceError)
        facts |= {name: _with_decimal(found) for (name, _), found in zip(part, row, strict=True)}
    return facts


def _widened(
    con: duckdb.DuckDBPyConnection, form: Form, columns: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, str]], dict[str, dict[str, Any]]]:
    """Return columns with types wide enough for all their rows, and the `_facts` of these types."""
    facts = _facts(con, form, columns)
    wider = {name: _WIDER_TYPES[kind] for name, kind in columns if facts[name]["wider"]}
    facts |= _facts(con, form, list(wider.items()))
    return [(name, wider.get(name, kind)) for name, kind in columns], facts


def _with_decimal(facts: dict[str, Any]) -> dict[str, Any]:
    whole, fraction = facts["whole"] or 1, facts["fraction"]
    fits = fraction is not None and whole + fraction <= _DECIMAL_DIGITS
    return {**facts, "decimal": f"DECIMAL({whole + fraction},{fraction})" if fits else None}


def _type(
    con: duckdb.DuckDBPyConnection, form: Form, name: str, kind: str, facts: Mapping[str, bool], *,
    kept: bool,
) -> str | None:  # fmt: skip
    """Type of a column that looks like numbers, dates, times or booleans; None if no type is exact."""
    if facts["padded"] or facts["words"] or (kept and facts["foreign"]):
        return "VARCHAR"
    if not facts["digits"]:
        return kind
    query = templates.render(
        "files/csv_columns.sql.j2:digits", relation=form.typed({}).relation(), column=name
    )
    numbers, doubles, plain, whole, fraction = engine.rows(con, query, form.stage, error=SourceError)[0]
    if numbers == doubles:
        return kind
    whole = max(whole, 1)
    return (
        f"DECIMAL({whole + fraction},{fraction})" if plain and whole + fraction <= _DECIMAL_DIGITS else None
    )


def _merged(con: duckdb.DuckDBPyConnection, typed: Form, columns: Sequence[str]) -> set[str]:
    """Find the columns in which two texts become one value."""
    if not columns:
        return set()
    asked = [(name, "") for name in columns]
    texts, values = (
        [
            count
            for relation, part in _parts(con, form, asked, _COUNTS_PER_STATEMENT)
            for count in _different(con, form, relation, [name for name, _ in part])
        ]
        for form in (typed.typed({}), typed)
    )
    return {name for name, text, value in zip(columns, texts, values, strict=True) if value < text}


def _different(
    con: duckdb.DuckDBPyConnection, form: Form, relation: str, columns: Sequence[str]
) -> tuple[int, ...]:
    query = templates.render("files/stated.sql.j2:distinct", relation=relation, columns=columns)
    return engine.rows(con, query, form.stage, error=SourceError)[0]


def _parts(
    con: duckdb.DuckDBPyConnection, form: Form, columns: Sequence[tuple[str, str]], most: int
) -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
    """Give parts of the columns with the relation to read: several parts read one copy of all columns."""
    relation = form.relation()
    if len(columns) <= most:
        yield relation, columns
        return
    with engine.temporary(con) as workspace:
        table = f"{workspace}_columns"
        names = [name for name, _ in columns]
        kept = templates.render("relation.sql.j2:select", columns=names, relation=relation, order=())
        load = templates.render("relation.sql.j2:load", table=table, relation=subquery(kept))
        engine.run(con, load, form.stage, error=SourceError)
        for part in engine.in_parts(columns, most):
            yield named("temp", table), part
