"""(n, t)-closeness where it is not built: each door refuses n with the reason, and EXPLAIN shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon import Policy, PolicyError
from duckanon.release.folders import not_yet
from duckanon.streams.policy import stream_options
from tests.sql.gates import runs

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = "quasi_identifiers = (age), sensitive = (ward), k = 3, t = 0.5, n = 12"
CREATE = f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM staff WITH (identifiers = (id), {OPTIONS})"


def opened() -> duckanon.Connection:
    con = duckanon.connect()
    con.execute(
        "CREATE TABLE staff AS "
        "SELECT i AS id, 20 + i % 20 AS age, 'ABC'[1 + i % 3] AS ward FROM range(60) AS r(i)"
    )
    return con


def test_spark_and_streams_refuse_n() -> None:
    policy = Policy(quasi_identifiers="age", sensitive="ward", k=3, t=0.5, n=12)
    assert not_yet(policy) == ["n"]
    with pytest.raises(PolicyError, match="n is not for streams"):
        stream_options({"quasi_identifiers": "age", "sensitive": "ward", "t": 0.5, "n": 12})


@pytest.mark.filterwarnings("ignore")
def test_statements_that_are_not_built_refuse_n() -> None:
    con = opened()
    with pytest.raises(PolicyError, match="FRONTIER measures the distance from all records"):
        con.execute(f"EXPLAIN {CREATE} FRONTIER")
    plan = con.execute(f"EXPLAIN {CREATE}").fetchall()
    assert ("distance", "ward", "equal", "t = 0.5, n = 12") in plan
    assert [row[2] for row in plan if row[0] == "supersets"] == ["12"]
    con.execute(CREATE)
    # It needs a subject, which n excludes.
    with pytest.raises(PolicyError, match="names nobody"):
        con.execute("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
    with pytest.raises(PolicyError, match="n counts records"):
        con.execute(CREATE.replace("(identifiers", "(subject"))


def test_the_gate_refuses_a_release_with_n(tmp_path: Path) -> None:
    con, file = opened(), tmp_path / "v.duckdb"
    con.execute(CREATE)
    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    with (
        duckdb.connect(str(file), read_only=True) as stock,
        pytest.raises(duckdb.Error, match=r"gate: .* t with n, .* run duckanon verify"),
    ):
        runs(stock, {})


@pytest.mark.filterwarnings("ignore")
def test_the_table_function_takes_n() -> None:
    con = opened()
    given = "quasi_identifiers := ['age'], sensitive := ['ward'], identifiers := ['id'], k := 3, n := 12"
    assert con.execute(f"FROM anonymize('staff', {given}, t := 0.5)").fetchall()
    with pytest.raises(PolicyError, match="n says how many records"):
        con.execute(f"FROM anonymize('staff', {given})")
