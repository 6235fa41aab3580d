"""Every release keeps its promises, as a brute-force auditor sees it that shares no code with us.

Random small tables (tests/strategies.py) with ties, NULLs, constants, duplicates, one row and k = n; the oracle
(tests/oracle.py, tests/oracle_release.py) recomputes k, l and t from the released rows with fractions.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError, DuckanonWarning, InfeasibleError, PolicyError
from duckanon.policy.methods import METHODS
from tests.examples import examples
from tests.oracle_release import assert_ordered_by_values, assert_release_valid
from tests.strategies import Case, cases, load, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator

METHODS_WITH_REPAIR = ("auto", "kanonymity_first", "steered", "tcloseness_merge")
METHODS_BY_CUTS = ("mondrian", "mondrian_relaxed")
METHODS_ELSEWHERE = ("full_domain",)
"""It needs hierarchies: tests/e2e/release/test_full_domain.py."""
METHODS_WITHOUT_REPAIR = tuple(
    name for name in METHODS if name not in METHODS_WITH_REPAIR + METHODS_BY_CUTS + METHODS_ELSEWHERE
)

REFUSALS = ("needs t", "takes one sensitive column", "takes one column", "ranks one 'ordered' column")
"""Of a method by name that cannot do what the policy asks."""

REFUSALS_OF = {
    "auto": (),
    "tcloseness_merge": REFUSALS[:1],
    "steered": (*REFUSALS, "steers to a threshold"),
    **dict.fromkeys(METHODS_BY_CUTS, ()),
}
"""Of the methods that can do nearly everything: merging wants a threshold to merge for."""

ZEROS = Case(
    columns=(("age", "INTEGER"), ("score", "DOUBLE"), ("ward", "VARCHAR")),
    rows=((1, 0.0, "b"), (1, -0.0, "a"), (1, 0.0, "a"), (1, -0.0, "b")),
    policy={"quasi_identifiers": ["age"], "sensitive": ["score", "ward"], "k": 2},
    trees={},
)
"""0.0 and -0.0 are equal and differ: rows that hold them have one order all the same."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def released(con: duckanon.Connection, case: Case) -> list[dict[str, object]] | None:
    """Release a case, or None where it must be refused and is."""
    con.execute("USE memory.main; DROP SCHEMA IF EXISTS play CASCADE; CREATE SCHEMA play; USE play")
    load(con.duckdb, case, "source_table")
    policy = duckanon.Policy(**case.policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        if case.refusal:
            event(f"refused: {case.refusal}")
            with pytest.raises(DuckanonError):
                duckanon.anonymize(con, "source_table", policy, name="v")
            return None
        try:
            duckanon.anonymize(con, "source_table", policy, name="v")
        except PolicyError as refused:
            # A refusal for another reason is an error of ours, and is shown.
            if not any(reason in str(refused) for reason in REFUSALS_OF.get(policy.method, REFUSALS)):
                raise
            event("a method cannot do what is asked")
            return None
        except InfeasibleError:
            assert policy.method in METHODS_WITHOUT_REPAIR
            event("a method without repair missed a threshold")
            return None
    return records_of(con.duckdb, "v")


@settings(
    max_examples=examples(150, 10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(case=ZEROS)
@given(case=cases())
def test_auto_always_keeps_every_threshold(con: duckanon.Connection, case: Case) -> None:
    rows = released(con, case)
    if rows is not None:
        assert_release_valid(records_of(con.duckdb, "source_table"), rows, case.policy, trees=case.trees)
        assert_ordered_by_values(rows)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(methods=METHODS_BY_CUTS))
def test_cuts_always_keep_every_threshold(con: duckanon.Connection, case: Case) -> None:
    """What has no repair needs none: neither refused nor missed, whatever the policy."""
    rows = released(con, case)
    if rows is not None:
        assert_release_valid(records_of(con.duckdb, "source_table"), rows, case.policy, trees=case.trees)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    case=cases(methods=METHODS_BY_CUTS),
    share=st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 1]),
)
def test_cuts_with_suppression_keep_every_threshold(
    con: duckanon.Connection, case: Case, share: float
) -> None:
    """Whatever a policy gets without suppression it gets with it, too: nothing is refused or left empty."""
    suppressing = replace(case, policy={**case.policy, "suppression_limit": share})
    rows = released(con, suppressing)
    if rows is not None:
        source = records_of(con.duckdb, "source_table")
        event(f"suppressed: {len(rows) < len(suppressing.usable)}")
        assert_release_valid(source, rows, suppressing.policy, trees=case.trees)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(methods=(*METHODS_WITHOUT_REPAIR, *METHODS_WITH_REPAIR[1:])))
def test_a_named_method_keeps_every_threshold_or_is_refused(con: duckanon.Connection, case: Case) -> None:
    rows = released(con, case)
    if rows is not None:
        assert_release_valid(records_of(con.duckdb, "source_table"), rows, case.policy, trees=case.trees)


@settings(
    max_examples=examples(40, 6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases())
def test_the_physical_order_of_the_source_leaves_no_trace(con: duckanon.Connection, case: Case) -> None:
    rows = released(con, case)
    if rows is None:
        return
    con.execute("CREATE VIEW backwards AS FROM source_table ORDER BY hash(rowid), rowid DESC")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        duckanon.anonymize(con, "backwards", duckanon.Policy(**case.policy), name="w")
    same = con.sql("SELECT count(*) FROM (FROM v EXCEPT ALL FROM w)")
    assert same is not None
    assert same.fetchall() == [(0,)]
