"""The role finder on files and databases, on the command line, and as its page shows it."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.cli.main import app
from duckanon.errors import DuckanonError, SourceError
from duckanon.suggestion import suggest
from tests.e2e.people import run
from tests.e2e.scenes import PATIENTS, ROOT, command
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suggest")
    with duckdb.connect(str(folder / "hospital.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute('CREATE SCHEMA s; CREATE TABLE s."odd name" AS FROM patients')
        con.execute(
            f"COPY (SELECT * REPLACE ('0' || zip[2:] AS zip) FROM patients) TO '{folder / 'patients.csv'}'"
        )
        con.execute(f"COPY patients TO '{folder / 'patients.parquet'}'")
    return folder


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("source", ["patients.csv", "patients.parquet"])
def test_the_statement_for_a_file_runs_anywhere(
    files: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app(["suggest", str(files / source), "--format", "json"], standalone_mode=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert {c["name"]: c["role"] for c in found["columns"]} == {
        "id": "identifier",
        "age": "quasi_identifier",
        "zip": "quasi_identifier",
        "charge": "sensitive",
        "diagnosis": "sensitive",
    }
    with duckanon.connect() as con:
        con.sql(found["statement"])
        assert con.execute("SELECT count(*) FROM patients_anon").fetchall() == [(60,)]
        if source == "patients.csv":
            (kind,) = con.execute("SELECT DISTINCT typeof(zip) FROM patients_anon").fetchall()
            assert kind == ("VARCHAR",), "codes with leading zeros stay text"


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    ("table", "view"),
    slowly(
        [
            ("patients", "patients_anon"),
            ("main.PATIENTS", "patients_anon"),
            ("s.odd name", "odd name_anon"),
            ('s."odd name"', "odd name_anon"),
        ],
        one_of=3,
    ),
)
def test_the_statement_for_a_table_runs_on_its_database(
    files: Path, table: str, view: str, tmp_path: Path
) -> None:
    database, out = tmp_path / "hospital.duckdb", tmp_path / "out.txt"
    shutil.copy(files / database.name, database)
    assert app(["suggest", f"{database}:{table}", "-o", str(out)], standalone_mode=False) == 0
    text = out.read_text(encoding="utf-8")
    head, _, statement = text.partition("\nCREATE ")
    assert head.endswith(f"--database {database}")
    with duckanon.connect(database) as con:
        con.sql(f"CREATE {statement}")
        assert con.execute(f'SELECT count(*) FROM "{view}"').fetchall() == [(60,)]


def test_the_command_line(files: Path) -> None:
    done = command("suggest", files / "patients.csv")
    assert done.returncode == 0, done.stderr
    assert "quasi-identifier" in done.stdout
    assert "CREATE ANONYMIZED VIEW patients_anon AS" in done.stdout
    assert "cannot know" in done.stdout
    missing = command("suggest", files / "nobody.csv")
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")
    assert len(missing.stderr.splitlines()) <= 2


def test_an_unknown_format_is_an_error(files: Path) -> None:
    with pytest.raises(DuckanonError, match="text, json or toml"):
        app(["suggest", str(files / "patients.csv"), "--format", "yaml"], standalone_mode=False)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_attached_databases_queries_with_comments_and_nothing_else_than_a_query(files: Path) -> None:
    with duckanon.connect() as con:
        con.execute(f"ATTACH '{files / 'hospital.duckdb'}' AS h (READ_ONLY)")
        found = suggest(con, "h.main.patients")
        assert found.name == "h.main.patients"
        assert found.records == 60
        query = "WITH p AS (FROM h.patients) SELECT id, age, zip, charge FROM p -- all of them"
        run(con, suggest(con, query))
        con.execute("CREATE TABLE mine AS FROM h.patients")
        with pytest.raises(SourceError):
            suggest(con, "FROM mine; DROP TABLE mine")
        assert con.execute("SELECT count(*) FROM mine").fetchall() == [(60,)]


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_the_examples_of_the_page_run(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python blocks of docs/suggest.md, in a folder with its files."""
    page = (ROOT / "docs" / "suggest.md").read_text(encoding="utf-8")
    monkeypatch.chdir(files)
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(block, scope)  # the page is ours
    assert len(page.splitlines()) <= 150
