"""duckanon verify: a released file holds what EXPORT writes and nothing else."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import duckdb
import pytest

from duckanon.audits import macros
from duckanon.cli.verify import verify
from duckanon.release.verify.verify import verify as verification
from tests.e2e.evidence_scene import altered, copied, everything_wrong, rechained, verified, with_evidence
from tests.e2e.forged_database import mended
from tests.e2e.scenes import CREATE, ROOT, patients, rows, stock_cli
from tests.examples import slowly

LIE = "CREATE OR REPLACE MACRO audit(tbl, qi, s, k := NULL, l := NULL, t := NULL, distance := NULL, l_diversity := 'distinct', c := NULL) AS TABLE SELECT 'k_anonymity' AS measure, 99 AS value, true AS passed"

DIFFERS = f"the macro main.{{}} is not the one that duckanon {version('duckanon')} writes: ask it nothing"

OLDER = "UPDATE duckanon.audits SET duckanon_version = '0.0.9' WHERE statement = 'export';"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_evidence(tmp_path_factory.mktemp("evidence"))


def rewritten(before: str, after: str) -> str:
    """Give the statement of a macro of ours in which one text stands for another."""
    (statement,) = [text for text in macros.macro_statements(temporary=False) if before in text]
    return statement.replace(before, after, 1)


ALTERED = {
    "lies": LIE,
    "has another default": rewritten("l_diversity := 'distinct'", "l_diversity := 'entropy'"),
    "has another name of a parameter": rewritten("audit(tbl, qi, s, k", "audit(tbl, qi, s, j"),
    "compares otherwise": rewritten("MACRO audit(", "MACRO audit(").replace(" > ", " >= ", 1),
    "has one more form": f"{LIE.replace('AS TABLE', 'AS TABLE (')}), (tbl) AS TABLE (SELECT true AS passed)",
    "is scalar": "DROP MACRO TABLE audit; CREATE MACRO audit(tbl, qi, s) AS true",
    "has a scalar namesake": "CREATE MACRO audit(tbl, qi, s) AS true",
}


@pytest.mark.parametrize("how", slowly(ALTERED, one_of=3))
def test_a_macro_that_is_not_ours_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    code, found = verified(copied(originals / "file.duckdb", tmp_path, ALTERED[how]), capsys)
    assert (code, found["macros_verified"], everything_wrong(found)) == (1, False, [DIFFERS.format("audit")])


@pytest.mark.slow
def test_every_macro_is_compared(originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that were compared with nothing would be a hole."""
    lies = [f"CREATE OR REPLACE MACRO {name}() AS TABLE SELECT true AS passed" for name in macros.bindings()]
    _, found = verified(copied(originals / "file.duckdb", tmp_path, ";".join(lies)), capsys)
    assert sorted(found["differences"]) == sorted(DIFFERS.format(name) for name in macros.bindings())
    gone = [f"DROP MACRO TABLE {name}" for name in macros.bindings()]
    _, found = verified(copied(originals / "file.duckdb", tmp_path, ";".join(gone)), capsys)
    assert sorted(found["differences"]) == sorted(
        f"the macro main.{name} is missing" for name in macros.bindings()
    )


ADDED = {
    "macro duckanon.audit": LIE.replace("MACRO audit", "MACRO duckanon.audit"),
    "macro main.bool_and": "CREATE MACRO bool_and(x) AS true",
    "table main.more": "CREATE TABLE more AS SELECT 1 AS a",
    "view main.few": "CREATE VIEW few AS SELECT 1 AS a",
    "type main.mood": "CREATE TYPE mood AS ENUM ('low')",
    "sequence main.numbers": "CREATE SEQUENCE numbers",
    "schema other": "CREATE SCHEMA other",
    "column duckanon.columns.note VARCHAR": "ALTER TABLE duckanon.columns ADD COLUMN note VARCHAR",
    "value computed for main.v.age": "ALTER TABLE v ALTER age SET DEFAULT 34",
    "constraint NOT NULL on main.v": "ALTER TABLE v ALTER zip SET NOT NULL",
    "index main.by_age": "CREATE INDEX by_age ON v (age)",
    "comment on table main.v": "COMMENT ON TABLE v IS 'Anna is in row 3'",
    "comment on column main.v.zip": "COMMENT ON COLUMN v.zip IS 'true'",
    "comment on table duckanon.columns": "COMMENT ON TABLE duckanon.columns IS 'by the office'",
    "comment on macro main.audit": "COMMENT ON MACRO TABLE audit IS 'approved'",
    "comment on view main.few": "COMMENT ON VIEW few IS 'few'",
    "comment on type main.mood": "COMMENT ON TYPE mood IS 'low'",
    "comment on sequence main.numbers": "COMMENT ON SEQUENCE numbers IS '1'",
    "comment on index main.by_age": "COMMENT ON INDEX by_age IS '1'",
}  # fmt: skip


def test_what_export_does_not_write_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(originals / "file.duckdb", tmp_path, ";".join(ADDED.values()))
    code, found = verified(file, capsys)
    assert code == 1
    assert sorted(everything_wrong(found)) == sorted(
        f"the file holds the {what}, which EXPORT does not write" for what in ADDED
    )


def test_a_trigger_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a file of DuckDB 2.0 can hold one: whoever adds it must copy the file into such a one."""
    with duckdb.connect() as con:
        con.execute(f"""
            ATTACH '{originals / "file.duckdb"}' AS file (READ_ONLY);
            ATTACH '{tmp_path / "copy.duckdb"}' AS copy (STORAGE_VERSION 'v2.0.0');
            COPY FROM DATABASE file TO copy;
            USE copy;
            CREATE TRIGGER fired AFTER INSERT ON v INSERT INTO duckanon.columns (position) VALUES (1)
        """)
    _, found = verified(tmp_path / "copy.duckdb", capsys)
    assert found["differences"] == ["the file holds the trigger main.fired, which EXPORT does not write"]


def test_a_column_that_shows_every_query_something_else_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A generated column may read the text of the query, so that it shows the auditor what the auditor wants."""
    file = copied(
        originals / "file.duckdb",
        tmp_path,
        """CREATE TABLE u (age BIGINT, zip VARCHAR, diagnosis VARCHAR, charge BIGINT AS (CASE
        WHEN contains(current_query(), 'sha256') THEN 1 ELSE 2 END));
        INSERT INTO u SELECT age, zip, diagnosis FROM v; DROP TABLE v; ALTER TABLE u RENAME TO v""",
    )
    code, found = verified(file, capsys)
    assert code == 1
    assert (
        "the file holds the value computed for main.v.charge, which EXPORT does not write"
        in found["differences"]
    )


@pytest.mark.slow
def test_the_macros_of_a_file_are_recognised_however_often_it_was_written(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB writes the names of EXCLUDE in another order at every checkpoint."""
    file = copied(originals / "file.duckdb", tmp_path)
    for _ in range(4):
        with duckdb.connect(str(file)) as con:
            con.execute("CREATE TABLE more AS SELECT 1 AS a; DROP TABLE more; CHECKPOINT")
        assert verify(file) == 0
        assert (
            capsys.readouterr().out.splitlines()[-1].endswith("the audit macros are those that EXPORT writes")
        )


@pytest.mark.slow
def test_another_version_wrote_the_file(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it installed is not known here: that is said, and is no difference."""
    file = copied(originals / "file.duckdb", tmp_path, OLDER)
    rechained(file)
    code, found = verified(file, capsys)
    assert (code, found["macros_verified"], everything_wrong(found)) == (0, True, []), "they are the same"
    file = copied(originals / "file.duckdb", tmp_path, OLDER + LIE)
    rechained(file)
    code, found = verified(file, capsys)
    assert (code, found["macros_verified"], everything_wrong(found)) == (0, False, [])
    (note,) = [note for note in found["notes"] if "macros" in note]
    assert "duckanon 0.0.9" in note
    assert f"duckanon {version('duckanon')}" in note
    assert "main.audit" in note
    assert verify(file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == f"note: {note}"
    assert lines[-1].startswith("verified: ")
    assert lines[-1].endswith("the audit macros in the file were NOT verified: see the note")


@pytest.mark.slow
def test_another_duckdb_wrote_the_file(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another DuckDB may write the same macro as another text."""
    older = "UPDATE duckanon.audits SET duckdb_version = '1.9.0' WHERE statement = 'export';"
    file = copied(originals / "file.duckdb", tmp_path, older + LIE)
    rechained(file)
    code, found = verified(file, capsys)
    assert (code, found["macros_verified"]) == (0, False)
    assert "DuckDB 1.9.0" in found["notes"][-1]


def test_one_record_of_this_version_is_enough(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second record of an older version does not excuse the macros."""
    more = "INSERT INTO duckanon.audits SELECT * REPLACE ('0.0.9' AS duckanon_version, 'x' AS audit_id) FROM duckanon.audits WHERE statement = 'export';"
    code, found = verified(copied(originals / "file.duckdb", tmp_path, more + LIE), capsys)
    assert code == 1
    assert found["macros_verified"] is False


@pytest.mark.parametrize("hidden", [b"x", b"name,diagnosis\nAnna,flu\n" * 20_000])
def test_bytes_behind_the_end_of_a_file_are_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], hidden: bytes
) -> None:
    """DuckDB opens such a file and does not see them."""
    file = copied(originals / "file.duckdb", tmp_path)
    with file.open("ab") as end:
        end.write(hidden)
    code, found = verified(file, capsys)
    assert (code, everything_wrong(found)) == (
        1,
        [f"the file goes on for {len(hidden)} bytes behind its last block"],
    )


def test_a_log_beside_a_file_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB reads it as a part of the file; who passes the file on without it passes on another one."""
    file = copied(originals / "file.duckdb", tmp_path)
    program = f"import duckdb, os; con = duckdb.connect({str(file)!r}); con.execute(\"SET wal_autocheckpoint = '1GB'; CREATE TABLE more (a INTEGER); DROP TABLE more\"); os._exit(0)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert file.with_name(f"{file.name}.wal").exists()
    code, found = verified(file, capsys)
    assert (code, everything_wrong(found)) == (
        1,
        ["'file.duckdb.wal' lies beside the file, and DuckDB reads it as a part of it: EXPORT leaves none"],
    )


@pytest.mark.slow
def test_what_was_deleted_from_a_file_and_still_lies_in_it_is_noted(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A free block keeps what was in it; EXPORT leaves its own empty, so that a note says: someone wrote later."""
    assert verified(originals / "file.duckdb", capsys)[1]["notes"] == []
    file = copied(originals / "file.duckdb", tmp_path)
    altered(file, "CREATE TABLE names AS SELECT 'Anna' || hash(i) AS name FROM range(200_000) AS r(i)")
    altered(file, "CREATE TABLE more AS SELECT hash(i) AS a FROM range(60_000) AS r(i)")
    altered(file, "DROP TABLE names")
    assert b"Anna" in file.read_bytes()
    found = verified(file, capsys)[1]
    assert everything_wrong(found) == ["the file holds the table main.more, which EXPORT does not write"]
    (note,) = found["notes"]
    assert "not empty, as EXPORT leaves every one" in note


def test_the_owner_may_have_anything_beside_the_releases(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(
        originals / "home.duckdb",
        tmp_path,
        f"{LIE}; CREATE TYPE mood AS ENUM ('low'); CREATE SEQUENCE numbers; CREATE VIEW more AS SELECT 1 AS a",
    )
    code, found = verified(file, capsys)
    assert (code, found["macros_verified"], everything_wrong(found)) == (0, None, [])


HIDING = [
    "sha256(x) AS 'lie'", "length(x) AS 1", "concat(x, y, z, a) AS 'lie'", "count(x) AS 42", "sum(x) AS 42", "min(x) AS 42",
    "strftime(x, y) AS 'lie'", "coalesce(x, y) AS y", "lower(x) AS 'lie'", "\"+\"(x, y) AS 1", "\"-\"(x, y) AS 1", "\">\"(x, y) AS true",
    "current_database() AS 'lie'", "current_setting(x) AS 'lie'", "current_schema() AS 'lie'",
    "duckdb_views() AS TABLE SELECT 1 AS a", "duckdb_tables() AS TABLE SELECT 1 AS a", "duckdb_columns() AS TABLE SELECT 1 AS a",
    "duckdb_functions() AS TABLE SELECT 1 AS a", "query_table(x) AS TABLE SELECT 1 AS a", "unnest(x) AS 1",
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["home", "file"])
def test_verify_asks_duckdb_and_not_the_functions_of_the_database(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A macro in the current database hides a function of DuckDB, also from those who look for it."""
    honest = verified(originals / f"{name}.duckdb", capsys)[1]
    statements = ";".join(f"CREATE MACRO {macro}" for macro in HIDING)
    file = copied(originals / f"{name}.duckdb", tmp_path, statements)
    code, found = verified(file, capsys)
    assert found["releases"] == honest["releases"]
    named = {difference.split()[5].rstrip(",") for difference in found["differences"]}
    expected = {f"main.{macro.partition('(')[0]}".replace('"', "") for macro in HIDING}
    assert (code, named) == ((0, set()) if name == "home" else (1, expected))


def test_a_forged_function_does_not_hide_a_changed_value(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `sha256` as the file has it every row had the digest of any other row."""
    file = copied(originals / "home.duckdb", tmp_path, "CREATE MACRO sha256(x) AS 'lie'")
    before = verified(file, capsys)[1]["releases"][0]["fingerprint"]
    with duckdb.connect(str(file)) as con:
        con.execute("UPDATE duckanon.release_1 SET diagnosis = 'none' WHERE rowid = 0")
    code, found = verified(file, capsys)
    assert code == 1
    assert found["releases"][0]["fingerprint"] != before


def test_a_file_that_is_attached_hides_no_function(originals: Path, tmp_path: Path) -> None:
    """The advice of docs/evidence.md, in the stock command line; whoever opens the file is deceived."""
    file = copied(originals / "file.duckdb", tmp_path, "CREATE MACRO min(x) AS 99;" + LIE)
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    (advice,) = [part for part in page.split("```sh\n") if "ATTACH 'patients.duckdb'" in part]
    advice = advice.split("```")[0].replace("\\\n", " ")
    words = shlex.split(advice.replace("patients.duckdb", str(file)).replace("main.patients", "main.v"))
    words[0] = str(Path(sys.executable).parent / "duckdb")
    asked = subprocess.run(
        [words[0], "-csv", *words[1:]], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    assert asked.stdout.splitlines()[-1].split(",")[0] == "3"
    opened = stock_cli(file, "FROM k_anonymity('v', ['zip', 'age'])")
    assert opened.stdout.splitlines()[1].split(",")[0] == "99"


def test_the_connection_looks_names_up_as_before(tmp_path: Path) -> None:
    with patients(tmp_path / "p.duckdb") as con:
        con.sql(CREATE)
        con.execute("CREATE SCHEMA other; USE other")
        assert verification(con.duckdb).verified
        assert rows(con, "SELECT current_schema() AS name") == [{"name": "other"}]


def test_names_from_the_file_are_printed_in_one_line(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(
        originals / "file.duckdb", tmp_path, 'CREATE TABLE "more\nverified: 1 release\x1b[2J" (a INTEGER)'
    )
    assert verify(file) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert not any(line.startswith("verified:") for line in out.splitlines())


@pytest.mark.parametrize(("name", "table"), [("file", "v"), ("home", "duckanon.release_1")])
def test_a_changed_collation_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, table: str
) -> None:
    """The rows stay what they are, and a query of them tells less apart. A column called COLLATE is none."""
    change = f"ALTER TABLE {table} ALTER diagnosis TYPE VARCHAR COLLATE NOCASE"
    file = copied(originals / f"{name}.duckdb", tmp_path, change)
    code, found = verified(file, capsys)
    (line,) = [each for each in everything_wrong(found) if "collation" in each]
    place = table if "." in table else f"main.{table}"
    assert (code, line.partition(",")[0]) == (1, f"a column of {place} has the collation NOCASE")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("place", "told"),
    [
        (28, "the first page of the file holds more"), (1000, "the first page of the file holds more"),
        (60, "the first page of the file names no version"), (90, "the first page of the file names no version"),
        (4096 + 64, "page 2 of the file holds 7 bytes"), (8192 + 4000, "page 3 of the file holds"),
    ],
)  # fmt: skip
def test_text_in_a_page_in_front_of_the_blocks_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: int, told: str
) -> None:
    file = copied(originals / "file.duckdb", tmp_path)
    pages = bytearray(file.read_bytes())
    pages[place : place + 7] = b"SECRET!"
    file.write_bytes(mended(pages))
    code, found = verified(file, capsys)
    assert code == 1
    assert [line for line in found["differences"] if line.startswith(told)], found["differences"]
