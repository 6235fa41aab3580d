"""The pipeline: from a query and a policy to an audited release, stage after stage."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon import catalog, engine, sqlfiles
from duckanon.errors import AuditFailure, DuckanonWarning, InfeasibleError, ReleaseError, SourceError
from duckanon.policy import Policy
from duckanon.report import Measure
from duckanon.stages.advice import collapse, warnings_of
from duckanon.stages.audit import audit_candidate
from duckanon.stages.bucket import bucket
from duckanon.stages.candidate import Built, Source
from duckanon.stages.embed import embed
from duckanon.stages.partition import partition, stratum_size
from duckanon.stages.publish import forget, publish, transaction
from duckanon.stages.recode import labels_table, recode
from duckanon.stages.repair import repair
from duckanon.stages.stage import drop, stage
from duckanon.stages.thresholds import judged, thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow as pa

    from duckanon.catalog import Published, Target
    from duckanon.report import Report


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
        The policy it keeps.
    classes, records, suppressed : int
        Equivalence classes, released records, records left out.
    method : str
        Method that made the partition.
    information_loss : float
        IL = 100 SSE / SST over the embedded quasi-identifiers, in per cent.
    """

    name: str
    report: Report
    policy: Policy
    classes: int
    records: int
    suppressed: int
    method: str
    information_loss: float


def create(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, target: Target, *, or_replace: bool = False
) -> Release:
    """Release of a query under a name: staged, partitioned, recoded, audited, published.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.
    target : Target
        Name of the view.
    or_replace : bool
        Whether an anonymized view of that name is replaced; a user's table or view never is.

    Returns
    -------
    Release
        The release as published.

    Raises
    ------
    DuckanonError
        Anything is wrong with source, policy, audit or target; nothing is visible then.
    """
    catalog.check_writable(con, target)
    _check_free(con, target, or_replace=or_replace)
    return _release(con, Source(query, *catalog.current(con)), policy, target)


def refresh(con: duckdb.DuckDBPyConnection, target: Target) -> Release:
    """Release of today's source under the policy of an existing anonymized view.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    target : Target
        The anonymized view.

    Returns
    -------
    Release
        The new release; the old one stays visible until the new one is audited.
    """
    catalog.check_writable(con, target)
    published = catalog.require(con, target)
    source = Source(published.source_sql, published.source_catalog, published.source_schema)
    return _release(con, source, Policy.from_toml(published.policy), published.target)


def drop_view(con: duckdb.DuckDBPyConnection, target: Target, *, if_exists: bool = False) -> None:
    """Remove an anonymized view, its table and its metadata in one transaction.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    target : Target
        The view.
    if_exists : bool
        Whether it is fine when there is none.

    Raises
    ------
    ReleaseError
        There is no such anonymized view, or the database is read-only.
    """
    published = catalog.find(con, target)
    if published is None and if_exists and catalog.occupied(con, target) is None:
        return
    published = published or catalog.require(con, target)
    catalog.check_writable(con, target)
    with transaction(con):
        statement = sqlfiles.render(
            "publish/drop_view.sql.j2", catalog=target.catalog, schema=target.schema, view=target.name
        )
        engine.run(con, statement, "drop", error=ReleaseError)
        forget(con, published)


@contextlib.contextmanager
def built(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> Iterator[Built]:
    """Audited candidate of a query; its temporary tables are gone afterwards.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.

    Yields
    ------
    Built
        The candidate, after its audit passed.
    """
    prefix = engine.workspace()
    try:
        yield _build(con, query, policy, prefix)
    finally:
        drop(con, prefix)


@contextlib.contextmanager
def names_of(con: duckdb.DuckDBPyConnection, source: Source) -> Iterator[None]:
    """Look up unqualified names where the source was written, then where the caller is again.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    source : Source
        Its catalog and schema.

    Yields
    ------
    None
        While the other place is current.
    """
    if catalog.current(con) == (source.catalog, source.schema):
        yield
        return
    before = engine.rows(con, sqlfiles.read("catalog/search_path.sql"), "catalog")[0][0]
    move = sqlfiles.render("catalog/use.sql.j2", catalog=source.catalog, schema=source.schema)
    engine.run(con, move, "source", error=SourceError)
    try:
        yield
    finally:
        engine.run(con, sqlfiles.render("catalog/restore.sql.j2", search_path=before), "catalog")


def released_rows(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> pa.Table:
    """Rows of a release that is not written anywhere; its audit has passed.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.

    Returns
    -------
    pyarrow.Table
        Released columns in source order, rows in the order of their values.
    """
    with built(con, query, policy) as candidate:
        _warn(candidate)
        statement = sqlfiles.render("recode/rows.sql.j2", candidate=candidate.candidate)
        return engine.table(con, statement, "release")


def equivalence_classes(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> pa.Table:
    """Source rows with the class each of them is released in; for the owner of the data, not for release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.

    Returns
    -------
    pyarrow.Table
        All source columns and ``class_id``, NULL where suppressed.
    """
    others = policy.insensitive if policy.insensitive == "*" else (*policy.insensitive, *policy.identifiers)
    whole = replace(policy, identifiers=(), insensitive=others)
    with built(con, query, whole) as candidate:
        registered = f"{candidate.staged.workspace}_labels"
        con.register(registered, labels_table(candidate.labels))
        statement = sqlfiles.render(
            "recode/classes.sql.j2",
            records=candidate.staged.records,
            labels=registered,
            fields=candidate.staged.fields,
        )
        rows = engine.table(con, statement, "release")
        con.unregister(registered)
        return rows


def _release(con: duckdb.DuckDBPyConnection, source: Source, policy: Policy, target: Target) -> Release:
    with names_of(con, source), built(con, source.query, policy) as candidate:
        _warn(candidate)
        publish(con, candidate, source, target)
    return Release(
        name=str(target),
        report=candidate.report,
        policy=policy,
        classes=candidate.class_count,
        records=candidate.staged.size + candidate.staged.left_out - candidate.suppressed,
        suppressed=candidate.suppressed,
        method=candidate.method,
        information_loss=candidate.information_loss,
    )


def _warn(candidate: Built) -> None:
    for text in candidate.report.warnings:
        warnings.warn(text, DuckanonWarning, stacklevel=4)


def _check_free(con: duckdb.DuckDBPyConnection, target: Target, *, or_replace: bool) -> None:
    kind = catalog.occupied(con, target)
    if kind is None:
        return
    ours: Published | None = catalog.find(con, target)
    if ours is None:
        raise ReleaseError(
            f"{target} is a {kind} that duckanon did not make and does not replace: choose another name"
        )
    if not or_replace:
        raise ReleaseError(
            f"{target} exists: use CREATE OR REPLACE ANONYMIZED VIEW or REFRESH ANONYMIZED VIEW"
        )


def _build(con: duckdb.DuckDBPyConnection, query: str, policy: Policy, prefix: str) -> Built:
    staged = stage(con, query, policy, prefix)
    embedded = embed(con, staged, policy)
    wanted = judged(con, staged, embedded, policy)
    limits = thresholds(wanted)
    strata = stratum_size(staged.size, policy, limits) if limits else 1
    bucketed = bucket(con, staged, embedded, policy, thresholds=limits, codes=wanted.codes, strata=strata)
    partitioned = partition(con, staged, embedded, bucketed, policy=policy, thresholds=limits)
    repaired = repair(partitioned, wanted, suppression_limit=policy.suppression_limit)
    candidate = recode(con, staged, repaired.labels)
    report = audit_candidate(con, candidate, staged, policy)
    _require_pass(report, policy)
    advice = warnings_of(con, staged, embedded) + collapse(
        con,
        embedded,
        bucketed,
        policy=policy,
        plan=partitioned.plan,
        thresholds=limits,
        repaired_classes=repaired,
    )
    suppressed = staged.left_out + repaired.suppressed
    extra = (
        Measure(
            "information_loss", None, None, repaired.information_loss, repaired.class_count, None, None, None
        ),
        Measure("suppressed_records", None, None, float(suppressed), repaired.class_count, None, None, None),
    )
    return Built(
        candidate,
        staged,
        policy,
        partitioned.plan,
        repaired.labels,
        repaired.class_count,
        suppressed,
        repaired.information_loss,
        report.extended(extra, warnings=advice),
    )


def _require_pass(report: Report, policy: Policy) -> None:
    failed = [measure for measure in report.measures if measure.passed is False]
    if not failed:
        return
    worst = failed[0]
    about = f" of {worst.attribute!r}" if worst.attribute else ""
    what = f"{worst.measure}{about} is {worst.value:.6g} where the policy asks for {worst.threshold}"
    if policy.method == "auto":
        raise AuditFailure(f"the audit of the candidate failed, nothing was released: {what}", report)
    raise InfeasibleError(
        f"method = {policy.method!r} has no repair and misses a threshold: {what}; "
        "use method = 'auto', or ask for what it reached",
        float(worst.value or 0),
    )
