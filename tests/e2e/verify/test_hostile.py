"""Settings, types and moments that would make a release wrong or leak; each was seen to in a review."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.errors import PolicyError, ReleaseError, SourceError
from tests.e2e.scenes import CREATE, QI, command, patients, rows
from tests.examples import slowly
from tests.oracle import class_emds, k_anonymity

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

SETTINGS = [
    "default_order = 'desc'",
    "default_null_order = 'nulls_first'",
    "default_collation = 'nocase'",
    "preserve_insertion_order = false",
    "threads = 1",
]


def released_with(setting: str) -> list[str]:
    """Give the rows of a release in a session with a setting."""
    source = "SELECT nullif(i * 13 % 97, 5) AS a, CASE WHEN i % 7 < 3 THEN 'x' WHEN i % 7 < 5 THEN 'X' END AS b, least(i * i % 23, 6) AS y FROM range(300) r(i)"
    create = f"CREATE ANONYMIZED VIEW v AS {source} WITH (quasi_identifiers = (a, b), sensitive = (y), k = 3, t = 0.25)"
    with duckanon.connect() as con:
        con.execute(f"SET {setting}")
        con.sql(create)
        con.execute("RESET default_order; RESET default_null_order; RESET default_collation")
        return sorted(map(str, rows(con, "FROM v")))


@pytest.fixture(scope="module")
def usual() -> list[str]:
    return released_with("threads = 2")


@pytest.mark.parametrize("setting", slowly(SETTINGS, one_of=3))
def test_a_setting_of_the_session_changes_nothing(usual: list[str], setting: str) -> None:
    assert released_with(setting) == usual


def test_who_is_in_which_class_is_kept_however_rows_are_written() -> None:
    """Threads that may write rows in any order do; seven equal records of k = 7 are one class of the release."""
    with duckanon.connect() as con:
        con.execute("SET threads = 2; SET preserve_insertion_order = false")
        con.execute(
            "CREATE TABLE p AS SELECT i // 7 * 7919 % 10007 AS a, i // 7 * 104729 % 9973 AS b FROM range(420000) r(i)"
        )
        con.sql("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a, b), k = 7, refine = false)")
        classes = "SELECT count(DISTINCT class), sum(records) FROM duckanon.persons_1 GROUP BY who"
        told = con.execute(classes).fetchall()
    assert len(told) == 60000
    assert set(told) == {(1, 7)}


@pytest.mark.parametrize("wrapped", ["['a'::ENUM('a', 'secret')]", "{'e': 'a'::ENUM('a', 'secret')}"])
def test_an_enum_inside_another_type_is_refused(wrapped: str) -> None:
    """Its type would carry values that no released record has."""
    with duckanon.connect() as con, pytest.raises(PolicyError, match="ENUM"):
        con.sql(
            f"CREATE ANONYMIZED VIEW v AS SELECT i % 9 AS a, {wrapped} AS x FROM range(60) r(i) WITH (quasi_identifiers = (a), insensitive = *, k = 3)"
        )


@pytest.mark.parametrize(
    ("value", "ending"),
    [
        ("'10101'::BIT", "parquet"),
        ("'10:00:00+05'::TIMETZ", "parquet"),
        ("170141183460469231731687303715884105727::HUGEINT - i", "parquet"),
        ("INTERVAL '1 month 1 microsecond'", "parquet"),
    ],
)
def test_a_value_that_a_format_would_change_is_not_exported(tmp_path: Path, value: str, ending: str) -> None:
    with duckanon.connect() as con:
        con.sql(
            f"CREATE ANONYMIZED VIEW v AS SELECT i % 3 AS a, {value} AS x FROM range(30) r(i) WITH (quasi_identifiers = (a), insensitive = *, k = 3)"
        )
        with pytest.raises(ReleaseError, match="'x'"):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / f'r.{ending}'}'")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value", ["'infinity'::DATE", "'nan'::DOUBLE", "'-infinity'::TIMESTAMP", "'10101'::BIT"]
)
@pytest.mark.parametrize("form", slowly(["text", "json"], one_of=3))
def test_an_audit_reports_classes_of_any_value(tmp_path: Path, value: str, form: str) -> None:
    file = tmp_path / "odd.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT {value} AS x) TO '{file}'")
    done = command("audit", file, "--qi", "x", "-k", "2", "--format", form)
    assert done.returncode == 1, done.stderr
    if form == "json":
        assert json.loads(done.stdout)["violations"][0]["class_size"] == 1


def test_a_limit_that_allows_to_suppress_everything_still_releases() -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE p AS SELECT i % 4 AS a, i % 4 AS s FROM range(40) r(i)")
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), sensitive = (s), k = 3, t = 0.1, suppression_limit = 1)"
        )
        released = rows(con, "FROM v")
    assert released
    assert max(class_emds(released, ["a"], "s", distance="ordered")) <= 0.1


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_behind() -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE p AS SELECT i * 7919 % 60000 AS a, i % 50 AS s FROM range(20000) r(i)")
        for delay in (0.05, 0.2, 0.4):
            timer = threading.Timer(delay, con.duckdb.interrupt)
            timer.start()
            try:
                con.sql(
                    "CREATE OR REPLACE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), sensitive = (s), k = 3, t = 0.3, effort = 'fast')"
                )
            except KeyboardInterrupt:
                left = "SELECT table_name FROM duckdb_tables() WHERE temporary UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
                assert rows(con, left) == []
            finally:
                timer.cancel()
                timer.join()


def test_a_view_that_was_dropped_by_hand_is_not_shown_and_can_be_forgotten() -> None:
    with patients() as con:
        con.sql(CREATE)
        con.execute("DROP VIEW v")
        con.sql("DROP ANONYMIZED VIEW v")
        assert rows(con, "FROM duckanon.releases") == []
        assert rows(con, "SHOW ANONYMIZED VIEWS") == []
        con.sql(CREATE)
        assert k_anonymity(rows(con, "FROM v"), QI) >= 3


@pytest.mark.slow
def test_a_prepared_call_never_shows_the_rows_of_another() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE p AS SELECT i % 5 AS a FROM range(50) r(i); CREATE TABLE q AS SELECT 100 + i % 5 AS a FROM range(50) r(i)"
        )
        duckanon.register(con)
        con.execute("PREPARE kept AS SELECT min(a) FROM anonymize('p', quasi_identifiers := ['a'], k := 2)")
        for k in range(2, 22):
            con.execute(
                f"FROM anonymize('q', quasi_identifiers := ['a'], k := {k % 9 + 2}, seed := {k})"
            ).fetchall()
        # Its rows were given up for later calls: it may fail, and it may have kept them.
        with contextlib.suppress(duckdb.Error):
            assert con.execute("EXECUTE kept").fetchall() == [(0,)]


def test_numbers_too_large_for_an_exact_mean_are_refused_with_a_way_out() -> None:
    source = "SELECT 170141183460469231731687303715884105727::HUGEINT - i AS a FROM range(9) r(i)"
    with duckanon.connect() as con:
        create = f"CREATE ANONYMIZED VIEW v AS {source} WITH (quasi_identifiers = (a), k = 3{{}})"
        with pytest.raises(SourceError, match="CAST the column to DOUBLE"):
            con.sql(create.format(""))
        con.sql(create.format(", recode = {a: 'mode'}"))
        assert len(rows(con, "FROM v")) == 9
