"""Audit in parts: each class is in one task, whose DuckDB audits it by the usual SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.audits.portable import part_sql
from duckanon.audits.report import COLUMNS, Measure
from duckanon.database import arrow, engine, templates
from duckanon.errors import SourceError
from duckanon.spark.columns import handed_over
from duckanon.spark.files import mapped
from duckanon.spark.handed import as_spark_has_it, combined
from duckanon.spark.packed import PACKED, packed, unpacked
from duckanon.spark.worker import database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark import Broadcast

    from duckanon.audits.run import AuditColumn
    from duckanon.spark.steps import Steps

STAGE = "audit"

PART_RECORDS = 250_000
"""Records of a part, about."""

TASK_MAX_RECORDS = 4 * PART_RECORDS
"""Largest number of records of a task: with few or very large classes a part may be much larger."""

SENT_MAX_VALUES = 200_000
"""Largest number of values of a sensitive column that are sent to every task."""

_RELATION, _DOMAIN = "duckanon_part", "duckanon_domain_"
_REPORT_ROWS = (
    "found long, place int, measure string, attribute string, threshold double, value double, classes long,"
    " violations long, records long, passed boolean"
)
"""Rows of a task: the report of its part, by place, each row with the records of the part."""


@dataclass(frozen=True)
class _PartTask:
    """Input of every task: its statement, and the count of each value in the whole table."""

    statement: str
    domains: dict[str, pa.Table]
    most: int


def in_parts(
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
    reports = parted.mapInArrow(partial(_audited, context), _REPORT_ROWS).toArrow()
    if reports.column("measure").null_count:
        return None
    query = templates.render("spark.sql.j2:together", relation="reports", records=count)
    with engine.in_memory(threads=1) as con, engine.registered(con, {"reports": reports}):
        rows = engine.rows(con, query, STAGE)
    _check(min((row[0] for row in rows), default=0), count)
    # A report uses the names of the DataFrame instead of s1, s2, ...
    names = {f"s{number}": column.name for number, column in enumerate(columns, 1)}
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
        domains[f"{_DOMAIN}{number}"] = as_spark_has_it(counts, pa.schema([]))
    return domains


def _dealt(quasi: Sequence[str], parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the records of a task by the parts of their classes."""
    query = templates.render("spark.sql.j2:part", relation=_RELATION, quasi=quasi, parts=parts)
    for table in combined(batches):
        rows = as_spark_has_it(table, pa.schema([]))
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
            yield from _report_rows(found, [(None,) * len(COLUMNS)])
            return
    if not found:
        return
    part = pa.concat_tables(held)
    with engine.registered(database(), {_RELATION: part, **asked.domains}):
        rows = engine.rows(database(), asked.statement, STAGE)
    yield from _report_rows(found, rows)


def _report_rows(found: int, rows: Sequence[Sequence[Any]]) -> list[pa.RecordBatch]:
    schema = pa.schema([
        ("found", pa.int64()), ("place", pa.int32()), ("measure", pa.string()), ("attribute", pa.string()),
        ("threshold", pa.float64()), ("value", pa.float64()), ("classes", pa.int64()),
        ("violations", pa.int64()), ("records", pa.int64()), ("passed", pa.bool_()),
    ])  # fmt: skip
    names = schema.names
    lines = [dict(zip(names, (found, place, *row), strict=True)) for place, row in enumerate(rows)]
    return [pa.RecordBatch.from_pylist(lines, schema)]
