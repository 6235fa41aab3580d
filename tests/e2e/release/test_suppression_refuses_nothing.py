"""What a release keeps without suppression it keeps with it: to allow suppression turns no success into a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

METHODS = (
    "auto",
    "auto', refine = false, effort = 'fast",
    "mondrian",
    "mondrian_relaxed",
    "mdav",
    "tcloseness_merge",
)

THRESHOLDS = (
    "",
    ", t = 0.3",
    ", l = 2",
    ", l = 1.6, l_diversity = 'entropy'",
    ", l = 2, l_diversity = 'recursive', c = 1.5",
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def refused(con: duckanon.Connection, rows: list[tuple[Any, ...]], options: str) -> str | None:
    """Make a release; give the error where it is refused."""
    con.execute("CREATE OR REPLACE TABLE people (a INTEGER, b INTEGER, s INTEGER)")
    con.duckdb.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    try:
        con.execute(
            f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = (a, b), sensitive = s, {options})"
        )
    except DuckanonError as failure:
        return str(failure)
    return None


NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-532, -365, 40, 700]))


@pytest.mark.slow
@settings(max_examples=examples(120, 15), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(1, 6), NUMBERS, st.integers(0, 3)), min_size=3, max_size=12),
    method=st.sampled_from(METHODS),
    threshold=st.sampled_from(THRESHOLDS),
    p=st.sampled_from(["", ", p_percent = 5", ", p_percent = 10", ", p_percent = 30"]),
    tenths=st.integers(1, 8),
    k=st.integers(2, 3),
)
def test_to_allow_suppression_turns_no_success_into_a_refusal(
    con: duckanon.Connection,
    rows: list[tuple[Any, ...]],
    method: str,
    threshold: str,
    p: str,
    tenths: int,
    k: int,
) -> None:
    asked = f"k = {k}, method = '{method}'{threshold}{p}"
    if refused(con, rows, asked) is None:
        assert refused(con, rows, f"{asked}, suppression_limit = {tenths / 10}") is None
        (left,) = con.duckdb.execute("SELECT count(*) FROM v").fetchall()
        assert len(rows) - left[0] <= len(rows) * tenths / 10


@pytest.mark.sampled
@pytest.mark.parametrize("method", METHODS[:-1])
def test_where_those_that_are_left_are_told_nothing_is_suppressed(
    con: duckanon.Connection, method: str
) -> None:
    """By hand: of -532, -532 and -365 the sum hides each; without the last each of two tells the other."""
    rows = [(1, -532, 1), (2, None, 1), (3, None, 1), (4, None, 1), (5, -532, 1), (6, -365, 1)]
    assert refused(con, rows, f"k = 2, p_percent = 10, method = '{method}', suppression_limit = 0.5") is None
    assert con.duckdb.execute("SELECT count(*) FROM v").fetchall() == [(6,)]
