"""Files and tables named on the command line, such as ``patients.csv`` or ``hospital.duckdb:patients``."""

from __future__ import annotations

import contextlib
import re
import tempfile
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from duckanon.database import drafts, engine, interrupts, own_copy, sources, templates
from duckanon.database.csv_files import Csv, read_csv
from duckanon.database.csv_form import AS_FOUND, Reading
from duckanon.database.paths import DATABASES, check_readable, check_unpacked, database_of, local, split
from duckanon.database.relations import Target, columns_of, databases, relation_of
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.names import fold, listed, suggestion, twice
from duckanon.release import foreign
from duckanon.release.metadata import SCHEMA
from duckanon.release.verify.record import read_releases
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import duckdb

from duckanon.release.verify.record import RecordedRelease

# Names of DuckDB's catalogs and schemas, and of our metadata schema: a database of such a name would hide
# them.
_RESERVED = frozenset(
    {"memory", "system", "temp", "main", "duckanon", "information_schema", "pg_catalog", ""}
)


_NUMBERED = re.compile(r".+_[0-9]+", re.DOTALL)
"""Name that DuckDB may have given to a key."""

_GATHERED: ContextVar[Mapping[str, sources.Files]] = ContextVar("gathered", default=MappingProxyType({}))
"""The files of the sources of `opened`, by the name of the source."""


@contextlib.contextmanager
def opened(
    *names: str | Path, trees: Iterable[str] = (), folders: Iterable[Path] = (), trust: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection in memory that reaches the files of the named sources, and no other file.

    A source that is no plain file is written to a private folder first, which is removed at the end. `trees`
    are hierarchies. Files may be written in `folders`. With `trust` the views of the user's own files run
    without limits.
    """
    folders = list(folders)
    with gathered(*map(str, names), folders=folders) as found:
        files = [path for one in found.values() for path in (*one.paths, *one.pieces)]
        files += [split(tree)[0] for tree in trees]
        token = _GATHERED.set(found)
        try:
            with foreign.opened(files, folders=folders, trust=trust) as con:
                yield con
        finally:
            _GATHERED.reset(token)


@contextlib.contextmanager
def gathered(*names: str, folders: Iterable[Path] = ()) -> Iterator[Mapping[str, sources.Files]]:
    """Give the plain files of each source, see `duckanon.database.sources`, up to the end of the block."""
    with contextlib.ExitStack() as stack:
        room = _room(stack, [*folders, Path(), Path(tempfile.gettempdir())])
        yield {name: sources.gathered(name, room) for name in dict.fromkeys(names)}


def _room(stack: contextlib.ExitStack, parents: Iterable[Path]) -> Callable[[], Path]:
    """Private folder for copies of sources, in the first parent that takes one; made when it is needed."""
    made: list[Path] = []

    def room() -> Path:
        if not made:
            # A copy of the source would lie there until the next command.
            stack.enter_context(interrupts.terminable())
        for parent in () if made else parents:
            folder = stack.enter_context(drafts.spill(parent))
            if folder is not None:
                made.append(folder)
                break
        if not made:
            raise SourceError("no folder takes a private copy of the source: set TMPDIR to one that does")
        return made[0]

    return room


def relation(
    con: duckdb.DuckDBPyConnection,
    name: str,
    *,
    apart: Iterable[str] = (),
    typed: Iterable[str] | None = None,
    trust: bool = False,
    reading: Reading = AS_FOUND,
) -> str:
    """SQL text of the relation in ``file.csv``, ``file.parquet`` or ``file.duckdb:[schema.]table``."""
    # A database is attached read-only. Rows of a database or a Parquet file are copied to our own table,
    # since statistics in the file may be wrong; a wrong statistic is a SourceError. In a CSV, two texts of a
    # column in `apart` stay two values, such as 1 and 1.0: a reader of the file can tell them apart. Views
    # and computed columns are programs of the file's maker and run only with `trust`; the unchanged view of a
    # release needs no `trust`. See `read_csv` for `typed`.
    found = source(con, name, apart=apart, typed=typed, trust=trust, reading=reading)
    return found.relation if isinstance(found, Csv) else found


def source(
    con: duckdb.DuckDBPyConnection,
    name: str,
    *,
    apart: Iterable[str] = (),
    typed: Iterable[str] | None = None,
    trust: bool = False,
    reading: Reading = AS_FOUND,
) -> Csv | str:
    """CSV file, or for other files the relation of `relation`."""
    found = _GATHERED.get().get(name) or sources.plain(name)
    path, table = (found.path, None) if found.form else split(name)
    check_readable(path)
    if table is not None:
        return _rows(con, path, table, trust=trust)
    if found.form is not None:
        for number, file in enumerate(found.pieces or found.paths):
            sources.check_form(file, found.form, found.called(number))
    if found.form == "parquet":
        return _parquet(con, found)
    if found.form == "json":
        return _json(con, found, reading)
    if found.form == "csv":
        called = None if sources.is_plain(name) else name
        read = read_csv(con, path, apart=apart, typed=typed, reading=reading, called=called)
        if found.pieces:
            _check_joined(con, found, read)
        return read
    check_unpacked(path)
    if path.suffix.lower() not in DATABASES:
        sources.check_form(path, "csv", name)
    form = (
        f"{name}:table" if path.suffix.lower() in DATABASES else "file.csv, file.parquet or file.duckdb:table"
    )
    raise SourceError(f"{name!r}: give {form}")


def parts(con: duckdb.DuckDBPyConnection, name: str) -> list[str] | None:
    """Name of a table in its own database, with its schema unless that is ``main``; None for a plain file."""
    path, table = split(name) if local(name) else (Path(name), None)
    if table is None:
        return None
    schema, found, _ = _located(con, _attached(con, path), f"database {str(path)!r}", table)
    return [found] if schema == "main" else [schema, found]


def tables(con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """Names, as on the command line, of all tables and views of the database in ``file.duckdb:``."""
    path, table = split(name)
    if table is None:
        return []
    check_readable(path)
    found = _tables(con, _attached(con, path), "completion")
    return [
        f"{path}:{one if schema == 'main' else f'{schema}.{one}'}"
        for schema, one, _ in found
        if schema != SCHEMA
    ]


def columns(con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """Columns of a file, or of a table of stored rows, without reading the rows."""
    path, table = split(name)
    check_readable(path)
    if table is None:
        form = "parquet" if path.suffix.lower() == ".parquet" else "csv"
        relation = templates.render(
            "relation.sql.j2:file", name=path, form=form, headless=False, texts=True
        ).strip()
    else:
        stage = f"database {str(path)!r}"
        catalog = _attached(con, path)
        schema, found, _ = _located(con, catalog, stage, table)
        relation = relation_of(foreign.stored(con, Target(catalog, schema, found), stage))
    return [column for column, _ in columns_of(con, relation, "completion")]


def beside(name: str, ending: str) -> str:
    """Name with an ending: of a table in the same database, or of a file in the same folder."""
    path, table = split(name) if local(name) else (Path(name), None)
    if table is None:
        return str(path.with_name(f"{path.stem}{ending}{path.suffix}"))
    return f'{name[:-1]}{ending}"' if name.endswith('"') else f"{name}{ending}"


def recorded(con: duckdb.DuckDBPyConnection, name: str) -> tuple[str, RecordedRelease | None]:
    """Name of a release with its metadata, or with None if it has no metadata."""
    # A database with one release needs no table name. A SourceError if it has none or several.
    path, table = split(name) if local(name) else (Path(), None)
    if path.suffix.lower() not in DATABASES:
        return name, None
    check_readable(path)
    catalog = _attached(con, path)
    kinds = dict(engine.rows(con, templates.render("catalog/databases.sql.j2:with_releases"), "open"))
    if kinds.get(catalog) not in {"releases", "exported"}:
        return name, None
    stage = f"database {str(path)!r}"
    foreign.check_metadata(con, catalog, stage)
    with own_copy.room(con, [SCHEMA], stage) as room:
        lies = foreign.own_metadata(con, catalog, room, stage)
        if lies:
            raise SourceError(f"{stage}: {lies[0]}")
        releases = {_shown(release.target): release for release in read_releases(con, room, called=catalog)}
    if table is not None:
        known = {fold(text): release for text, release in releases.items()}
        quoted = {(fold(one.target.schema), fold(one.target.name)): one for one in releases.values()}
        found = known.get(fold(table)) or known.get(fold(table.removeprefix("main.")))
        return name, found or quoted.get(_quoted(table) or ("", ""))
    if len(releases) != 1:
        raise SourceError(f"database {str(path)!r}: which release? {listed('Releases', list(releases))}")
    ((text, release),) = releases.items()
    return f"{path}:{text}", release


def _shown(target: Target) -> str:
    return target.name if target.schema == "main" else f"{target.schema}.{target.name}"


def use(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach a database read-only and make it the current one; no attached database may have its name."""
    check_readable(path)
    catalog = _attached(con, path)
    engine.run(con, templates.render("session.sql.j2:use", catalog=catalog, schema="main"), "open")


def check_hierarchies(con: duckdb.DuckDBPyConnection, names: Iterable[str], *, trust: bool) -> None:
    """Raise if a hierarchy in an attached database is a view, which runs only with `trust`."""
    for name in () if trust else names:
        if Path(name).is_file():
            continue
        tree = parse_name(name)
        for catalog in _catalogs(con):
            for schema, table, _ in _tables(con, catalog, "hierarchy"):
                if fold(table) == fold(tree.name):
                    stored = foreign.stored(con, Target(catalog, schema, table), "hierarchy")
                    foreign.own_rows(con, relation_of(stored), f"hierarchy {name!r}", of=stored)


def _rows(con: duckdb.DuckDBPyConnection, path: Path, table: str, *, trust: bool) -> str:
    stage = f"database {str(path)!r}"
    catalog = _attached(con, path)
    stem = path.name.partition(".")[0]
    other = any(
        file and not path.samefile(file) and fold(name) == fold(stem) for name, file in _catalogs(con).items()
    )
    schema, name, view = _located(con, catalog, stage, table)
    target = Target(catalog, schema, name)
    if not trust:
        target = foreign.stored(con, target, stage)
        return foreign.own_rows(con, relation_of(target), stage, of=target)
    if view and other:
        raise SourceError(
            f"{stage}: two files are called {stem!r}, and a view may take one for the other: "
            "copy one of them to another name"
        )
    return foreign.own_rows(con, relation_of(target), stage, of=None if view else target)


def _attached(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Attach a database, once for all its tables, and return its catalog name."""
    stage = f"database {str(path)!r}"
    known = _catalogs(con)
    catalog = next((name for name, file in known.items() if file and path.samefile(file)), None)
    if catalog is None:
        if not database_of(path):
            sources.check_form(path, "csv", str(path))
            raise SourceError(
                f"{str(path)!r} is no DuckDB database: give a text an ending of its own, as .csv, and "
                "`duckanon audit` reads it"
            )
        foreign.check_database(path)
        catalog = _free(path.name.partition(".")[0], known)
        statement = templates.render(
            "catalog/databases.sql.j2:attach", path=path.absolute().as_posix(), catalog=catalog, new=False
        )
        engine.run(con, statement, stage, error=SourceError)
    return catalog


def _catalogs(con: duckdb.DuckDBPyConnection) -> dict[str, str | None]:
    """Return the attached databases with their files."""
    return {name: database.path for name, database in databases(con, "open").items()}


def _free(stem: str, known: Iterable[str]) -> str:
    """Return the catalog name that DuckDB gives to a file, since views may use it; if taken, a free name."""
    taken = {fold(name) for name in known}
    if fold(stem) not in taken | _RESERVED:
        return stem
    numbered = (f"source_{number}" for number in range(len(taken) + 1))
    return next(name for name in numbered if name not in taken)


def _located(con: duckdb.DuckDBPyConnection, catalog: str, stage: str, table: str) -> tuple[str, str, bool]:
    """Schema and name of a table of an attached database, and whether the table is a view."""
    tables = _tables(con, catalog, stage)
    shown = [name if schema == "main" else f"{schema}.{name}" for schema, name, _ in tables]
    # Own tables are found by name, and not proposed.
    offered = [name for name, (schema, *_) in zip(shown, tables, strict=True) if schema != "duckanon"]
    there = listed("Tables", offered)
    if not table:
        raise SourceError(f"{stage}: which table? {there}")
    matches = [
        one
        for one, short in zip(tables, shown, strict=True)
        if fold(table) in {fold(short), fold(f"{one[0]}.{one[1]}")}
    ] or [one for one in tables if _quoted(table) == (fold(one[0]), fold(one[1]))]
    if len(matches) > 1:
        written = " or ".join(f'"{schema}"."{name}"' for schema, name, _ in matches)
        raise SourceError(f"{stage}: {table!r} means two tables: write {written}")
    if not matches:
        raise SourceError(f"{stage}: there is no table {table!r}{suggestion(table, offered) or ':'} {there}")
    schema, name, view = matches[0]
    return str(schema), str(name), bool(view)


def _tables(con: duckdb.DuckDBPyConnection, catalog: str, stage: str) -> list[tuple[str, str, bool]]:
    """Schema and name of every table and view of an attached database, and whether it is a view."""
    tables: list[tuple[str, str, bool]] = engine.rows(
        con, templates.render("files/stored.sql.j2:tables", catalog=catalog), stage
    )
    return tables


def _quoted(table: str) -> tuple[str, str] | None:
    """Schema and name of a table that is written with quotes, as in SQL; None if it cannot be read."""
    try:
        parts = parse_name(table)
    except PolicyError:
        return None
    return None if parts.catalog else (fold(parts.schema or "main"), fold(parts.name))


def read_by_anyone(name: str, read: Csv | str) -> str:
    """Relation, as SQL text, by which any reader reads the files of a source that is no database."""
    found = _GATHERED.get().get(name) or sources.plain(name)
    if sources.is_plain(name):
        if isinstance(read, Csv):
            return read.relation
        return foreign.parquet(found.path) if found.form == "parquet" else _of_json(found.paths, AS_FOUND)
    shown = "/dev/stdin" if name == sources.STDIN else name
    if local(name) and Path(name).is_dir():
        endings = {Path(one).name.partition(".")[2] for one in found.origins}
        shown = f"{name.rstrip('/')}/**/*.{endings.pop()}"
    return read.form.relation(given=shown) if isinstance(read, Csv) else _as_written(found, shown)


def stem(name: str) -> str:
    """Name for what is made of a source: of its file without endings, or of its folder."""
    if name == sources.STDIN:
        return "stdin"
    if sources.is_plain(name):
        return split(name)[0].stem
    plain = (re.sub(r"\W+", "_", part.partition(".")[0]).strip("_") for part in reversed(Path(name).parts))
    return next((part for part in plain if part), "source")


def _as_written(found: sources.Files, shown: str) -> str:
    types = list(foreign.types_of_folders(found).items())
    return templates.render("relation.sql.j2:as_written", name=shown, form=found.form, types=types).strip()


def _of_json(
    paths: Iterable[Path], reading: Reading, columns: Mapping[str, str] = MappingProxyType({})
) -> str:
    return templates.render(
        "relation.sql.j2:json", names=list(paths), columns=list(columns.items()), dates=reading.date_format
    ).strip()


def _check_joined(con: duckdb.DuckDBPyConnection, found: sources.Files, read: Csv) -> None:
    """Raise if joined CSV files have other records than alone, as where a quote in one ends in the next."""
    if read.form.has_preface:
        raise SourceError(
            f"{found.name!r}: lines before the header or comments in files that are read as one: "
            "leave them out"
        )
    form = read.form.typed({}).as_written
    relations = [replace(form, path=path).relation() for path in (found.path, *found.pieces)]
    queries = [templates.render("relation.sql.j2:count", relation=one) for one in relations]
    whole, *alone = [int(engine.rows(con, one, found.stage, error=SourceError)[0][0]) for one in queries]
    if whole != sum(alone):
        raise SourceError(
            f"{found.stage}: its files have {sum(alone)} records, and {whole} when read as one: a quote in "
            "one of them has no end"
        )


def _parquet(con: duckdb.DuckDBPyConnection, found: sources.Files) -> str:
    for place, path in enumerate(found.paths):
        query = templates.render("files/stated.sql.j2:parquet_names", path=path)
        columns, inside = [], 0
        # The first entry is the root. The columns inside a column follow that column.
        for name, children, _ in engine.rows(con, query, found.stage, error=SourceError)[1:]:
            if inside:
                inside -= 1
            else:
                columns.append(name)
            inside += children
        again = twice(columns)
        if again is not None:
            raise SourceError(
                f"file {found.called(place)!r}: the file has the column {again!r} twice: rename one"
            )
    return foreign.own_files(con, found)


def _json(con: duckdb.DuckDBPyConnection, found: sources.Files, reading: Reading) -> str:
    """Our table with the rows of JSON files; the records of all files tell the types."""
    keys = [_keys(con, [path], found, reading) for path in found.paths]
    other = next((place for place, one in enumerate(keys) if one.keys() != keys[0].keys()), None)
    if other is not None:
        key = next(iter(keys[0].keys() ^ keys[other].keys()))
        raise SourceError(
            f"{found.stage}: {found.called(0)!r} and {found.called(other)!r} have different keys, as "
            f"{key!r}; a record of every file must have all keys, null without a value"
        )
    columns = _keys(con, found.paths, found, reading) if len(keys) > 1 else keys[0]
    _check_digits(con, found, reading, [name for name, kind in columns.items() if kind == "DOUBLE"])
    relations = [_of_json([path], reading, columns) for path in found.paths]
    return foreign.own_parts(con, found, relations, list(columns))


def _check_digits(
    con: duckdb.DuckDBPyConnection, found: sources.Files, reading: Reading, columns: list[str]
) -> None:
    """Raise if a whole number in a column that would be DOUBLE has more digits than a DOUBLE keeps."""
    if not columns:
        return
    raw = _of_json(found.paths, reading, dict.fromkeys(columns, "JSON"))
    query = templates.render("files/stored.sql.j2:json_lost", relation=raw, columns=columns)
    (lost,) = engine.rows(con, query, found.stage, error=SourceError)
    name = next((name for name, one in zip(columns, lost, strict=True) if one), None)
    if name is not None:
        raise SourceError(
            f"{found.stage}: column {name!r} has a whole number of more digits than DOUBLE keeps: "
            "write these numbers as texts"
        )


def _keys(
    con: duckdb.DuckDBPyConnection, paths: Iterable[Path], found: sources.Files, reading: Reading
) -> dict[str, str]:
    """Keys of the records of JSON files with their types; a SourceError if they are no objects."""
    keys = dict(columns_of(con, _of_json(paths, reading), found.stage))
    if list(keys) == ["json"]:
        raise SourceError(f'{found.stage}: its records are no objects: give such as {{"age": 31}}')
    # DuckDB calls the second of two keys that differ by case alone A_1, and then finds no value of it.
    short = {fold(name) for name in keys}
    renamed = [name for name in keys if _NUMBERED.fullmatch(name) and fold(name.rpartition("_")[0]) in short]
    if renamed:
        raw = _of_json(paths, reading, dict.fromkeys(renamed, "JSON"))
        query = templates.render("files/stored.sql.j2:json_absent", relation=raw, columns=renamed)
        (absent,) = engine.rows(con, query, found.stage, error=SourceError)
        name = next((name for name, one in zip(renamed, absent, strict=True) if one), None)
        if name is not None:
            key = name.rpartition("_")[0]
            raise SourceError(f"{found.stage}: the key {key!r} is there with another case, too: rename one")
    return keys
