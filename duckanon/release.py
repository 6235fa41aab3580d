"""The pipeline: from a query and a policy to an audited release, stage after stage."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon import catalog, engine, interrupts, progress, sqlfiles
from duckanon.errors import AuditFailure, InfeasibleError, SourceError, tell
from duckanon.recorded import of_the_source
from duckanon.stages.advice import collapse, warnings_of
from duckanon.stages.audit import audit_candidate
from duckanon.stages.bucket import bucket
from duckanon.stages.candidate import Built, Source
from duckanon.stages.effects import flattened
from duckanon.stages.partition import partition
from duckanon.stages.plan import stratum_size
from duckanon.stages.prepare import prepared
from duckanon.stages.recode import labels_table, recode
from duckanon.stages.repair import repair
from duckanon.stages.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow as pa

    from duckanon.policy import Policy
    from duckanon.report import Report
    from duckanon.stages.prepare import Prepared


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
    until = time.monotonic() + policy.time_limit if policy.time_limit else None
    with prepared(con, query, policy) as ready:
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
    if catalog.current(con) == (source.catalog, source.schema):
        yield
        return
    before = engine.rows(con, sqlfiles.read("catalog/search_path.sql"), "catalog")[0][0]
    back = sqlfiles.render("catalog/restore.sql.j2", search_path=before)
    with interrupts.cleanup(con, lambda: engine.run(con, back, "clean-up")):
        move = sqlfiles.render("catalog/use.sql.j2", catalog=source.catalog, schema=source.schema)
        engine.run(con, move, "source", error=SourceError)
        yield


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
        warn(candidate)
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
        statement = sqlfiles.render(
            "recode/classes.sql.j2",
            records=candidate.staged.records,
            labels=registered,
            fields=candidate.staged.fields,
        )
        with engine.registered(con, {registered: labels_table(candidate.labels)}):
            return engine.table(con, statement, "release")


def warn(candidate: Built) -> None:
    """Raise the warnings of a candidate as Python warnings, before anything of it is visible.

    Parameters
    ----------
    candidate : Built
        An audited candidate.
    """
    for text in candidate.report.warnings:
        tell(text)


def _build(con: duckdb.DuckDBPyConnection, ready: Prepared, policy: Policy, until: float | None) -> Built:
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
    return Built(
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
