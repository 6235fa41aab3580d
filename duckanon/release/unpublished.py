"""Unpublished releases: their rows without a view, and for the owner the class of each source row."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.database.handover import handed_over
from duckanon.database.relations import named
from duckanon.errors import PolicyError, tell
from duckanon.release.pipeline import candidate_of
from duckanon.release.stages.recode import classes_relation, labelled_relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.database.handover import Handover
    from duckanon.policy.policy import Policy


def released_rows(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, *, plain: bool = False
) -> Handover:
    """Rows of a release without a view: the audited rows, types and values, in the order of their values.

    `plain` prefers types that Arrow users know, if these hold every column.
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
    with candidate_of(con, query, policy) as candidate:
        for text in candidate.report.warnings:
            tell(text)
        relation = named("temp", candidate.recoded.table)
        return handed_over(con, relation, plain=plain)


def equivalence_classes(con: duckdb.DuckDBPyConnection, query: str, policy: Policy) -> Handover:
    """Source rows with the class of each; for the owner of the data, not for release.

    All columns, in the order of the source. ``class_id`` numbers the equivalence classes of the release from
    0 in the order of their released values; NULL if a row is not released.
    """
    with _told(con, query, policy, "recode/placed.sql.j2:classes") as relation:
        return handed_over(con, relation)


def owners_copy(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy
) -> contextlib.AbstractContextManager[str]:
    """Give a temporary table of the source with released quasi-identifiers; for the owner alone.

    PolicyError if released values cannot be assigned to source rows.
    """
    if policy.release != "table":
        raise PolicyError(
            f"with release = {policy.release!r} no released row belongs to a record: leave the id out"
        )
    return _told(con, query, policy, "recode/owners_copy.sql.j2")


@contextlib.contextmanager
def _told(con: duckdb.DuckDBPyConnection, query: str, policy: Policy, template: str) -> Iterator[str]:
    """Give a temporary table of the source rows and their classes.

    The release uses only its own columns. A further identifier would change record numbers, and tied records
    would change classes.
    """
    with candidate_of(con, query, policy, keep_source=True, advice=False) as candidate:
        staged = candidate.staged
        answer = f"{staged.workspace}_answer"
        statement = templates.render(
            template,
            source=staged.source,
            row=staged.row,
            quasi=staged.quasi,
            labelled=labelled_relation(staged),
            classes=classes_relation(staged),
            answer=answer,
        )
        engine.run(con, statement, "release")
        yield named("temp", answer)
