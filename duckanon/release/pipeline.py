"""The pipeline: from a query and a policy to an audited release, stage after stage."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from duckanon import progress
from duckanon.database import engine, interrupts, templates
from duckanon.database.handover import handed_over
from duckanon.database.relations import named
from duckanon.errors import PolicyError, SourceError, tell
from duckanon.release.stages.advice import advise
from duckanon.release.stages.audit import audit
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.embed import embed
from duckanon.release.stages.least_loss import least_loss
from duckanon.release.stages.partition import partition
from duckanon.release.stages.protect import protect
from duckanon.release.stages.recode import classes_relation, labelled_relation, recode
from duckanon.release.stages.repair import repair
from duckanon.release.stages.stage import Request, stage
from duckanon.release.stages.thresholds import limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb

    from duckanon.database.handover import Handover
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.candidate import Candidate, Source
    from duckanon.release.stages.drift import Drawn

STAGES: tuple[Callable[[duckdb.DuckDBPyConnection, Any, Policy], object], ...] = (
    stage,
    embed,
    limit,
    bucket,
    partition,
    repair,
    least_loss,
    protect,
    recode,
    audit,
    advise,
)
"""The way of the data: each stage takes the connection, the result of the one before, and the policy."""

Result = TypeVar("Result")


@contextlib.contextmanager
def through(
    last: Callable[[duckdb.DuckDBPyConnection, Any, Policy], Result],
    con: duckdb.DuckDBPyConnection,
    query: str,
    policy: Policy,
    *,
    keep_source: bool = False,
    drawn: Drawn | None = None,
) -> Iterator[Result]:
    """Give the result of one of `STAGES`, and by it those before; no temporary table is left afterwards.

    The source has to have the columns that it is `drawn` with, if that is given.
    """
    with engine.temporary(con) as workspace:
        result: Any = Request(query, workspace, keep_source, drawn)
        for each in STAGES[: STAGES.index(last) + 1]:
            # Partition shows its tiles itself.
            with contextlib.nullcontext() if each is partition else progress.step(each.__name__):
                result = each(con, result, policy)
        yield result


@contextlib.contextmanager
def names_of(con: duckdb.DuckDBPyConnection, source: Source) -> Iterator[None]:
    """Look up unqualified names where the source was written, then where the caller is again."""
    catalog, schema, before = engine.rows(con, templates.render("session.sql.j2:current"), "catalog")[0]
    if (catalog, schema) == (source.catalog, source.schema):
        yield
        return
    back = templates.render("session.sql.j2:set", name="search_path", value=before, session=False)
    with interrupts.cleanup(con, lambda: engine.run(con, back, "clean-up")):
        move = templates.render("session.sql.j2:use", catalog=source.catalog, schema=source.schema)
        engine.run(con, move, "source", error=SourceError)
        yield


def released_rows(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, *, plain: bool = False
) -> Handover:
    """Rows of a release that is not written anywhere; they are what its audit passed, types and values.

    In the order of their values; `plain` uses the types that Arrow users know, where they hold every column.
    """
    if policy.release == "anatomy":
        raise PolicyError(
            "release = 'anatomy' makes two tables and this returns one: CREATE ANONYMIZED VIEW makes both"
        )
    if policy.on_intersection == "error":
        raise PolicyError(
            "on_intersection = 'error' compares a view with its earlier releases, and these rows have none: "
            "leave it out, or use CREATE ANONYMIZED VIEW"
        )
    with through(advise, con, query, policy) as candidate:
        warn(candidate)
        relation = named("temp", candidate.table)
        return handed_over(con, relation, plain=plain)


def equivalence_classes(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> Handover:
    """Source rows with the class each is released in; for the owner of the data, not for release.

    All columns, in the order of the source. ``class_id`` numbers the equivalence classes of the release,
    records with equal released quasi-identifiers, from 0 in the order of these values; NULL where a row is
    not released.
    """
    with _told(con, query, policy, "recode/classes.sql.j2") as relation:
        return handed_over(con, relation)


def owners_copy(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy
) -> contextlib.AbstractContextManager[str]:
    """Give a temporary table of the source's columns, quasi-identifiers as released; for the owner alone.

    PolicyError where nobody knows any more whose a released value was.
    """
    if policy.release != "table":
        raise PolicyError(
            f"with release = {policy.release!r} no released row belongs to a record: leave the id out"
        )
    return _told(con, query, policy, "recode/owners_copy.sql.j2")


@contextlib.contextmanager
def _told(con: duckdb.DuckDBPyConnection, query: str, policy: Policy, template: str) -> Iterator[str]:
    """Give a temporary table that tells the rows of the source their classes.

    The release is made from the columns that it has: an identifier beside them would number the records
    otherwise, and records that tie would go to other classes.
    """
    with through(advise, con, query, policy, keep_source=True) as candidate:
        staged = candidate.staged
        answer = f"{staged.workspace}_answer"
        statement = templates.render(
            template,
            staged=staged,
            labelled=labelled_relation(staged),
            classes=classes_relation(staged),
            answer=answer,
        )
        engine.run(con, statement, "release")
        yield named("temp", answer)


def warn(candidate: Candidate) -> None:
    """Raise the warnings of a candidate as Python warnings, before anything of it is visible."""
    for text in candidate.report.warnings:
        tell(text)
