"""Bad input gets one or two clear lines on stderr, exit code 2, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.e2e.scenes import CREATE, PATIENTS, command
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = "quasi_identifiers = (age, zip), sensitive = (charge), identifiers = (id), insensitive = (diagnosis), k = 3"


def create(options: str, source: str = "SELECT * FROM patients") -> str:
    """Give a CREATE statement."""
    return f"CREATE ANONYMIZED VIEW v AS {source} WITH ({options})"


WRONG = {
    "unknown option": (create(OPTIONS + ", sensitiv = (x)"), ["sensitiv", "'sensitive'"]),
    "unknown column": (create(OPTIONS.replace("zip", "zipp")), ["zipp", "'zip'"]),
    "column without a role": (
        create(OPTIONS.replace(", insensitive = (diagnosis)", "")),
        ["diagnosis", "role"],
    ),
    "duplicate option": (create(OPTIONS + ", k = 4"), ["'k'", "twice"]),
    "option without a value": (create(OPTIONS + ", t ="), ["t", "line 1"]),
    "k above the number of records": (create(OPTIONS.replace("k = 3", "k = 61")), ["61", "60"]),
    "k = 1": (create(OPTIONS.replace("k = 3", "k = 1")), ["k"]),
    "l above the l of the table": (create(OPTIONS + ", l = 12"), ["12", "11"]),
    "t out of range": (create(OPTIONS + ", t = 1.5"), ["1.5"]),
    "two roles": (create(OPTIONS.replace("sensitive = (charge)", "sensitive = (charge, age)")), ["age"]),
    "NaN": (
        create(
            OPTIONS,
            "SELECT * REPLACE (CASE WHEN id = 3 THEN 'nan'::DOUBLE ELSE age END AS age) FROM patients",
        ),
        ["age", "NaN"],
    ),
    "infinity": (
        create(OPTIONS, "SELECT * REPLACE ('inf'::DOUBLE AS age) FROM patients"),
        ["age", "infinite"],
    ),
    "infinite date": (
        create(OPTIONS, "SELECT * REPLACE ('infinity'::DATE AS age) FROM patients"),
        ["age", "infinite"],
    ),
    "empty source": (create(OPTIONS, "SELECT * FROM patients WHERE false"), ["no records"]),
    "unknown table": (create(OPTIONS, "SELECT * FROM nowhere"), ["nowhere", "line"]),
    "syntax error in the source": (create(OPTIONS, "SELEC * FROM patients"), ["SELEC", "line"]),
    "source that fails at run time": (
        create(OPTIONS, "SELECT * REPLACE (error('boo') AS age) FROM patients"),
        ["boo"],
    ),
    "list as quasi-identifier": (
        create(OPTIONS, "SELECT * REPLACE ([age] AS age) FROM patients"),
        ["age", "BIGINT[]"],
    ),
    "missing WITH": ("CREATE ANONYMIZED VIEW v AS SELECT * FROM patients", ["WITH"]),
    "recode = 'hierarchy'": (
        create(OPTIONS + ", recode = {zip: 'hierarchy'}"),
        ["hierarchy", "hierarchies = {zip:"],
    ),
    "subject": (create(OPTIONS + ", subject = name_of_it"), ["subject", "name_of_it"]),
    "unknown method": (create(OPTIONS + ", method = 'mdaf'"), ["mdaf", "mdav"]),
    "unknown schema": (create(OPTIONS).replace("VIEW v", "VIEW nowhere.v"), ["nowhere"]),
    "NULL where it is an error": (
        create(OPTIONS + ", nulls = 'error'", "SELECT * REPLACE (nullif(age, 20) AS age) FROM patients"),
        ["age", "NULL"],
    ),
    "a percentage": (create(OPTIONS + ", suppression_limit = 5"), ["suppression_limit", "fraction"]),
    "a name that is taken": (create(OPTIONS).replace("VIEW v", "VIEW patients"), ["patients", "table"]),
}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bad") / "hospital.duckdb"
    with duckdb.connect(str(file)) as con:
        con.execute(PATIENTS)
    return file


def content(file: Path) -> list[tuple[object, ...]]:
    """Give all that a database holds."""
    with duckdb.connect(str(file), read_only=True) as con:
        query = "SELECT schema_name, table_name, sql FROM duckdb_tables() UNION ALL SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
        return con.execute(query).fetchall()


@pytest.mark.parametrize("wrong", slowly(WRONG, one_of=3))
def test_a_wrong_statement_is_one_or_two_lines_and_writes_nothing(hospital: Path, wrong: str) -> None:
    statement, words = WRONG[wrong]
    before = content(hospital)
    done = command("sql", statement, "--database", hospital)
    assert_refused(done.returncode, done.stdout, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr
    assert content(hospital) == before


def assert_refused(code: int, out: str, err: str) -> None:
    """Exit code 2, nothing on stdout, one or two lines on stderr, no traceback."""
    assert code == 2, err
    assert out == ""
    assert 1 <= len(err.strip().splitlines()) <= 2, err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database " * 1000)
    done = command("sql", CREATE, "--database", file)
    assert_refused(done.returncode, done.stdout, done.stderr)
    assert file.read_text() == "not a database " * 1000


def test_a_target_that_exists(hospital: Path, tmp_path: Path) -> None:
    file = tmp_path / "h.duckdb"
    file.write_bytes(hospital.read_bytes())
    assert command("sql", CREATE, "-d", file).returncode == 0
    done = command("sql", CREATE, "-d", file)
    assert_refused(done.returncode, done.stdout, done.stderr)
    assert "OR REPLACE" in done.stderr


def test_a_read_only_file(hospital: Path, tmp_path: Path) -> None:
    done = command(
        "sql",
        f"ATTACH '{hospital}' AS h (READ_ONLY); CREATE ANONYMIZED VIEW h.v AS FROM h.patients WITH ({OPTIONS})",
    )
    assert_refused(done.returncode, done.stdout, done.stderr)
    assert "read-only" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["anonymize", "in.csv"],
        ["anonymize", "nowhere.csv", "out.csv", "--qi", "a", "-k", "2"],
        ["audit", "nowhere.parquet", "--qi", "a"],
        ["audit", "nowhere.parquet"],
        ["run", "nowhere.sql"],
        ["nonsense"],
        ["audit", "--nonsense"],
        ["anonymize", "a.csv", "b.csv", "-k", "two"],
    ],
)
def test_wrong_usage_of_the_command_line(arguments: list[str], tmp_path: Path) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert_refused(done.returncode, done.stdout, done.stderr)


def test_the_error_of_a_script_names_its_line(tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text(
        "SELECT 1;\n\nCREATE ANONYMIZED VIEW v AS\nSELECT 1 AS a\nWITH (k = 2, quasi_identifiers = (a), bogus = 3);\n"
    )
    done = command("run", script)
    assert done.returncode == 2
    assert "line 5" in done.stderr
    assert "bogus" in done.stderr
