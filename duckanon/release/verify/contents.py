"""Contents of a database beside its releases; an exported file may have only the macros of EXPORT."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.database import engine, file_room, templates
from duckanon.database.relations import columns_of, databases, subquery
from duckanon.errors import DuckanonError
from duckanon.release.exported_file import (
    CHECK,
    Exported,
    attach,
    check_query,
    comments,
    detach,
    proved_of,
    write_macros,
)
from duckanon.release.metadata import METADATA, SCHEMA
from duckanon.release.tables import parts_of
from duckanon.release.verify.record import STAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckanon.release.verify.record import RecordedRelease

_PROGRAMS = ("duckanon", "DuckDB")

_EXCLUDED = re.compile(r"EXCLUDE \(([^()]*)\)")

_WORDS = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[\w.]+|\S")
"""Words of SQL; a quoted name is one word."""

Macro = tuple[str, str]
"""Schema and name."""


@dataclass(frozen=True)
class Held:
    """Contents of a database beside its releases."""

    differences: tuple[str, ...]  # metadata without a release; in an exported file, contents not by EXPORT
    notes: tuple[str, ...]  # macros that cannot be checked, because another version wrote the file
    macros: bool | None  # whether macros, check and comments are EXPORT's; None for the owner's database


@dataclass(frozen=True)
class _ExportWrites:
    """Contents that EXPORT of this version writes into every file."""

    macros: Mapping[Macro, list[tuple[Any, ...]]]
    defaults: Mapping[Macro, str]
    columns: frozenset[str]


def held(con: duckdb.DuckDBPyConnection, home: str, told: str, recorded: Sequence[RecordedRelease]) -> Held:
    """Contents of a database that do not belong to its releases; the owner's own database may have any.

    `told` is the database with the copy of the metadata. On `con` names mean DuckDB's own functions, whatever
    the file contains.
    """
    differences = [*_metadata(con, told, recorded), *_collated(con, home, recorded)]
    if not recorded[0].exported:
        return Held(tuple(differences), (), None)
    written = _written()
    differences += [
        f"the file holds the {what}, which EXPORT does not write"
        for what in _others(con, home, recorded, written)
    ]
    beside, notes = _beside_the_blocks(con, home, recorded)
    differences += beside
    if len(recorded) > 1:
        differences.append(f"the file records {len(recorded)} releases, and EXPORT writes one")
    macros = [*_macros_that_differ(con, home, written), *_words_that_differ(con, home, recorded)]
    programs = version("duckanon"), duckdb.__version__
    writers = _writers(recorded)
    if programs in writers or not macros:
        return Held((*differences, *macros), notes, not macros)
    return Held(tuple(differences), (*notes, _unknown(macros, programs, writers[0])), macros=False)


def _metadata(
    con: duckdb.DuckDBPyConnection, told: str, recorded: Sequence[RecordedRelease]
) -> Iterator[str]:
    """Tell where the tables of the metadata contradict each other."""
    for number, times in Counter(release.release_id for release in recorded).items():
        if times > 1:
            yield f"{SCHEMA}.releases names release {number} {times} times"
    query = templates.render("evidence/recorded.sql.j2:strays", catalog=told, metadata=METADATA[1:])
    for table, number, rows in engine.rows(con, query, STAGE):
        what = f"{rows} row{'' if rows == 1 else 's'} of release {number}"
        yield f"{SCHEMA}.{table} has {what}, which {SCHEMA}.releases does not name"


def _collated(
    con: duckdb.DuckDBPyConnection, home: str, recorded: Sequence[RecordedRelease]
) -> Iterator[str]:
    """Tell which columns of a release or of the metadata have a collation, which changes equality.

    duckanon compares texts byte by byte. It writes at most COLLATE C, which does the same.
    """
    tables = {(SCHEMA, name) for name in METADATA}
    for release in recorded:
        schema, name = ("main", release.target.name) if release.exported else (SCHEMA, release.table)
        tables |= {(schema, part.of(name)) for part in parts_of(release.released)}
        tables |= {(SCHEMA, str(column.tree)) for column in release.columns}
    query = templates.render("evidence/contents.sql.j2:declared", catalog=home)
    for schema, table, text in engine.rows(con, query, STAGE):
        words = _WORDS.findall(text) if (schema, table) in tables else []
        for word, collation in pairwise(words):
            if word == "COLLATE" and collation.strip('"').lower() != "c":
                yield (
                    f"a column of {schema}.{table} has the collation {collation}, by which different texts "
                    "are one value to whoever queries it: duckanon writes none"
                )


def _beside_the_blocks(
    con: duckdb.DuckDBPyConnection, home: str, recorded: Sequence[RecordedRelease]
) -> tuple[list[str], tuple[str, ...]]:
    """Tell what is behind the end of an exported file and beside it, and note the contents of free blocks."""
    database = databases(con, STAGE).get(home)
    if database is None or database.path is None:
        return [], ()
    file = Path(database.path)
    differences: list[str] = []
    log = file.with_name(f"{file.name}.wal")
    if log.exists():
        differences.append(
            f"{log.name!r} lies beside the file, and DuckDB reads it as a part of it: EXPORT leaves none"
        )
    try:
        room = file_room.room(file)
        filled = file_room.filled(file, room)
    except (OSError, ValueError) as failure:
        return [*differences, f"the blocks of the file cannot be told apart: {failure}"], ()
    differences += file_room.strange_headers(file)
    if room.behind:
        differences.append(f"the file goes on for {room.behind} bytes behind its last block")
    if filled and any(audit.statement == "export" for release in recorded for audit in release.audits):
        which = "1 free block of the file is" if filled == 1 else f"{filled} free blocks of the file are"
        note = (
            f"{which} not empty, as EXPORT leaves every one: something was written later, and what was "
            "deleted may still lie there"
        )
        return differences, (note,)
    return differences, ()


def _unknown(macros: Sequence[str], programs: tuple[str, str], writer: tuple[str | None, str | None]) -> str:
    here, there = (
        " with ".join(
            f"{name} {number or 'of unknown version'}" for name, number in zip(_PROGRAMS, one, strict=True)
        )
        for one in (programs, writer)
    )
    return (
        f"the record says that {there} wrote the file, and this is {here}, so nobody vouches for its audit "
        f"macros: {'; '.join(macros)}; ask those of sql/install.sql"
    )


def _writers(recorded: Sequence[RecordedRelease]) -> list[tuple[str | None, str | None]]:
    """Programs that wrote the file, according to the file."""
    audits = [audit for release in recorded for audit in release.audits if audit.statement == "export"]
    return [(audit.duckanon_version, audit.duckdb_version) for audit in audits] or [
        (release.duckanon_version, None) for release in recorded
    ]


def _others(
    con: duckdb.DuckDBPyConnection, home: str, recorded: Sequence[RecordedRelease], written: _ExportWrites
) -> Iterator[str]:
    ours = {
        f"table main.{part.of(release.target.name)}"
        for release in recorded
        for part in parts_of(release.released)
    }
    ours |= {f"schema {SCHEMA}", f"view {SCHEMA}.{CHECK}"}
    ours |= {f"table {SCHEMA}.{name}" for name in METADATA} | written.columns
    ours |= {f"table {SCHEMA}.{column.tree}" for release in recorded for column in release.columns}
    ours |= {f"table {SCHEMA}.{proof}" for release in recorded for proof in release.proofs.values()}
    ours |= {f"table {SCHEMA}.{release.supersets}" for release in recorded if release.supersets}
    query = templates.render("evidence/contents.sql.j2:objects", catalog=home, metadata=METADATA)
    for kind, schema, name in engine.rows(con, query, STAGE):
        what = f"{kind} {name if schema is None else f'{schema}.{name}'}"
        if what not in ours:
            yield what


def _macros_that_differ(con: duckdb.DuckDBPyConnection, home: str, written: _ExportWrites) -> Iterator[str]:
    macros = _macros(con, home)
    program = f"duckanon {version('duckanon')}"
    for key, forms in written.macros.items():
        name = ".".join(key)
        if key not in macros:
            yield f"the macro {name} is missing"
        elif macros[key] != forms or _defaults(con, home, key) != written.defaults[key]:
            yield f"the macro {name} is not the one that {program} writes: ask it nothing"
    for key in macros:
        if key not in written.macros:
            yield f"the file holds the macro {'.'.join(key)}, which EXPORT does not write"


def _words_that_differ(
    con: duckdb.DuckDBPyConnection, home: str, recorded: Sequence[RecordedRelease]
) -> Iterator[str]:
    """Tell what the file says about itself that EXPORT of the recorded release does not write.

    A missing comment says nothing false.
    """
    release = recorded[0]
    place = f"{SCHEMA}.{CHECK}"
    try:
        columns = [(str(column.name), str(column.type)) for column in release.columns]
        proved = proved_of(release.thresholds)
        exported = Exported(
            release.target.name,
            columns,
            release.released,
            release.asked(),
            proved,
            release.proofs,
            release.supersets,
        )
        ours, expected = _is_check(con, home, check_query(exported)), comments(exported)
    except DuckanonError as failure:
        yield f"the view {place} cannot be compared: {failure}"
        return
    if ours is None:
        yield f"the view {place} is missing"
    elif not ours:
        yield f"the view {place} is not the one that duckanon {version('duckanon')} writes: ask it nothing"
    known = {(comment.about, comment.text) for comment in expected}
    query = templates.render("evidence/contents.sql.j2:comments", catalog=home)
    for kind, schema, name, text in engine.rows(con, query, STAGE):
        about = f"comment on {kind} {name if schema is None else f'{schema}.{name}'}"
        if (about, text) not in known:
            yield f"the file holds the {about}, which EXPORT does not write"


def _is_check(con: duckdb.DuckDBPyConnection, home: str, query: str) -> bool | None:
    """Whether the view of the file has exactly this query; None without a view. It is not run."""
    values = {"catalog": home, "schema": SCHEMA, "view": CHECK, "query": query}
    rows = engine.rows(con, templates.render("evidence/contents.sql.j2:check", **values), STAGE)
    return bool(rows[0][0]) if rows else None


@cache
def _written() -> _ExportWrites:
    """Write a file by EXPORT, because DuckDB changes the text of a stored macro."""
    with tempfile.TemporaryDirectory() as folder, engine.in_memory() as fresh:
        file = Path(folder) / "written.duckdb"
        attach(fresh, file, new=True)
        engine.run(fresh, templates.render("publish/metadata.sql.j2", catalog="export"), STAGE)
        write_macros(fresh)
        detach(fresh)
        attach(fresh, file, new=False)
        macros = _macros(fresh, "export")
        columns = {
            f"column {SCHEMA}.{table}.{name} {kind}"
            for table in METADATA
            for name, kind in _columns(fresh, table)
        }
        defaults = {key: _defaults(fresh, "export", key) for key in macros}
        return _ExportWrites(macros, defaults, frozenset(columns))


def _columns(con: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    """Names and types of the exported columns of a metadata table."""
    values = {"catalog": "export", "table": table, "release_id": 0, "view": ""}
    return columns_of(con, subquery(templates.render("export/contents.sql.j2:metadata", **values)), STAGE)


def _macros(con: duckdb.DuckDBPyConnection, home: str) -> dict[Macro, list[tuple[Any, ...]]]:
    forms: dict[Macro, list[tuple[Any, ...]]] = {}
    query = templates.render("evidence/contents.sql.j2:macros", catalog=home)
    for schema, name, kind, parameters, types, definition in engine.rows(con, query, STAGE):
        form = (kind, parameters, types, _in_order(definition))
        forms.setdefault((schema, name), []).append(form)
    return forms


def _in_order(definition: str) -> str:
    """Sort the names after EXCLUDE, whose order DuckDB changes at every checkpoint."""
    return _EXCLUDED.sub(lambda match: f"EXCLUDE ({', '.join(sorted(match[1].split(', ')))})", definition)


def _defaults(con: duckdb.DuckDBPyConnection, home: str, macro: Macro) -> str:
    """Parameters of a macro with their defaults, which are in no table of the catalog."""
    schema, name = macro
    query = templates.render("evidence/contents.sql.j2:signature", catalog=home, schema=schema, name=name)
    try:
        engine.rows(con, query, STAGE)
    except DuckanonError as refused:
        return str(refused.__cause__).partition("Candidate macros:")[2]
    return ""
