"""The audits of subjects, dominance, shares and two releases in DuckDB 1.2.2, in the stock command line, and in this DuckDB."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.audits.macros import macro_statements
from tests.e2e.scenes import ROOT
from tests.sql.gates import runs_in_1_2_2
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
CREATE TABLE v AS SELECT unnest([38, 38, 38, 5, 5, 5]) AS income;
CREATE TABLE told AS SELECT unnest([100, 8, 6, 5, 5, 5]) AS income, unnest([1, 1, 1, 0, 0, 0]) AS class_id;
CREATE TABLE old AS SELECT unnest([1, 1, 1, 2, 2, 2]) AS a, unnest(['x', 'y', 'z', 'x', 'y', 'z']) AS s;
CREATE TABLE new AS SELECT unnest([1, 1, 1, 1, 2, 2, 2]) AS a, unnest(['x', 'y', 'z', 'z', 'x', 'y', 'z']) AS s;
CREATE TABLE visits AS SELECT unnest([1, 1, 1, 2, 2]) AS a, unnest(['p', 'p', 'q', 'p', 'r']) AS who;
"""

# By hand: 100 beside 8 and 6 is told within 6 %; 5 beside 5 and 5 within 100 %. One record came to a class of three, and its 1 to the sum.
SAYS = {
    "FROM dominance('v', ['income'], 'told', ['income'], p := 10)": (
        "SELECT string_agg(round(p_reached, 3) || ' ' || p_violated, '; ' ORDER BY p_reached)",
        "6.0 true; 100.0 false",
    ),
    "FROM release_intersection('old', 'new', ['a'], ['s'], k := 3, l := 2)": (
        "SELECT string_agg(measure || ' ' || CAST(value AS BIGINT), '; ' ORDER BY measure)",
        "class_size_difference 1; records_changed 1; records_difference 1; rows_added 1; sum_difference 1; values_added 1",
    ),
    "FROM k_anonymity('visits', ['a'], subject := ['who'])": (
        "SELECT k || ' of ' || classes || ' and ' || records",
        "2 of 2 and 5",
    ),
    # x and y are 2, z is 3 of 7: 1/2 of z beside 3/7 gains 1/6, as 1/3 of x beside 2/7; ln of 1/3 beside 3/7 is -0.251.
    "FROM audit('new', ['a'], ['s'], alpha := {'s': {'z': 0.5}}, delta := 30, beta := 999999, enhanced_beta := 2)": (
        "SELECT string_agg(measure || ' ' || round(value, 3), '; ' ORDER BY measure) FILTER (WHERE passed)",
        "alpha_k_anonymity 0.5; beta_likeness 0.167; delta_disclosure 0.251; enhanced_beta_likeness 0.167",
    ),
    "FROM k_anonymity_subset('visits', ['a', 'who'], 1)": (
        "SELECT string_agg(subset || ' ' || k || ' of ' || classes || ' and ' || records, '; ')",
        "who 1 of 3 and 5; a 2 of 2 and 5",
    ),
}


def script(audit: str, shown: str) -> str:
    where = "WHERE passed = false" if "release_intersection" in audit else ""
    return f"{shown} AS said {audit} {where}"


@pytest.mark.parametrize("audit", SAYS)
def test_all_say_the_same(tmp_path: Path, audit: str) -> None:
    shown, said = SAYS[audit]
    question = script(audit, shown)
    with duckdb.connect() as con:
        for macro in macro_statements(temporary=True):
            con.execute(macro)
        con.execute(TABLES)
        assert con.execute(question).fetchall() == [(said,)]
    done = subprocess.run(
        [stock_command(), "-noheader", "-list", "-c", ".read sql/install.sql", "-c", TABLES, "-c", question],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (said, "")
    assert runs_in_1_2_2(tmp_path, [(":memory:", True, TABLES + question)]) == [said]
