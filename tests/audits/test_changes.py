"""What changed between two reports: by hand, and the properties that any comparison has."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.audits.changes import Change, changes, same_value
from duckanon.audits.report import Measure, Report, Violation
from duckanon.errors import SourceError

K = Measure("k_anonymity", None, 3, 5.0, 12, 0, 0, True)
T = Measure("t_closeness", "charge", Decimal("0.15"), 0.1, 12, 0, 0, True)
L = Measure("distinct_l_diversity", "charge", None, 2.0, 12, None, None, None)
REPORT = Report("v", (K, T, L))


def plain(report: Report) -> dict[str, Any]:
    """Give the JSON form, as it is read back from a file."""
    return json.loads(report.to_json())  # type: ignore[no-any-return]


def test_nothing_changed_whether_read_from_json_or_not() -> None:
    for before in (REPORT.to_dict(), plain(REPORT)):
        for after in (REPORT.to_dict(), plain(REPORT)):
            found = changes(before, after)
            assert found.same
            assert not found.regressed
            assert found.to_text() == "nothing changed"


def test_measure_by_measure() -> None:
    """k falls under its threshold; t is asked for more strictly; l is gone and a risk is new."""
    worse = replace(K, value=2.0, classes=14, violations=1, records=2, passed=False)
    stricter = replace(T, threshold=Decimal("0.125"))
    risk = Measure("prosecutor_risk", None, None, 0.5, 14, None, None, None)
    found = changes(plain(REPORT), Report("v", (worse, stricter, risk)).to_dict())
    assert found.to_text().splitlines() == [
        "k_anonymity: value 5 -> 2, classes 12 -> 14, violations 0 -> 1, records 0 -> 2, verdict passed -> VIOLATED",
        "t_closeness of charge: threshold 0.15 -> 0.125",
        "prosecutor_risk: appeared, not judged, value 0.5",
        "distinct_l_diversity of charge: disappeared, was not judged, value 2",
    ]
    assert found.cells[0] == Change("k_anonymity", None, "value", 5, 2.0)
    assert found.regressed
    assert not found.same
    assert json.loads(json.dumps(found.to_dict(), default=str))["regressed"] is True


@pytest.mark.parametrize(
    ("before", "after", "regressed"),
    [
        ((K,), (replace(K, passed=False),), True),
        ((replace(K, passed=False),), (K,), False),
        ((replace(K, passed=False),), (replace(K, passed=False, value=1.0),), False),
        ((K, T), (K,), True),
        ((K, L), (K,), False),
        ((K,), (K, replace(T, passed=False)), True),
        ((K,), (K, T), False),
        ((K,), (replace(K, threshold=None, passed=None),), True),
        ((L,), (replace(L, threshold=2, passed=True),), False),
    ],
)
def test_a_verdict_is_lost_or_not(
    before: tuple[Measure, ...], after: tuple[Measure, ...], regressed: bool
) -> None:
    assert changes(Report("v", before).to_dict(), Report("v", after).to_dict()).regressed is regressed


def test_violating_classes() -> None:
    one = Violation("k_anonymity", None, {"age": "30", "zip": None}, 2, 2.0)
    other = replace(one, class_values={"age": "40", "zip": "z"})
    found = changes(plain(replace(REPORT, violations=(one,))), plain(replace(REPORT, violations=(other,))))
    assert found.to_text().splitlines() == [
        "violating class appeared: k_anonymity is 2 with age = 40, zip = z",
        "violating class disappeared: k_anonymity is 2 with age = 30, zip = none",
    ]


def test_policy_hash_and_fingerprint_at_the_top_or_under_evidence() -> None:
    before = {**plain(REPORT), "policy_hash": "aa", "fingerprint": "cc"}
    after = {**plain(REPORT), "evidence": {"policy_hash": "bb", "fingerprint": "cc"}}
    assert changes(before, after).to_text() == "policy hash: aa -> bb"
    found = changes(before, plain(REPORT))
    assert found.same
    assert found.unknown == ("policy_hash", "fingerprint")
    assert "fingerprint: only one of the reports says it" in found.to_text()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.1 + 0.2, 0.3, True), (Decimal("0.15"), 0.15, True), (3, 3.0, True), ("inf", float("inf"), True),
        (float("nan"), "nan", True), (float("nan"), 0.0, False), (None, None, True), (None, 0, False), (0, False, False),
        (True, True, True), (True, 1, False), (1e-13, 0, True), (0.15, 0.1500001, False), ("nan", "inf", False),
    ],
)  # fmt: skip
def test_which_cells_are_one(one: object, other: object, same: bool) -> None:
    assert same_value(one, other) is same
    assert same_value(other, one) is same


@pytest.mark.parametrize(
    "wrong", [{}, [], None, "x", {"measures": "x"}, {"measures": [{"value": 1}]}, {"measures": [1]}]
)
def test_what_is_no_report_is_an_error(wrong: Any) -> None:
    with pytest.raises(SourceError, match="the earlier report is not a report"):
        changes(wrong, plain(REPORT))
    with pytest.raises(SourceError, match="the later report is not a report"):
        changes(plain(REPORT), wrong)


def test_a_measure_that_stands_twice_is_compared_in_order() -> None:
    twice = Report("v", (K, replace(K, value=7.0)))
    assert changes(plain(twice), plain(twice)).same
    found = changes(plain(twice), plain(Report("v", (K,))))
    assert [row["value"] for row in found.disappeared] == [7.0]


measures = st.builds(
    Measure,
    st.sampled_from(["k_anonymity", "t_closeness"]),
    st.sampled_from([None, "a", "b"]),
    st.none() | st.integers(1, 5),
    st.none() | st.floats(allow_nan=True),
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from([None, True, False]),
)
reports = st.builds(Report, st.just("v"), st.lists(measures, max_size=4).map(tuple))


@given(reports, reports)
def test_turned_around_it_says_the_same_backwards(one: Report, other: Report) -> None:
    there, back = changes(plain(one), plain(other)), changes(plain(other), plain(one))
    assert there.same == back.same
    assert len(there.cells) == len(back.cells)
    assert [len(there.appeared), len(there.disappeared)] == [len(back.disappeared), len(back.appeared)]
    assert {(c.measure, c.attribute, c.column, str(c.before), str(c.after)) for c in there.cells} == {
        (c.measure, c.attribute, c.column, str(c.after), str(c.before)) for c in back.cells
    }
    assert changes(plain(one), plain(one)).same


def test_the_example_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")
    (example,) = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    exec(compile(example, "docs/evidence.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [f"# {line}" for line in printed] == [
        line for line in example.splitlines() if line.startswith("# ")
    ]
