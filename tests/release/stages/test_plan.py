"""Where trying the recipes has made the classes of a release, they are those that are released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.release.stages import partition as stage
from duckanon.release.stages.plan import choose_plan

if TYPE_CHECKING:
    from duckanon.release.stages.plan import Plan

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
