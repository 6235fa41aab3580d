"""SARIF 2.1.0: an audit as findings, for code scanning and for log viewers."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from duckanon.audits import headers
from duckanon.audits.formats.words import described, facts, verdict, worst
from duckanon.database import paths

if TYPE_CHECKING:
    from duckanon.audits.report import Measure, Report

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
