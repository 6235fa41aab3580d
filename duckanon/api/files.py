"""Files and tables named on the command line, such as ``patients.csv`` or ``hospital.duckdb:patients``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.database import engine, own_copy, templates
from duckanon.database.csv_files import AS_FOUND, Csv, Reading, read_csv
from duckanon.database.paths import DATABASES, check_readable, check_unpacked, split
from duckanon.database.relations import Target, columns_of, databases, relation_of
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.names import fold, listed, suggestion, twice
from duckanon.release import foreign
from duckanon.release.metadata import SCHEMA
from duckanon.release.verify.record import read_releases
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    import duckdb

from duckanon.release.verify.record import RecordedRelease

# Names of DuckDB's catalogs and schemas, and of our metadata schema: a database of such a name would hide
# them.
_RESERVED = frozenset(
    {"memory", "system", "temp", "main", "duckanon", "information_schema", "pg_catalog", ""}
)


def opened(
    *names: str | Path, folders: Iterable[Path] = (), trust: bool = False
) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """Connection in memory that reaches the files named on the command line, and no other file."""
    # Files may be written in `folders`. With `trust` the views of the user's own files run without limits.
    return foreign.opened([split(str(name))[0] for name in names], folders=folders, trust=trust)


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
    path, table = split(name)
    check_readable(path)
    if table is not None:
        return _rows(con, path, table, trust=trust)
    if path.suffix.lower() == ".parquet":
        return _parquet(con, path)
    if path.suffix.lower() in {".csv", ".tsv"}:
        return read_csv(con, path, apart=apart, typed=typed, reading=reading)
    check_unpacked(path)
    form = (
        f"{name}:table" if path.suffix.lower() in DATABASES else "file.csv, file.parquet or file.duckdb:table"
    )
    raise SourceError(f"{name!r}: give {form}")


def parts(con: duckdb.DuckDBPyConnection, name: str) -> list[str] | None:
    """Name of a table in its own database, with its schema unless that is ``main``; None for a plain file."""
    path, table = split(name)
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
    path, table = split(name)
    if table is None:
        return str(path.with_name(f"{path.stem}{ending}{path.suffix}"))
    return f'{name[:-1]}{ending}"' if name.endswith('"') else f"{name}{ending}"


def recorded(con: duckdb.DuckDBPyConnection, name: str) -> tuple[str, RecordedRelease | None]:
    """Name of a release with its metadata, or with None if it has no metadata."""
    # A database with one release needs no table name. A SourceError if it has none or several.
    path, table = split(name)
    check_readable(path)
    if path.suffix.lower() not in DATABASES:
        return name, None
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
        return name, known.get(fold(table)) or known.get(fold(table.removeprefix("main.")))
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


def read_by_anyone(name: str, relation: str) -> str:
    """Relation, as SQL text, by which any reader reads a plain file; `relation` is the one used here."""
    path, _ = split(name)
    return _of_parquet(path) if path.suffix.lower() == ".parquet" else relation


def _of_parquet(path: Path) -> str:
    return templates.render("relation.sql.j2:file", name=path, form="parquet").strip()


def _parquet(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    stage = f"file {str(path)!r}"
    query = templates.render("files/stated.sql.j2:parquet_names", path=path)
    columns, inside = [], 0
    # The first entry is the root. The columns inside a column follow that column.
    for name, children, _ in engine.rows(con, query, stage, error=SourceError)[1:]:
        if inside:
            inside -= 1
        else:
            columns.append(name)
        inside += children
    again = twice(columns)
    if again is not None:
        raise SourceError(f"{stage}: the file has the column {again!r} twice: rename one")
    return foreign.own_rows(con, _of_parquet(path), stage, of=path)
