"""An audit on Spark in steps: a relation that is read several times is computed once.

Spark plans a CTE again for each use. With twenty nested CTEs some would be computed many times.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import sqlglot
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from duckanon.audits.columns import PRESENT, SHARE_MEASURES, label
from duckanon.audits.headers import rows_of, verdict_name
from duckanon.audits.portable import audit_sql
from duckanon.audits.report import Measure
from duckanon.database import templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from duckanon.audits.columns import AuditColumn

    Found = TypeVar("Found")

BROADCAST_MAX_ROWS = 100_000
"""Largest relation, in rows, that is sent to every task: a join then does not move the larger relation."""

AUDIT_TRIES = 3
"""Attempts of an audit if executors are lost."""

_LOST_EXECUTOR = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_TASK_RECORDS = 250_000
_SETTINGS = {
    # Adaptive plans forget by which columns the kept rows are distributed to tasks.
    "spark.sql.adaptive.enabled": "false",
    # Spark may guess far too small sizes, so the rows of a step are counted instead.
    "spark.sql.autoBroadcastJoinThreshold": "64KB",
}

_WITHOUT_COMPILING = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for few records: compiling a program for each step would take longer than the step."""

_OF_CLASSES = {"class_size": "class_sizes", "metrics": "class_metrics", "risk": "reidentification_risk"}
"""Audits of classes, not of values, by the name under which other audits read them."""


class Step(NamedTuple):
    """A relation of an audit."""

    name: str
    query: str
    kept: bool
    """Whether the relation is computed once and kept: it is read several times, or joined by its size."""


@cache
def steps_of(audit: str) -> tuple[Step, ...]:
    """The CTEs of an audit in Spark's SQL, then the final SELECT without a name."""
    query = sqlglot.parse_one(audit_sql(audit, "spark"), read="spark")
    assert isinstance(query, exp.Select)
    names = [cte.alias for cte in query.ctes]
    tables = [table for table in query.find_all(exp.Table) if table.name in names]
    read = Counter(table.name for table in tables)
    joined = {table.name for table in tables if isinstance(table.parent, exp.Join)}
    # A CTE may have the name of a relation that another audit reads, so steps get their own names.
    for table in tables:
        table.replace(exp.alias_(exp.to_table(_view(table.name)), table.alias or table.name, table=True))
    steps = [
        Step(_view(name), cte.this.sql(dialect="spark"), read[name] > 1 or name in joined)
        for name, cte in zip(names, query.ctes, strict=True)
    ]
    query.set("with_", None)
    return (*steps, Step("", query.sql(dialect="spark"), kept=False))


def _view(name: str) -> str:
    return f"step_{name}"


class Steps:
    """Relations by name, in a separate session, and their kept rows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: dict[str, list[DataFrame]] = {}

    def frame(self, name: str) -> DataFrame:
        """Return a relation."""
        return self._spark.table(name)

    def rendered(self, template: str, **values: object) -> DataFrame:
        """Return the rows of a section of `sql/spark.sql.j2` over the present relations."""
        return self._spark.sql(templates.render(f"spark.sql.j2:{template}", **values))

    def define(self, name: str, frame: DataFrame) -> None:
        """Name a relation that is computed at each use."""
        frame.createOrReplaceTempView(name)

    def keep(self, name: str, frame: DataFrame) -> int:
        """Name a relation that is computed once, and return the number of its rows."""
        kept = frame.localCheckpoint(eager=False)
        self._kept.setdefault(name, []).append(kept)
        rows = int(kept.count())
        self.define(name, kept.hint("broadcast") if rows <= BROADCAST_MAX_ROWS else kept)
        return rows

    def audit(self, name: str, audit: str) -> None:
        """Name the rows of an audit over the present relations."""
        for step in steps_of(audit):
            frame = self._spark.sql(step.query)
            if step.kept:
                self.keep(step.name, frame)
            else:
                self.define(step.name or name, frame)

    def deal(self, records: int) -> None:
        """Set the number of tasks by the number of records."""
        tasks = max(self._spark.sparkContext.defaultParallelism, -(-records // _TASK_RECORDS))
        self._spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        if records <= BROADCAST_MAX_ROWS:
            for setting, value in _WITHOUT_COMPILING.items():
                self._spark.conf.set(setting, value)

    def forget(self, *names: str) -> None:
        """Free the kept rows of some relations, by default of all relations."""
        for name in names or tuple(self._kept):
            for frame in self._kept.pop(name, ()):
                # DataFrame.unpersist frees caches only. If Spark has ended, nothing is left to free.
                with contextlib.suppress(Py4JError):
                    frame._jdf.queryExecution().logical().rdd().unpersist(False)


def retried(ask: Callable[[], Found]) -> Found:
    """Return a result, computed again if an executor with kept rows was lost; the third loss is an error."""
    for _ in range(AUDIT_TRIES - 1):
        try:
            return ask()
        except (PySparkException, Py4JError) as stopped:
            if _LOST_EXECUTOR not in str(stopped):
                raise
    return ask()


@contextlib.contextmanager
def own_session(records: DataFrame) -> Iterator[Steps]:
    """Give steps that begin with `record`, in a copy of the session; settings of the session stay."""
    spark, name = records.sparkSession, f"duckanon_{uuid.uuid4().hex}"
    records.createOrReplaceTempView(name)
    try:
        copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for setting, value in _SETTINGS.items():
            copy.conf.set(setting, value)
        steps = Steps(copy)
        steps.define("record", copy.table(name))  # Spark copies views as late as here
    finally:
        spark.catalog.dropTempView(name)
    try:
        yield steps
    finally:
        steps.forget()


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


def measures_in_steps(
    steps: Steps, columns: Sequence[AuditColumn], k: int | None, count: int
) -> Iterator[Measure]:
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
    for number, one in enumerate(columns, 1):
        if one.bounds:
            steps.define("class_member", steps.rendered("class_member", value=f"s{number}"))
            yield from _shares(steps, one)
    for measure, value in figures.asDict().items():
        yield Measure(measure, None, None, value, classes, None, None, None)


def _shares(steps: Steps, column: AuditColumn) -> Iterator[Measure]:
    """Measures of the shares of the values of a column."""
    for bound in column.bounds:
        # A row instead of SQL text, since Spark reads backslashes in a text.
        row, schema = (bound.threshold, bound.named), f"{bound.option} DECIMAL(18, 12), named STRING"
        steps.define("threshold", steps.frame("member").sparkSession.createDataFrame([row], schema))
        of = label(column.name, bound.named)
        yield from (
            replace(one, attribute=of) for one in _judged(steps, bound.measure, column, bound.threshold)
        )
        if bound.measure == SHARE_MEASURES["delta"]:
            steps.define("audited", steps.rendered("present"))
            yield from _reported(steps, PRESENT, column, None)


def _judged(steps: Steps, measure: str, column: AuditColumn | None, threshold: object) -> list[Measure]:
    """Measure every class against a threshold."""
    rows = rows_of(measure)
    if rows is not None:
        steps.audit(rows.relation, rows.audit.replace("*", column.distance if column else ""))
    steps.audit("audited", verdict_name(measure))
    return _reported(steps, measure, column, threshold)


def _reported(steps: Steps, measure: str, column: AuditColumn | None, threshold: object) -> list[Measure]:
    """Row of the report over the verdicts in `audited`."""
    steps.define("verdict", steps.rendered("verdict", measure=measure, threshold=threshold))
    steps.audit("report", "report")
    return [
        Measure(
            measure, column.name if column else None, row["threshold"], row["value"],
            row["classes"], row["violations"], row["records"], row["passed"],
        )
        for row in steps.frame("report").collect()
    ]  # fmt: skip
