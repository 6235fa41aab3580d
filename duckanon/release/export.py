"""EXPORT: a release becomes a new file that is read back and audited before it gets its name.

An export is refused if the view or its rows are not those that were audited, except that `just_made` rows in
a database of the same command are not read again. The audit covers the values in the file. A file that
violates the policy is removed; a CSV may violate it, because NULL and the empty text are equal there.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.audits.evidence import evidence_of
from duckanon.database import drafts, engine, file_room, interrupts, templates
from duckanon.database.engine import transaction
from duckanon.database.handover import lossless
from duckanon.database.paths import check_local
from duckanon.database.relations import columns_of, named, subquery
from duckanon.errors import AuditFailure, ReleaseError
from duckanon.policy.bind import Role
from duckanon.policy.names import RECORDS, fold
from duckanon.policy.policy import Policy
from duckanon.release import destination, file_evidence, metadata
from duckanon.release.audit import audit_published, stored_supersets, trees_of
from duckanon.release.carried import blamed, require_same
from duckanon.release.cells import boxes_of, header_of, spans_of, texts_of, warn_of_formulas
from duckanon.release.chain import changed_by_hand, record
from duckanon.release.exported_file import Exported, attach, detach, proved_of, write_check, write_macros
from duckanon.release.proofs import proof_tables, superset_table
from duckanon.release.tables import SECOND_ENDING, parts_of, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import duckdb

    from duckanon.audits.certificate import Supersets
    from duckanon.audits.report import Report
    from duckanon.database.csv_files import Rewritten
    from duckanon.database.relations import Target
    from duckanon.policy.checks import Formulas
    from duckanon.release.folders import FolderEvidence
    from duckanon.release.metadata import Published
    from duckanon.release.tables import Part, Released

    Columns = list[tuple[str, str]]


def export(
    con: duckdb.DuckDBPyConnection,
    target: Target,
    path: str,
    *,
    csv_formulas: Formulas | None = None,
    overwrite: bool = False,
    evidence: str | None = None,
    written: Mapping[str, Rewritten] | None = None,
    just_made: bool = False,
) -> Report:
    """Write a release to a file in one of `FORMATS`, and return the audit of the file.

    In a CSV the columns `written` have the texts of the CSV that they come from. An existing file is replaced
    only with `overwrite`. `evidence` names a JSON file for the evidence. Refusals: top of the module.
    """
    published = metadata.require(con, target, whole=True)
    file = Path(path)
    others = _checked_others(con, published, file, evidence, overwrite=overwrite)
    writer = FORMATS[file.suffix.lower()]
    if csv_formulas is not None and writer is not _to_csv:
        raise ReleaseError(f"csv_formulas is about .csv files, and {path!r} is none: leave it out")
    # One transaction, so that the checked rows are the written rows.
    with (
        destination.room_told(path),
        transaction(con, whole=False),
        drafts.draft(file) as draft,
        contextlib.ExitStack() as opened,
    ):
        rows = metadata.rows(con, published)
        changed = None if just_made else changed_by_hand(con, published, rows)
        if changed is not None:
            raise ReleaseError(f"{target} was not exported: {changed}")
        release = _release(con, published, rows, written or {})
        if csv_formulas is None and writer is _to_csv:
            warn_of_formulas(con, release.columns, release.rows, path)
        if csv_formulas == "escape":
            report = _to_csv(con, release, draft, escaped=True)
        else:
            report = writer(con, release, draft)
        if not report.passed:
            raise AuditFailure(f"{path!r} was not written: read back, it violates the policy", report)
        parts = [table.part for table in release.tables[: 1 if writer is _to_database else None]]
        # The file with the requested name comes last: if it exists, the other files exist.
        drafted = [(_aside(draft, part), _beside(file, part.ending)) for part in reversed(parts)]
        for other in others:
            text = _evidence_text(con, release, report, draft, escaped=csv_formulas == "escape")
            drafted.insert(0, (opened.enter_context(drafts.draft(other)), other))
            drafted[0][0].write_text(text, encoding="utf-8")
        interrupts.settle()
        destination.settle_all(drafted, overwrite=overwrite)
        interrupts.wrote()
    return report


def _checked_others(
    con: duckdb.DuckDBPyConnection, published: Published, file: Path, evidence: str | None, *, overwrite: bool
) -> list[Path]:
    """Files that are written beside a file; raise unless all can be written, and none is read here."""
    form = Policy.from_toml(published.policy).release
    if evidence is not None and len(files_of(file, form)) > 1:
        raise ReleaseError("release = 'anatomy' is two files, and evidence is of one: export to .duckdb")
    others = [] if evidence is None else [destination.check_beside(evidence, ".json", overwrite=overwrite)]
    for each in (file, *others) if overwrite else ():
        destination.check_not_read(con, published, each)
    check_target(file, form, overwrite=overwrite)
    return others


def _evidence_text(
    con: duckdb.DuckDBPyConnection, release: _ExportedRelease, report: Report, draft: Path, *, escaped: bool
) -> str:
    """Text of the evidence of a written file."""
    evidence = file_evidence.required(release.evidence, release.published)
    if draft.suffix.lower() == ".csv":
        columns, written = release.columns, release.written
        texts = texts_of(columns)
        boxes = _boxes_in_csv(con, release, texts, texts if escaped else [])
        evidence = file_evidence.of_csv(
            evidence, report, draft, columns, as_text=texts, written=written, boxes=boxes
        )
    return file_evidence.text_of(evidence, release.published)


def files_of(file: Path, release: str) -> list[Path]:
    """Files of an exported release: one for each table, except a database, which holds all tables."""
    two = release == "anatomy" and file.suffix.lower() != ".duckdb"
    return [_beside(file, ending) for ending in (("", SECOND_ENDING) if two else ("",))]


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.stem}{ending}{file.suffix}")


def _aside(draft: Path, part: Part) -> Path:
    """Draft of the file of a table."""
    return _beside(draft, part.ending.replace("_", "."))


@dataclass(frozen=True)
class _ExportedTable:
    """A table of a release."""

    part: Part
    relation: str
    columns: Columns


@dataclass(frozen=True)
class _ExportedRelease:
    """The exported release."""

    published: Published
    rows: str  # one a record, as in an audit
    columns: Columns
    released: Sequence[Released]
    tables: tuple[_ExportedTable, ...]
    written: Mapping[str, Rewritten]  # texts in the CSV that the values come from, by column
    evidence: FolderEvidence | None  # None if its audit is not recorded

    def read(
        self, con: duckdb.DuckDBPyConnection, kinds: Columns, table: Callable[[_ExportedTable, Columns], str]
    ) -> str:
        """Written rows of the release; a file without types is read with the given types."""
        types, relations = dict(kinds), []
        for one in self.tables:
            # The count in the second table is no column of the release, even if a column has its name.
            count = RECORDS if one.part.ending else None
            own = [(name, kind if name == count else types[name]) for name, kind in one.columns]
            relations.append(table(one, own))
        return read(con, relations, self.released, "export")


def _release(
    con: duckdb.DuckDBPyConnection, published: Published, rows: str, written: Mapping[str, Rewritten]
) -> _ExportedRelease:
    released, catalog = metadata.columns(con, published), published.target.catalog
    parts = parts_of(released)
    # A view shows what was released, even if columns were added to its table since.
    relations = [metadata.backing(catalog, part.of(published.table)) for part in parts]
    if len(parts) == 1:
        relations = [rows]
    tables = tuple(
        _ExportedTable(part, relation, columns_of(con, relation, "export"))
        for part, relation in zip(parts, relations, strict=True)
    )
    columns, evidence = columns_of(con, rows, "export"), file_evidence.of_release(con, published)
    return _ExportedRelease(published, rows, columns, released, tables, written, evidence)


def check_target(file: Path, release: str, *, overwrite: bool = False) -> None:
    """Raise if the file exists and is not to be replaced, its folder is missing, or its ending is unknown."""
    check_local(file)
    if file.suffix.lower() not in FORMATS and file.is_dir():
        inside = str(file / "released.csv")
        raise ReleaseError(f"{str(file)!r} is a folder: give a new file in it, as {inside!r}")
    if file.suffix.lower() not in FORMATS:
        *others, last = FORMATS
        raise ReleaseError(
            f"cannot export to {str(file)!r}: the file must end in {', '.join(others)} or {last}"
        )
    written = files_of(file, release)
    if overwrite and len(written) > 1:
        raise ReleaseError(
            f"{str(file)!r} is one of two files (release = 'anatomy'), which cannot be replaced at once: "
            "leave overwrite out, or export to a .duckdb file"
        )
    for each in written:
        destination.check_file(each, overwrite=overwrite)
    if overwrite:
        destination.check_replaceable(file)


def _boxes_in_csv(
    con: duckdb.DuckDBPyConnection, release: _ExportedRelease, texts: Sequence[str], escaped: Sequence[str]
) -> Supersets | None:
    """Boxes of a release in the ranks of its CSV, of which the columns `texts` are read as text."""
    boxes = stored_supersets(con, release.published)
    if boxes is None:
        return None
    roles = {one.name: one.role for one in release.released}
    columns = [(name, kind) for name, kind in release.columns if roles[name] == Role.QUASI_IDENTIFIER.value]
    spans = spans_of(con, release.published.policy, release.columns, release.rows)
    return boxes_of(con, boxes, columns, release.rows, texts=texts, escaped=escaped, spans=spans)


def _to_parquet(con: duckdb.DuckDBPyConnection, release: _ExportedRelease, draft: Path) -> Report:
    def file(table: _ExportedTable, _: Columns) -> str:
        name = str(_aside(draft, table.part))
        return templates.render("relation.sql.j2:file", name=name, form="parquet").strip()

    # The evidence is of all columns, so it cannot stand in one of two files.
    one = release.evidence if len(release.tables) == 1 else None
    told = None if one is None else file_evidence.text_of(one, release.published)
    for table in release.tables:
        _copy(con, table, _aside(draft, table.part), "parquet", footer=told)
    with _reader(con) as reader:
        require_same(
            con, reader, release.rows, release.columns, lambda kinds: release.read(reader, kinds, file)
        )
    rows, home = release.read(con, release.columns, file), release.published.target.catalog
    return audit_published(con, con, release.published, rows, home=home)


def _to_csv(
    con: duckdb.DuckDBPyConnection, release: _ExportedRelease, draft: Path, *, escaped: bool = False
) -> Report:
    published, columns = release.published, release.columns
    texts = texts_of(columns) if escaped else []
    spans = spans_of(con, published.policy, columns, release.rows)
    for table in release.tables:
        header = header_of(table.columns) if escaped else None
        _copy(
            con, table, _aside(draft, table.part), "csv",
            escaped=texts, spans=spans, header=header, written=release.written,
        )  # fmt: skip
    # The audit covers the values in the file, with the quote before an escaped value. Only a tree or an order
    # lacks the quote.
    graded = {fold(column.name) for column in release.released if column.tree is not None}
    types = dict(columns)
    back = [name for name in texts if fold(name) in graded or types[name] != "VARCHAR"]

    def read_as(where: duckdb.DuckDBPyConnection, kinds: Columns, restored: Sequence[str]) -> str:
        def file(table: _ExportedTable, own: Columns) -> str:
            names = {name for name, _ in own}
            return templates.render(
                "export/csv.sql.j2:read_csv",
                path=str(_aside(draft, table.part)),
                columns=own,
                escaped=[name for name in texts if name in names],
                restored=[name for name in restored if name in names],
                spans={name: between for name, between in spans.items() if name in names},
                written={name: one for name, one in release.written.items() if name in names},
            ).strip()

        return release.read(where, kinds, file)

    with _reader(con) as reader:
        require_same(
            con, reader, release.rows, release.columns, lambda kinds: read_as(reader, kinds, texts), csv=True
        )
    rows, home = read_as(con, columns, back), published.target.catalog
    plain = [name for name, kind in columns if kind == "VARCHAR" and name not in back]
    boxes = _boxes_in_csv(con, release, plain, texts)
    return audit_published(con, con, published, rows, home=home, columns=columns, supersets=boxes)


def _to_database(con: duckdb.DuckDBPyConnection, release: _ExportedRelease, draft: Path) -> Report:
    published = release.published

    def written(table: _ExportedTable, _: Columns) -> str:
        return named("export", "main", table.part.of(published.target.name))

    _fill(con, release, draft)
    with _reader(con) as reader:
        attach(reader, draft, new=False)
        require_same(
            con, reader, release.rows, release.columns, lambda kinds: release.read(reader, kinds, written)
        )
        rows = release.read(reader, release.columns, written)
        report = audit_published(con, reader, published, rows, home="export")
        policy = metadata.audited(con, published)
        evidence = evidence_of(reader, rows, policy, trees_of(con, published, "export"))
    with engine.in_memory() as fresh:
        attach(fresh, draft, new=True)
        record(fresh, "export", published.release_id, report.measures, evidence, statement="export")
        detach(fresh)
    # Blocks that the record of this audit replaced: nothing secret, but nobody vouches for them.
    file_room.clear(draft)
    return report


def _fill(con: duckdb.DuckDBPyConnection, release: _ExportedRelease, draft: Path) -> None:
    published, target = release.published, release.published.target
    tables = [("main", table.part.of(target.name), table.relation) for table in release.tables]
    trees = [column.tree for column in release.released if column.tree is not None]
    tables += [("duckanon", tree, metadata.backing(target.catalog, tree)) for tree in trees]
    thresholds = _thresholds(con, published)
    supersets = superset_table(published.release_id, thresholds)
    proofs = [*proof_tables(published.release_id, thresholds).values(), *([supersets] if supersets else [])]
    tables += [("duckanon", proof, metadata.backing(target.catalog, proof)) for proof in proofs]
    # A separate instance writes the file, so no temporary data and no settings of this one can get into it.
    with engine.in_memory() as fresh:
        _same_setting(con, fresh, "force_compression")
        attach(fresh, draft, new=True)
        for schema, name, relation in tables:
            columns = columns_of(con, relation, "export")
            rows = templates.render(
                "relation.sql.j2:select",
                columns=[column for column, _ in columns],
                relation=relation,
                order=columns,
            )
            _write(con, fresh, rows, schema=schema, name=name, columns=columns)
        for table in metadata.METADATA:
            query = templates.render(
                "export/contents.sql.j2:metadata",
                catalog=target.catalog,
                table=table,
                release_id=published.release_id,
                view=target.name,
            )
            columns = columns_of(con, subquery(query), "export")
            _write(con, fresh, query, schema="duckanon", name=table, columns=columns)
        write_macros(fresh)
        _describe(con, fresh, release)
        detach(fresh)


def _thresholds(con: duckdb.DuckDBPyConnection, published: Published) -> list[tuple[Any, ...]]:
    values = {"catalog": published.target.catalog, "release_id": published.release_id}
    return engine.rows(con, templates.render("evidence/recorded.sql.j2:thresholds", **values), "export")


def _describe(
    con: duckdb.DuckDBPyConnection, fresh: duckdb.DuckDBPyConnection, release: _ExportedRelease
) -> None:
    """Write the view that audits the release, and the comments."""
    published = release.published
    thresholds = _thresholds(con, published)
    exported = Exported(
        published.target.name,
        release.columns,
        release.released,
        metadata.audited(con, published),
        proved_of(thresholds),
        proof_tables(published.release_id, thresholds),
        superset_table(published.release_id, thresholds),
    )
    write_check(fresh, exported)


@contextlib.contextmanager
def _reader(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection that reads the written file: its errors do not abort the caller's transaction."""
    with engine.in_memory() as reader:
        _same_setting(con, reader, "TimeZone")
        yield reader


def _same_setting(con: duckdb.DuckDBPyConnection, other: duckdb.DuckDBPyConnection, name: str) -> None:
    """Copy a setting of the caller's connection to another instance."""
    value = engine.rows(con, templates.render("session.sql.j2:setting", name=name), "export")[0][0]
    setting = templates.render("session.sql.j2:set", name=name, value=value, session=False)
    engine.run(other, setting, "export", error=ReleaseError)


def _write(
    con: duckdb.DuckDBPyConnection,
    fresh: duckdb.DuckDBPyConnection,
    query: str,
    *,
    schema: str,
    name: str,
    columns: Columns,
) -> None:
    statement = templates.render("export/contents.sql.j2:table", schema=schema, name=name, columns=columns)
    with (
        lossless(con),
        engine.reader(con, query, "export") as incoming,
        engine.registered(fresh, {"incoming": incoming}),
    ):
        try:
            engine.run(fresh, statement, "export", error=ReleaseError)
        except ReleaseError as refused:
            raise blamed(columns, refused) from refused


def _copy(
    con: duckdb.DuckDBPyConnection,
    table: _ExportedTable,
    draft: Path,
    form: str,
    *,
    escaped: Sequence[str] = (),
    spans: Mapping[str, str] | None = None,
    header: Sequence[str] | None = None,
    written: Mapping[str, Rewritten] | None = None,
    footer: str | None = None,
) -> None:
    statement = templates.render(
        "export/file.sql.j2",
        columns=table.columns,
        relation=table.relation,
        path=str(draft),
        format=form,
        escaped=escaped,
        spans=spans or {},
        header=header or [column for column, _ in table.columns],
        written=written or {},
        footer=None if footer is None else {file_evidence.KEY: footer},
    )
    try:
        engine.run(con, statement, "export", error=ReleaseError)
    except ReleaseError as refused:
        raise blamed(table.columns, refused) from refused


FORMATS: Mapping[str, Callable[[duckdb.DuckDBPyConnection, _ExportedRelease, Path], Report]] = {
    ".duckdb": _to_database,
    ".parquet": _to_parquet,
    ".csv": _to_csv,
}
"""By ending of the file: the function that writes a release to a draft, reads it back and audits it."""
