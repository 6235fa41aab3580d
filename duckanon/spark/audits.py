"""Audit of a DataFrame by the certified SQL.

DuckDB audits whole classes in each task. With too many values, too large classes or a type that DuckDB lacks,
Spark audits in its own dialect, by `steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from duckanon.audits.columns import audit_columns, labels_of
from duckanon.audits.portable import part_sql
from duckanon.audits.report import COLUMNS, Measure, Report
from duckanon.database import arrow, engine, templates
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.policy import Policy
from duckanon.spark.session import check_session, one_line_errors
from duckanon.spark.stage import column, duckdb_columns, handed_over
from duckanon.spark.steps import measures_in_steps, own_session, retried
from duckanon.spark.tasks import PACKED, combined, database, in_utc, mapped, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.audits.columns import AuditColumn
    from duckanon.policy.policy import AuditPolicy
    from duckanon.spark.steps import Steps
    from duckanon.spark.tasks import StoredRecords

STAGE = "audit"

PART_RECORDS = 250_000
"""Records of a part, about."""

TASK_MAX_RECORDS = 4 * PART_RECORDS
"""Largest number of records of a task: with few or very large classes a part may be much larger."""

SENT_MAX_VALUES = 200_000
"""Largest number of values of a sensitive column that are sent to every task."""

_RELATION, _DOMAIN = "duckanon_part", "duckanon_domain_"
_REPORT = pa.schema([
    ("found", pa.int64()), ("place", pa.int32()), ("measure", pa.string()), ("attribute", pa.string()),
    ("threshold", pa.float64()), ("value", pa.float64()), ("classes", pa.int64()), ("violations", pa.int64()),
    ("records", pa.int64()), ("passed", pa.bool_()),
])  # fmt: skip
"""Columns of a task: the report of its part, by place, each row with the records of the part."""


@dataclass(frozen=True)
class _PartTask:
    """Input of every task: its statement, and the count of each value in the whole table."""

    statement: str
    domains: dict[str, pa.Table]
    most: int


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
    if asked.k_subsets is not None:
        raise PolicyError("k of subsets is not yet for Spark: audit with DuckDB, or give one k")
    attributes = bind_audit(asked, duckdb_columns(df))
    columns = audit_columns(attributes, asked, {})
    if any(one.distance == "hierarchical" for one in columns):
        raise PolicyError("distance = 'hierarchical' is not yet for Spark: audit with DuckDB")
    if asked.joint_t is not None:
        raise PolicyError("t of several columns is not yet for Spark: audit with DuckDB")
    if asked.n is not None:
        raise PolicyError("n, for (n, t)-closeness, is not yet for Spark: audit with DuckDB, or leave n out")
    if any(one.order is not None for one in columns):
        raise PolicyError("order is not yet for Spark: make ranks of the values in the DataFrame")
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
            found = _measures_in_parts(steps, columns, asked.k, count, where)
            return Report(name, found or tuple(measures_in_steps(steps, columns, asked.k, count)))

    # A DataFrame without files may give other rows the next time.
    return retried(computed) if written else computed()


def _measures_in_parts(
    steps: Steps, columns: Sequence[AuditColumn], k: int | None, count: int,
    where: tuple[str, Sequence[str]] | None = None,
) -> tuple[Measure, ...] | None:  # fmt: skip
    """Measures of the relation `record`; None with too many values, too large parts or types without Arrow.

    `where` is the folder of the records' files, and their columns, quasi-identifiers first.
    """
    records = steps.frame("record").select("class.*", *(f"s{number}" for number, _ in enumerate(columns, 1)))
    if not handed_over(records):
        return None
    spark = records.sparkSession
    parts = (
        1 if count <= PART_RECORDS else max(spark.sparkContext.defaultParallelism, -(-count // PART_RECORDS))
    )
    # A single part is the whole table.
    domains = _domains(steps, len(columns) if parts > 1 else 0, count)
    if domains is None:
        return None
    quasi = [name for name in records.columns if name.startswith("q")]
    named = [replace(column, name=f"s{number}") for number, column in enumerate(columns, 1)]
    asked = _PartTask(part_sql(_RELATION, quasi, named, list(domains), k=k), domains, TASK_MAX_RECORDS)
    context = spark.sparkContext.broadcast(asked)
    folder, spelled = where or (None, None)
    dealt = mapped(records, partial(_dealt, quasi, parts), PACKED, folder=folder, names=spelled)
    parted = dealt.repartitionById(parts, sf.col("part").cast("int")).select("packed")
    reports = parted.mapInArrow(partial(_audited, context), from_arrow_schema(_REPORT)).toArrow()
    if reports.column("measure").null_count:
        return None
    query = templates.render("spark.sql.j2:together", relation="reports", records=count)
    with engine.in_memory(threads=1) as con, engine.registered(con, {"reports": reports}):
        rows = engine.rows(con, query, STAGE)
    _check(min((row[0] for row in rows), default=0), count)
    # A report uses the names of the DataFrame instead of s1, s2, ...
    names = dict(labels_of(named, columns))
    return tuple(Measure(measure, names.get(attribute), *values) for _, measure, attribute, *values in rows)


def _check(found: int, count: int) -> None:
    """Raise a SourceError unless a step has found all records."""
    if found != count:
        raise SourceError(f"{count} records were {found} in parts: do others write there?")


def _domains(steps: Steps, columns: int, count: int) -> dict[str, pa.Table] | None:
    """Count the values of the first columns; None if one column has too many values."""
    domains = {}
    for number in range(1, columns + 1):
        counts = steps.rendered("value_counts", value=f"s{number}", most=SENT_MAX_VALUES + 1).toArrow()
        if len(counts) > SENT_MAX_VALUES:
            return None
        _check(sum(counts.column("records").to_pylist()), count)
        domains[f"{_DOMAIN}{number}"] = in_utc(counts)
    return domains


def _dealt(quasi: Sequence[str], parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the records of a task by the parts of their classes."""
    query = templates.render("spark.sql.j2:part", relation=_RELATION, quasi=quasi, parts=parts)
    for table in combined(batches):
        rows = in_utc(table)
        with engine.registered(database(), {_RELATION: rows}):
            numbers = arrow.numbers(engine.table(database(), query, STAGE).column("part"))
        yield packed(rows, numbers)


def _audited(context: Broadcast[_PartTask], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Audit the classes of a part, in a task; a too large part gives one row without a measure."""
    asked, held, found = context.value, [], 0
    for value in (value for batch in batches for value in batch.column(0)):
        held.append(unpacked([value]))
        found += len(held[-1])
        if found > asked.most:
            yield _report(found, [(None,) * len(COLUMNS)])
            return
    if not found:
        return
    part = pa.concat_tables(held)
    with engine.registered(database(), {_RELATION: part, **asked.domains}):
        rows = engine.rows(database(), asked.statement, STAGE)
    yield _report(found, rows)


def _report(found: int, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    lines = [dict(zip(_REPORT.names, (found, place, *row), strict=True)) for place, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(lines, _REPORT)
