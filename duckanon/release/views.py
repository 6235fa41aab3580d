"""Anonymized views: create, refresh and drop them; the stages of a release are in `pipeline`."""

from __future__ import annotations

import contextlib
import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.audits.legible import legible
from duckanon.audits.report import shown
from duckanon.database import drafts, engine, templates
from duckanon.database.engine import transaction
from duckanon.database.relations import Target, current, databases, lookup
from duckanon.errors import ReleaseError, tell
from duckanon.policy.names import fold
from duckanon.policy.policy import Policy
from duckanon.release import metadata, successive
from duckanon.release.append import append
from duckanon.release.audit import audit_published
from duckanon.release.effect import effect_text, effects
from duckanon.release.pipeline import candidate_of
from duckanon.release.publish import forget, forget_orphans, publish, ready
from duckanon.release.source import Source, names_of
from duckanon.release.successive import compared, kept, persons_of
from duckanon.release.tables import SECOND_ENDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.checks import Intersection, Mode
    from duckanon.release.append import Since
    from duckanon.release.effect import Effect
    from duckanon.release.metadata import Published
    from duckanon.release.publish import Ready
    from duckanon.release.source import Drawn


@dataclass(frozen=True)
class Release:
    """A published release.

    Attributes
    ----------
    name : str
        Full name of the view.
    report : Report
        Audit of the released columns.
    policy : Policy
        Policy that the release keeps.
    classes, records, suppressed : int
        Equivalence classes, released records, records left out.
    method : str
        Method of the partition.
    information_loss : float or None
        IL = 100 SSE / SST over the embedded quasi-identifiers, in per cent, to three digits. None with
        ``p_percent``, because IL and the class means together could break the rule.
    effect : tuple of Effect
        Changes of each quasi-identifier; empty unless requested.
    since : Since or None
        With mode 'append': numbers of subjects that wait, that changed since their release, or that the
        source no longer has.
    waits : str or None
        Why k or more subjects wait.
    """

    name: str
    report: Report
    policy: Policy
    classes: int
    records: int
    suppressed: int
    method: str
    information_loss: float | None
    effect: tuple[Effect, ...] = ()
    since: Since | None = None
    waits: str | None = None

    @property
    def _figures(self) -> str:
        lost = self.information_loss
        loss = "" if lost is None else f"information loss {shown(lost)} %, "
        return (
            f"{self.records} records in {self.classes} classes, {self.suppressed} suppressed, "
            f"{loss}method {self.method}"
        )

    def __str__(self) -> str:
        """Summary of the release, and its report, for a reader."""
        effect = "\n\n" + effect_text(self.effect) if self.effect else ""
        return f"released {legible(self.name)}: {self._figures}\n\n{self.report}{effect}"

    def _repr_html_(self) -> str:
        """Summary of the release, and its report, as HTML for a notebook."""
        return f"<p>Released: {html.escape(self._figures)}</p>{self.report._repr_html_()}"


def create(
    con: duckdb.DuckDBPyConnection,
    query: str,
    policy: Policy,
    target: Target,
    *,
    or_replace: bool = False,
    effect: bool = False,
    before: Drawn | None = None,
    only: bool = False,
    proof: bool = True,
) -> Release:
    """Publish a release of a query under a name: stage, partition, recode, audit, publish.

    Only an anonymized view is replaced; an error leaves nothing visible. The source must have the columns of
    `before`, if given. `only`: the only release of its database, so no comparison is prepared. Without
    `proof` the audit is not recorded, for a release that leaves as a CSV.
    """
    metadata.check_writable(con, target)
    with metadata.undisturbed(con, target.catalog):
        _check_free(con, target, policy, or_replace=or_replace)
        source = Source(query, *current(con), before)
        return _release(con, source, policy, target, effect=effect, only=only, proof=proof)


def refresh(
    con: duckdb.DuckDBPyConnection,
    target: Target,
    *,
    effect: bool = False,
    mode: Mode = "full",
    on_intersection: Intersection | None = None,
) -> Release:
    """Release the present source under the policy of an anonymized view.

    The old release stays visible until the new one is audited and compared with it, by `on_intersection` or
    the policy's option. With mode 'append' its classes stay, and classes of new subjects are added.
    """
    metadata.check_writable(con, target)
    with metadata.undisturbed(con, target.catalog):
        published = metadata.require(con, target, whole=mode == "append")
        policy = Policy.from_toml(published.policy)
        if mode == "append":
            return _append(con, published, policy, effect=effect, on_intersection=on_intersection)
        _check_beside(con, published.target, policy, metadata.recorded(con, target))
        made = _release(
            con,
            source_of(con, published),
            policy,
            published.target,
            effect=effect,
            on_intersection=on_intersection,
            refreshed=published,
        )
    _sweep(con, target.catalog)
    return made


def _append(
    con: duckdb.DuckDBPyConnection,
    published: Published,
    policy: Policy,
    *,
    effect: bool,
    on_intersection: Intersection | None,
) -> Release:
    """Add classes of new subjects to the published classes; while subjects wait, the release stays."""
    if effect:
        raise ReleaseError(
            "with mode = 'append' there is no effect to show: published records stay as they are"
        )
    source, target = source_of(con, published), published.target
    appended = append(
        con, published, source, policy, on_intersection=on_intersection or policy.on_intersection
    )
    if appended.made is None:
        rows = metadata.rows(con, published)
        report = audit_published(con, con, published, rows, home=target.catalog)
    else:
        report = appended.made.report
    figures = appended.made or published
    return _release_of(target, policy, figures, report, since=appended.since, waits=appended.why)


def _release_of(
    target: Target,
    policy: Policy,
    made: Ready | Published,
    report: Report,
    *,
    effect: tuple[Effect, ...] = (),
    since: Since | None = None,
    waits: str | None = None,
) -> Release:
    """Return a published release for its owner."""
    return Release(
        name=str(target),
        report=replace(report, name=str(target)),
        policy=policy,
        classes=made.classes,
        records=made.records,
        suppressed=made.suppressed,
        method=made.method,
        information_loss=made.information_loss,
        effect=effect,
        since=since,
        waits=waits,
    )


def source_of(con: duckdb.DuckDBPyConnection, published: Published) -> Source:
    """Query of a release, with the database and schema of its names.

    A ReleaseError if the metadata lack them, or that database is not attached.
    """
    target = published.target
    if not published.source_sql:
        raise ReleaseError(
            f"the metadata of {target} has no source query (source_sql in {target.catalog}.{metadata.SCHEMA}."
            "releases): make it again by CREATE OR REPLACE ANONYMIZED VIEW"
        )
    if not metadata.attached(con, published.source_catalog, published.source_schema):
        raise ReleaseError(
            f"the source query of {target} reads names of {published.source_catalog}."
            f"{published.source_schema}, which is not here: ATTACH the database under that name, or make the "
            "view again by CREATE OR REPLACE ANONYMIZED VIEW"
        )
    return Source(
        published.source_sql,
        published.source_catalog,
        published.source_schema,
        metadata.drawn(con, published),
    )


def drop_view(con: duckdb.DuckDBPyConnection, target: Target, *, if_exists: bool = False) -> bool:
    """Remove an anonymized view, its tables and metadata in one transaction; return whether there was one.

    A view already removed by a plain DROP VIEW is forgotten. A ReleaseError without a view, unless
    `if_exists`.
    """
    # Everything is read in the transaction of the drop, because another connection may reuse the number.
    with transaction(con):
        releases, there = metadata.recorded(con, target), lookup(con, target)
        numbers = {release.release_id for release in releases}
        if there is not None and metadata.standing(con, releases) is None:
            lost = metadata.lost(con, target, releases)
            if lost is None:
                raise metadata.absent(con, target, releases)
            numbers = {lost}
        if there is None and not numbers:
            if not if_exists:
                raise metadata.absent(con, target, releases)
            return False
        metadata.check_writable(con, target)
        if there is not None:
            parts = (target.catalog, target.schema, target.name)
            statement = templates.render("relation.sql.j2:drop", parts=parts, view=True)
            engine.run(con, statement, "drop", error=ReleaseError)
        forget_orphans(con, target.catalog)
        for number in numbers:
            successive.forget(con, target.catalog, number)
            forget(con, target.catalog, number)
    return True


def tidy(con: duckdb.DuckDBPyConnection) -> None:
    """Forget the releases without a view in every writable database, after a plain DROP VIEW.

    Not in a transaction of the caller, which may write to only one database of the caller's choice.
    """
    if engine.in_transaction(con):
        return
    attached = databases(con, "catalog")
    for home in metadata.with_releases(con):
        complete = metadata.tables(con, home).issuperset(metadata.METADATA)
        writable = home in attached and not attached[home].readonly
        if writable and complete and metadata.orphans(con, home):
            # If another connection is doing the same, the next call removes the rest.
            with contextlib.suppress(ReleaseError), transaction(con, last=False):
                forget_orphans(con, home)


def _release(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    policy: Policy,
    target: Target,
    *,
    effect: bool,
    on_intersection: Intersection | None = None,
    refreshed: Published | None = None,
    only: bool = False,
    proof: bool = True,
) -> Release:
    made = candidate_of(con, source.query, policy, drawn=source.drawn)
    with names_of(con, source), made as candidate:
        persons = None
        if not only:
            with progress.step("compare"):
                earlier = kept(con, target.catalog)
                persons = persons_of(con, candidate, source, earlier)
                candidate = compared(
                    con, candidate, persons, target, earlier, on_intersection or policy.on_intersection
                )
        for text in candidate.report.warnings:
            tell(text)
        changed, finished = effects(con, candidate) if effect else (), ready(candidate)
        with progress.step("publish"):
            publish(con, finished, source, target, persons=persons, refreshed=refreshed, proof=proof)
    return _release_of(target, policy, finished, finished.report, effect=changed)


def _sweep(con: duckdb.DuckDBPyConnection, database: str) -> None:
    """Remove the drafts of killed exports beside the database, the usual place of exports."""
    attached = databases(con, "refresh").get(database)
    if attached and attached.path:
        drafts.sweep(Path(attached.path).parent)


def _check_free(con: duckdb.DuckDBPyConnection, target: Target, policy: Policy, *, or_replace: bool) -> None:
    there, releases = lookup(con, target), metadata.recorded(con, target)
    _check_beside(con, target, policy, releases)
    if there is None:
        return
    if metadata.standing(con, releases) is None and metadata.lost(con, target, releases) is None:
        unmarked = metadata.unmarked(con, releases)
        raise unmarked or ReleaseError(
            f"{target} is a {there.kind} that duckanon did not make and does not replace: choose another name"
        )
    if not or_replace:
        raise ReleaseError(
            f"{target} exists: use CREATE OR REPLACE ANONYMIZED VIEW or REFRESH ANONYMIZED VIEW"
        )


def _check_beside(
    con: duckdb.DuckDBPyConnection, target: Target, policy: Policy, releases: Sequence[Published]
) -> None:
    """Raise if the second view's name belongs to something other than a replaced release."""
    if policy.release != "anatomy":
        return
    second = Target(target.catalog, target.schema, f"{target.name}{SECOND_ENDING}")
    there = lookup(con, second)
    ours = [
        fold(view.name)
        for release in releases
        for view in metadata.views_beside(con, target.catalog, release.release_id)
        if view.schema == second.schema
    ]
    if there is not None and fold(second.name) not in ours:
        raise ReleaseError(
            f"{second}, the name of the second table of release = 'anatomy', is a {there.kind} already: "
            "rename that, or choose another name for the release"
        )
