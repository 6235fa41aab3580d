"""duckanon.audits keeps every audit, and an audit never fails or harms because it cannot be kept."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.cli.verify import verify
from duckanon.errors import PolicyError, ReleaseError
from tests.e2e.scenes import CREATE, patients, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDED = "SELECT DISTINCT audit_id, audited_at, statement, policy, policy_hash, fingerprint, schema_version, duckanon_version, duckdb_version FROM duckanon.audits ORDER BY audited_at"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with sixty patients and one release of them, to be copied; its name is that of one in memory."""
    file = tmp_path_factory.mktemp("made") / "memory.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    return file


@pytest.fixture
def con(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Connection]:
    with duckanon.connect(shutil.copy(made, tmp_path_factory.mktemp("copy") / made.name)) as connection:
        yield connection


def kept(con: duckanon.Connection) -> list[str]:
    """Give what made each recorded audit, in the order of time."""
    return [row["statement"] for row in rows(con, RECORDED)]


def titles(con: duckanon.Connection, statements: str) -> list[str]:
    """Run statements of ours and give their titles."""
    return [outcome.title for outcome in con.run_script(statements)]


def test_every_audit_is_kept_with_what_it_looked_at(con: duckanon.Connection) -> None:
    con.sql("AUDIT VIEW v; AUDIT VIEW v WITH (k = 99, t = 0.25)")
    found = rows(con, RECORDED)
    assert [row["statement"] for row in found] == ["release", "audit", "audit"]
    chain = rows(con, "SELECT DISTINCT number, previous, chain FROM duckanon.audits ORDER BY number")
    assert [row["number"] for row in chain] == [1, 2, 3]
    assert [row["previous"] for row in chain[1:]] == [row["chain"] for row in chain[:2]]
    assert all(value is not None for row in found for value in row.values())
    assert {row["duckdb_version"] for row in found} == {duckdb.__version__}
    assert {row["schema_version"] for row in found} == {4}
    assert [row["policy_hash"] for row in found] == [
        hashlib.sha256(row["policy"].encode()).hexdigest() for row in found
    ]
    assert found[0]["policy"] == found[1]["policy"] != found[2]["policy"]
    assert len({row["fingerprint"] for row in found}) == 1
    assert found[2]["policy"].splitlines()[2:4] == ["k = 99", "t = {charge = 0.25, diagnosis = 0.25}"]
    report = rows(con, "AUDIT VIEW v WITH (k = 99, t = 0.25)")
    query = "SELECT * FROM duckanon.audits WHERE audit_id = '{}' ORDER BY position"
    recorded = rows(con, query.format(found[2]["audit_id"]))
    assert [{name: row[name] for name in report[0]} for row in recorded] == report
    con.execute("UPDATE patients SET charge = charge + 1")
    con.sql("REFRESH ANONYMIZED VIEW v")
    (again,) = rows(con, RECORDED)
    assert again["policy"] == found[0]["policy"]
    assert again["fingerprint"] != found[0]["fingerprint"]


def test_an_audit_joins_the_transaction(con: duckanon.Connection) -> None:
    con.execute("BEGIN")
    con.execute("INSERT INTO patients VALUES (100, 1, 'z', 1, 'flu')")
    assert titles(con, "AUDIT VIEW v") == ["audited memory.main.v"]
    assert kept(con) == ["release", "audit"]
    con.execute("ROLLBACK")
    assert kept(con) == ["release"]
    con.execute("BEGIN")
    con.sql("AUDIT VIEW v")
    con.execute("INSERT INTO patients VALUES (100, 1, 'z', 1, 'flu')")
    con.execute("COMMIT")
    assert kept(con) == ["release", "audit"]
    assert rows(con, "SELECT count(*) AS n FROM patients") == [{"n": 61}]


def test_two_connections_audit_at_once(con: duckanon.Connection) -> None:
    other = duckanon.Connection(con.duckdb.cursor())
    con.execute("BEGIN")
    con.sql("AUDIT VIEW v")
    (outcome,) = other.run_script("AUDIT VIEW v")
    assert outcome.report is not None
    assert outcome.report.passed
    assert "not recorded" in outcome.title
    con.sql("AUDIT VIEW v")
    con.execute("COMMIT")
    assert kept(con) == ["release", "audit", "audit"]


@pytest.mark.slow
def test_audits_of_several_threads_are_all_recorded(con: duckanon.Connection) -> None:
    """Without a transaction of the user nothing keeps one from waiting for the other."""

    def audits(other: duckanon.Connection) -> None:
        for _ in range(3):
            other.sql("AUDIT VIEW v")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(audits, [duckanon.Connection(con.duckdb.cursor()) for _ in range(4)]))
    assert kept(con) == ["release", *["audit"] * 12]


def test_an_audit_that_would_leave_the_line_aborts_no_transaction(con: duckanon.Connection) -> None:
    """The chain is one line: an audit that another connection recorded meanwhile, or is recording, comes first."""
    other = duckanon.Connection(con.duckdb.cursor())
    con.execute("BEGIN; INSERT INTO patients VALUES (100, 1, 'z', 1, 'flu')")
    other.sql("AUDIT VIEW v")
    assert "not recorded: another connection" in titles(con, "AUDIT VIEW v")[0]
    con.execute("COMMIT")
    other.execute("BEGIN")
    other.sql("AUDIT VIEW v")
    con.execute("BEGIN; INSERT INTO patients VALUES (101, 1, 'z', 1, 'flu')")
    assert "not recorded: another connection" in titles(con, "AUDIT VIEW v")[0]
    con.execute("COMMIT")
    other.execute("COMMIT")
    assert titles(con, "AUDIT VIEW v") == ["audited memory.main.v"]
    assert kept(con) == ["release", "audit", "audit", "audit"]
    assert rows(con, "SELECT count(*) AS n FROM patients") == [{"n": 62}]


def test_a_read_only_database_gives_the_result_and_says_that_it_is_not_kept(tmp_path: Path) -> None:
    with patients(tmp_path / "p.duckdb") as con:
        con.sql(CREATE)
        expected = rows(con, "AUDIT VIEW v")
    with duckanon.connect(tmp_path / "p.duckdb", read_only=True) as con:
        with pytest.warns(
            duckanon.DuckanonWarning, match="this audit was not recorded: the database 'p' is read-only"
        ):
            assert rows(con, "AUDIT VIEW v") == expected
        (outcome,) = con.run_script("AUDIT VIEW v")
        assert outcome.report is not None
        assert outcome.report.warnings == ("this audit was not recorded: the database 'p' is read-only",)
        assert outcome.title.endswith(outcome.report.warnings[0])
        con.execute("BEGIN")
        with pytest.warns(duckanon.DuckanonWarning, match="this audit was not recorded"):
            assert rows(con, "AUDIT VIEW v") == expected
        con.execute("COMMIT")
        assert kept(con) == ["release", "audit"]


def test_a_failed_transaction_gives_the_result_of_the_committed_release(con: duckanon.Connection) -> None:
    expected = rows(con, "AUDIT VIEW v")
    con.execute("BEGIN")
    con.execute("UPDATE duckanon.release_1 SET age = 1")
    with pytest.raises(duckdb.ConversionException):
        con.execute("SELECT CAST('x' AS INTEGER)").fetchall()
    (outcome,) = con.run_script("AUDIT VIEW v")
    assert "not recorded: the transaction is aborted" in outcome.title
    assert outcome.table is not None
    assert outcome.table.to_pylist() == expected
    with pytest.raises(ReleaseError, match="not an anonymized view"):
        con.sql("AUDIT VIEW nothing")
    con.execute("ROLLBACK")
    assert kept(con) == ["release", "audit"]


def test_a_transaction_that_writes_elsewhere_is_not_harmed(con: duckanon.Connection) -> None:
    """DuckDB aborts a transaction that writes to a second database."""
    con.execute("ATTACH ':memory:' AS b; CREATE TABLE b.log (n INTEGER)")
    con.execute("BEGIN")
    con.execute("INSERT INTO b.log VALUES (1)")
    (title,) = titles(con, "AUDIT VIEW v")
    assert "not recorded: a transaction writes to one database only" in title
    con.execute("INSERT INTO b.log VALUES (2)")
    con.execute("COMMIT")
    assert rows(con, "SELECT count(*) AS n FROM b.log") == [{"n": 2}]
    assert titles(con, "AUDIT VIEW v") == ["audited memory.main.v"]
    assert kept(con) == ["release", "audit"]


def test_a_record_that_duckdb_refuses_does_not_lose_the_result(con: duckanon.Connection) -> None:
    con.execute("ALTER TABLE duckanon.audits ALTER measure TYPE INTEGER USING 0")
    (outcome,) = con.run_script("AUDIT VIEW v")
    assert "not recorded: evidence: " in outcome.title
    assert outcome.report is not None
    assert outcome.report.passed
    assert con.execute("SELECT 1").fetchall() == [(1,)], "no transaction is left"
    with pytest.raises(PolicyError):
        con.sql("AUDIT VIEW v WITH (k = 1)")


@pytest.mark.parametrize("version", [3, 5])
def test_another_version_is_not_guessed_at(con: duckanon.Connection, version: int) -> None:
    con.execute(f"UPDATE duckanon.releases SET schema_version = {version}")
    for statement in ("AUDIT VIEW v", "REFRESH ANONYMIZED VIEW v", "DROP ANONYMIZED VIEW v"):
        with pytest.raises(
            ReleaseError,
            match=f"version {version}, and this duckanon reads version 4: use the duckanon that wrote",
        ):
            con.sql(statement)


# --- names ---------------------------------------------------------------------------------------------------


def test_a_renamed_view_is_found_under_its_new_name(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute('ALTER VIEW v RENAME TO "new name"')
    with pytest.raises(ReleaseError):
        con.sql("AUDIT VIEW v")
    assert all(row["passed"] is not False for row in rows(con, 'AUDIT VIEW "new name"'))
    assert [row["view_name"] for row in rows(con, "SHOW ANONYMIZED VIEWS")] == ["new name"]
    con.sql(f"EXPORT ANONYMIZED VIEW \"new name\" TO '{tmp_path / 'f.parquet'}'")
    con.sql(CREATE)
    assert len(rows(con, 'FROM "new name"')) == 60, "a release under the old name leaves it alone"
    con.sql('REFRESH ANONYMIZED VIEW "NEW NAME"')
    assert len(rows(con, "FROM duckanon.releases")) == 2
    con.sql('DROP ANONYMIZED VIEW "new name"; DROP ANONYMIZED VIEW v')
    tables = {row["table_name"] for row in rows(con, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'duckanon'")}  # fmt: skip
    assert tables == {"releases", "columns", "sources", "thresholds", "audits", "history"}
    assert rows(con, "FROM duckanon.releases") == []


def test_a_renamed_view_is_exported_under_its_new_name(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute("ALTER VIEW v RENAME TO w")
    con.sql(f"EXPORT ANONYMIZED VIEW w TO '{tmp_path / 'f.duckdb'}'")
    assert verify(tmp_path / "f.duckdb") == 0


def test_a_table_of_the_user_with_our_name(tmp_path: Path) -> None:
    with patients() as con:
        con.execute("CREATE SCHEMA duckanon; CREATE TABLE duckanon.releases (mine INTEGER)")
        con.execute("ATTACH ':memory:' AS b; CREATE TABLE b.patients AS FROM patients")
        assert rows(con, "SHOW ANONYMIZED VIEWS") == []
        for statement in (CREATE, "AUDIT VIEW v", "REFRESH ANONYMIZED VIEW v", "DROP ANONYMIZED VIEW v"):
            with pytest.raises(
                ReleaseError, match=r"memory\.duckanon\.releases is not a table that duckanon made"
            ):
                con.sql(statement)
        con.sql(CREATE.replace("VIEW v", "VIEW b.v"))
        assert len(rows(con, "SHOW ANONYMIZED VIEWS")) == 1
        assert rows(con, "FROM duckanon.releases") == []


def test_an_exported_file_beside_a_release(con: duckanon.Connection, tmp_path: Path) -> None:
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'f.duckdb'}'")
    con.execute(f"ATTACH '{tmp_path / 'f.duckdb'}' AS f (READ_ONLY)")
    assert len(rows(con, "SHOW ANONYMIZED VIEWS")) == 1
    with pytest.raises(ReleaseError, match="not an anonymized view"):
        con.sql("AUDIT VIEW f.v")
