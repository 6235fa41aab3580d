"""Formats of a report for other programs: text, JSON, JUnit XML and SARIF. HTML has its own module."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from duckanon.audits import headers
from duckanon.audits.legible import legible, legible_lines
from duckanon.audits.report import shown
from duckanon.database import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    left_out = ("audited_at", "certificates", "supersets")
    return {fact: value for fact, value in evidence.items() if fact not in left_out}


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


def junit(report: Report) -> str:
    """JUnit XML of an audit: one test suite, one test case for each measure and attribute.

    Elements are common to the schemas of Jenkins and of Apache Ant's task; GitLab, GitHub actions and Azure
    read them. Characters that XML cannot hold are escaped.
    """
    judged = [measure for measure in report.measures if measure.passed is not None]
    counts = {
        "tests": str(len(report.measures)),
        "failures": str(sum(measure.passed is False for measure in judged)),
        "errors": "0",
        "skipped": str(len(report.measures) - len(judged)),
        "time": "0",
    }
    name = f"duckanon audit of {legible(report.name)}"
    root = ET.Element("testsuites", {"name": "duckanon", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts})
    if report.evidence is not None:
        properties = ET.SubElement(suite, "properties")
        for fact, value in facts(report.evidence).items():
            ET.SubElement(
                properties, "property", {"name": f"duckanon.{fact}", "value": legible_lines(str(value))}
            )
    for measure in report.measures:
        _case(suite, report, measure)
    if report.warnings:
        ET.SubElement(suite, "system-out").text = legible_lines(
            "\n".join(f"warning: {legible(warning)}" for warning in report.warnings)
        )
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _case(suite: ET.Element, report: Report, measure: Measure) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": legible(report.name), "name": legible_lines(titled(measure)), "time": "0"},
    )
    message = legible_lines(verdict(measure))
    if measure.passed is None:
        ET.SubElement(case, "skipped", {"message": message})
    elif measure.passed:
        ET.SubElement(case, "system-out").text = message
    else:
        lines = [verdict(measure), *(described(violation) for violation in worst(report, measure))]
        failure = ET.SubElement(case, "failure", {"message": message, "type": legible_lines(measure.measure)})
        failure.text = legible_lines("\n".join(lines))


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The schema that the log names."""


def sarif(report: Report) -> str:
    """SARIF log of an audit: a rule for each kind of judged measure, an error for each violation.

    The log has no time and only the audited path, so equal audits give equal texts. The fingerprint of a
    finding covers table, measure and attribute; viewers use it to follow a finding over time.
    """
    judged = [measure for measure in report.measures if measure.passed is not None]
    rules = list(dict.fromkeys(measure.measure for measure in judged))
    plain = json.loads(report.to_json())
    run = {
        "tool": {
            "driver": {
                "name": "duckanon",
                "version": version("duckanon"),
                "rules": [_rule(name) for name in rules],
            }
        },
        "automationDetails": {"id": f"duckanon/{report.name}/"},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": _literal(warning)}}
                    for warning in report.warnings
                ],
            }
        ],
        "results": [_result(report, measure, rules) for measure in judged if measure.passed is False],
        "columnKind": "unicodeCodePoints",
        "properties": {
            "passed": report.passed,
            "measures": plain["measures"],
            **({} if report.evidence is None else {"evidence": facts(report.evidence)}),
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _rule(name: str) -> dict[str, Any]:
    words, file = headers.rule(name), f"sql/audit/{headers.verdict_name(name)}.sql"
    if not words:
        words, file = f"The table keeps its threshold of {name}.", "sql/audit"
    return {
        "id": name,
        "shortDescription": {"text": name.replace("_", " ")},
        "fullDescription": {"text": words},
        "help": {"text": f"{words} The definition is {file} of duckanon, the terms are in sql/README.md."},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["privacy", "anonymization"]},
    }


def _result(report: Report, measure: Measure, rules: list[str]) -> dict[str, Any]:
    classes = [described(violation) for violation in worst(report, measure)]
    key = "\n".join([report.name, measure.measure, measure.attribute or ""])
    return {
        "ruleId": measure.measure,
        "ruleIndex": rules.index(measure.measure),
        "level": "error",
        "message": {"text": _literal(". Worst: ".join([verdict(measure), *classes[:1]]) + ".")},
        "locations": [_location(report.name, measure)],
        "partialFingerprints": {
            "duckanonMeasure/v1": hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        },
        "properties": {"classes": classes},
    }


def _location(name: str, measure: Measure) -> dict[str, Any]:
    path, table = paths.split(name)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")
    where: dict[str, Any] = {
        # Viewers need a line, but a table has none.
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}
    }
    if measure.attribute is not None:
        column = {
            "name": measure.attribute,
            "fullyQualifiedName": f"{table or path.stem}.{measure.attribute}",
        }
        where["logicalLocations"] = [{**column, "kind": "member"}]
    return where


def _literal(text: str) -> str:
    """Text without placeholders and links in the sense of SARIF 2.1.0, sections 3.11.5 and 3.11.6."""
    text = text.replace("{", "{{").replace("}", "}}")
    return text.replace("[", "\\[").replace("]", "\\]") if "](" in text else text


_WRITERS: dict[str, Callable[[Report], str]] = {
    "text": lambda report: report.to_text(),
    "json": lambda report: report.to_json(),
    "junit": junit,
    "sarif": sarif,
}

FORMATS = tuple(_WRITERS)
"""Names of the formats that need nothing but the report."""


def formatted(report: Report, form: str) -> str:
    """Text of a report in one of `FORMATS` without a final line break; equal reports give equal texts."""
    return _WRITERS[form](report)
