"""The HTML report: one self-contained file that says whether a table may leave the house, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from duckanon import schema, sqlfiles
from duckanon.errors import PolicyError, SourceError
from duckanon.fingerprints import fingerprint
from duckanon.html import evidence, sections, words
from duckanon.html.classes import distances, risk, sizes
from duckanon.html.copies import STAGE, copied, described
from duckanon.html.frontier import frontier_chart
from duckanon.html.numbers import clean
from duckanon.html.page import render
from duckanon.html.svg import required
from duckanon.html.utility import changed, correlations
from duckanon.recording import evidence_of
from duckanon.stages.audit import audit_sql, judgements
from duckanon.stages.tree import audit_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from duckanon.html.classes import Sizes
    from duckanon.html.copies import Column, Copies
    from duckanon.policy import AuditPolicy
    from duckanon.report import Measure, Report
    from duckanon.schema import Attribute

LISTED = 25
"""Violating classes that the page lists."""

_NEAR = 1e-9


def html_report(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    report: Report,
    policy: AuditPolicy,
    *,
    original: str | None = None,
    title: str | None = None,
    now: datetime | None = None,
    trees: Mapping[str, str] | None = None,
    frontier: pa.Table | None = None,
) -> str:
    """HTML page of an audit: verdicts, risk and utility at a glance, and all that is needed to check them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relations; only temporary tables are made, and removed.
    relation : str
        The released table: what stands after FROM, quoted.
    report : Report
        Audit of that table.
    policy : AuditPolicy
        The policy of the audit.
    original : str, optional
        The table that the release was made from: then distributions, correlations and information loss are
        shown before and after, and the page is for internal use.
    title : str, optional
        Heading; by default the name of the report.
    now : datetime, optional
        Time stamp, by default the present; without a time zone it counts as UTC.
    trees : mapping from str to str, optional
        Tree (value, level, node), as SQL text, of sensitive columns with hierarchical distance; by default
        they are made from the hierarchy tables of the policy.
    frontier : pyarrow.Table, optional
        Rows of `duckanon.frontier.frontier`: then the page shows what other k and t would cost.

    Returns
    -------
    str
        One HTML document without script, which loads nothing. The same input gives the same text.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    SourceError
        A relation cannot be read or is empty, or the report speaks of other rows.
    PolicyError
        A column does not exist, a hierarchy is unusable, or the report was judged by other thresholds.

    Notes
    -----
    Everything is aggregated in SQL: O(n log n) time there, and no more than some hundred rows a chart here.
    Of the original, values and tails that fewer than k records share are not shown.
    """
    required()
    attributes = schema.bind_audit(policy, described(con, relation))
    with copied(con, relation, attributes, original=original) as copies:
        paths = _trees(copies, attributes, relation, trees)
        _agree(copies, report, policy, attributes, paths)
        found = sizes(copies, policy.k)
        apart = [
            distances(copies, column, attribute, tree=paths.get(attribute.name))
            for column, attribute in _sensitive(copies, attributes)
        ]
        changes = [changed(copies, column, k=policy.k or 2) for column in (*copies.quasi, *copies.sensitive)]
        parts = {
            **_verdicts(report),
            **sections.classes(found, policy.k),
            "distances": [sections.distance(one) for one in apart],
            "risks": _risks(risk(copies), found),
            **sections.utility(changes, correlations(copies), original=original is not None),
        }
    made = evidence_of(con, relation, policy, trees)
    hashes = [("Released rows", made.fingerprint), ("Audit policy", made.policy_hash)]
    if original is not None:
        hashes.append(("Original rows", fingerprint(con, original)))
    return render(
        "report.html.j2",
        **parts,
        title=clean(title or f"Audit of {report.name}"),
        name=clean(report.name),
        when=_stamp(now),
        sizes=found,
        internal=original is not None,
        missing=_missing(copies),
        policy=_policy(policy, attributes),
        policy_text=made.policy,
        plan=report.plan,
        frontier_chart=None if frontier is None else frontier_chart(frontier),
        hashes=hashes,
        versions=evidence.versions(con),
        audits=evidence.audits(),
        stock_sql=evidence.stock_sql(report.name, policy, attributes),
    )


def _sensitive(copies: Copies, attributes: Sequence[Attribute]) -> list[tuple[Column, Attribute]]:
    own = [one for one in attributes if one.role is schema.Role.SENSITIVE]
    return list(zip(copies.sensitive, own, strict=True))


def _trees(
    copies: Copies, attributes: Sequence[Attribute], relation: str, trees: Mapping[str, str] | None
) -> dict[str, str]:
    """Tree of every column with hierarchical distance: the one that is given, or that of its hierarchy."""
    return {
        one.name: (trees or {}).get(one.name)
        or audit_tree(copies.con, copies.workspace, one, relation=relation)
        for one in attributes
        if one.distance == "hierarchical"
    }


def _agree(
    copies: Copies,
    report: Report,
    policy: AuditPolicy,
    attributes: Sequence[Attribute],
    trees: Mapping[str, str],
) -> None:
    """Raise unless an audit of these rows by this policy says the same: a page must not contradict itself."""
    names = {column.place: column.name for column in copies.sensitive}
    asked = [
        replace(one, name=column.place)
        for one, column in zip(judgements(attributes, policy, trees), copies.sensitive, strict=True)
    ]
    relation = sqlfiles.render("audit_bind/temporary.sql.j2", name=copies.released)
    again = audit_sql(
        copies.con, relation, [one.place for one in copies.quasi], asked, k=policy.k, name=report.name
    )
    told = {(one.measure, one.attribute): one for one in report.measures}
    for measure in again.measures:
        name = None if measure.attribute is None else names[measure.attribute]
        before = told.get((measure.measure, name))
        if before is None or before.threshold != measure.threshold:
            judged = "not at all" if before is None else f"by {before.threshold}"
            raise PolicyError(
                f"{STAGE}: {measure.measure} was judged {judged}, but the policy says {measure.threshold}: "
                "give the policy of the audit"
            )
        if not _same(before, measure):
            raise SourceError(
                f"{STAGE}: the report of {report.name!r} is not about these rows, or they "
                "changed since: audit again"
            )


def _same(one: Measure, other: Measure) -> bool:
    if (one.classes, one.violations, one.records, one.passed) != (
        other.classes, other.violations, other.records, other.passed,
    ):  # fmt: skip
        return False
    if one.value is None or other.value is None:
        return one.value is other.value
    # Sums of logarithms may differ in their last digits from run to run.
    return math.isclose(one.value, other.value, rel_tol=_NEAR, abs_tol=_NEAR)


def _verdicts(report: Report) -> dict[str, Any]:
    judged = [measure for measure in report.measures if measure.passed is not None]
    return {
        "verdict": "failed" if report.violated else "passed" if report.passed else "not judged",
        "cards": [words.card(measure) for measure in judged],
        "reported": [
            (words.name_of(measure.measure), measure.attribute, measure.value)
            for measure in report.measures
            if measure.passed is None
        ],
        "violations": [
            (words.name_of(one.measure), one.attribute, one.value, one.class_size, one.class_values)
            for one in report.violations[:LISTED]
        ],
        "violating": sum(measure.violations or 0 for measure in judged),
        "columns": list(report.violations[0].class_values) if report.violations else [],
        "warnings": list(report.warnings),
    }


def _risks(row: Mapping[str, float], found: Sizes) -> list[tuple[str, float]]:
    return [
        *((words.RISKS.get(name, name.replace("_", " ")), value) for name, value in row.items()),
        ("Share of the records that are alone in their class (unique)", found.unique / found.records),
    ]


def _policy(policy: AuditPolicy, attributes: Sequence[Attribute]) -> dict[str, Any]:
    return {
        "quasi": [one for one in attributes if one.role is schema.Role.QUASI_IDENTIFIER],
        "sensitive": [one for one in attributes if one.role is schema.Role.SENSITIVE],
        "k": policy.k,
        "l_diversity": policy.l_diversity,
        "c": policy.c,
    }


def _missing(copies: Copies) -> list[str]:
    """Return columns that the original does not have."""
    if not copies.before:
        return []
    return [clean(one.name) for one in (*copies.quasi, *copies.sensitive) if one.place not in copies.before]


def _stamp(now: datetime | None) -> str:
    when = now or datetime.now(UTC)
    utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC")
