"""Audit: the certified SQL, in the text that Spark takes, over a DataFrame."""

from __future__ import annotations

import uuid
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from duckanon.audits.headers import rows_of
from duckanon.audits.portable import audit_sql
from duckanon.audits.report import Measure, Report
from duckanon.audits.run import audit_columns
from duckanon.database import templates
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.policy import Policy
from duckanon.spark.columns import duckdb_columns
from duckanon.spark.session import check_session, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import AuditPolicy


def audit(df: DataFrame, policy: Policy | AuditPolicy, *, name: str = "DataFrame") -> Report:
    """Audit of any DataFrame by the SQL of `sql/audit`: k, l and t of its equivalence classes.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        What is looked at is kept by the executors meanwhile, for it may give other rows each time.
    policy : Policy or AuditPolicy
        Quasi-identifiers, sensitive columns and thresholds; hierarchical distance is not yet.
    name : str
        What the report calls it.

    Returns
    -------
    Report
        The rows of DuckDB's audit of the same records. Violating classes are counted and not listed.

    Raises
    ------
    DuckanonError
        A column does not exist, the session is none that answers rightly, or the DataFrame has no rows.

    Notes
    -----
    O(n log n) over the tasks of Spark.
    """
    check_session(df)
    with told():
        return audited(df, policy, name=name, stored=False)


def audited(df: DataFrame, policy: Policy | AuditPolicy, *, name: str, stored: bool) -> Report:
    """Audit of a DataFrame, which is asked once unless it is `stored`."""
    asked = policy.audited() if isinstance(policy, Policy) else policy
    attributes = bind_audit(asked, duckdb_columns(df))
    columns = audit_columns(attributes, asked, {})
    if any(one.distance == "hierarchical" for one in columns):
        raise PolicyError("distance = 'hierarchical' is not yet for Spark: audit with DuckDB")
    quasi = [one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER]
    by_place = [sf.col(f"`{one.replace('`', '``')}`") for one in quasi]
    members = [sf.col(f"`{one.name.replace('`', '``')}`").alias(f"s{i}") for i, one in enumerate(columns, 1)]
    records = f"duckanon_{uuid.uuid4().hex}"
    keys = [column.alias(f"q{number}") for number, column in enumerate(by_place, 1)]
    looked_at = df.select(sf.struct(*keys).alias("class"), *members)
    (looked_at if stored else looked_at.localCheckpoint()).createOrReplaceTempView(records)
    spark = df.sparkSession
    try:
        text = templates.render(
            "spark/report.sql.j2",
            records=records,
            k=asked.k,
            attributes=columns,
            audit=_audit,
            rows_of=rows_of,
        )
        rows = spark.sql(text).collect()
    finally:
        spark.catalog.dropTempView(records)
    if not rows or rows[0]["classes"] == 0:
        raise SourceError(f"{name} is empty: there is nothing to audit")
    return Report(name, tuple(_measure(row.asDict(), [one.name for one in columns]) for row in rows))


@cache
def _audit(name: str) -> str:
    """Text of an audit that stands in parentheses."""
    return audit_sql(name, "spark").rstrip()


def _measure(row: dict[str, Any], names: list[str]) -> Measure:
    place, value = row["attribute"], row["value"]
    return Measure(
        row["measure"], None if place is None else names[place], row["threshold"],
        None if value is None else float(value),
        row["classes"], row["violations"], row["records"], row["passed"],
    )  # fmt: skip
