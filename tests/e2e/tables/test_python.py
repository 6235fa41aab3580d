"""The Python interface: connect, anonymize, audit and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon
from duckanon.api.frames import arrow_table
from duckanon.errors import DuckanonError, DuckanonWarning, SourceError
from tests.e2e.scenes import QI, patients, rows
from tests.examples import slowly
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = duckanon.Policy(
    quasi_identifiers=["age", "zip"], sensitive=["charge"], identifiers="id", insensitive="*", k=3, t=0.4
)


def columns() -> dict[str, list[object]]:
    """Give the patients as columns."""
    with patients() as con:
        table = rows(con, "FROM patients")
    return {name: [row[name] for row in table] for name in table[0]}


@pytest.mark.parametrize(
    "make",
    slowly(
        [
            pa.table,
            pd.DataFrame,
            pl.DataFrame,
            lambda c: pa.table(c).to_batches()[0],
            lambda c: pd.DataFrame(c)[::-1],
        ],
        one_of=3,
    ),
)
def test_any_table_in_and_the_same_kind_out(make: object) -> None:
    table = make(columns())  # type: ignore[operator]
    given = duckanon.anonymize_table(table, POLICY)
    assert type(given) is type(table)
    released = arrow_table(given)
    assert released.column_names == ["age", "zip", "charge", "diagnosis"]
    assert k_anonymity(released.to_pylist(), QI) >= 3
    expected = duckanon.anonymize_table(pa.table(columns()), POLICY)
    assert released.to_pylist() == expected.to_pylist()


def test_freed_memory_is_given_back_soon_unless_a_setting_says_otherwise() -> None:
    """On a connection that duckanon opens; DuckDB's own default is 128 MB."""
    flushes = "SELECT value FROM duckdb_settings() WHERE name = 'allocator_flush_threshold'"
    with patients() as con:
        assert rows(con, flushes) == [{"value": "32MB"}]
    with duckanon.connect(allocator_flush_threshold="256MB") as con:
        assert rows(con, flushes) == [{"value": "256MB"}]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(SourceError, match="int"):
        duckanon.anonymize_table(3, POLICY)


def test_anonymize_and_audit() -> None:
    with patients() as con:
        release = duckanon.anonymize(con, "patients", POLICY, name="patients_anon")
        assert (release.name, release.records, release.suppressed) == ("memory.main.patients_anon", 60, 0)
        assert release.report.passed
        assert release.policy == POLICY
        report = duckanon.audit(con, "patients_anon", POLICY)
        assert report.passed
        assert not report.violations
        verdicts = [(m.measure, m.attribute, m.value, m.passed) for m in report.measures]
        made = [(m.measure, m.attribute, m.value, m.passed) for m in release.report.measures]
        assert verdicts == made[: len(verdicts)]
        raw = duckanon.audit(con, "patients", POLICY)
        assert not raw.passed
        sizes = [violation.class_size for violation in raw.violations if violation.measure == "k_anonymity"]
        assert sizes == sorted(sizes)
        assert "<table>" in raw._repr_html_()
        assert raw.to_dict()["passed"] is False
        assert "k_anonymity" in raw.to_text()


def test_anonymize_takes_a_query_and_a_plain_connection() -> None:
    with patients() as con:
        duckanon.anonymize(con.duckdb, "SELECT * FROM patients WHERE age > 30", POLICY, name='"my view"')
        assert len(rows(con, 'FROM "my view"')) == len(rows(con, "FROM patients WHERE age > 30"))


def test_a_nearly_unique_insensitive_column_is_warned_of() -> None:
    policy = duckanon.Policy(quasi_identifiers=["age", "zip"], insensitive="*", k=3)
    with patients() as con, pytest.warns(DuckanonWarning, match="'id'"):
        release = duckanon.anonymize(con, "patients", policy, name="v")
    assert any("'id'" in warning for warning in release.report.warnings)


@pytest.mark.slow
def test_a_collapse_is_loud_and_names_a_t_that_would_avoid_it() -> None:
    """By hand: the sensitive value follows the quasi-identifier, so t = 0.001 leaves one class."""
    table = pa.table({"a": list(range(400)), "s": list(range(400))})
    policy = duckanon.Policy(quasi_identifiers="a", sensitive="s", k=2, t="0.001")
    with pytest.warns(DuckanonWarning, match="t = 0"):
        duckanon.anonymize_table(table, policy)


def test_suppression_takes_whole_classes_within_the_limit() -> None:
    """By hand: 96 records in 24 equal pairs of pairs meet l = 2, the four of a = 99 do not and are 4 % of 100."""
    table = pa.table({"a": [i // 4 for i in range(96)] + [99] * 4, "s": [i % 2 for i in range(96)] + [1] * 4})
    base = {"quasi_identifiers": "a", "sensitive": "s", "k": 4, "l": 2}
    kept = duckanon.anonymize_table(table, duckanon.Policy(**base, suppression_limit=0.04))
    assert kept.num_rows == 96
    assert set(kept.column("a").to_pylist()) == set(range(24))
    merged = duckanon.anonymize_table(table, duckanon.Policy(**base, suppression_limit=0.03))
    assert merged.num_rows == 100


def test_nulls() -> None:
    table = pa.table({"a": [1, 1, None, None, 2, 2], "s": [1, 2, 3, 4, 5, 6]})
    kept = duckanon.anonymize_table(table, duckanon.Policy(quasi_identifiers="a", sensitive="s", k=2))
    assert sorted(kept.column("a").to_pylist(), key=str) == [1, 1, 2, 2, None, None]
    with pytest.warns(DuckanonWarning, match="left out 2"):
        without = duckanon.anonymize_table(
            table, duckanon.Policy(quasi_identifiers="a", sensitive="s", k=2, nulls="suppress")
        )
    assert without.num_rows == 4
    with pytest.raises(SourceError, match="NULL in 2 of 6"):
        duckanon.anonymize_table(
            table, duckanon.Policy(quasi_identifiers="a", sensitive="s", k=2, nulls="error")
        )


@pytest.mark.slow
def test_the_same_release_on_any_number_of_threads() -> None:
    query = "SELECT (i * 7919) % 1000 AS a, (i * 104729) % 97 / 7 AS b, i % 11 AS s FROM range(20000) r(i)"
    policy = duckanon.Policy(quasi_identifiers=["a", "b"], sensitive="s", k=5, t=0.2)
    found = []
    for threads in (1, 2):
        with duckanon.connect(threads=threads) as con:
            duckanon.anonymize(con, query, policy, name="v")
            found.append(rows(con, "FROM v"))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("records", "k", "words"),
    [(1, 2, "has one record: nobody can hide in a release of one"), (3, 4, "of the source: use k <= 3")],
)
def test_a_k_above_the_records_says_which_would_work(records: int, k: int, words: str) -> None:
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT i AS a FROM range({records}) AS r(i)")
        with pytest.raises(DuckanonError) as wrong:
            duckanon.anonymize(con, "t", duckanon.Policy(quasi_identifiers="a", k=k), name="v")
    assert words in str(wrong.value)


PATIENTS_OF_PYTHON = duckanon.Policy(quasi_identifiers="age", sensitive="charge", k=2)

# The names of the arguments are the variables that the statements name.
# ruff: noqa: ARG005
READS: dict[str, Callable[[duckanon.Connection, pa.Table], object]] = {
    "sql": lambda con, frame: con.sql("FROM frame"),
    "execute": lambda con, frame: con.execute("SELECT 1;\nFROM frame"),
    "CREATE": lambda con, frame: con.sql(
        "CREATE ANONYMIZED VIEW v AS FROM frame WITH (quasi_identifiers = age, sensitive = charge, k = 2)"
    ),
    "anonymize": lambda con, frame: duckanon.anonymize(con, "frame", PATIENTS_OF_PYTHON, name="v"),
    "stream": lambda con, frame: con.stream("FROM frame", "t", quasi_identifiers="age", k=2, delay=20),
}


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("door", READS)
def test_a_statement_sees_the_variables_of_its_caller(door: str, kind: Callable[..., Any]) -> None:
    frame = kind({"age": [1, 1, 2, 2], "charge": [1, 2, 1, 2]})
    with duckanon.connect() as con:
        found = READS[door](con, frame)
        if door in {"sql", "execute"}:
            assert found.fetchall() == [(1, 1), (1, 2), (2, 1), (2, 2)]
        # Nothing stays registered, and a relation comes first.
        assert con.sql("FROM duckdb_views() WHERE view_name = 'frame'").fetchall() == []
        con.sql("CREATE TABLE frame AS SELECT 3 AS age, 4 AS charge")
        assert con.sql("FROM frame").fetchall() == [(3, 4)]
        con.sql("DROP TABLE frame; SET python_enable_replacements = false")
        with pytest.raises(duckdb.Error):
            con.sql("FROM frame").fetchall()


def test_only_a_variable_that_a_statement_reads_must_be_a_table() -> None:
    """A column may have the name of a variable that Arrow cannot hold; as a table its name is told."""
    charge = pd.DataFrame({"a": [object()]})
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS charge")
        assert con.sql("SELECT charge FROM t").fetchall() == [(1,)]
        for read in (con.sql, con.execute):
            with pytest.raises(SourceError, match=r"variable 'charge': cannot read .* column 'a' has type"):
                read("FROM charge")
        with pytest.raises(SourceError, match="variable 'charge': cannot read"):
            con.sql("CREATE ANONYMIZED VIEW v AS FROM charge WITH (quasi_identifiers = a, k = 2)")
    assert len(charge) == 1


@pytest.mark.parametrize("door", READS)
def test_a_table_of_python_is_registered_as_the_error_says(door: str) -> None:
    """Without DuckDB's setting variables are no tables, so that a script means the same everywhere."""
    table = pa.table({"age": [1, 1, 2, 2], "charge": [1, 2, 1, 2]})
    way_out = "con.duckdb.register('frame', frame)"
    words = (
        f"'frame' is a variable of Python and no table: register it on the DuckDB connection, as by {way_out}"
    )
    with duckanon.connect(python_enable_replacements=False) as con:
        with pytest.raises((DuckanonError, duckdb.Error)) as refused:
            READS[door](con, table)
        assert words in str(refused.value)
        with pytest.raises((DuckanonError, duckdb.Error)) as refused:
            con.sql("FROM door")
        assert "variable of Python" not in str(refused.value)
        eval(way_out, {"con": con, "frame": table})
        READS[door](con, table)
