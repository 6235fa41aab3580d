"""`anonymize` and `audit`: from Python what CREATE ANONYMIZED VIEW and AUDIT are in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.api.connection import Connection
from duckanon.audits.run import audit_relation
from duckanon.database import templates
from duckanon.database.interrupts import interruptible
from duckanon.release import metadata
from duckanon.release.views import create
from duckanon.statements.names import QualifiedName, parse_name

if TYPE_CHECKING:
    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.policy import AuditPolicy, Policy
    from duckanon.release.views import Release


@interruptible
def anonymize(
    con: Connection | duckdb.DuckDBPyConnection,
    source: str,
    policy: Policy,
    *,
    name: str,
    or_replace: bool = False,
    effect: bool = False,
) -> Release:
    """Release of a table or query as an anonymized view.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection.
    source : str
        Name of a table, view or file, or a query.
    policy : Policy
        Roles of the columns and what the release must keep.
    name : str
        Name of the view, as in SQL: ``schema.view``, quoted where it must be.
    or_replace : bool
        Whether an anonymized view of that name is replaced.
    effect : bool
        Whether to tell what changes in each quasi-identifier, as `Release.effect`.

    Returns
    -------
    Release
        Name, report, policy and figures of the release.

    Raises
    ------
    DuckanonError
        Source, policy or name is wrong, or the audit failed; nothing is visible then.
    """
    plain = con.duckdb if isinstance(con, Connection) else con
    target = metadata.resolve(plain, parse_name(name))
    return create(plain, _query(source), policy, target, or_replace=or_replace, effect=effect)


@interruptible
def audit(con: Connection | duckdb.DuckDBPyConnection, relation: str, policy: Policy | AuditPolicy) -> Report:
    """Audit of a table, view or anonymized view by a policy.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection.
    relation : str
        Name of the table or view, as in SQL, or a file in single quotes.
    policy : Policy or AuditPolicy
        Columns and thresholds.

    Returns
    -------
    Report
        ``passed``, ``measures``, ``violations``.

    Raises
    ------
    DuckanonError
        The relation or a column does not exist, or the relation is empty: never a pass.
    """
    plain = con.duckdb if isinstance(con, Connection) else con
    return audit_relation(plain, _relation(parse_name(relation)), policy, name=relation)


def _relation(name: QualifiedName) -> str:
    parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
    return templates.render("audit_bind/named.sql.j2", parts=parts)


def _query(source: str) -> str:
    """Return the query that a name stands for; a text that is not a name is a query itself."""
    try:
        named = parse_name(source)
    except ValueError:
        return source
    return templates.render("files/query.sql.j2", relation=_relation(named))
