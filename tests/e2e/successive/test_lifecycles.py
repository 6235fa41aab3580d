"""What becomes of a release in a year: views dropped by hand, files copied and renamed, metadata lost (item 17)."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.errors import ReleaseError, SourceError
from duckanon.release.verify.verify import verify
from tests.e2e.scenes import CREATE, EFFORT, QI, command, patients, rows
from tests.examples import slowly
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOW = "SHOW ANONYMIZED VIEWS"
BACKING = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND regexp_full_match(table_name, '(release|tree)_[0-9_]+') ORDER BY 1"
STATEMENTS = {
    "refresh": "REFRESH ANONYMIZED VIEW v",
    "audit": "AUDIT VIEW v",
    "export": "EXPORT ANONYMIZED VIEW v TO '{file}'",
    "drop": "DROP ANONYMIZED VIEW v",
    "replace": CREATE.replace("CREATE", "CREATE OR REPLACE"),
    "show": SHOW,
    "explain": "EXPLAIN ANONYMIZED VIEW v",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with sixty patients and one release of them, to be copied."""
    file = tmp_path_factory.mktemp("made") / "home.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    return file


@pytest.fixture
def con(made: Path, tmp_path: Path) -> Iterator[duckanon.Connection]:
    with duckanon.connect(shutil.copy(made, tmp_path / "home.duckdb")) as con:
        yield con


def backing(con: duckanon.Connection) -> list[str]:
    return [name for (name,) in con.duckdb.execute(BACKING).fetchall()]


def fails(con: duckanon.Connection, statement: str) -> str:
    """Give the one line that a statement fails with."""
    with pytest.raises((ReleaseError, SourceError)) as caught:
        con.sql(statement)
    text = str(caught.value)
    assert "\n" not in text
    assert "Catalog Error" not in text
    assert "Binder Error" not in text
    return text


# What a plain DROP VIEW leaves.


@pytest.mark.parametrize("next_one", slowly(["show", "create", "refresh", "drop"], one_of=3))
def test_the_table_of_a_view_dropped_by_hand_goes_with_the_next_statement(
    con: duckanon.Connection, next_one: str
) -> None:
    con.sql(CREATE.replace("VIEW v", "VIEW w"))
    con.execute("DROP VIEW v")
    assert backing(con) == ["release_1", "release_2"]
    statement = {
        "show": SHOW,
        "create": CREATE.replace("VIEW v", "VIEW x"),
        "refresh": "REFRESH ANONYMIZED VIEW w",
        "drop": "DROP ANONYMIZED VIEW w",
    }[next_one]
    con.sql(statement)
    assert "release_1" not in backing(con)
    for table in ("releases", "columns", "thresholds", "audits"):
        assert rows(con, f"SELECT * FROM duckanon.{table} WHERE release_id = 1") == []
    assert len(rows(con, SHOW)) == {"show": 1, "create": 2, "refresh": 1, "drop": 0}[next_one]


def test_a_release_is_kept_whose_view_was_renamed_or_that_others_read(con: duckanon.Connection) -> None:
    for name in ("renamed", "read", "called", "commented", "gone"):
        con.sql(CREATE.replace("VIEW v", f"VIEW {name}"))
    con.execute("ALTER VIEW renamed RENAME TO another")
    con.execute("CREATE VIEW mine AS SELECT age FROM duckanon.release_3; DROP VIEW read")
    con.execute("CREATE MACRO theirs() AS TABLE SELECT age FROM duckanon.release_4; DROP VIEW called")
    con.execute("COMMENT ON VIEW commented IS 'for the annual report'")
    con.execute("DROP VIEW gone")
    con.sql(SHOW)
    assert backing(con) == ["release_1", "release_2", "release_3", "release_4", "release_5"]
    assert (
        len(rows(con, "FROM another")) == len(rows(con, "FROM mine")) == len(rows(con, "FROM theirs()")) == 60
    )


def test_a_drop_that_is_not_committed_or_rolled_back_costs_nothing(con: duckanon.Connection) -> None:
    other = duckanon.Connection(con.duckdb.cursor())
    other.execute("BEGIN; DROP VIEW v")
    con.sql(SHOW)
    assert backing(con) == ["release_1"]
    # Inside a transaction SHOW writes nothing: the transaction may be meant for another database.
    other.sql(SHOW)
    other.execute("ROLLBACK")
    assert len(rows(con, SHOW)) == 1
    other.execute("BEGIN")
    other.sql(CREATE.replace("VIEW v", "VIEW w"))
    con.sql(SHOW)
    other.execute("COMMIT")
    assert len(rows(con, SHOW)) == 2
    other.close()


def test_a_read_only_database_says_so_in_one_line_and_shows_what_it_has(made: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(made, tmp_path / "p.duckdb"))
    with duckanon.connect(file) as con:
        con.sql(CREATE.replace("VIEW v", "VIEW w"))
        con.execute("DROP VIEW w")
    with duckanon.connect(file, read_only=True) as con:
        for name in ("refresh", "drop", "replace"):
            assert "read-only" in fails(con, STATEMENTS[name])
        assert "read-only" in fails(con, "DROP ANONYMIZED VIEW w")
        assert len(rows(con, SHOW)) == 1
        with pytest.warns(duckanon.DuckanonWarning, match="this audit was not recorded"):
            assert rows(con, "AUDIT VIEW v")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r.parquet'}'")


def test_drop_if_exists_of_nothing_says_so(con: duckanon.Connection) -> None:
    for name in ("none", "nowhere.v", "no.such.v"):
        (outcome,) = con.run_script(f"DROP ANONYMIZED VIEW IF EXISTS {name}")
        assert outcome.title.startswith("nothing to drop: ")
        assert name.split(".")[-2 if "." in name else 0] in outcome.title
        assert "\n" not in outcome.title
        fails(con, f"DROP ANONYMIZED VIEW {name}")
    assert [outcome.title for outcome in con.run_script("DROP ANONYMIZED VIEW IF EXISTS v")] == [
        "dropped home.main.v"
    ]
    with pytest.raises(ReleaseError, match="patients is not an anonymized view"):
        con.sql("DROP ANONYMIZED VIEW IF EXISTS patients")


# Names and places.


def works_under_another_name(con: duckanon.Connection, folder: Path, name: str = "v") -> None:
    """Ask all our statements, from the database that is current."""
    assert k_anonymity(rows(con, f"FROM {name}"), QI) >= 3
    assert rows(con, f"AUDIT VIEW {name}")
    con.sql(f"EXPORT ANONYMIZED VIEW {name} TO '{folder / 'before.csv'}'")
    con.sql(f"EXPLAIN ANONYMIZED VIEW {name}")
    con.execute("DELETE FROM patients WHERE id < 12")
    with pytest.warns(duckanon.DuckanonWarning, match="12 left"):
        con.sql(f"REFRESH ANONYMIZED VIEW {name}")
    assert len(rows(con, f"FROM {name}")) == 48
    con.sql(f"EXPORT ANONYMIZED VIEW {name} TO '{folder / 'after.parquet'}'")
    con.sql(f"DROP ANONYMIZED VIEW {name}")
    assert backing(con) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["copied", "attached", "copy from database", "beside"])
def test_a_database_under_another_name_has_whole_releases(made: Path, tmp_path: Path, way: str) -> None:
    """REFRESH looked for its source in the database of the old name."""
    first, second = Path(shutil.copy(made, tmp_path / "home.duckdb")), tmp_path / "second.duckdb"
    if way == "copy from database":
        with duckanon.connect(first) as con:
            con.execute(f"ATTACH '{second}'; COPY FROM DATABASE home TO second")
    if way != "copy from database":
        shutil.copy(first, second)
    with duckanon.connect(second if way == "copied" else ":memory:") as con:
        if way == "beside":
            # The old name is attached, too, with other data: nothing of it may get into the release.
            con.execute(f"ATTACH '{first}'; DELETE FROM home.patients")
        if way != "copied":
            con.execute(f"ATTACH '{second}' AS third; USE third")
        works_under_another_name(con, tmp_path)


def test_a_source_in_a_database_that_is_not_attached_is_named(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "home.duckdb") as con:
        con.execute(
            f"ATTACH '{tmp_path / 'lab.duckdb'}'; CREATE TABLE lab.p AS SELECT i AS a FROM range(20) r(i); USE lab"
        )
        con.sql(
            f"CREATE ANONYMIZED VIEW home.main.v AS FROM p WITH (quasi_identifiers = (a), k = 3, {EFFORT})"
        )
    with duckanon.connect(tmp_path / "home.duckdb") as con:
        # A table of that name at home is another one.
        con.execute("CREATE TABLE p AS SELECT 1000 + i AS a FROM range(20) r(i)")
        assert "lab.main, which is not here: ATTACH" in fails(con, "REFRESH ANONYMIZED VIEW v")
        assert "lab.main, which is not here: ATTACH" in fails(con, "EXPLAIN ANONYMIZED VIEW v")
        con.execute(f"ATTACH '{tmp_path / 'lab.duckdb'}'")
        con.sql("REFRESH ANONYMIZED VIEW v")
        assert max(row["a"] for row in rows(con, "FROM v")) < 20


@pytest.mark.parametrize(
    "name", ["v" * 300, pytest.param('line\nbreak; "it\'s" 🦆.', marks=pytest.mark.long)]
)
def test_any_name_of_a_view_and_of_a_column(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    with duckanon.connect() as con:
        con.execute(
            f"CREATE TABLE patients AS SELECT i AS id, i % 9 AS {quoted}, i % 7 AS charge FROM range(60) r(i)"
        )
        with_ = f"WITH (identifiers = (id), quasi_identifiers = ({quoted}), sensitive = (charge), k = 3, {EFFORT})"
        con.sql(f"CREATE ANONYMIZED VIEW {quoted} AS FROM patients {with_}")
        assert rows(con, f"AUDIT VIEW {quoted}")
        con.sql(f"REFRESH ANONYMIZED VIEW {quoted}")
        con.execute(f"ALTER VIEW {quoted} RENAME TO plain")
        con.sql(f"EXPORT ANONYMIZED VIEW plain TO '{tmp_path / 'r.csv'}'")
        con.sql("REFRESH ANONYMIZED VIEW plain")
        con.execute(f"ALTER VIEW plain RENAME TO {quoted}")
        con.sql(f"EXPORT ANONYMIZED VIEW {quoted} TO '{tmp_path / 'q.duckdb'}'")
        con.sql(f"DROP ANONYMIZED VIEW {quoted}")
        assert (rows(con, SHOW), backing(con)) == ([], [])
    with duckanon.connect(tmp_path / "q.duckdb", read_only=True) as con:
        assert verify(con.duckdb).verified


# Metadata that is gone.

LOSSES = {
    "schema": "DROP SCHEMA duckanon CASCADE",
    "releases": "DROP TABLE duckanon.releases",
    "row": "DELETE FROM duckanon.releases",
    "columns": "DROP TABLE duckanon.columns",
    "thresholds": "DROP TABLE duckanon.thresholds",
    "audits": "DROP TABLE duckanon.audits",
    "backing": "DROP TABLE duckanon.release_1",
    "source": "UPDATE duckanon.releases SET source_sql = NULL",
    "policy": "UPDATE duckanon.releases SET policy = NULL",
}


@pytest.mark.parametrize("loss", slowly(LOSSES, one_of=3))
def test_every_statement_says_what_is_gone_and_how_to_recover(
    con: duckanon.Connection, tmp_path: Path, loss: str
) -> None:
    works = {
        "audit": {"source"},
        "export": {"source"},
        "refresh": {"columns", "thresholds", "audits", "backing"},
        "explain": {"columns", "thresholds", "audits", "backing"},
    }
    for number, name in enumerate(("audit", "export", "explain", "refresh")):
        con.execute(LOSSES[loss] if number == 0 else "SELECT 1")
        statement = STATEMENTS[name].format(file=tmp_path / f"{number}.duckdb")
        if loss in works[name]:
            con.sql(statement)
        else:
            text = fails(con, statement)
            assert "duckanon" in text
            assert "ANONYMIZED VIEW" in text
    con.sql(SHOW)


LEFT = [
    pytest.param(
        loss, way, marks=[pytest.mark.long] if way == "replace" and loss not in ("schema", "row") else []
    )
    for loss in LOSSES
    for way in ("drop", "replace")
]
"""A loss, and a way out of it; a few of them say nothing new."""


@pytest.mark.parametrize(("loss", "way"), slowly(LEFT, one_of=3))
def test_what_is_left_of_a_release_can_be_replaced_and_dropped(
    con: duckanon.Connection, loss: str, way: str
) -> None:
    con.execute(LOSSES[loss])
    con.sql(STATEMENTS[way])
    if way == "replace":
        assert k_anonymity(rows(con, "FROM v"), QI) >= 3
        assert rows(con, "AUDIT VIEW v")
        (number,) = (row["release_id"] for row in rows(con, "FROM duckanon.releases"))
        assert backing(con) == [f"release_{number}"]
    else:
        assert (backing(con), rows(con, SHOW)) == ([], [])
        for table in ("releases", "columns", "thresholds", "audits"):
            assert rows(con, f"FROM duckanon.{table}") == []
        with pytest.raises(duckdb.CatalogException):
            con.sql("FROM v").fetchall()


def test_a_view_of_the_user_is_never_taken_for_one_that_lost_its_metadata(con: duckanon.Connection) -> None:
    con.execute("CREATE VIEW mine AS SELECT 1 AS a; COMMENT ON VIEW mine IS 'duckanon release 7'")
    for statement in ("DROP ANONYMIZED VIEW mine", STATEMENTS["replace"].replace("VIEW v", "VIEW mine")):
        fails(con, statement)
    assert rows(con, "FROM mine") == [{"a": 1}]


def test_an_audit_or_export_that_is_refused_does_not_cost_a_transaction_of_the_user(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    """They write nothing, so there is no half of anything that must not be committed."""
    con.execute("BEGIN; DELETE FROM patients WHERE id = 0")
    for statement in (
        "AUDIT VIEW patients",
        "EXPORT ANONYMIZED VIEW patients TO 'p.csv'",
        "AUDIT VIEW v WITH (k = 1)",
    ):
        with pytest.raises(duckanon.DuckanonError):
            con.sql(statement.replace("p.csv", str(tmp_path / "p.csv")))
    con.execute("COMMIT")
    assert con.execute("SELECT count(*) FROM patients").fetchall() == [(59,)]


# Others at work.


def test_a_refresh_that_meets_another_writer_is_one_line_and_leaves_nothing(con: duckanon.Connection) -> None:
    other = duckanon.Connection(con.duckdb.cursor())
    other.execute("BEGIN")
    other.sql("REFRESH ANONYMIZED VIEW v")
    before = rows(con, "FROM v")
    assert "at the same time" in fails(con, "REFRESH ANONYMIZED VIEW v")
    assert "at the same time" in fails(con, CREATE.replace("VIEW v", "VIEW w"))
    assert "at the same time" in fails(con, "DROP ANONYMIZED VIEW v")
    assert rows(con, "FROM v") == before
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]
    other.execute("COMMIT")
    con.sql("REFRESH ANONYMIZED VIEW v")
    assert backing(con) == ["release_3"]
    other.close()


def test_a_second_process_is_told_that_the_file_is_taken(con: duckanon.Connection, tmp_path: Path) -> None:
    done = command("sql", "REFRESH ANONYMIZED VIEW v", "-d", tmp_path / "home.duckdb")
    assert done.returncode == 2
    assert "lock" in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert "Traceback" not in done.stderr


# Warnings.

PROGRAM = """
import duckanon, pyarrow as pa
con = duckanon.connect()
con.execute("CREATE TABLE p AS SELECT i % 10 AS a, i AS serial FROM range(100) r(i)")
policy = duckanon.Policy(quasi_identifiers="a", insensitive="*", k=3)
text = "CREATE ANONYMIZED VIEW {} AS FROM p WITH (quasi_identifiers = a, insensitive = *, k = 3)"
table = con.sql("FROM p").to_arrow_table()
duckanon.register(con.duckdb)
duckanon.anonymize(con, "p", policy, name="v1")  # warns
con.sql(text.format("v2"))  # warns
con.execute(text.format("v3"))  # warns
con.run_script(text.format("v4"))  # warns
duckanon.anonymize_table(table, policy)  # warns
con.sql("REFRESH ANONYMIZED VIEW v1")  # warns
con.duckdb.sql("FROM anonymize('p', quasi_identifiers := ['a'], insensitive := '*', k := 3)")  # warns
"""


def test_a_warning_points_at_the_line_of_the_user() -> None:
    """Whatever way leads in; a notebook runs its cells just so, from a text with a name of a file."""
    wanted = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# warns")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(PROGRAM, "/tmp/ipykernel_1/cell.py", "exec"), {})
    ours = [one for one in caught if issubclass(one.category, duckanon.DuckanonWarning)]
    assert {one.filename for one in ours} == {"/tmp/ipykernel_1/cell.py"}
    assert sorted({one.lineno for one in ours}) == wanted
