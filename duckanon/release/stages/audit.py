"""Audit of a candidate: its released columns alone are asked, and what fails is not released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.audits.run import audit_columns, audit_sql
from duckanon.database import templates

if TYPE_CHECKING:
    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.stage import Staged


def audit_candidate(con: duckdb.DuckDBPyConnection, candidate: str, staged: Staged, policy: Policy) -> Report:
    """Audit of the candidate of a release, from its released columns only.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    candidate : str
        Temporary table of the released columns.
    staged : Staged
        The fields and their attributes.
    policy : Policy
        k and the kind of l.

    Returns
    -------
    Report
        Verdict of every threshold of the policy.
    """
    trees = {
        field.name: templates.render("audit_bind/temporary.sql.j2", name=staged.tree(field))
        for field in staged.sensitive
        if field.attribute.distance == "hierarchical"
    }
    asked = audit_columns([field.attribute for field in staged.sensitive], policy.audited(), trees)
    relation = templates.render("audit_bind/temporary.sql.j2", name=candidate)
    return audit_sql(
        con, relation, [field.name for field in staged.quasi], asked, k=policy.k, name="the candidate"
    )
