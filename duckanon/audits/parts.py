"""Audit of some classes of a table, where the whole table is known by the frequency of each value.

The statement is that of every audit, `sql/audit_bind/report.sql.j2`. Only the CTEs `domain` and `total`,
which count values in the whole table, are replaced by a relation that holds these counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from duckanon.audits.headers import audit_file, rows_of, split
from duckanon.database import templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.run import AuditColumn

FEW_VALUES = "audit/fast/few_values/t_closeness_ordered.sql"
"""The text of ordered distances that counts values first."""

_OF_THE_TABLE = ("domain", "total")
"""CTEs of the texts of t-closeness that count in the whole table."""


def part_sql(
    relation: str,
    quasi_identifiers: Sequence[str],
    columns: Sequence[AuditColumn],
    domains: Sequence[str],
    *,
    k: int | None,
) -> str:
    """Statement that gives the rows of a report for the classes in a relation.

    Parameters
    ----------
    relation : str
        Text after FROM: all records of some classes.
    quasi_identifiers : sequence of str
        Its columns that make a class.
    columns : sequence of AuditColumn
        What is asked of its sensitive columns; no distance is hierarchical.
    domains : sequence of str
        Name of a relation (value, records) of the whole table for each of them; empty where the relation is
        the whole table.
    k : int or None
        Least size of a class.

    Returns
    -------
    str
        DuckDB's SQL, for columns of text without a collation. Over an empty relation it is an error.
    """
    closeness = [
        _against(domain, column.distance) for domain, column in zip(domains, columns, strict=bool(domains))
    ]
    return templates.render(
        "audit_bind/report.sql.j2",
        relation=relation, qi=list(quasi_identifiers), attributes=list(columns), texts=(), k=k,
        rows_of=rows_of, closeness_texts=closeness,
    )  # fmt: skip


def _against(domain: str, distance: str) -> str:
    """Text of t-closeness that takes the whole table from a relation (value, records)."""
    name = f"t_closeness_{distance}"
    _, text = split(templates.read(FEW_VALUES if distance == "ordered" else audit_file(name)))
    query = sqlglot.parse_one(text, read="duckdb")
    assert isinstance(query, exp.Select)
    for cte in query.ctes:
        if cte.alias in _OF_THE_TABLE and not _reads(cte, "domain"):
            given = templates.render(f"audit_bind/{cte.alias}.sql.j2", domain=domain)
            cte.set("this", sqlglot.parse_one(given, read="duckdb"))
    return query.sql(dialect="duckdb", pretty=True)


def _reads(cte: exp.CTE, name: str) -> bool:
    return any(table.name == name for table in cte.this.find_all(exp.Table))
