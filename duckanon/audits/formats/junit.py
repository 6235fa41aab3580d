"""JUnit XML: an audit as a test suite, for the test reports of CI systems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from duckanon.audits.formats.words import described, facts, titled, verdict, worst

if TYPE_CHECKING:
    from duckanon.audits.report import Measure, Report

# What XML 1.0 cannot hold, section 2.2 of its recommendation; a released value may be any text.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """JUnit XML of an audit: one test suite, one test case a measure and attribute.

    The elements are those that the schemas of Jenkins and of Apache Ant's task have in common; GitLab,
    GitHub actions and Azure read them too. A character that XML cannot hold is written as its number.
    """
    judged = [measure for measure in report.measures if measure.passed is not None]
    counts = {
        "tests": str(len(report.measures)),
        "failures": str(sum(measure.passed is False for measure in judged)),
        "errors": "0",
        "skipped": str(len(report.measures) - len(judged)),
        "time": "0",
    }
    name = _text(f"duckanon audit of {report.name}")
    root = ET.Element("testsuites", {"name": "duckanon", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts})
    if report.evidence is not None:
        properties = ET.SubElement(suite, "properties")
        for fact, value in facts(report.evidence).items():
            ET.SubElement(properties, "property", {"name": f"duckanon.{fact}", "value": _text(str(value))})
    for measure in report.measures:
        _case(suite, report, measure)
    if report.warnings:
        ET.SubElement(suite, "system-out").text = _text(
            "\n".join(f"warning: {warning}" for warning in report.warnings)
        )
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _case(suite: ET.Element, report: Report, measure: Measure) -> None:
    case = ET.SubElement(
        suite, "testcase", {"classname": _text(report.name), "name": _text(titled(measure)), "time": "0"}
    )
    message = _text(verdict(measure))
    if measure.passed is None:
        ET.SubElement(case, "skipped", {"message": message})
    elif measure.passed:
        ET.SubElement(case, "system-out").text = message
    else:
        lines = [verdict(measure), *(described(violation) for violation in worst(report, measure))]
        failure = ET.SubElement(case, "failure", {"message": message, "type": _text(measure.measure)})
        failure.text = _text("\n".join(lines))


def _text(text: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
