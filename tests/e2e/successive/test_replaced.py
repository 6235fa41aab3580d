"""A view that was replaced, or whose rows were changed by hand, is no release: nothing is done in its name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.cli.verify import verify
from duckanon.errors import ReleaseError
from tests.e2e.scenes import CREATE, patients, rows
from tests.examples import slowly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "; COMMENT ON VIEW v IS 'duckanon release 1'"

REPLACED = {
    "of another table": "CREATE OR REPLACE VIEW v AS SELECT age, zip, charge, diagnosis FROM patients",
    "with a filter": "CREATE OR REPLACE VIEW v AS SELECT age, zip, charge, diagnosis FROM duckanon.release_1 WHERE age > 0",
    "with an expression": "CREATE OR REPLACE VIEW v AS SELECT age, zip, charge + 0 AS charge, diagnosis FROM duckanon.release_1",
    "with exchanged names": "CREATE OR REPLACE VIEW v AS SELECT charge AS age, zip, age AS charge, diagnosis FROM duckanon.release_1",
    "with names in its head": "CREATE OR REPLACE VIEW v (charge, zip, age, diagnosis) AS SELECT age, zip, charge, diagnosis FROM duckanon.release_1",
    "with a column less": "CREATE OR REPLACE VIEW v AS SELECT age, zip, charge FROM duckanon.release_1",
    "of a table of that name elsewhere": "CREATE SCHEMA other; CREATE TABLE other.release_1 AS FROM patients; CREATE OR REPLACE VIEW v AS SELECT age, zip, charge, diagnosis FROM other.release_1",
    "of a file": "CREATE OR REPLACE VIEW v AS SELECT content AS age, 1 AS zip, 1 AS charge, 1 AS diagnosis FROM read_text('/etc/passwd')",
}

STATEMENTS = (
    "EXPORT ANONYMIZED VIEW v TO '{folder}/f.duckdb'", "EXPORT ANONYMIZED VIEW v TO '{folder}/f.parquet'",
    "EXPORT ANONYMIZED VIEW v TO '{folder}/f.csv'", "REFRESH ANONYMIZED VIEW v", "AUDIT VIEW v",
    "EXPLAIN ANONYMIZED VIEW v", "DROP ANONYMIZED VIEW v",
)  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one release."""
    file = tmp_path_factory.mktemp("original") / "home.duckdb"
    with patients(file) as connection:
        connection.sql(CREATE)
    return file


@pytest.fixture
def con(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Connection]:
    """A connection with a copy of it."""
    with duckanon.connect(shutil.copy(original, tmp_path_factory.mktemp("copy"))) as connection:
        yield connection


@pytest.mark.parametrize("how", slowly(REPLACED, one_of=3))
def test_nothing_is_done_in_the_name_of_a_replaced_view(
    con: duckanon.Connection, tmp_path: Path, how: str
) -> None:
    con.execute(REPLACED[how] + MARK)
    view = rows(con, "SELECT sql FROM duckdb_views() WHERE view_name = 'v'")
    audits = rows(con, "SELECT count(*) AS n FROM duckanon.audits")
    for statement in STATEMENTS:
        with pytest.raises(ReleaseError, match="carries the mark of release 1 but is not its view"):
            con.sql(statement.format(folder=tmp_path))
    with pytest.raises(ReleaseError, match="is a view that duckanon did not make and does not replace"):
        con.sql(CREATE.replace("CREATE", "CREATE OR REPLACE"))
    assert list(tmp_path.iterdir()) == []
    assert rows(con, "SHOW ANONYMIZED VIEWS") == []
    assert rows(con, "SELECT sql FROM duckdb_views() WHERE view_name = 'v'") == view
    assert rows(con, "SELECT count(*) AS n FROM duckanon.audits") == audits


def test_a_view_that_was_written_anew_as_it_was_is_ours(con: duckanon.Connection) -> None:
    """With other spaces and quotes it is the same definition: a dump that was loaded again, say."""
    con.execute(
        'CREATE OR REPLACE VIEW v AS SELECT "age", zip,charge, diagnosis FROM home.duckanon."release_1"'
        + MARK
    )
    assert all(row["passed"] is not False for row in rows(con, "AUDIT VIEW v"))


CHANGED = {
    "a value": "UPDATE duckanon.release_1 SET diagnosis = 'none' WHERE rowid = 0",
    "values exchanged": "UPDATE duckanon.release_1 SET charge = 10 - charge",
    "a row less": "DELETE FROM duckanon.release_1 WHERE rowid = 0",
    "a class less": "DELETE FROM duckanon.release_1 WHERE age = (SELECT min(age) FROM duckanon.release_1)",
    "a row more": "INSERT INTO duckanon.release_1 FROM duckanon.release_1 LIMIT 1",
    "a type": "ALTER TABLE duckanon.release_1 ALTER age TYPE INTEGER",
}


@pytest.mark.parametrize("what", CHANGED)
def test_rows_that_were_changed_by_hand_are_not_exported(
    con: duckanon.Connection, tmp_path: Path, what: str
) -> None:
    con.execute(CHANGED[what])
    for ending in ("duckdb", "parquet", "csv"):
        with pytest.raises(ReleaseError, match="are not those that were audited"):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'f'}.{ending}'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_audit_of_rows_that_were_changed_by_hand_says_so_until_they_are_renewed(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    """It audits what is there, which may well keep the policy: but it is not what was released."""
    con.execute(CHANGED["values exchanged"])
    (outcome,) = con.run_script("AUDIT VIEW v")
    assert "the rows are not those that were audited when the release was made" in outcome.title
    con.sql("REFRESH ANONYMIZED VIEW v")
    (outcome,) = con.run_script("AUDIT VIEW v")
    assert outcome.title == "audited home.main.v"
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'f.duckdb'}'")
    assert verify(tmp_path / "f.duckdb") == 0


def test_a_replaced_view_gives_way_to_a_new_release(con: duckanon.Connection) -> None:
    """As the error says."""
    con.execute(REPLACED["with a filter"] + MARK + "; DROP VIEW v")
    con.sql(CREATE)
    assert len(rows(con, "FROM duckanon.releases")) == 1
    assert all(row["passed"] is not False for row in rows(con, "AUDIT VIEW v"))


@pytest.mark.parametrize("release", ["table", "anatomy"])
@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
def test_a_database_that_was_exported_and_imported_gets_its_marks_back_as_the_error_says(
    con: duckanon.Connection, tmp_path: Path, release: str
) -> None:
    """EXPORT DATABASE writes no comments; nothing is taken for a release without its mark."""
    if release == "anatomy":
        con.sql("DROP ANONYMIZED VIEW v")
        con.sql(
            "CREATE ANONYMIZED VIEW v AS SELECT age, diagnosis FROM patients "
            "WITH (quasi_identifiers = age, sensitive = diagnosis, k = 2, l = 2, release = 'anatomy')"
        )
    con.execute(f"EXPORT DATABASE '{tmp_path / 'dump'}'")
    with duckanon.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'dump'}'")
        for statement in (*STATEMENTS[3:], CREATE, CREATE.replace("CREATE", "CREATE OR REPLACE")):
            with pytest.raises(ReleaseError, match="without the comment that marks it, which IMPORT") as lost:
                other.sql(statement)
        way_out = str(lost.value).partition("leaves out: ")[2].partition(" brings it back")[0]
        other.execute(way_out)
        assert [row["view_name"] for row in rows(other, "SHOW ANONYMIZED VIEWS")] == ["v"]
        assert all(row["passed"] is not False for row in rows(other, "AUDIT VIEW v"))
        other.sql("DROP ANONYMIZED VIEW v")
        assert rows(other, "SELECT view_name FROM duckdb_views() WHERE NOT internal") == []
