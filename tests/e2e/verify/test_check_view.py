"""An exported file explains itself to the stock command line: FROM duckanon.check, and comments."""

from __future__ import annotations

import csv
import io
import warnings
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.cli.sql_kit import sql_kit
from duckanon.database.templates import ident
from duckanon.errors import DuckanonWarning, SourceError
from tests.e2e.evidence_scene import copied, everything_wrong, verified
from tests.e2e.scenes import EFFORT, PATIENTS, ROOT, command, stock_cli
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path

QI = f"quasi_identifiers = (age, zip), identifiers = (id), sensitive = (charge, diagnosis), {EFFORT}, k = 3"
TREE = "distance = {diagnosis: hierarchical}, hierarchies = {diagnosis: 'tree'}"

RELEASES = {
    'a "b.c': (
        f"{QI}, t = 0.5, l = {{diagnosis: 2}}",
        {"k_anonymity", "distinct_l_diversity", "t_closeness"},
    ),
    "graded": (f"{QI}, t = {{diagnosis: 0.5}}, {TREE}", {"k_anonymity", "t_closeness"}),
    "turned": (
        f"quasi_identifiers = (zip, age), identifiers = (id), sensitive = (diagnosis, charge), {EFFORT}, k = 3, t = 0.5",
        {"k_anonymity", "t_closeness"},
    ),
    "two": (f"{QI}, l = 2, release = 'anatomy'", {"k_anonymity", "recursive_l_diversity"}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give an exported file of each release of one database, in which other releases are, too."""
    folder, made = tmp_path_factory.mktemp("check"), {}
    with duckanon.connect() as con, warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)  # several releases of one table
        con.duckdb.execute(PATIENTS)
        con.duckdb.execute(
            "CREATE TABLE tree AS FROM (VALUES ('flu', 'light', '*'), ('cold', 'light', '*'), ('cancer', 'hard', '*'))"
        )
        for number, (name, (options, _)) in enumerate(RELEASES.items()):
            made[name] = folder / f"file_{number}.duckdb"
            con.sql(f"CREATE ANONYMIZED VIEW {ident(name)} AS FROM patients WITH ({options})")
            con.sql(f"EXPORT ANONYMIZED VIEW {ident(name)} TO '{made[name]}'")
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("name", RELEASES)
def test_the_stock_command_line_repeats_the_recorded_audit(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    stock_command()
    done = stock_cli(files[name], "FROM duckanon.check")
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["measure"] for row in found} == RELEASES[name][1]
    assert {(row["release"], row["passed"]) for row in found} == {(name, "true")}
    with duckdb.connect(str(files[name]), read_only=True) as con:
        recorded = con.sql("""
            SELECT measure, attribute, CAST(threshold AS DOUBLE), round(value, 9), passed
            FROM duckanon.audits WHERE statement = 'export' AND threshold IS NOT NULL ORDER BY ALL
        """).fetchall()
        again = con.sql(
            "SELECT measure, column_name, threshold, round(found, 9), passed FROM duckanon.check ORDER BY ALL"
        ).fetchall()
    assert again == recorded
    assert verified(files[name], capsys)[0] == 0


def test_files_beside_each_other_each_audit_their_own_release(files: dict[str, Path]) -> None:
    with duckdb.connect() as con:
        for number, file in enumerate(files.values()):
            con.execute(f"ATTACH '{file}' AS file_{number} (READ_ONLY)")
        query = " UNION ALL ".join(f"FROM file_{number}.duckanon.check" for number in range(len(files)))
        found = con.sql(f"SELECT DISTINCT release FROM ({query})").fetchall()
    assert {name for (name,) in found} == set(files)


def test_comments_say_what_the_columns_and_macros_are(files: dict[str, Path]) -> None:
    with duckdb.connect(str(files['a "b.c']), read_only=True) as con:
        columns = con.sql("""
            SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal
        """).fetchall()
        silent = con.sql("""
            SELECT function_name FROM duckdb_functions() WHERE NOT internal AND comment IS NULL
            UNION ALL SELECT table_name FROM duckdb_tables() WHERE comment IS NULL
            UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL
        """).fetchall()
    assert dict(columns) == {
        "age": "quasi-identifier, recode = mean.",
        "zip": "quasi-identifier, recode = mode.",
        "charge": "sensitive, distance = ordered, t = 0.5.",
        "diagnosis": "sensitive, distance = equal, t = 0.5, l = 2 (distinct).",
    }
    assert silent == []


FORGED = {
    "a looser policy": "CREATE OR REPLACE VIEW duckanon.check AS SELECT 'v' AS release, 'k_anonymity' AS measure",
    "an alias of columns": 'CREATE OR REPLACE VIEW duckanon."check"(a, b, c, d, e, f) AS {query}',
    "gone": 'DROP VIEW duckanon."check"',
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_check_is_a_difference(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    with duckdb.connect(str(files["two"]), read_only=True) as con:
        ((text,),) = con.sql("SELECT sql FROM duckdb_views() WHERE view_name = 'check'").fetchall()
    query = text.partition(" AS ")[2].rstrip(";")
    code, found = verified(copied(files["two"], tmp_path, FORGED[how].format(query=query)), capsys)
    (what,) = everything_wrong(found)
    assert (code, found["macros_verified"]) == (1, False)
    assert what.startswith("the view duckanon.check is " + ("missing" if how == "gone" else "not the one"))


@pytest.mark.parametrize("which", ["TRUE", "age = (SELECT min(age) FROM graded)"])
def test_values_without_a_node_fail_the_check(files: dict[str, Path], tmp_path: Path, which: str) -> None:
    """They have no distance: NULL would mean that the threshold was proved when the release was made."""
    file = copied(files["graded"], tmp_path, f"UPDATE graded SET diagnosis = 'unknown' WHERE {which}")
    with duckdb.connect(str(file), read_only=True) as con:
        found = con.sql("SELECT measure, passed FROM duckanon.check").fetchall()
    assert ("t_closeness", False) in found


def test_sql_kit_writes_the_files_of_the_checkout_and_replaces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "kit"
    assert sql_kit(folder) == 0
    for name in ("install.sql", "gate.sql"):
        assert (folder / name).read_bytes() == (ROOT / "sql" / name).read_bytes()
    (folder / "install.sql").write_text("mine")
    with pytest.raises(SourceError, match="exists: name another folder, or add --overwrite"):
        sql_kit(folder)
    assert (folder / "install.sql").read_text() == "mine"
    assert sql_kit(folder, overwrite=True) == 0
    assert (folder / "install.sql").read_bytes() == (ROOT / "sql" / "install.sql").read_bytes()
    assert capsys.readouterr().out.count("wrote ") == 4


@pytest.mark.slow
def test_audit_takes_roles_and_thresholds_from_the_file(files: dict[str, Path]) -> None:
    def audited(name: str, *more: str) -> tuple[int, str]:
        done = command("audit", f'{files[name]}:"{name.replace(chr(34), 2 * chr(34))}"', *more)
        return done.returncode, done.stdout + done.stderr

    code, told = audited("two")
    assert (code, "those that the file records of itself" in told) == (0, True)
    assert audited("two", "-k", "61")[0] == 1
    code, told = audited("graded")
    assert (code, "use duckanon verify" in told) == (2, True)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("forged", "expected", "words"),
    [
        ("UPDATE duckanon.thresholds SET threshold = 2 WHERE measure = 'k_anonymity'", 0, "whoever wrote the file"),
        ("DELETE FROM duckanon.thresholds", 2, "its metadata record no -k"),
    ],
)  # fmt: skip
def test_audit_by_a_forged_policy_says_whose_word_it_is(
    files: dict[str, Path], tmp_path: Path, forged: str, expected: int, words: str
) -> None:
    file = copied(files["two"], tmp_path, forged)
    done = command("audit", f"{file}:two", "--format", "json")
    assert (done.returncode, words in done.stdout + done.stderr) == (expected, True)
    assert command("verify", file).returncode == 1


@pytest.mark.slow
def test_a_check_of_several_selects_is_verified(tmp_path: Path) -> None:
    """DuckDB stores several UNION ALL in another order than it reads them."""
    file = tmp_path / "several.duckdb"
    with duckanon.connect() as con:
        con.duckdb.execute(
            "CREATE TABLE p AS SELECT i AS age, 'a' || (i % 4) AS s, 'a' || (i % 4) AS u FROM range(60) r(i)"
        )
        con.duckdb.execute(
            "CREATE TABLE h AS SELECT 'a' || i AS low, 'g' || (i // 2) AS high, '*' AS root FROM range(4) r(i)"
        )
        con.execute(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = age, sensitive = (s, u), k = 4, t = 0.4, "
            "p_percent = 10, distance = {s: 'hierarchical', u: 'hierarchical'}, hierarchies = {s: 'h', u: 'h'}); "
            f"EXPORT ANONYMIZED VIEW v TO '{file}'"
        )
    done = command("verify", file)
    assert done.returncode == 0, done.stdout + done.stderr
