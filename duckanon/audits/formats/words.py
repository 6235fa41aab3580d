"""Texts of several formats: one measure and its worst classes in plain English."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckanon.audits.legible import legible
from duckanon.audits.report import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckanon.audits.report import Measure, Report, Violation

CLASSES_NAMED = 10
"""Violating classes that are named for each measure."""


def titled(measure: Measure) -> str:
    """Name of a row of a report, with its column: ``t_closeness of charge``."""
    column = measure.attribute
    return measure.measure if column is None else f"{measure.measure} of {legible(column)}"


def verdict(measure: Measure) -> str:
    """One line for a row of a report: value, threshold, and number of violations."""
    value, threshold = shown(measure.value), shown(measure.threshold)
    if measure.passed is False and value == threshold:
        # Value and threshold look equal in six digits.
        value, threshold = str(measure.value), str(measure.threshold)
    # A measure may be judged although its value is not reported.
    line = f"{titled(measure)} is {value or ('kept' if measure.passed else 'unknown')}"
    if measure.passed is None:
        return f"{line}; the policy sets no threshold"
    asked = f"{line}, the policy asks for {threshold}"
    if measure.passed:
        return asked
    if measure.violations is None:
        return f"{asked}: violated"
    return (
        f"{asked}: violated by {measure.violations} of {measure.classes} classes, {measure.records} records"
    )


def facts(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Policy and rows of an audit without the time: equal audits give equal documents."""
    return {fact: value for fact, value in evidence.items() if fact != "audited_at"}


def worst(report: Report, measure: Measure) -> list[Violation]:
    """Violating classes of one row of a report, the worst first, at most `CLASSES_NAMED`."""
    violations = [
        v for v in report.violations if (v.measure, v.attribute) == (measure.measure, measure.attribute)
    ]
    return violations[:CLASSES_NAMED]


def described(violation: Violation) -> str:
    """One line for a violating class: value, size and quasi-identifier values, NULL as ``NULL``."""
    found = f"{shown(violation.value)} in the class of {violation.class_size} records"
    return f"{found} with {legible(violation.where)}"
