"""Where trying the recipes has made the classes of a release, they are those that are released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.release import pipeline
from duckanon.release.stages.partition import partition as stage
from duckanon.release.stages.partition.plan import choose_plan

if TYPE_CHECKING:
    from duckanon.release.stages.partition.plan import Plan

SOURCE = """
CREATE TABLE p AS SELECT 18 + hash(i) % 60 AS age, hash(i + 1000) % 1000 AS pay, hash(i + 3000) % 90 AS ill,
    chr((97 + hash(i + 4000) % 4)::INTEGER) AS kind FROM range(120) r(i)
"""


def released(monkeypatch: pytest.MonkeyPatch, options: str, *, anew: bool) -> tuple[list[Any], Plan]:
    """Rows of a release, and its plan; where it is to be made anew, the plan does not hand on any classes."""
    plans: list[Plan] = []

    def chosen(*arguments: Any) -> Plan:
        plans.append(choose_plan(*arguments))
        return replace(plans[-1], classes=None) if anew else plans[-1]

    monkeypatch.setattr(stage, "choose_plan", chosen)
    with duckanon.connect() as con:
        con.execute(SOURCE)
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (age, pay), insensitive = *, {options})"
        )
        rows = con.execute("FROM v ORDER BY ALL").fetchall()
    return rows, plans[-1]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "handed_on"),
    [
        ("sensitive = ill, k = 4, t = 0.2", True),
        ("sensitive = ill, k = 4, t = 0.2, seed = 7", True),
        ("sensitive = ill, k = 4, t = 0.2, effort = 'fast'", True),
        ("sensitive = ill, k = 4, t = 0.2, effort = 'best'", False),
        ("sensitive = ill, k = 4, t = 0.2, refine = false", True),
        ("sensitive = ill, k = 4, t = 0.2, suppression_limit = 0.1", False),
        ("sensitive = kind, k = 4, l = 3", True),
        ("sensitive = kind, k = 4, l = 3, t = 0.3", True),
        ("sensitive = kind, k = 4", False),
    ],
)
@pytest.mark.filterwarnings("ignore:insensitive column 'ill' singles out:duckanon.DuckanonWarning")
def test_what_was_tried_is_what_is_released(
    monkeypatch: pytest.MonkeyPatch, options: str, *, handed_on: bool
) -> None:
    """The reference is the partition itself, to which nothing was handed on."""
    rows, plan = released(monkeypatch, options, anew=False)
    assert (plan.classes is not None) == handed_on
    assert rows == released(monkeypatch, options, anew=True)[0]


def test_classes_of_a_sample_are_not_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 records are more than are tried."""
    monkeypatch.setattr(
        stage, "choose_plan", lambda *arguments: plans.append(choose_plan(*arguments)) or plans[-1]
    )
    plans: list[Plan] = []
    with duckanon.connect() as con:
        con.execute(SOURCE.replace("range(120)", "range(5000)"))
        con.execute("""CREATE ANONYMIZED VIEW v AS FROM p
            WITH (quasi_identifiers = (age, pay), insensitive = *, sensitive = ill, k = 4, t = 0.2, effort = 'fast')""")
        assert con.execute("SELECT count(*) FROM v").fetchone() == (5000,)
    assert [plan.classes for plan in plans] == [None]


LARGE = """
CREATE TABLE p AS SELECT x AS age, hash(i + 1) % 1000 AS pay, x // 9 + hash(i + 2) % 30 AS ill
FROM (SELECT i, hash(i) % 300 AS x FROM range(9000) r(i))
"""


def lost(monkeypatch: pytest.MonkeyPatch, options: str) -> tuple[float, Plan]:
    """Information loss of a release of many records, by its report, and its plan."""
    plans: list[Plan] = []
    monkeypatch.setattr(
        stage, "choose_plan", lambda *arguments: plans.append(choose_plan(*arguments)) or plans[-1]
    )
    with duckanon.connect() as con:
        con.execute(LARGE)
        policy = f"quasi_identifiers = (age, pay), sensitive = ill, k = 3, t = 0.15, {options}"
        (outcome,) = con.run_script(f"CREATE ANONYMIZED VIEW v AS FROM p WITH ({policy})")
    assert outcome.report is not None
    assert outcome.report.passed
    (loss,) = (x.value for x in outcome.report.measures if x.measure == "information_loss")
    assert loss is not None
    return loss, plans[-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_classes_of_near_records_are_taken_where_they_lose_much_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is the other start, by its name; with refinement no more is lost than without."""
    plain, plan = lost(monkeypatch, "refine = false")
    assert (plan.method, plan.recipe.effort) == ("blocks", None)
    spread, named = lost(monkeypatch, "method = 'tcloseness_first'")
    assert named.method == "tcloseness_first"
    assert plain < 0.8 * spread
    assert lost(monkeypatch, "effort = 'fast'")[0] <= plain


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_where_records_may_be_suppressed_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes are not merged in a tile then: nearly all of near records would be left for the whole table."""
    monkeypatch.setattr(pipeline, "other_ways", lambda *_: iter(()))
    _, plan = lost(monkeypatch, "refine = false, suppression_limit = 0.01")
    assert plan.method == "tcloseness_first"
