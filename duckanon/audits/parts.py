"""Audit of some classes of a table, given the frequency of each value in the whole table.

The statement is that of every audit, `sql/audit_bind/report.sql.j2`. Only the CTEs `domain` and `total`,
which count values in the whole table, are replaced by a relation with these counts.
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
"""CTEs of the texts of t-closeness that count values in the whole table."""


def part_sql(
    relation: str,
    quasi_identifiers: Sequence[str],
    columns: Sequence[AuditColumn],
    domains: Sequence[str],
    *,
    k: int | None,
) -> str:
    """Statement in DuckDB's SQL for the rows of a report on the classes in `relation` (SQL text after FROM).

    No distance may be hierarchical, and no text may have a collation. `domains` names a relation (value,
    records) of the whole table for each column; empty if `relation` is the whole table. No rows are an error.
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
    """Text of t-closeness with the whole table given by a relation (value, records)."""
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
