"""The persons that the demo shows: what they were beside what they are, without running the releases."""

from __future__ import annotations

from collections import Counter

import duckdb

from duckanon.audits.report import text_table
from duckanon.cli.demo import census
from duckanon.database import templates

# A release of our own: everybody is a year older, and married or not is all that is told.
RELEASED = """
CREATE VIEW census_t AS
SELECT age + 1 AS age, sex, race, education, left(marital_status, 7) AS marital_status, household_role,
    weeks_worked, occupation
FROM '{census}'
"""


def test_the_demo_shows_what_three_persons_were_beside_what_they_are() -> None:
    """Each is alone with weeks and occupation in the census, counted here; each of another class."""
    with duckdb.connect() as con:
        con.execute(RELEASED.format(census=census()))
        shown = con.sql(templates.render("demo.sql.j2:persons", census=str(census())))
        lines, columns = shown.fetchall(), shown.columns
        everyone = con.execute(f"SELECT age, weeks_worked, occupation FROM '{census()}'").fetchall()
    counted = Counter((weeks, occupation) for _, weeks, occupation in everyone)
    alone = sorted((age, weeks, work) for age, weeks, work in everyone if counted[weeks, work] == 1)
    chosen = [alone[0], alone[(len(alone) + 1) // 2 - 1], alone[-1]]
    assert [line[0] for line in lines] == ["was", "is"] * 3
    for (age, weeks, work), was, now in zip(chosen, lines[::2], lines[1::2], strict=True):
        assert (was[1], now[1]) == (age, age + 1)
        assert was[7] == now[7] == weeks
        assert was[8] == now[8]
        assert work.startswith(was[8].removesuffix(".."))
        assert now[5] in {"Never m", "Married", "Widowed", "Divorce", "Separat"}
    assert len({line[1:7] for line in lines[1::2]}) == 3
    assert max(map(len, text_table(columns, lines))) <= 100
