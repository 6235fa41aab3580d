"""Columns that bear the names which our own SQL gives: a release neither fails nor takes one for the other.

The names are gathered from the text of all queries in sql/. The issue they come from: with quasi-identifiers
q0, q1, ... a column of the candidate and one of our own were both in sight, and with one called rowid its
values were taken for places in the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.database.templates import ident
from tests.examples import some

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = Path(__file__).parents[2] / "sql"
COMMENT, TEXT = re.compile(r"\{#.*?#\}|--[^\n]*", re.DOTALL), re.compile(r"'[^']*'")
NAME = re.compile(r"(?:\bAS |\.|^|\(|, )\s*\"?([a-z_][a-z_0-9]*)", re.MULTILINE)
INTERNAL = {f"{letter}{place}" for letter in "qsiv" for place in range(4)} | {
    "rowid",
    "record_id",
    "class_id",
}
ROLES = 6
RECODES = ("", "median", "range", "set", "mode")
SOURCE = """
CREATE OR REPLACE TABLE source AS
SELECT
    (hash(i) % 50)::INTEGER AS {}, chr(97 + (hash(i + 7) % 4)::INTEGER) AS {},
    DATE '2020-01-01' + (hash(i + 3) % 300)::INTEGER AS {}, (hash(i + 1) % 20)::DOUBLE AS {},
    'd' || (hash(i + 2) % 3) AS {}, i % 2 AS {}
FROM range(60) AS r(i)
"""
POLICY = """
CREATE OR REPLACE ANONYMIZED VIEW released AS FROM source
WITH (quasi_identifiers = ({}, {}, {}), sensitive = ({}, {}), insensitive = ({}), k = 5, t = 0.4{})
"""


def names() -> list[str]:
    """Return every name in the queries, sorted."""
    found = set(INTERNAL)
    for path in (*SQL.rglob("*.sql"), *SQL.rglob("*.sql.j2")):
        found |= set(NAME.findall(TEXT.sub("", COMMENT.sub("", path.read_text(encoding="utf-8")))))
    return sorted(found)


def groups() -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield names for the columns of a table, so that each name has two roles or more."""
    yield 0, ("q0", "q1", "q2", "s0", "s1", "record_id")
    yield 1, ("rowid", "records", "cut", "value", "cell", "place")
    known = names()
    for first in range(0, len(known), 3):
        yield first, tuple(known[(first + 37 * role) % len(known)] for role in range(ROLES))


CASES = list(groups())


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(("number", "columns"), [*CASES[:2], *some(CASES[2:], one_of=50)])
def test_columns_may_be_called_as_ours_are(number: int, columns: tuple[str, ...]) -> None:
    quoted = [ident(name) for name in columns]
    recode = RECODES[number % len(RECODES)]
    option = f", recode = {{{quoted[0]}: '{recode}'}}" if recode else ""
    with duckanon.connect() as con:
        con.duckdb.execute(SOURCE.format(*quoted))
        (outcome,) = con.run_script(POLICY.format(*quoted, option))
        assert outcome.report is not None
        assert outcome.report.passed
        con.run_script("REFRESH ANONYMIZED VIEW released; AUDIT VIEW released")
        # What was sensitive left as it came, in the column that bears its name.
        for name in quoted[3:5]:
            count = f"SELECT {name}, count(*) FROM {{}} GROUP BY ALL ORDER BY ALL"
            released, source = (
                con.duckdb.execute(count.format(table)).fetchall() for table in ("released", "source")
            )
            assert released == source


def test_names_are_found() -> None:
    """The gathering sees CTEs, aliases and qualified columns; hand-picked from sql/advice/effects.sql.j2."""
    assert {"cut", "records", "is_released", "released_share", "rowid"} <= set(names())
