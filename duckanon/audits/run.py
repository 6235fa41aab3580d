"""AUDIT of any table, view or file by the policy that is given."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duckanon.audits.evidence import evidence_of
from duckanon.audits.report import Measure, Report, Violation
from duckanon.audits.tree import audit_tree
from duckanon.audits.unaudited import Roles, warnings_of
from duckanon.database import engine, templates
from duckanon.database.engine import temporary
from duckanon.database.relations import columns_of, named
from duckanon.errors import PolicyError, SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.statements.options import options_to_audit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from decimal import Decimal

    import duckdb

    from duckanon.policy.bind import Attribute
    from duckanon.statements.names import QualifiedName
    from duckanon.statements.options import Options


def audit_relation(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy | Policy,
    *,
    name: str,
    roles: Roles | None = None,
    evidence: bool = False,
) -> Report:
    """Audit of any relation by a policy.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    relation : str
        What stands after FROM.
    policy : AuditPolicy or Policy
        Roles, thresholds and hierarchy tables.
    name : str
        How the report calls it.
    roles : Roles, optional
        What is known of other columns; by default what a Policy says of them.
    evidence : bool
        Say in the report what was asked of which rows; that takes a sort of all rows.

    Returns
    -------
    Report
        Verdict of every threshold; a measure without one is reported only. Its warnings name the columns
        that are not audited, and say how many records are unique on them.

    Raises
    ------
    SourceError
        The relation cannot be read or is empty.
    PolicyError
        A column does not exist, or a hierarchy is unusable.
    """
    stage, roles = f"audit of {name}", roles or roles_of(policy)
    policy = policy.audited() if isinstance(policy, Policy) else policy
    columns = columns_of(con, relation, stage)
    attributes = bind.bind_audit(policy, columns)
    graded = [attribute for attribute in attributes if attribute.distance == "hierarchical"]
    with temporary(con) if graded else nullcontext("") as workspace:
        trees = {each.name: audit_tree(con, workspace, each, relation=relation) for each in graded}
        report = audit_attributes(con, relation, attributes, policy, trees, name=name)
        beyond = warnings_of(con, relation, columns, attributes, roles=roles, stage=stage)
        report = replace(report, warnings=(*report.warnings, *beyond))
        if not evidence:
            return report
        return replace(report, evidence=evidence_of(con, relation, policy, trees).to_dict())


def roles_of(policy: AuditPolicy | Policy) -> Roles:
    """Roles of the columns that an audit does not look at.

    Parameters
    ----------
    policy : AuditPolicy or Policy
        The policy.

    Returns
    -------
    Roles
        Empty of an AuditPolicy, which does not know them.
    """
    return Roles(policy.insensitive, policy.identifiers) if isinstance(policy, Policy) else Roles()


def audit_table(con: duckdb.DuckDBPyConnection, name: QualifiedName, options: Options) -> Report:
    """Audit of a table, view or file by the options of AUDIT TABLE.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    name : QualifiedName
        As it was written.
    options : Options
        Roles and thresholds.

    Returns
    -------
    Report
        Verdict of every threshold.
    """
    parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
    relation = named(*parts)
    return audit_relation(con, relation, options_to_audit(options), name=".".join(parts))


def audit_attributes(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    attributes: Sequence[Attribute],
    policy: AuditPolicy,
    trees: Mapping[str, str],
    *,
    name: str,
) -> Report:
    """Audit of the columns of a relation whose roles, thresholds and trees are known.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    relation : str
        What stands after FROM.
    attributes : sequence of Attribute
        Columns with their roles and thresholds, as `bind.bind_audit` gives them.
    policy : AuditPolicy
        k and the kind of l-diversity.
    trees : mapping from str to str
        Tree (value, level, node), as SQL text, of every column with hierarchical distance.
    name : str
        How the report calls the relation.

    Returns
    -------
    Report
        Verdict of every threshold.

    Raises
    ------
    PolicyError
        There is no quasi-identifier.
    """
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    if not quasi:
        raise PolicyError("an audit needs at least one quasi-identifier")
    asked = audit_columns(attributes, policy, trees)
    texts = {attribute.name for attribute in attributes if attribute.type == "VARCHAR"}
    return audit_sql(con, relation, quasi, asked, k=policy.k, name=name, texts=texts)


WORST = 100
"""Violating classes that a report lists."""


@dataclass(frozen=True)
class AuditColumn:
    """What an audit asks of one sensitive column.

    Attributes
    ----------
    name : str
        The column.
    distance : str
        Ground distance: ordered, equal or hierarchical.
    t, l, c : Decimal or None
        Thresholds; a measure without one is reported, not judged.
    l_kind : str
        distinct, entropy or recursive.
    tree : str or None
        Relation (value, level, node) as SQL text, for hierarchical distance.
    """

    name: str
    distance: str
    t: Decimal | None = None
    l: Decimal | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_kind: str = "distinct"
    c: Decimal | None = None
    tree: str | None = None


def audit_columns(
    attributes: Sequence[Attribute], policy: AuditPolicy, trees: Mapping[str, str]
) -> list[AuditColumn]:
    """What an audit asks of every sensitive column.

    Parameters
    ----------
    attributes : sequence of Attribute
        Columns with their roles, as `bind.bind_audit` gives them.
    policy : AuditPolicy
        Kind of l-diversity, and its c.
    trees : mapping of str to str
        Tree (value, level, node), as SQL text, by column.

    Returns
    -------
    list of AuditColumn
        In the order of the columns.
    """
    return [
        AuditColumn(
            attribute.name,
            attribute.distance or "equal",
            attribute.t,
            attribute.l,
            policy.l_diversity,
            policy.c,
            trees.get(attribute.name),
        )
        for attribute in attributes
        if attribute.role is Role.SENSITIVE
    ]


def audit_sql(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    quasi_identifiers: Sequence[str],
    audit_columns: Sequence[AuditColumn],
    *,
    k: int | None,
    name: str,
    texts: Collection[str] | None = None,
) -> Report:
    """Audit of any relation.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation.
    relation : str
        What stands after FROM, quoted.
    quasi_identifiers : sequence of str
        Columns that make the equivalence classes.
    audit_columns : sequence of AuditColumn
        One entry a sensitive column.
    k : int or None
        Smallest class wanted.
    name : str
        How the report calls the relation.
    texts : collection of str, optional
        Columns of text, where the caller knows them.

    Returns
    -------
    Report
        Measures with verdicts in exact arithmetic, and the worst violating classes.

    Raises
    ------
    SourceError
        A column does not exist, or the relation is empty or fails: never a pass.

    Notes
    -----
    O(n log n) in SQL; see sql/audit for the definitions.
    """
    stage = f"audit of {name}"
    if texts is None:
        texts = {column for column, kind in columns_of(con, relation, stage) if kind == "VARCHAR"}
    values: dict[str, object] = {"relation": relation, "texts": texts, "k": k}
    values |= {"qi": list(quasi_identifiers), "attributes": list(audit_columns)}
    statement = templates.render("audit_bind/report.sql.j2", **values)
    found = engine.rows(con, statement, stage, error=SourceError)
    report = Report(name, tuple(Measure(*row) for row in found))
    if report.passed or not any(measure.violations for measure in report.measures):
        return report
    statement = templates.render("audit_bind/classes.sql.j2", **values, limit=WORST)
    rows = engine.table(con, statement, stage).to_pylist()
    return Report(name, report.measures, tuple(_violation(row, quasi_identifiers) for row in rows))


def _violation(row: dict[str, object], quasi_identifiers: Sequence[str]) -> Violation:
    return Violation(
        measure=str(row["measure"]),
        attribute=None if row["attribute"] is None else str(row["attribute"]),
        class_values={
            name: None if row[f"qi_{number}"] is None else str(row[f"qi_{number}"])
            for number, name in enumerate(quasi_identifiers, start=1)
        },
        class_size=int(str(row["class_size"])),
        value=float(str(row["value"])),
    )
