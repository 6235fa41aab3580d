"""An error names the line of the script, whoever finds it; expected lines are counted by hand."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.cli.main import main
from tests.e2e.scenes import PATIENTS

if TYPE_CHECKING:
    from pathlib import Path

# The failing statement stands where {} is: behind four lines, its comment and another statement on line 5.
SCRIPT = "-- nightly\nCREATE TABLE p AS SELECT i % 7 AS age, i AS zip FROM range(60) AS r(i);\n/* two;\nlines */\nSELECT 1; -- a comment\n{};\nSELECT 2;\n"

OURS = [
    # Syntax, option, role, source query: the word itself where it is known, else the begin of the statement.
    ("CREATE ANONYMIZED VIEW v\nFROM p", "expected AS", (7, 1)),
    ("AUDIT TABLE p WITH (quasi_identifiers = age,\n  kk = 5)", "unknown option 'kk'", (7, 3)),
    ("AUDIT TABLE p WITH (\n  quasi_identifiers = ages, k = 5)", "names 'ages'", (6, 1)),
    ("CREATE ANONYMIZED VIEW v AS\nSELECT age\nFROM q\nWITH (quasi_identifiers = age, k = 5)", "Table with name q", (8, 6)),
    ("CREATE ANONYMIZED VIEW v AS SELECT age, nope\nFROM p WITH (quasi_identifiers = age, k = 5)", '"nope" not found', (6, 41)),
    ("EXPLAIN CREATE ANONYMIZED VIEW v AS SELECT\n nope FROM p WITH (quasi_identifiers = age, k = 5)", '"nope" not found', (7, 2)),
    ("DROP ANONYMIZED VIEW v", "anonymized view", (6, 1)),
]  # fmt: skip

DUCKDBS = [
    ("SELEC 1", "syntax error", (6, 1)),
    ("/* here */ INSERT INTO p VALUES\n  ('x', 1)", "Could not convert", (7, 4)),
    ("CREATE TABLE r AS\nSELECT nope\nFROM p", '"nope" not found', (7, 8)),
    # DuckDB names no place of these.
    ("-- why\n\n  INSERT INTO nope VALUES (1)", "Table with name nope", (8, 3)),
    ("ALTER TABLE p ALTER age SET NOT NULL;\nINSERT INTO p\nVALUES (NULL, 1)", "NOT NULL", (7, 1)),
]


@pytest.mark.parametrize(("statement", "message", "place"), OURS)
def test_our_error_names_the_line_of_the_script(statement: str, message: str, place: tuple[int, int]) -> None:
    with duckanon.connect() as con:
        for run in (con.sql, con.execute, con.run_script):
            with pytest.raises(duckanon.DuckanonError) as failed:
                run(SCRIPT.format(statement))
            assert message in str(failed.value)
            assert re.findall(r"\(line (\d+), column (\d+)\)", str(failed.value)) == [tuple(map(str, place))]
            con.execute("DROP TABLE p")


@pytest.mark.parametrize(("statement", "message", "place"), DUCKDBS)
def test_an_error_of_duckdb_names_the_line_of_the_script_and_keeps_its_type(
    statement: str, message: str, place: tuple[int, int]
) -> None:
    line, column = place
    script = SCRIPT.format(statement)
    for text in (script, script.removesuffix(";\nSELECT 2;\n")):
        with duckanon.connect() as con:
            for run in (con.sql, con.execute, con.run_script):
                with pytest.raises(duckdb.Error) as failed:
                    run(text)
                assert message in str(failed.value)
                assert type(failed.value) is not duckdb.Error
                shown = str(failed.value).split(f"\nLINE {line}: ")
                assert len(shown) == 2, str(failed.value)
                excerpt, caret = shown[1].split("\n")[:2]
                assert text.split("\n")[line - 1].removesuffix(";") == excerpt.removesuffix(";")
                assert caret.index("^") == len(f"LINE {line}: ") + column - 1
                con.execute("DROP TABLE p")


@pytest.mark.parametrize(
    ("statement", "message", "place"), [OURS[1], OURS[2], OURS[4], DUCKDBS[0], DUCKDBS[2], DUCKDBS[3]]
)
def test_run_names_the_file_and_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str, message: str, place: tuple[int, int]
) -> None:
    script = tmp_path / "nightly.sql"
    script.write_text(SCRIPT.format(statement))
    with pytest.raises(SystemExit) as left:
        main(["run", str(script)])
    error = capsys.readouterr().err
    *notes, last = error.splitlines()
    # A missing table may be in a database that the command was not given.
    assert left.value.code == 2
    assert len(notes) == (message == "Table with name nope")
    assert message in last
    assert last.endswith(f"(line {place[0]}, column {place[1]} of nightly.sql)")


def test_a_violated_audit_names_its_line_and_a_script_comes_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{PATIENTS};\n\nAUDIT TABLE patients WITH (quasi_identifiers = id, k = 2);\nCREATE TABLE later AS SELECT 1"
    line = text[: text.index("AUDIT")].count("\n") + 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(SystemExit) as left:
        main(["run", "-", "-d", str(tmp_path / "d.duckdb")])
    assert left.value.code == 1
    assert capsys.readouterr().err.endswith(f"the rest was not run (line {line}, column 1 of stdin)\n")
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("patients",)]


def test_one_statement_alone_is_told_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sql", "DROP ANONYMIZED VIEW v"])
    assert "line" not in capsys.readouterr().err
    with duckanon.connect() as con, pytest.raises(duckdb.CatalogException) as failed:
        con.sql("INSERT INTO nope VALUES (1)")
    assert "LINE" not in str(failed.value)


def test_a_refresh_tells_the_line_of_the_script_and_that_of_its_query(tmp_path: Path) -> None:
    """The query is kept in the database, not in the script that refreshes it."""
    text = f"{PATIENTS};\nCREATE ANONYMIZED VIEW v AS SELECT age\n, zip FROM patients WITH (quasi_identifiers = (age, zip), k = 5, effort = 'fast');\nALTER TABLE patients DROP zip;\nREFRESH ANONYMIZED VIEW v"
    line = text[: text.index("REFRESH")].count("\n") + 1
    with (
        duckanon.connect() as con,
        pytest.raises(
            duckanon.SourceError, match=rf"of the source query\) \(line {line}, column 1\)$"
        ) as failed,
    ):
        con.sql(text)
    assert "(line 2, column 3 of the source query)" in str(failed.value)
