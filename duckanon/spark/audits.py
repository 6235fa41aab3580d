"""Audit of a DataFrame by the certified SQL, in Spark's dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from duckanon.audits.headers import rows_of, verdict_name
from duckanon.audits.report import Measure, Report
from duckanon.audits.run import audit_columns
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.policy import Policy
from duckanon.spark.columns import column, duckdb_columns
from duckanon.spark.parts import in_parts
from duckanon.spark.session import check_session, one_line_errors
from duckanon.spark.steps import BROADCAST_MAX_ROWS, own_session, retried

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from duckanon.audits.run import AuditColumn
    from duckanon.policy.policy import AuditPolicy
    from duckanon.spark.files import StoredRecords
    from duckanon.spark.steps import Steps

_OF_CLASSES = {"class_size": "class_sizes", "metrics": "class_metrics", "risk": "reidentification_risk"}
"""Audits of classes, not of values, by the name under which other audits read them."""


def audit(df: DataFrame, policy: Policy | AuditPolicy, *, name: str = "DataFrame") -> Report:
    """Audit of any DataFrame by the SQL of `sql/audit`: k, l and t of its equivalence classes.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Executors keep its audited columns, because a DataFrame may give other rows each time.
    policy : Policy or AuditPolicy
        Quasi-identifiers, sensitive columns and thresholds; hierarchical distance is not supported yet.
    name : str
        Name of the DataFrame in the report.

    Returns
    -------
    Report
        The measures of DuckDB's audit of the same records. Violating classes are counted, not listed.

    Raises
    ------
    DuckanonError
        A column does not exist, a setting of the session would make answers wrong, or there are no rows.

    Notes
    -----
    O(n log n) over the tasks of Spark.
    """
    with one_line_errors():
        check_session(df)
        return audited(df, policy, name=name)


def audited(
    df: DataFrame, policy: Policy | AuditPolicy, *, name: str, written: StoredRecords | None = None
) -> Report:
    """Audit of a DataFrame; the DataFrame is computed once, except for the `written` records."""
    asked = policy.audited() if isinstance(policy, Policy) else policy
    if asked.suppressed is not None:
        raise PolicyError("suppressed is not an option on Spark: leave these rows out of the DataFrame")
    attributes = bind_audit(asked, duckdb_columns(df))
    columns = audit_columns(attributes, asked, {})
    if any(one.distance == "hierarchical" for one in columns):
        raise PolicyError("distance = 'hierarchical' is not yet for Spark: audit with DuckDB")
    quasi = [one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER]
    keys = [column(one).alias(f"q{number}") for number, one in enumerate(quasi, 1)]
    values = [column(one.name).alias(f"s{number}") for number, one in enumerate(columns, 1)]
    audited_columns = df.select(sf.struct(*keys).alias("class"), *values)
    where = (written.folder, (*quasi, *(one.name for one in columns))) if written else None

    def computed() -> Report:
        with own_session(audited_columns) as steps:
            count = written.records if written else steps.keep("record", steps.frame("record"))
            if not count:
                raise SourceError(f"{name} is empty: there is nothing to audit")
            steps.deal(count)
            found = in_parts(steps, columns, asked.k, count, where)
            return Report(name, found or tuple(_measures(steps, columns, asked.k, count)))

    # A DataFrame without files may give other rows the next time.
    return retried(computed) if written else computed()


def _number(steps: Steps, values: int, count: int) -> int:
    """Make `member`, the records with the number of their class; return the number of classes.

    Comparing and moving a number costs less than comparing and moving all quasi-identifiers.
    """
    classes = steps.keep("class_number", steps.rendered("class_number"))
    names = [f"s{number}" for number in range(1, values + 1)]
    found = steps.keep("member", steps.rendered("member", values=names, few=classes <= BROADCAST_MAX_ROWS))
    if found != count:
        raise SourceError(
            f"{count} records were {found} when their classes were asked for: do others write there?"
        )
    steps.forget("record", "class_number")
    return classes


def _measures(steps: Steps, columns: Sequence[AuditColumn], k: int | None, count: int) -> Iterator[Measure]:
    """Give the measures in the order of a report: k, every l, every t, then measures without threshold."""
    classes = _number(steps, len(columns), count)
    steps.define("class_member", steps.rendered("class_member", value="NULL"))
    steps.define("threshold", steps.rendered("threshold", k=k, l=None, c=None, t=None))
    for name, audit in _OF_CLASSES.items():
        steps.audit(name, audit)
    steps.audit("audited", "verdict_k_anonymity")
    yield from _judged(steps, "k_anonymity", None, k)
    [figures] = steps.rendered("figures").collect()
    closeness = []
    for number, one in enumerate(columns, 1):
        kind = "distinct" if one.l_kind == "recursive" and one.c is None else one.l_kind
        steps.define("class_member", steps.rendered("class_member", value=f"s{number}"))
        steps.define("threshold", steps.rendered("threshold", k=k, l=one.l, c=one.c, t=one.t))
        yield from _judged(steps, f"{kind}_l_diversity", one, one.l)
        closeness += _judged(steps, "t_closeness", one, one.t)
    yield from closeness
    for measure, value in figures.asDict().items():
        yield Measure(measure, None, None, value, classes, None, None, None)


def _judged(steps: Steps, measure: str, column: AuditColumn | None, threshold: object) -> list[Measure]:
    """Measure every class against a threshold."""
    rows = rows_of(measure)
    if rows is not None:
        steps.audit(rows.relation, rows.audit.replace("*", column.distance if column else ""))
    steps.audit("audited", verdict_name(measure))
    steps.define("verdict", steps.rendered("verdict", measure=measure, threshold=threshold))
    steps.audit("report", "report")
    return [
        Measure(
            measure, column.name if column else None, row["threshold"], row["value"],
            row["classes"], row["violations"], row["records"], row["passed"],
        )
        for row in steps.frame("report").collect()
    ]  # fmt: skip
