"""A DataFrame becomes a folder of released records; the audit reads the written folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import duckdb
import pyspark
from pyspark.sql import functions as sf

from duckanon.database.fingerprint import digest
from duckanon.errors import AuditFailure
from duckanon.policy.reported import reported_figure
from duckanon.release.folders import EVIDENCE, NAME, FolderEvidence, reported_policy
from duckanon.spark.advice import AdvisedRelease, advice
from duckanon.spark.audits import audited
from duckanon.spark.embed import embed
from duckanon.spark.evidence import fingerprint
from duckanon.spark.partition import partition
from duckanon.spark.publish import place_of
from duckanon.spark.recode import min_values, recoded, with_digits
from duckanon.spark.repair import information_loss, repair, suppress
from duckanon.spark.session import check_session, one_line_errors
from duckanon.spark.stage import bound, stage
from duckanon.spark.tasks import StoredRecords
from duckanon.spark.tiles import tiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy

_SETTINGS = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
"""Settings of the session on which results depend."""


@dataclass(frozen=True)
class SparkRelease:
    """A release that Spark made.

    Attributes
    ----------
    dataframe : pyspark.sql.DataFrame
        The released records, read from their files.
    report : Report
        Its audit.
    policy : Policy
        Its policy.
    evidence : dict
        Content of the file ``_duckanon.json`` in the folder: policy and its hash, fingerprint, audit,
        information loss in per cent, number of suppressed records, versions and settings.
    path : str
        The folder.
    """

    dataframe: DataFrame
    report: Report
    policy: Policy
    evidence: dict[str, Any]
    path: str


def anonymize(df: DataFrame, policy: Policy, *, path: str) -> SparkRelease:
    """Release a DataFrame as a folder of Parquet files.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Computed once; during the work its records lie in a folder beside `path`.
    policy : Policy
        As for DuckDB. Not supported yet: other methods than 'auto', `subject`, hierarchies, `p_percent`,
        'anatomy' and 'swap'.
    path : str
        A folder that does not exist, on a file system to which Spark writes.

    Returns
    -------
    SparkRelease
        The same records for the same data and policy, on any number of partitions and tasks. DuckDB may
        release other classes.

    Raises
    ------
    PolicyError
        Before the first job: the session, a column or an option is not supported.
    DuckanonError
        The data cannot be anonymized, or the audit failed. Then nothing is at `path`.

    Notes
    -----
    t is against the whole DataFrame. Each tile of some 16,000 records is one call of the kernels in a task.
    The driver holds moments, domains of sensitive values, and the classes near violating classes, which are
    merged across tiles.
    """
    with one_line_errors():
        spark, columns = check_session(df), bound(df, policy)
    with one_line_errors(), place_of(spark, path) as place:
        staged = stage(df, columns, policy, place.folder("staged"))
        staged = replace(staged, bound=with_digits(staged))
        embedded = embed(staged, policy, place.folder("values"))
        dealt = tiled(staged, embedded, policy, place.folder("tiled"))
        labelled = partition(dealt, staged, embedded, policy, place.folder("labelled"))
        left, limited, suppressed = suppress(labelled, staged, embedded, policy, place.folder("left"))
        final, merged = repair(left, limited)
        loss = information_loss(final, limited) if merged or suppressed else _loss(final)
        candidate = place.folder("candidate")
        written = StoredRecords(candidate, staged.size - suppressed)
        # Without suppression both frames are the same. No folder has records merged across tiles.
        folders = {left: place.folder("left"), labelled: place.folder("labelled")}
        recoded(final, staged.bound, policy, folders.get(final)).toDF(*columns.names).write.parquet(candidate)
        released = spark.read.parquet(candidate)
        report = audited(released, policy, name=path, written=written)
        if report.violated:
            raise AuditFailure(
                f"the release violates its policy and was not written:\n{report.to_text()}", report
            )
        classes = report.measures[0].classes
        measures, few = min_values(final, released, staged, policy, classes=classes)
        made = AdvisedRelease(staged, embedded, labelled, final, released, classes)
        warned = advice(made, policy, records=written.records, loss=loss)
        report = replace(report, measures=(*report.measures, *measures), warnings=(*few, *warned))
        evidence = _evidence(released, written, policy, report, loss, suppressed + staged.left_out)
        place.write(candidate, EVIDENCE, evidence.to_json())
        place.publish(candidate)
    return SparkRelease(spark.read.parquet(path), report, policy, evidence.to_dict(), path)


def _loss(labelled: DataFrame) -> float:
    """Information loss in per cent of the tiles' classes, rounded as in every report."""
    [row] = labelled.agg(sf.sum("within"), sf.sum("whole")).collect()
    return reported_figure(100 * row[0] / row[1]) if row[1] else 0.0


def _evidence(
    released: DataFrame, written: StoredRecords, policy: Policy, report: Report, loss: float, suppressed: int
) -> FolderEvidence:
    spark, text = released.sparkSession, reported_policy(policy)
    return FolderEvidence(
        policy=text,
        policy_hash=digest(text),
        fingerprint=fingerprint(released, written),
        records=written.records,
        audit=json.loads(replace(report, name=NAME).to_json()),
        information_loss=loss,
        suppressed=suppressed,
        versions={
            "duckanon": version("duckanon"),
            "duckdb": duckdb.__version__,
            "pyspark": pyspark.__version__,
            "spark": spark.version,
        },
        settings={name: str(spark.conf.get(name)) for name in _SETTINGS},
    )
