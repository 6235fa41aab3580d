"""The commands linkage and compare, run as a user runs them, and the examples of their pages."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.scenes import ROOT, command, patients
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("linkage", "compare")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICY = (
    'identifiers = ["id"]\nquasi_identifiers = ["age", "zip"]\nsensitive = ["charge", "diagnosis"]\nk = 3\n'
)
OPTIONS = "quasi_identifiers = (age, zip), sensitive = (charge, diagnosis), k = 3"


def examples(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [body for kind, body in FENCED.findall(text) if kind == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the files that the pages name."""
    place = tmp_path_factory.mktemp("linkage")
    with patients(place / "hospital.duckdb") as con:
        con.execute(
            f"CREATE ANONYMIZED VIEW patients_anon AS FROM patients WITH (identifiers = (id), {OPTIONS})"
        )
        con.execute(f"EXPORT ANONYMIZED VIEW patients_anon TO '{place}/release.duckdb'")
        con.execute(f"EXPORT ANONYMIZED VIEW patients_anon TO '{place}/release.csv'")
        con.execute(f"COPY patients TO '{place}/patients.csv'")
        con.execute("CREATE TABLE nobody AS FROM patients WHERE FALSE")
    (place / "policy.toml").write_text(POLICY, encoding="utf-8")
    (place / "queries.sql").write_text(examples("compare", "sql")[0], encoding="utf-8")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_and_it_is_short(page: str, folder: Path) -> None:
    assert len((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines()) <= 150
    for body in examples(page, "python"):
        exec(compile(body, f"docs/{page}.md", "exec"), {})
    # The second block of a page is of another release.
    shell, *_ = examples(page, "sh")
    for line in shell.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "duckanon"
        done = command(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_attack_on_a_release_of_two_tables_runs_as_printed(tmp_path: Path) -> None:
    """Classes of three have each of the three diagnoses once, so the counts of a class find a third."""
    with patients(tmp_path / "hospital.duckdb") as con:
        con.execute(
            "CREATE ANONYMIZED VIEW patients_anon AS SELECT age, zip, diagnosis FROM patients "
            "WITH (quasi_identifiers = (age, zip), sensitive = diagnosis, k = 3, l = 3, release = 'anatomy')"
        )
        for name in ("release.duckdb", "release.csv"):
            con.execute(f"EXPORT ANONYMIZED VIEW patients_anon TO '{tmp_path / name}'")
        con.execute(f"COPY patients TO '{tmp_path / 'patients.csv'}'")
    lines = examples("linkage", "sh")[1].splitlines()
    assert len(lines) == 2
    for line in lines:
        done = command(*shlex.split(line, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (found,) = [one.split() for one in done.stdout.splitlines() if one.startswith("diagnosis ")]
        assert (found[1], round(float(found[3]), 3)) == ("60", 0.333)


@pytest.mark.parametrize(
    "release",
    slowly(["release.csv", "release.duckdb:patients_anon", "hospital.duckdb:patients_anon"], one_of=3),
)
def test_linkage_is_the_same_wherever_the_tables_lie(folder: Path, release: str) -> None:
    """Sixty patients in classes of three: nobody links more than a third."""
    done = command(
        "linkage", "hospital.duckdb:patients", release, "--qi", "age,zip", "--id", "id", "--policy", "policy.toml",
        "--format", "json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["truth"] == "policy"
    both = next(risk for risk in found["attacks"] if risk["known"] == ["age", "zip"])
    assert 0.3 < both["linked"]["value"] <= both["ceiling"] <= 1 / 3
    assert both["linked"]["low"] == both["linked"]["high"]


def test_linkage_subsets_columns_and_a_file_as_output(folder: Path, tmp_path: Path) -> None:
    done = command(
        "linkage", "patients.csv", "release.csv", "--qi", "age,zip", "--subset", "zip", "--columns", "charge",
        "--sample", "40", "--interval", "rank", "-o", tmp_path / "risk.txt", cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    text = (tmp_path / "risk.txt").read_text(encoding="utf-8")
    assert "linkage of 40 of 60 records of patients.csv" in text
    assert "upper bound" in text
    assert re.search(r"^zip +4 +", text, re.MULTILINE)
    assert not re.search(r"^age", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    slowly(
        [
            (["linkage", "patients.csv", "release.csv"], "--qi is missing"),
            (["linkage", "patients.csv", "release.csv", "--qi", "agee"], "did you mean 'age'"),
            (["linkage", "patients.csv", "nowhere.csv", "--qi", "age"], "does not exist"),
            (["linkage", "hospital.duckdb:patients", "nowhere.duckdb:x", "--qi", "age"], "does not exist"),
            (["linkage", "hospital.duckdb:nobody", "release.csv", "--qi", "age"], "original is empty"),
            (["linkage", "patients.csv", "release.csv", "--qi", "age", "--format", "xml"], "unknown format"),
            (["compare", "patients.csv", "release.csv"], "--queries is missing"),
            (["compare", "patients.csv", "release.csv", "--queries", "none.sql"], "cannot read the queries"),
            (["compare", "hospital.duckdb:nobody", "release.csv", "--queries", "queries.sql"], "is empty"),
            (
                ["compare", "patients.csv", "release.csv", "--queries", "queries.sql", "--format", "xml"],
                "unknown format",
            ),
        ],
        one_of=3,
    ),
)
def test_bad_input_ends_with_exit_code_2(folder: Path, arguments: list[str], words: str) -> None:
    done = command(*arguments, cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_compare_reports_every_query(folder: Path) -> None:
    """A count by zip is exact where zip is kept (it is: four zips, 15 patients each)."""
    done = command(
        "compare", "patients.csv", "release.csv", "--queries", "queries.sql", "--format", "json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    first, second, third = json.loads(done.stdout)["queries"]
    assert (first["name"], first["keys"], first["groups"]) == ("patients by zip", ["zip"], 4)
    assert {cell["original"] for cell in first["cells"] if cell["column"] == "patients"} == {15}
    assert (second["keys"], third["name"]) == (["decade"], "query 3")
    assert third["columns"]["correlation"]["cells"] == 1


def test_compare_reads_files_whatever_their_names(folder: Path, tmp_path: Path) -> None:
    """The names are patterns for DuckDB, and the lock of the command knows files by their names."""
    for name, copy in (("patients.csv", "p[1].csv"), ("release.csv", "r?.csv"), ("queries.sql", "q*.sql")):
        shutil.copy(folder / name, tmp_path / copy)
    done = command("compare", "p[1].csv", "r?.csv", "--queries", "q*.sql", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 queries on p[1].csv and on r?.csv\n")


@pytest.mark.parametrize(
    ("query", "words"),
    slowly([
        ("SELECT 1 AS data", "query 1 does not read"),
        ("SELECT count(*) AS n FROM data; DROP TABLE data", "query 2 is no SELECT: it begins with 'DROP' (line 1, column 33)"),
        ("SELECT count(*) AS n, avg(age) AS data FROM hospital.patients", "query 1 does not read"),
        ("SELECT avg(age) AS a, (FROM hospital.patients SELECT avg(age)) AS b FROM data", "query 1 reads something beside"),
        ("SELECT avg(age) AS a, (FROM '{original}' SELECT avg(age)) AS b FROM data", "query 1 reads something beside"),
        ("DELETE FROM data", "query 1 is no SELECT"),
        ("SELECT count(*) AS n FROM data, read_text('{secret}')", "disabled"),
        ("SELECT count(*) AS n FROM data, '{secret}'", "disabled"),
        ("SELECT count(*) AS n FROM data WHERE nope > 1", "query 1 (line 1) on hospital.duckdb:patients: Binder Error"),
    ], one_of=3),
)  # fmt: skip
def test_a_query_reaches_nothing_but_the_two_tables(
    folder: Path, tmp_path: Path, query: str, words: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    original = folder / "patients.csv"
    (tmp_path / "q.sql").write_text(query.format(secret=secret, original=original), encoding="utf-8")
    original_table = "patients.csv" if "{original}" in query else "hospital.duckdb:patients"
    done = command("compare", original_table, "release.csv", "--queries", tmp_path / "q.sql", cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
