"""Publish: the audited candidate becomes a table, a view and its metadata, in one transaction.

The rows are written in the order of their values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from duckanon.audits.columns import label, share_bounds
from duckanon.audits.evidence import SCHEMA_VERSION, evidence_of
from duckanon.database import engine, templates
from duckanon.database.engine import transaction
from duckanon.database.fingerprint import fingerprint
from duckanon.database.relations import columns_of, named
from duckanon.errors import ReleaseError
from duckanon.policy.bind import joint_thresholds
from duckanon.policy.joint import JOINT_MEASURES, NT_CLOSENESS, NT_RECORDS
from duckanon.policy.reported import MIN_VALUES, P_PERCENT, SUBJECTS, SUBJECTS_SUBSET
from duckanon.policy.subsets import subset_thresholds
from duckanon.release import metadata, successive
from duckanon.release.chain import record
from duckanon.release.proofs import write_proofs, write_supersets
from duckanon.release.stages.protect import judged
from duckanon.release.tables import SECOND_ENDING, Released, counted, parts_of, read, sensitive_of

if TYPE_CHECKING:
    import duckdb

    from duckanon.audits.report import Report
    from duckanon.database.relations import Target
    from duckanon.policy.bind import Attribute
    from duckanon.release.metadata import Published
    from duckanon.release.pipeline import Candidate
    from duckanon.release.source import Source
    from duckanon.release.stages.stage import Staged
    from duckanon.release.successive import Persons


@dataclass(frozen=True)
class Ready:
    """A table that passed its audit, and its facts for the metadata."""

    candidate: Candidate  # source of the table: all of it, or its newest records
    table: str  # temporary table of the released columns
    records: int
    classes: int  # equivalence classes, as the audit counts them
    suppressed: int  # records left out by suppression or ``nulls = 'suppress'``
    information_loss: float | None  # None if it is not reported
    report: Report
    sensitive: tuple[Attribute, ...]  # with their thresholds
    mode: str = "full"  # or append

    @property
    def method(self) -> str:
        """The requested method and the chosen one."""
        return self.candidate.method


def ready(candidate: Candidate) -> Ready:
    """The whole candidate in publishable form."""
    return Ready(
        candidate,
        candidate.recoded.table,
        candidate.recoded.released,
        candidate.report.classes,
        candidate.recoded.suppressed,
        candidate.information_loss,
        candidate.report,
        tuple(field.attribute for field in candidate.staged.sensitive),
    )


def publish(
    con: duckdb.DuckDBPyConnection,
    made: Ready,
    source: Source,
    target: Target,
    *,
    persons: Persons | None,
    refreshed: Published | None = None,
    proof: bool = True,
) -> int:
    """Publish a release under the name of a view, instead of an older one; return its number. O(n log n).

    The writes join an open transaction, else they have their own. `persons` are kept for later comparisons. A
    ReleaseError if the `refreshed` view is gone, or has another policy or query. Without `proof` neither the
    audit nor the columns of the source are recorded.
    """
    with transaction(con):
        if refreshed is not None:
            now = metadata.find(con, target)
            if now is None or (now.policy, now.source_sql) != (refreshed.policy, refreshed.source_sql):
                raise metadata.meanwhile(target.catalog)
        _render(con, "publish/metadata.sql.j2", catalog=target.catalog)
        number = engine.rows(
            con, templates.render("catalog/releases.sql.j2:next_release", catalog=target.catalog), "publish"
        )
        release_id = int(number[0][0])
        table = f"release_{release_id}"
        replaced = metadata.recorded(con, target)
        for old in replaced:
            forget(con, target.catalog, old.release_id)
        trees = _trees(con, made, target, release_id)
        write_proofs(con, target.catalog, release_id, made.report.certificates)
        if made.candidate.policy.n is not None:
            write_supersets(con, target.catalog, release_id, made.report.supersets)
        _tables(con, made, target, release_id, in_order=proof)
        _record(con, made, source, target, release_id=release_id, table=table, trees=trees, proof=proof)
        if persons is not None:
            successive.keep(con, persons, target, release_id, replaced, mode=made.mode)
        forget_orphans(con, target.catalog)
    return release_id


def forget(con: duckdb.DuckDBPyConnection, home: str, release_id: int) -> None:
    """Remove the tables and metadata of a release; the caller owns the transaction and the view.

    Records for the comparison with later releases stay; see `successive.forget`.
    """
    pattern = re.compile(
        rf"release_{release_id}({SECOND_ENDING})?|(tree|proof)_{release_id}_\d+|supersets_{release_id}"
    )
    tables = sorted(table for table in metadata.tables(con, home) if pattern.fullmatch(table))
    views = metadata.views_beside(con, home, release_id)
    _render(
        con, "publish/release.sql.j2:forget", catalog=home, views=views, tables=tables, release_id=release_id
    )


def forget_orphans(con: duckdb.DuckDBPyConnection, home: str) -> None:
    """Remove all releases without a view; the caller owns the transaction.

    A metadata table that someone has dropped is made again, empty.
    """
    _render(con, "publish/metadata.sql.j2", catalog=home)
    for release_id in metadata.orphans(con, home):
        successive.forget(con, home, release_id)
        forget(con, home, release_id)


def _released(candidate: Candidate) -> list[Released]:
    """Columns of a release in the form of the metadata, without trees."""
    return [
        Released(field.name, field.attribute.role.value, field.recode, None) for field in candidate.fields
    ]


def _tables(
    con: duckdb.DuckDBPyConnection, made: Ready, target: Target, release_id: int, *, in_order: bool
) -> None:
    """Write the tables of a release, each with its view; an export puts rows in order in any case."""
    relation, released = named("temp", made.table), _released(made.candidate)
    sorts = [(field.name, field.sort_type) for field in made.candidate.fields]
    held = sensitive_of(released)
    for part in parts_of(released):
        if part.ending:
            rows = counted(relation, columns_of(con, relation, "publish"), held)
        else:
            order = [(name, kind) for name, kind in sorts if in_order and name not in held]
            rows = templates.render(
                "relation.sql.j2:select", columns=part.columns, relation=relation, order=order
            )
        view = part.beside(target)
        _render(
            con,
            "publish/release.sql.j2:release",
            catalog=view.catalog,
            schema=view.schema,
            view=view.name,
            table=part.of(f"release_{release_id}"),
            columns=part.columns,
            rows=rows,
            comment=metadata.comment(release_id, part.ending),
        )


def _trees(con: duckdb.DuckDBPyConnection, made: Ready, target: Target, release_id: int) -> dict[str, str]:
    """Write the hierarchies and orders that audits of the release need; return their tables by column."""
    trees = {}
    staged = made.candidate.staged
    for number, field in enumerate(staged.sensitive, start=1):
        if field.attribute.order is not None:
            trees[field.name] = f"tree_{release_id}_{number}"
            _render(
                con,
                "publish/release.sql.j2:order",
                catalog=target.catalog,
                table=trees[field.name],
                values=field.attribute.order,
                candidate=made.table,
                column=field.name,
            )
        if field.attribute.distance == "hierarchical":
            trees[field.name] = f"tree_{release_id}_{number}"
            _render(
                con,
                "publish/release.sql.j2:tree",
                catalog=target.catalog,
                table=trees[field.name],
                tree=staged.tree(field),
                candidate=made.table,
                column=field.name,
            )
    return trees


def _record(
    con: duckdb.DuckDBPyConnection,
    made: Ready,
    source: Source,
    target: Target,
    *,
    release_id: int,
    table: str,
    trees: dict[str, str],
    proof: bool,
) -> None:
    candidate, sources = made.candidate, hierarchies(con, made.candidate.staged) if proof else {}
    released = _released(candidate)
    relations = [metadata.backing(target.catalog, part.of(table)) for part in parts_of(released)]
    rows = read(con, relations, released, "publish")
    graded = {field.name for field in candidate.staged.sensitive if field.attribute.order is None}
    kept = {name: metadata.backing(target.catalog, tree) for name, tree in trees.items() if name in graded}
    orders = {
        name: metadata.order_of(con, target.catalog, tree)
        for name, tree in trees.items()
        if name not in graded
    }
    _render(
        con,
        "publish/record.sql.j2",
        catalog=target.catalog,
        release_id=release_id,
        schema_version=SCHEMA_VERSION,
        schema=target.schema,
        view=target.name,
        table=table,
        records=made.records,
        classes=made.classes,
        suppressed=made.suppressed,
        method=made.method,
        information_loss=made.information_loss,
        version=version("duckanon"),
        policy=candidate.policy.to_toml(),
        source_sql=source.query,
        # The database of the view may get another name: its file may be copied, renamed or attached.
        source_catalog=None if source.catalog == target.catalog else source.catalog,
        source_schema=source.schema,
        sources=[(name, kind, sources.get(name)) for name, kind in candidate.staged.columns] if proof else [],
        columns=_columns(candidate, dict(columns_of(con, rows, "publish")), trees),
        thresholds=_thresholds(made),
    )
    if proof:
        evidence = evidence_of(con, rows, candidate.policy.audited().override(order=orders), kept)
        record(con, target.catalog, release_id, made.report.measures, evidence, statement="release")


def hierarchies(con: duckdb.DuckDBPyConnection, staged: Staged) -> dict[str, str]:
    """Fingerprints of the hierarchies of records, by column."""
    climbs = staged.climbs
    with_tree = [
        field
        for field in staged.fields
        if field.column in climbs or field.attribute.distance == "hierarchical"
    ]
    return {field.name: fingerprint(con, named("temp", staged.tree(field))) for field in with_tree}


def _columns(
    candidate: Candidate, released: dict[str, str], trees: dict[str, str]
) -> list[dict[str, object]]:
    return [
        {
            "name": field.name,
            "role": field.attribute.role.value,
            # The released type: a range or a set is no number, and an ENUM is text.
            "type": released[field.name],
            "recode": field.recode,
            "distance": field.attribute.distance,
            "tree": trees.get(field.name),
        }
        for field in candidate.fields
    ]


def _thresholds(made: Ready) -> list[dict[str, object]]:
    policy = made.candidate.policy
    asked = policy.audited()
    entries: list[dict[str, object]] = [_entry("k_anonymity", None, asked.k)]
    if policy.subject:
        entries.append(_entry(SUBJECTS, None, asked.k))
    quasi = [field.name for field in made.candidate.staged.quasi]
    subsets = subset_thresholds(policy.k_subsets, quasi, policy.k)
    entries += [_entry("k_anonymity_subset", one.name, one.k) for one in subsets]
    if policy.subject:
        entries += [_entry(SUBJECTS_SUBSET, one.name, one.k) for one in subsets]
    if policy.p_percent is not None:
        p = policy.p_percent
        entries += [_entry(P_PERCENT, field.name, p) for field in judged(made.candidate.staged)]
    few = [one for one in made.report.measures if one.measure == MIN_VALUES]
    entries += [_entry(MIN_VALUES, one.attribute, one.threshold) for one in few]
    for several in joint_thresholds(asked, made.sensitive):
        entries.append(_entry(JOINT_MEASURES[asked.joint_distance], several.name, several.t))
    if asked.n is not None:
        entries.append(_entry(NT_RECORDS, None, asked.n))
    for one in made.sensitive:
        if one.l is not None:
            entry = _entry("l_diversity", one.name, one.l)
            entries.append({**entry, "l_diversity": asked.l_diversity, "c": asked.c})
        if one.t is not None:
            measure = "t_closeness" if asked.n is None else NT_CLOSENESS
            entries.append(_entry(measure, one.name, one.t))
        entries += [
            _entry(bound.measure, label(one.name, bound.named), bound.threshold)
            for bound in share_bounds(one)
        ]
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
