"""The pipeline: from a query and a policy to an audited release, stage after stage."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.database import engine, interrupts, templates
from duckanon.database.handover import handed_over
from duckanon.errors import AuditFailure, InfeasibleError, SourceError, tell
from duckanon.release import metadata
from duckanon.release.stages.advice import collapse, warnings_of
from duckanon.release.stages.audit import audit_candidate
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.candidate import Candidate, Source
from duckanon.release.stages.flattened import flattened
from duckanon.release.stages.partition import partition
from duckanon.release.stages.plan import stratum_size
from duckanon.release.stages.prepare import prepared
from duckanon.release.stages.recode import classes_relation, labels_table, recode
from duckanon.release.stages.repair import repair
from duckanon.release.stages.thresholds import thresholds
from duckanon.release.verify.record import of_the_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.database.handover import Handover
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.prepare import Prepared


@contextlib.contextmanager
def audited_candidate(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, *, keep_source: bool = False
) -> Iterator[Candidate]:
    """Audited candidate of a query; its temporary tables are gone afterwards.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.
    keep_source : bool
        Whether the source stays until the end, too.

    Yields
    ------
    Candidate
        The candidate, after its audit passed.
    """
    until = time.monotonic() + policy.time_limit if policy.time_limit else None
    with prepared(con, query, policy, keep_source=keep_source) as ready:
        yield _build(con, ready, policy, until)


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
    if metadata.current(con) == (source.catalog, source.schema):
        yield
        return
    before = engine.rows(con, templates.read("catalog/search_path.sql"), "catalog")[0][0]
    back = templates.render("catalog/restore.sql.j2", search_path=before)
    with interrupts.cleanup(con, lambda: engine.run(con, back, "clean-up")):
        move = templates.render("catalog/use.sql.j2", catalog=source.catalog, schema=source.schema)
        engine.run(con, move, "source", error=SourceError)
        yield


def released_rows(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, *, plain: bool = False
) -> Handover:
    """Rows of a release that is not written anywhere; they are what its audit passed, types and values.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        What the release must keep.
    plain : bool
        Use the types that Arrow users know, where they hold every column.

    Returns
    -------
    Handover
        Released columns in source order, rows in the order of their values.
    """
    with audited_candidate(con, query, policy) as candidate:
        warn(candidate)
        relation = templates.render("audit_bind/temporary.sql.j2", name=candidate.table)
        return handed_over(con, relation, plain=plain)


def equivalence_classes(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> Handover:
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
    Handover
        All source columns and ``class_id``, in the order of the source. A class is an equivalence class of
        the release: records that are released with equal quasi-identifiers have one number, counted from 0 in
        the order of these values; NULL where a row is not released.
    """
    with _told(con, query, policy, "recode/classes.sql.j2") as relation:
        return handed_over(con, relation)


@contextlib.contextmanager
def owners_copy(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> Iterator[str]:
    """Released records with the columns that are dropped; for the owner of the data, not for release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        That of the release.

    Yields
    ------
    str
        A temporary table, as SQL text: the source's columns, quasi-identifiers as they are released.
    """
    with _told(con, query, policy, "recode/owners_copy.sql.j2") as relation:
        yield relation


@contextlib.contextmanager
def _told(con: duckdb.DuckDBPyConnection, query: str, policy: Policy, template: str) -> Iterator[str]:
    """Give a temporary table that tells the rows of the source their classes.

    The release is made as always, from the columns that it has: an identifier beside them would number the
    records otherwise, and records that tie would go to other classes.
    """
    with audited_candidate(con, query, policy, keep_source=True) as candidate:
        staged = candidate.staged
        labels, answer = f"{staged.workspace}_labels", f"{staged.workspace}_answer"
        statement = templates.render(
            template, staged=staged, labels=labels, classes=classes_relation(staged), answer=answer
        )
        with engine.registered(con, {labels: labels_table(candidate.labels)}):
            engine.run(con, statement, "release")
        yield templates.render("audit_bind/temporary.sql.j2", name=answer)


def warn(candidate: Candidate) -> None:
    """Raise the warnings of a candidate as Python warnings, before anything of it is visible.

    Parameters
    ----------
    candidate : Candidate
        An audited candidate.
    """
    for text in candidate.report.warnings:
        tell(text)


def _build(con: duckdb.DuckDBPyConnection, ready: Prepared, policy: Policy, until: float | None) -> Candidate:
    staged, embedded, wanted = ready.staged, ready.embedded, ready.wanted
    limits = thresholds(wanted)
    strata = stratum_size(staged.size, policy, limits) if limits else 1
    with progress.step("bucket"):
        bucketed = bucket(con, staged, embedded, policy, thresholds=limits, codes=wanted.codes, strata=strata)
    partitioned = partition(con, staged, embedded, bucketed, policy=policy, thresholds=limits, until=until)
    with progress.step("repair"):
        repaired = repair(partitioned, wanted, suppression_limit=policy.suppression_limit)
    with progress.step("recode"):
        candidate = recode(con, staged, repaired.labels)
    with progress.step("audit"):
        report = audit_candidate(con, candidate, staged, policy)
    _require_pass(report, policy)
    # Classes of the partition that are recoded to equal values are one class of the release.
    classes = report.classes
    cost = collapse(
        con, embedded, bucketed, policy=policy, thresholds=limits, repaired=repaired, classes=classes
    ) or flattened(con, staged, candidate=candidate)
    advice = warnings_of(con, staged, embedded, candidate=candidate) + cost
    suppressed = staged.left_out + repaired.suppressed
    extra = of_the_source(classes, information_loss=repaired.information_loss, suppressed=suppressed)
    return Candidate(
        candidate,
        staged,
        policy,
        partitioned.plan,
        repaired.labels,
        suppressed,
        repaired.information_loss,
        report.extended(extra, warnings=advice, plan=partitioned.plan.text),
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
