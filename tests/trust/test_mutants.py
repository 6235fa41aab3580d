"""The mutation check on one audit, and that it can fail; all audits: ``python -m benchmarks.mutate_audits``."""

from __future__ import annotations

import tomllib

import pytest

from benchmarks import mutate_audits
from benchmarks.mutants import mutants
from duckanon.audits import headers
from duckanon.database import templates
from tests import slt

BODY = (
    "WITH domain AS (SELECT DISTINCT members, value FROM class_member), "
    "present AS (SELECT value, MAX(rank) - 1 AS m, ROW_NUMBER() OVER (ORDER BY value ASC) AS place FROM t) "
    "SELECT class, COUNT(*) AS n FROM present JOIN domain ON domain.value IS NOT DISTINCT FROM present.value "
    "GROUP BY class, value HAVING MIN(m) >= 3 - 1"
)


@pytest.mark.slow
def test_every_mutant_of_k_anonymity_is_caught() -> None:
    fates, faults = mutate_audits.check("k_anonymity")
    assert faults == []
    assert fates["caught"] >= mutate_audits.MIN_MUTANTS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (">= 3 - 1", "> 3 - 1"),
        (">= 3 - 1", "<= 3 - 1"),
        ("3 - 1", "3 + 1"),
        ("3 - 1", "2 - 1"),
        ("3 - 1", "3 - 2"),
        ("COUNT(*)", "COUNT(DISTINCT value)"),
        ("MIN(", "MAX("),
        (" HAVING MIN(m) >= 3 - 1", ""),
        ("MAX(rank) - 1", "MAX(rank)"),
        ("domain.value IS NOT DISTINCT FROM", "domain.value ="),
        ("ORDER BY value ASC", "ORDER BY value ASC NULLS FIRST"),
        ("SELECT DISTINCT members", "SELECT members"),
        ("FROM class_member", "FROM class_member WHERE NOT class_member.value IS NULL"),
        ("JOIN domain", "LEFT JOIN domain"),
        ("GROUP BY class, value", "GROUP BY value"),
    ],
)
def test_the_changes_are_those_that_people_make(before: str, after: str) -> None:
    found = {mutant.sql for mutant in mutants("mine", BODY)}
    assert before in BODY
    broken = BODY.replace(before, after, 1)
    if after == "GROUP BY value":
        broken = broken.replace("SELECT class,", "SELECT MAX(class) AS class,")
    assert broken in found
    assert BODY not in found


@pytest.mark.slow
def test_a_mutant_that_survives_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one query only, nobody notices most changes."""
    blind = slt.Block("query I", "SELECT count(*) FROM class_sizes('t', ['q'])", ("1",), 1)
    table = slt.Block("statement ok", "CREATE TABLE t AS SELECT 1 AS q", (), 1)
    monkeypatch.setattr(mutate_audits, "tests_of", lambda _: (("blind.test", (table, blind)),))
    _, faults = mutate_audits.check("class_sizes")
    assert "class_sizes: SURVIVED result: COUNT(*) AS class_size => (COUNT(*)) + 1 AS class_size" in faults


def test_an_audit_that_its_tests_do_not_reach_or_refuse_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate_audits, "tests_of", lambda _: ())
    assert mutate_audits.check("class_sizes")[1] == ["class_sizes: no test reaches it"]
    wrong = slt.Block("query I", "SELECT 1", ("2",), 1)
    monkeypatch.setattr(mutate_audits, "tests_of", lambda _: (("wrong.test", (wrong,)),))
    assert mutate_audits.check("class_sizes")[1] == [
        "class_sizes: its tests fail without any change (wrong.test)"
    ]


def test_an_explanation_that_nothing_needs_is_a_fault() -> None:
    caught = mutate_audits.Outcome(mutants("k_anonymity", BODY)[0], "caught", "some.test")
    faults = mutate_audits.judged("k_anonymity", [caught])
    assert "k_anonymity: explained, but no survivor: result:  => LIMIT 1" in faults
    assert faults[-1].startswith("k_anonymity: only")


def test_the_mutated_text_reaches_the_macros_and_nothing_stays() -> None:
    mark = "SELECT class, 42 AS class_size FROM class_member GROUP BY class"
    with mutate_audits.replaced({"audit/class_sizes.sql": mark}):
        assert "42 AS class_size" in mutate_audits.macro("class_sizes")
        assert templates.read("audit/class_sizes.sql") == mark
    assert "42 AS class_size" not in mutate_audits.macro("class_sizes")


def test_every_explanation_is_of_an_audit_that_exists() -> None:
    explained = tomllib.loads(mutate_audits.EQUIVALENT.read_text(encoding="utf-8"))
    assert set(explained) <= set(headers.audit_names())
