"""Successive releases: what a new release and an earlier one together reveal about fewer than k subjects.

For each release the database of its view keeps the subjects of each class and the sensitive values of each
class. These are digests and numbers, never values of rows. A change of rows is checked twice. In classes: two
classes may share too few subjects or too few sensitive values (m-invariance: Xiao and Tao, SIGMOD 2007). In
the whole: a mean is a sum, and the difference of two sums reveals the subjects that came or left.
"""

from __future__ import annotations

import glob
import math
import re
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb

from duckanon.database import engine, templates
from duckanon.database.relations import columns_of
from duckanon.errors import ReleaseError
from duckanon.policy.names import fold
from duckanon.release import metadata
from duckanon.release.findings import STAGE, Difference, sentences
from duckanon.release.stages.recode import in_step, labelled_relation, placed_relation
from duckanon.statements.tokens import tokenize, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from duckanon.database.relations import Target
    from duckanon.policy.bind import Attribute
    from duckanon.policy.checks import Intersection
    from duckanon.release.metadata import Published
    from duckanon.release.pipeline import Candidate
    from duckanon.release.source import Source
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged, SubjectColumn

C = TypeVar("C", "Field", "Attribute")

ANY_SOURCE = "*"
"""Source of a release whose query names no table and no file, so that it may be any source."""

HISTORY = "history"
"""Table, in schema `metadata.SCHEMA`, with one row for each `Kept` release."""

HISTORY_COLUMNS = (
    *(("release_id", "INTEGER"), ("lineage", "INTEGER"), ("made_at", "TIMESTAMP"), ("view_name", "VARCHAR")),
    *(("mode", "VARCHAR"), ("k", "INTEGER"), ("basis", "VARCHAR"), ("columns", "VARCHAR")),
    *(("sources", "VARCHAR[]"), ("salt", "VARCHAR"), ("schema_version", "INTEGER")),
)


DIGESTED_VALUE_RECORDS = 4
"""Least number of records for each value from which digests are computed by value."""

DIGESTS = 4
"""Version of the recorded digests; a history of another version is refused."""


@dataclass(frozen=True)
class Kept:
    """A release whose class memberships were recorded."""

    release_id: int
    lineage: int  # number of the first release of its view
    made_at: datetime
    view_name: str
    mode: str  # full or append
    k: int
    basis: str  # columns that identify its subjects, with their types
    columns: str  # released columns, with their types
    sources: Sequence[str]  # tables of its query
    salt: str  # of the digests; one for a database

    def __str__(self) -> str:
        """Name the release for its owner."""
        return f"release {self.release_id} of {self.view_name} ({self.made_at:%Y-%m-%d %H:%M})"


@dataclass(frozen=True)
class Persons:
    """Class memberships of a candidate in temporary tables, and the columns that identify subjects."""

    persons: str  # temporary table (who, class, records, what)
    sensitive: str  # temporary table (class, attribute, value, records)
    basis: str
    columns: str
    sources: tuple[str, ...]
    salt: str
    k: int
    by_subject: bool  # else each record is a subject, identified by its released values
    least: tuple[tuple[str, int], ...]  # required common values, by sensitive column
    compared: tuple[tuple[int, datetime], ...]  # releases that were kept at the comparison
    published: int = 0  # number of first classes that were published before and stay


def kept(con: duckdb.DuckDBPyConnection, catalog: str) -> list[Kept]:
    """Releases in a database whose class memberships were recorded, the oldest first."""
    there = metadata.tables(con, catalog)
    return [one for one in _history(con, catalog, there) or [] if {*tables_of(one.release_id)} <= there]


def _history(con: duckdb.DuckDBPyConnection, catalog: str, there: set[str]) -> list[Kept] | None:
    """Return the history of a database without emptied lines; None if the table is not ours."""
    if HISTORY not in there:
        return []
    if tuple(columns_of(con, metadata.backing(catalog, HISTORY), STAGE)) != HISTORY_COLUMNS:
        return None
    query = templates.render("successive/kept.sql.j2:kept", catalog=catalog)
    rows = [row for row in engine.rows(con, query, STAGE, error=ReleaseError) if None not in row]
    for *_, version in rows:
        if version != DIGESTS:
            raise ReleaseError(
                f"the table {catalog}.{metadata.SCHEMA}.{HISTORY} has digests of version {version}, and this "
                f"duckanon reads version {DIGESTS}: use the duckanon that wrote it"
            )
    return [Kept(*row[:-1]) for row in rows]


def tables_of(release_id: int) -> tuple[str, str]:
    """Tables, in schema `metadata.SCHEMA`, of the class memberships of a release."""
    return f"persons_{release_id}", f"values_{release_id}"


def persons_of(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, source: Source, earlier: Sequence[Kept]
) -> Persons:
    """Class memberships of a candidate. O(n), one MD5 for each record and sensitive value.

    Names are looked up where the source was written.
    """
    staged, policy = candidate.staged, candidate.policy
    sensitive = f"{staged.workspace}_values"
    salt = earlier[0].salt if earlier else secrets.token_hex(16)
    released = in_order(staged.fields)
    persons = _persons(con, candidate, released, salt=salt)
    embedded = candidate.embedded
    values = templates.render(
        "successive/digest.sql.j2:values",
        values=sensitive,
        fields=staged.sensitive,
        labelled=labelled_relation(staged),
        domains={field.column: _domain(staged, embedded, field) for field in staged.sensitive},
    )
    engine.run(con, values, STAGE)
    least = tuple((field.name, max(2, math.ceil(field.attribute.l or 0))) for field in staged.sensitive)
    sources = _sources(con, source.query)
    # Digests of two releases are comparable if they cover the same columns.
    columns = listed(con, released)
    basis = (
        basis_of(con, staged.subject_columns)
        if staged.subject_columns
        else f"what is released of them: {columns}"
    )
    compared = _compared(earlier)
    by_subject = bool(policy.subject)
    return Persons(persons, sensitive, basis, columns, sources, salt, policy.k, by_subject, least, compared)


def _compared(earlier: Sequence[Kept]) -> tuple[tuple[int, datetime], ...]:
    """Releases by number and time, because numbers of dropped releases are reused."""
    return tuple((one.release_id, one.made_at) for one in earlier)


def _persons(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, released: Sequence[Field], *, salt: str
) -> str:
    """Make the table of class memberships, see successive/persons.sql.j2."""
    staged, subject = candidate.staged, bool(candidate.policy.subject)
    persons, digests = f"{staged.workspace}_persons", f"{staged.workspace}_digests"
    statement = templates.render(
        "successive/digest.sql.j2:digests",
        digests=digests,
        records=staged.records,
        columns=[(f"record.{field.column}", field.type) for field in released],
        subject=subject,
        salt=salt,
    )
    engine.run(con, statement, STAGE)
    step = candidate.recoded.in_step and in_step(con, staged, digests)
    statement = templates.render(
        "successive/digest.sql.j2:persons",
        persons=persons,
        digests=digests,
        placed=placed_relation(staged) if step else labelled_relation(staged),
        in_step=step,
        subject=subject,
    )
    engine.run(con, statement, STAGE)
    return persons


def _domain(staged: Staged, embedded: Embedded, field: Field) -> str | None:
    """Table of the values of a column, if digests by value cost less than digests by record; else None.

    Equal values have one digest, so columns of unknown types, whose equality is unknown, are excluded.
    """
    few = len(embedded.counts[field.column]) < staged.size // DIGESTED_VALUE_RECORDS
    return embedded.domains[field.column] if few and field.kind != "other" else None


def in_order(columns: Iterable[C]) -> list[C]:
    """Columns by name, so that the order in the source has no effect."""
    return sorted(columns, key=lambda one: fold(one.name))


def basis_of(con: duckdb.DuckDBPyConnection, subject_columns: Sequence[SubjectColumn]) -> str:
    """Columns that identify subjects."""
    return f"subject: {listed(con, subject_columns)}"


def listed(con: duckdb.DuckDBPyConnection, columns: Iterable[SubjectColumn | Field]) -> str:
    """Columns with their types, if equal values have other texts in another type or session."""
    zone = engine.rows(con, templates.render("successive/kept.sql.j2:zone"), STAGE)[0][0]
    return ", ".join(f"{fold(one.name)} {_type(one, zone)}" for one in columns)


def _type(one: SubjectColumn | Field, zone: str) -> str:
    alike = {"text": "VARCHAR", "integer": "INTEGER"}.get(one.kind, one.type)
    # Only the text of a plain instant is always in UTC.
    nested = one.type != "TIMESTAMP WITH TIME ZONE" and re.search("TIMESTAMP WITH TIME|TIMESTAMPTZ", alike)
    return f"{alike} in {zone}" if nested else alike


def _sources(con: duckdb.DuckDBPyConnection, query: str) -> tuple[str, ...]:
    """Tables (without schema, behind views) and files of a query; `ANY_SOURCE` if it names none."""
    try:
        names = con.get_table_names(query)
    except duckdb.Error:
        names = set()
    texts = [unquoted(token) for token in tokenize(query) if token.kind == "string"]
    files = {str(Path(path).resolve()) for text in {*texts, *names} for path in _files(text)}
    return tuple(sorted({fold(name) for name in names if not _files(name)} | files or {ANY_SOURCE}))


def _files(text: str) -> list[str]:
    """Return the local files that a text names, possibly by a pattern."""
    try:
        return glob.glob(text, recursive=True)
    except (OSError, ValueError):
        return []


def compared(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    persons: Persons,
    target: Target,
    earlier: Sequence[Kept],
    on_intersection: Intersection,
) -> Candidate:
    """The candidate with warnings of what it and earlier releases reveal about fewer than k subjects.

    With ``on_intersection = 'error'`` a ReleaseError instead, and nothing is released.
    """
    said = told(con, target, candidate, persons, earlier)
    if said and on_intersection == "error":
        raise ReleaseError(f"nothing was released, by on_intersection = 'error': {said[0]}")
    report = replace(candidate.report, warnings=(*candidate.report.warnings, *said))
    return replace(candidate, report=report)


def told(
    con: duckdb.DuckDBPyConnection,
    target: Target,
    candidate: Candidate,
    persons: Persons,
    earlier: Sequence[Kept],
) -> tuple[str, ...]:
    """What a candidate and earlier releases reveal about fewer than k subjects; empty if nothing.

    Compares all releases of the replaced view, and releases of other views over the same tables. A release
    with other subject columns cannot be compared, and a sentence says so. O(n log n) for each.
    """
    catalog, replaced = target.catalog, metadata.recorded(con, target)
    lineages = _lineages(earlier, replaced)
    standing = metadata.standing(con, replaced)
    texts = []
    if standing is not None and standing.release_id not in {one.release_id for one in earlier}:
        texts.append(
            f"of release {standing.release_id} of {target} nothing was kept to compare this one with: what "
            "both say together is not known"
        )
    findings: list[str] = []
    for one in reversed(earlier):
        same_view = one.lineage in lineages
        # A query that names no table may have any source.
        common = {*one.sources} & {*persons.sources} or ANY_SOURCE in {*one.sources, *persons.sources}
        if not (same_view or common):
            continue
        if one.basis != persons.basis:
            # A report may be passed on. The subject columns may be dropped columns, so they are not named.
            texts.append(
                f"{one} knows its subjects by other columns or types than this one: what both say together "
                "is not known"
            )
        else:
            finding = _finding(con, catalog, candidate, persons, one, same_view=same_view)
            findings += [finding] if finding else []
    more = f" (and with {len(findings) - 1} more of them)" if len(findings) > 1 else ""
    return (*texts[:1], *(f"{text}{more}" for text in findings[:1]))


def _lineages(earlier: Sequence[Kept], replaced: Sequence[Published]) -> set[int]:
    numbers = {one.release_id for one in replaced}
    return {one.lineage for one in earlier if one.release_id in numbers}


def _finding(
    con: duckdb.DuckDBPyConnection,
    catalog: str,
    candidate: Candidate,
    persons: Persons,
    one: Kept,
    *,
    same_view: bool,
) -> str | None:
    """What a candidate and one earlier release reveal about fewer than k subjects, if anything."""
    k = max(persons.k, one.k)
    difference = compare(con, catalog, persons, one)
    said = sentences(
        con,
        candidate,
        difference,
        k=k,
        by_subject=persons.by_subject,
        least=dict(persons.least),
        published=persons.published,
    )
    other = one.columns != persons.columns
    if other and same_view:
        said.append("whether values changed is not known, for it released other columns")
    if not said:
        return None
    appended = persons.published or candidate.policy.release != "table"
    way = "give out one of the two"
    if same_view and not appended:
        way = "REFRESH ... WITH (mode = 'append') leaves published classes as they are"
        way = way if persons.by_subject else f"with subject = (...), {way}"
    return f"together with {one} it tells of fewer than k = {k} subjects: {'; '.join(said)}; {way}"


def compare(con: duckdb.DuckDBPyConnection, catalog: str, persons: Persons, one: Kept) -> Difference:
    """Difference of a candidate and an earlier release with the same subject columns."""
    query = templates.render(
        "successive/compare.sql.j2",
        catalog=catalog,
        release_id=one.release_id,
        persons=persons.persons,
        sensitive=persons.sensitive,
        subject=persons.by_subject,
        k=max(persons.k, one.k),
        least=persons.least,
        alike=one.columns == persons.columns,
        published=persons.published,
    )
    return Difference(*engine.rows(con, query, STAGE, error=ReleaseError)[0])


def keep(
    con: duckdb.DuckDBPyConnection,
    persons: Persons,
    target: Target,
    release_id: int,
    replaced: Sequence[Published],
    *,
    mode: str,
) -> None:
    """Record the class memberships of a release; the caller owns the transaction.

    A ReleaseError if another release was recorded after the comparison.
    """
    catalog, earlier = target.catalog, kept(con, target.catalog)
    if persons.compared != _compared(earlier):
        raise metadata.meanwhile(catalog)
    _run(con, "successive/kept.sql.j2:history", catalog=catalog, columns=HISTORY_COLUMNS)
    if _history(con, catalog, {HISTORY}) is None:
        raise ReleaseError(
            f"table duckanon.{HISTORY} of {catalog} is not as duckanon makes it: DROP it; what earlier "
            "releases and later ones say together is not known then"
        )
    lineages = _lineages(earlier, replaced)
    _run(
        con,
        "successive/kept.sql.j2:keep",
        catalog=catalog,
        release_id=release_id,
        lineage=min(lineages, default=release_id),
        schema_version=DIGESTS,
        view=str(target),
        mode=mode,
        made=persons,
    )


def waits(con: duckdb.DuckDBPyConnection, catalog: str, release: Kept) -> None:
    """Mark a release as appended, although nothing could be appended yet."""
    if release.mode != "append":
        _run(con, "successive/kept.sql.j2:waits", catalog=catalog, release_id=release.release_id)


def forget(con: duckdb.DuckDBPyConnection, catalog: str, release_id: int) -> None:
    """Remove the records of all releases of a release's view, unless another release of the view stands.

    The caller owns the transaction. A replaced release may still have an audit by another connection.
    """
    there = metadata.tables(con, catalog)
    history = _history(con, catalog, there)
    lineages = {one.lineage for one in history or [] if one.release_id == release_id}
    numbers = {release_id, *(one.release_id for one in history or [] if one.lineage in lineages)}
    others = sorted(numbers - {release_id})
    if others:
        query = templates.render("successive/kept.sql.j2:standing", catalog=catalog, numbers=others)
        if engine.rows(con, query, STAGE, error=ReleaseError):
            return
    names = sorted(there.intersection(name for number in numbers for name in tables_of(number)))
    listed = sorted(numbers) if history else []
    _run(con, "successive/kept.sql.j2:forget", catalog=catalog, tables=names, numbers=listed)


def _run(con: duckdb.DuckDBPyConnection, name: str, /, **values: object) -> None:
    engine.run(con, templates.render(name, **values), STAGE, error=ReleaseError)
