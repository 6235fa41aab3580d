"""The audits as text for other engines, so that an auditor can run them where the data are.

The files of ``sql/audit`` use the part of SQL that DuckDB, PostgreSQL and Spark share. sqlglot translates
them to the other dialects; expressions that sqlglot leaves in DuckDB's form are rewritten here.
``sql/audit/fast`` has faster texts with the same rows, for all engines or for one.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, get_args

import sqlglot
from sqlglot import ErrorLevel, exp

from duckanon.audits.headers import audit_file, audit_names, rows_of, split
from duckanon.database import templates
from duckanon.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duckanon.audits.columns import AuditColumn


__all__ = ["DIFFERENCES", "ENGINES", "Engine", "audit_names", "audit_sql"]

Engine = Literal["duckdb", "postgres", "spark"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

DIFFERENCES: Mapping[tuple[str, Engine], str] = {
    ("l_diversity", "postgres"): "recursive_c is a JSONB object with l as text for its keys: there is no MAP",
}
"""Audits that another engine rejects or answers differently from DuckDB, and the difference."""


def audit_sql(name: str, engine: Engine = "duckdb") -> str:
    """Text of one audit in the SQL of an engine.

    Parameters
    ----------
    name : str
        A name of `audit_names`.
    engine : {'duckdb', 'postgres', 'spark'}
        Where it is to run.

    Returns
    -------
    str
        One SELECT over the relations that its header names, without a semicolon, ending in a newline.

    Raises
    ------
    PolicyError
        There is no such audit or engine.

    Notes
    -----
    Integers of 128 bits are ``DECIMAL(38, 0)`` on the other engines: exact, and an overflow is an error; on
    Spark only in ANSI mode, the default since Spark 4. The text has no guards: over an empty relation it
    gives no row or NULL. `DIFFERENCES` lists the audits that an engine rejects or answers differently.

    Examples
    --------
    >>> audit_sql("class_sizes", "spark").split()[-3:]
    ['GROUP', 'BY', 'class']
    """
    _check("audit", name, audit_names())
    _check("engine", engine, ENGINES)
    text = templates.read(audit_file(name, engine))
    if engine == "duckdb":
        return text
    head, body = split(text)
    query = sqlglot.parse_one(body, read="duckdb")
    for rewrite in _REWRITES[engine]:
        query = query.transform(rewrite)
    note = DIFFERENCES.get((name, engine))
    return (
        head
        + f"-- engine: {engine}; HUGEINT is DECIMAL(38, 0)\n"
        + (f"-- differs: {note}\n" if note else "")
        + query.sql(
            dialect=engine,
            pretty=True,
            max_text_width=100,
            normalize_functions="lower",
            unsupported_level=ErrorLevel.RAISE,
        )
        + "\n"
    )


def _check(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise PolicyError(f"there is no {what} {name!r}: {hint}")


def _wide_integer(node: exp.Expr) -> exp.Expr:
    """Write integers of 128 bits as decimals; sqlglot keeps INT128, which only DuckDB knows."""
    if isinstance(node, exp.DataType) and node.this is exp.DataType.Type.INT128:
        return exp.DataType.build("DECIMAL(38, 0)")
    return node


def _json_for_map(node: exp.Expr) -> exp.Expr:
    """Write a map made from two columns as a JSON object: ``map_from_entries(list({'l': a, 'c': b}))``."""
    if isinstance(node, exp.MapFromEntries):
        key, value = (entry.expression for entry in node.this.this.expressions)
        return exp.JSONBObjectAgg(this=key, expression=value)
    return node


def _series(node: exp.Expr) -> exp.Expr:
    """Write a series without unnest: in PostgreSQL a series is rows, not a list."""
    if isinstance(node, exp.Explode | exp.Unnest) and isinstance(node.this, exp.GenerateSeries):
        return node.this
    return node


def _wide_place(node: exp.Expr) -> exp.Expr:
    """Write row numbers and ranks as BIGINT, as in DuckDB; on Spark they, and their products, are INT."""
    places = exp.RowNumber | exp.Rank | exp.DenseRank
    if isinstance(node, exp.Window) and isinstance(node.this, places):
        return exp.cast(node, exp.DataType.Type.BIGINT)
    return node


_REWRITES: Mapping[Engine, tuple[Callable[[exp.Expr], exp.Expr], ...]] = {
    "postgres": (_wide_integer, _json_for_map, _series),
    "spark": (_wide_integer, _wide_place),
}


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
    pairs = list(zip(domains, columns, strict=bool(domains)))
    closeness = [_against(domain, f"t_closeness_{column.distance}") for domain, column in pairs]
    shares = [_against(domain, "value_shares") if column.bounds else "" for domain, column in pairs]
    return templates.render(
        "audit_bind/report.sql.j2",
        relation=relation, qi=list(quasi_identifiers), attributes=list(columns), texts=(), k=k,
        rows_of=rows_of, closeness_texts=closeness, share_texts=shares,
    )  # fmt: skip


def _against(domain: str, audit: str) -> str:
    """Text of an audit with the whole table given by a relation (value, records)."""
    # On Spark the text of ordered distances counts values first, so that the counts can be replaced.
    _, text = split(templates.read(audit_file(audit, "spark")))
    query = sqlglot.parse_one(text, read="duckdb")
    assert isinstance(query, exp.Select)
    for cte in query.ctes:
        of_domain = any(table.name == "domain" for table in cte.this.find_all(exp.Table))
        if cte.alias in _OF_THE_TABLE and not of_domain:
            given = templates.render(f"audit_bind/{cte.alias}.sql.j2", domain=domain)
            cte.set("this", sqlglot.parse_one(given, read="duckdb"))
    return query.sql(dialect="duckdb", pretty=True)
