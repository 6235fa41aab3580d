"""Audit: checks the policy on the released columns alone; nothing is released after a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.audits.columns import audit_columns
from duckanon.audits.joint import audited_together
from duckanon.audits.near import audited_near
from duckanon.audits.report import Measure
from duckanon.audits.run import audit_sql
from duckanon.audits.subsets import subset_values
from duckanon.database import engine, templates
from duckanon.database.relations import named
from duckanon.errors import AuditFailure, InfeasibleError
from duckanon.policy.bind import joint_thresholds
from duckanon.policy.reported import (
    P_PERCENT,
    SUBJECTS,
    SUBJECTS_SUBSET,
    extremes,
    proved,
    report_notes,
    reported_loss,
)
from duckanon.policy.subsets import subset_thresholds
from duckanon.release.stages.protect import judged
from duckanon.release.stages.recode import classes_relation, label, labelled_relation, min_values
from duckanon.release.stages.stage import class_fields
from duckanon.release.verify.record import of_the_source

if TYPE_CHECKING:
    import duckdb

    from duckanon.audits.certificate import Supersets
    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.partition.plan import Plan
    from duckanon.release.stages.recode import Recoded
    from duckanon.release.stages.stage import Field, Staged


REPEATED_VALUE_RECORDS = 8
"""Mean records of a value from which an audit counts values first, in up to half the time. With one record of
each value, counting first takes half more time."""


@progress.step("audit")
def audit(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    recoded: Recoded,
    plan: Plan,
    policy: Policy,
    near: Supersets | None = None,
) -> Report:
    """Audit of the released table, which has passed, with the measures that need the source.

    `near` are the supersets from which t is measured if the policy has n; all records always are one.
    A violation is an InfeasibleError for a method without repair, else an AuditFailure: a fault of ours.
    """
    asked = audit_columns([field.attribute for field in staged.sensitive], policy.audited(), staged.trees)
    few = {field.name for field in staged.sensitive if _few_values(field, staged, embedded)}
    asked = [replace(column, few_values=column.name in few) for column in asked]
    relation = named("temp", recoded.table)
    quasi = [field.name for field in class_fields(staged, policy)]
    subsets = subset_thresholds(policy.k_subsets, quasi, policy.k)
    of_table = asked if policy.n is None else [replace(column, t=None) for column in asked]
    report = audit_sql(con, relation, quasi, of_table, k=policy.k, name="the candidate", subsets=subsets)
    several = joint_thresholds(policy, [field.attribute for field in staged.sensitive])
    if several:
        texts = {field.name for field in staged.fields if field.kind == "text"}
        report = audited_together(con, relation, quasi, several, report, texts=texts)
    if policy.n is not None:
        texts = {field.name for field in staged.quasi if field.sort_type == "VARCHAR"}
        texts |= {field.name for field in staged.sensitive if field.type == "VARCHAR"}
        report = audited_near(con, relation, quasi, asked, policy.n, report, texts=texts, given=near)
    _require_pass(report, policy)
    label(con, staged, recoded)
    # Classes of the partition that are recoded to equal values are one class of the release.
    loss = reported_loss(recoded.loss, policy)
    extra = of_the_source(report.classes, information_loss=loss, suppressed=recoded.suppressed)
    if policy.subject:
        extra = (*extra, _subjects(con, staged, report, policy))
        extra = (*extra, *_subjects_of_subsets(con, staged, report, policy))
    if policy.p_percent is not None:
        extra = (*extra, *_within(con, staged, report, policy))
    enough, warnings = _enough(con, staged, report, policy)
    known = proved({measure.measure for measure in enough})
    text = "; ".join([plan.text, *report_notes(policy), *known, *extremes(policy)])
    return report.extended((*extra, *enough), warnings=warnings, plan=text)


def _few_values(field: Field, staged: Staged, embedded: Embedded) -> bool:
    """Whether the values of an ordered column repeat so often that counting them first saves work."""
    values = len(embedded.counts[field.column])
    return field.attribute.distance == "ordered" and REPEATED_VALUE_RECORDS * values <= staged.size


def _subjects(con: duckdb.DuckDBPyConnection, staged: Staged, report: Report, policy: Policy) -> Measure:
    """Fewest subjects of a class, unknown from the released columns; an error if fewer than k."""
    query = templates.render(
        "recode/subjects.sql.j2",
        labelled=labelled_relation(staged),
        k=policy.k,
    )
    fewest, violations, records = engine.rows(con, query, "audit")[0]
    counted = int(violations), int(records), violations == 0
    measure = Measure(SUBJECTS, None, policy.k, float(fewest), report.classes, *counted)
    _require_pass(report.extended((measure,), warnings=(), plan=""), policy)
    return measure


def _subjects_of_subsets(
    con: duckdb.DuckDBPyConnection, staged: Staged, report: Report, policy: Policy
) -> tuple[Measure, ...]:
    """Fewest subjects with equal released values in each subset; an error if fewer than its k."""
    by_name = {field.name: field for field in staged.quasi}
    asked = subset_thresholds(policy.k_subsets, list(by_name), policy.k)
    if not asked:
        return ()
    values = subset_values("", asked, ())
    query = templates.render(
        "recode/subject_subsets.sql.j2",
        labelled=labelled_relation(staged),
        classes=classes_relation(staged),
        qi=[by_name[str(name)] for name in values.qi],
        subsets=values.subsets,
    )
    measures = []
    for one, row in zip(asked, engine.rows(con, query, "audit"), strict=True):
        fewest, classes, violations, records = map(int, row)
        measures.append(
            Measure(
                SUBJECTS_SUBSET, one.name, one.k, float(fewest), classes, violations, records, not violations
            )
        )
    _require_pass(report.extended(tuple(measures), warnings=(), plan=""), policy)
    return tuple(measures)


def _within(
    con: duckdb.DuckDBPyConnection, staged: Staged, report: Report, policy: Policy
) -> tuple[Measure, ...]:
    """Whether every class keeps the p % rule, by column, without the margin; an error on a violation."""
    measures = []
    for field in judged(staged):
        query = templates.render(
            "recode/p_percent.sql.j2",
            labelled=labelled_relation(staged),
            column=field.column,
            subject=policy.subject,
            p=policy.p_percent,
        )
        violations, records = engine.rows(con, query, "audit")[0]
        counted = int(violations), int(records), violations == 0
        measures.append(Measure(P_PERCENT, field.name, policy.p_percent, None, report.classes, *counted))
    _require_pass(report.extended(tuple(measures), warnings=(), plan=""), policy)
    return tuple(measures)


def _enough(
    con: duckdb.DuckDBPyConnection, staged: Staged, report: Report, policy: Policy
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """Least number of values behind a class mean, by column, with warnings; an error if too small."""
    if policy.release != "table":
        return (), ()
    relations = labelled_relation(staged), classes_relation(staged)
    measures, warnings = min_values(con, staged, policy, report.classes, relations=relations)
    _require_pass(report.extended(measures, warnings=(), plan=""), policy)
    return measures, warnings


def _require_pass(report: Report, policy: Policy) -> None:
    failed = [measure for measure in report.measures if measure.passed is False]
    if not failed:
        return
    worst = failed[0]
    about = f" of {worst.attribute!r}" if worst.attribute else ""
    found = "missed" if worst.value is None else f"{worst.value:.6g}"
    what = f"{worst.measure}{about} is {found} where the policy asks for {worst.threshold}"
    if policy.method == "auto":
        raise AuditFailure(f"the audit of the candidate failed, nothing was released: {what}", report)
    raise InfeasibleError(
        f"method = {policy.method!r} has no repair and misses a threshold: {what}; "
        "use method = 'auto', or ask for what it reached",
        float(worst.value or 0),
    )
