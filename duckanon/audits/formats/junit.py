"""JUnit XML: an audit as a test suite, for the test reports of CI systems."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from duckanon.audits.formats.words import described, facts, titled, verdict, worst
from duckanon.audits.legible import legible, legible_lines

if TYPE_CHECKING:
    from duckanon.audits.report import Measure, Report


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
