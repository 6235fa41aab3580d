"""Audit: the files of ``sql/audit`` run on released columns and nothing else, and give their verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon import engine, sqlfiles
from duckanon.errors import SourceError
from duckanon.places import columns_of
from duckanon.report import Measure, Report, Violation
from duckanon.schema import Role
from duckanon.stages.tree import tree_relation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from decimal import Decimal

    import duckdb

    from duckanon.policy import AuditPolicy, Policy
    from duckanon.schema import Attribute
    from duckanon.stages.stage import Staged

WORST = 100
"""Violating classes that a report lists."""


@dataclass(frozen=True)
class Judgement:
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


def judgements(
    attributes: Sequence[Attribute], policy: AuditPolicy, trees: Mapping[str, str]
) -> list[Judgement]:
    """What an audit asks of every sensitive column.

    Parameters
    ----------
    attributes : sequence of Attribute
        Columns with their roles, as `schema.bind_audit` gives them.
    policy : AuditPolicy
        Kind of l-diversity, and its c.
    trees : mapping of str to str
        Tree (value, level, node), as SQL text, by column.

    Returns
    -------
    list of Judgement
        In the order of the columns.
    """
    return [
        Judgement(
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
    judgements: Sequence[Judgement],
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
    judgements : sequence of Judgement
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
    values |= {"qi": list(quasi_identifiers), "attributes": list(judgements)}
    statement = sqlfiles.render("audit_bind/report.sql.j2", **values)
    found = engine.rows(con, statement, stage, error=SourceError)
    report = Report(name, tuple(Measure(*row) for row in found))
    if report.passed or not any(measure.violations for measure in report.measures):
        return report
    statement = sqlfiles.render("audit_bind/classes.sql.j2", **values, limit=WORST)
    rows = engine.table(con, statement, stage).to_pylist()
    return Report(name, report.measures, tuple(_violation(row, quasi_identifiers) for row in rows))


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
    judgements = [
        Judgement(
            field.name,
            field.attribute.distance or "equal",
            field.attribute.t,
            field.attribute.l,
            policy.l_diversity,
            policy.c if policy.l_diversity == "recursive" else None,
            sqlfiles.render("audit_bind/temporary.sql.j2", name=tree_relation(staged, field))
            if field.attribute.distance == "hierarchical"
            else None,
        )
        for field in staged.sensitive
    ]
    relation = sqlfiles.render("audit_bind/temporary.sql.j2", name=candidate)
    return audit_sql(
        con, relation, [field.name for field in staged.quasi], judgements, k=policy.k, name="the candidate"
    )


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
