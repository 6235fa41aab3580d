"""Publish: the audited candidate becomes a table, a view and its metadata, in one transaction."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING

from duckanon.audits.evidence import SCHEMA_VERSION, evidence_of
from duckanon.database import engine, templates
from duckanon.database.engine import transaction
from duckanon.database.relations import columns_of, named
from duckanon.errors import ReleaseError
from duckanon.policy.told import SUBJECTS
from duckanon.release import metadata
from duckanon.release.chain import record, renew
from duckanon.release.stages.candidate import released_of
from duckanon.release.tables import BESIDE, counted, parts_of, read, sensitive_of

if TYPE_CHECKING:
    import duckdb

    from duckanon.database.relations import Target
    from duckanon.release.stages.candidate import Candidate, Source


def publish(con: duckdb.DuckDBPyConnection, candidate: Candidate, source: Source, target: Target) -> int:
    """Number of the release that a view stands for from now on, instead of an older one. O(n log n).

    The rows are written in the order of their values. Inside an open transaction the writes join it;
    otherwise they are one of their own, all of them or none.
    """
    with transaction(con):
        _render(con, "publish/metadata.sql.j2", catalog=target.catalog)
        renew(con, target.catalog)
        number = engine.rows(
            con, templates.render("catalog/next_release.sql.j2", catalog=target.catalog), "publish"
        )
        release_id = int(number[0][0])
        table = f"release_{release_id}"
        for old in metadata.recorded(con, target):
            forget(con, target.catalog, old.release_id)
        trees = _trees(con, candidate, target, release_id)
        _tables(con, candidate, target, release_id)
        _record(con, candidate, source, target, release_id=release_id, table=table, trees=trees)
        forget_orphans(con, target.catalog)
    return release_id


def forget(con: duckdb.DuckDBPyConnection, home: str, release_id: int) -> None:
    """Remove the tables and metadata of a release; the caller owns the transaction and the view."""
    pattern = re.compile(rf"release_{release_id}({BESIDE})?|tree_{release_id}_\d+")
    tables = sorted(table for table in metadata.tables(con, home) if pattern.fullmatch(table))
    views = metadata.views_beside(con, home, release_id)
    _render(con, "publish/forget.sql.j2", catalog=home, views=views, tables=tables, release_id=release_id)


def forget_orphans(con: duckdb.DuckDBPyConnection, home: str) -> None:
    """Remove the releases for which no view stands any more; the caller owns the transaction.

    A metadata table that someone has dropped is made again, empty.
    """
    _render(con, "publish/metadata.sql.j2", catalog=home)
    for release_id in metadata.orphans(con, home):
        forget(con, home, release_id)


def _tables(con: duckdb.DuckDBPyConnection, candidate: Candidate, target: Target, release_id: int) -> None:
    """Write the tables of a release, each with its view."""
    relation, released = named("temp", candidate.table), released_of(candidate)
    sorts = [(field.name, field.sort_type) for field in candidate.fields]
    held = sensitive_of(released)
    for part in parts_of(released):
        if part.ending:
            rows = counted(relation, columns_of(con, relation, "publish"), held)
        else:
            order = [(name, kind) for name, kind in sorts if name not in held]
            rows = templates.render(
                "relation/select.sql.j2", columns=part.columns, relation=relation, order=order
            )
        view = part.beside(target)
        _render(
            con,
            "publish/release.sql.j2",
            catalog=view.catalog,
            schema=view.schema,
            view=view.name,
            table=part.of(f"release_{release_id}"),
            columns=part.columns,
            rows=rows,
            comment=metadata.comment(release_id, part.ending),
        )


def _trees(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, target: Target, release_id: int
) -> dict[str, str]:
    trees = {}
    for number, field in enumerate(candidate.staged.sensitive, start=1):
        if field.attribute.distance == "hierarchical":
            trees[field.name] = f"tree_{release_id}_{number}"
            _render(
                con,
                "publish/tree.sql.j2",
                catalog=target.catalog,
                table=trees[field.name],
                tree=candidate.staged.tree(field),
                candidate=candidate.table,
                column=field.name,
            )
    return trees


def _record(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    source: Source,
    target: Target,
    *,
    release_id: int,
    table: str,
    trees: dict[str, str],
) -> None:
    released = released_of(candidate)
    relations = [metadata.backing(target.catalog, part.of(table)) for part in parts_of(released)]
    rows = read(con, relations, released, "publish")
    kept = {column: metadata.backing(target.catalog, tree) for column, tree in trees.items()}
    _render(
        con,
        "publish/record.sql.j2",
        catalog=target.catalog,
        release_id=release_id,
        schema_version=SCHEMA_VERSION,
        schema=target.schema,
        view=target.name,
        table=table,
        records=candidate.staged.size + candidate.staged.left_out - candidate.suppressed,
        classes=candidate.classes,
        suppressed=candidate.suppressed,
        method=candidate.method,
        information_loss=candidate.information_loss,
        version=version("duckanon"),
        policy=candidate.policy.to_toml(),
        source_sql=source.query,
        # The database of the view may have another name tomorrow: its file is copied, renamed or attached.
        source_catalog=None if source.catalog == target.catalog else source.catalog,
        source_schema=source.schema,
        columns=_columns(candidate, dict(columns_of(con, rows, "publish")), trees),
        thresholds=_thresholds(candidate),
    )
    evidence = evidence_of(con, rows, candidate.policy.audited(), kept)
    record(con, target.catalog, release_id, candidate.report.measures, evidence, statement="release")


def _columns(
    candidate: Candidate, released: dict[str, str], trees: dict[str, str]
) -> list[dict[str, object]]:
    return [
        {
            "name": field.name,
            "role": field.attribute.role.value,
            # The released type: a range or a set is no number any more, an ENUM is text.
            "type": released[field.name],
            "recode": field.recode,
            "distance": field.attribute.distance,
            "tree": trees.get(field.name),
        }
        for field in candidate.fields
    ]


def _thresholds(candidate: Candidate) -> list[dict[str, object]]:
    policy = candidate.policy.audited()
    entries: list[dict[str, object]] = [_entry("k_anonymity", None, policy.k)]
    if candidate.policy.subject:
        entries.append(_entry(SUBJECTS, None, policy.k))
    for field in candidate.staged.sensitive:
        if field.attribute.l is not None:
            entry = _entry("l_diversity", field.name, field.attribute.l)
            entries.append({**entry, "l_diversity": policy.l_diversity, "c": policy.c})
        if field.attribute.t is not None:
            entries.append(_entry("t_closeness", field.name, field.attribute.t))
    return entries


def _entry(measure: str, attribute: str | None, threshold: object) -> dict[str, object]:
    return {
        "measure": measure,
        "attribute": attribute,
        "threshold": threshold,
        "l_diversity": None,
        "c": None,
    }


def _render(con: duckdb.DuckDBPyConnection, name: str, /, **values: object) -> None:
    engine.run(con, templates.render(name, **values), "publish", error=ReleaseError)
