"""`duckanon audit` as a CI job runs it: formats, exit codes, and what changed since the last audit."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import duckdb
import pytest

import duckanon
from duckanon.cli.main import main
from tests.e2e.pages import cells, tree
from tests.e2e.scenes import PATIENTS, command
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("text", "json", "junit", "sarif", "html")
# By hand, 60 records over 4 zips of PATIENTS: every class has 15, so k = 15 is reached and 16 is not.
QI = ("--qi", "zip")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    with duckdb.connect(str(folder / "hospital.duckdb")) as con:
        con.execute(PATIENTS)
        con.execute("CREATE TABLE empty AS FROM patients WHERE FALSE")
        con.execute("CREATE VIEW failing AS SELECT * REPLACE (error('boo') AS zip) FROM patients")
        con.execute("CREATE VIEW gone AS SELECT * FROM patients")
        con.execute("""CREATE TABLE "a'b" AS SELECT zip AS "my ""col", charge FROM patients""")
        con.execute(f"COPY patients TO '{folder / 'patients.parquet'}'")
        con.execute(f"COPY patients TO '{folder / 'patients.csv'}'")
    return folder


Audit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Audit:
    """`duckanon audit` in this process, which saves a second a call; one test runs it as a process."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as left, warnings.catch_warnings():
            main(["audit", *map(str, arguments)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(["duckanon"], int(str(left.value.code)), out, err)

    return run


def parsed(form: str, text: str) -> Any:
    """What a reader of the format makes of a document; it raises where it cannot be read."""
    if form == "junit":
        return ET.fromstring(text)
    return json.loads(text) if form in {"json", "sarif"} else text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("k", "code"), slowly([(15, 0), (16, 1)], one_of=3))
def test_every_format_has_the_exit_code_and_a_document(
    audit: Audit, hospital: Path, tmp_path: Path, form: str, k: int, code: int
) -> None:
    source, out = hospital / "patients.parquet", tmp_path / "out"
    if form == "html":
        pytest.importorskip("matplotlib", reason="pip install 'duckanon[report]'")
    done = audit(source, *QI, "--sensitive", "charge", "-k", str(k), "--format", form, "-o", out)
    assert (done.returncode, done.stderr) == (code, "")
    verdict = "VIOLATED: k_anonymity" if code else "passed, thresholds: 1"
    assert done.stdout == f"{source}: {verdict}; warnings: 1\n"
    document = parsed(form, out.read_text(encoding="utf-8"))
    if form == "junit":
        assert int(document.get("failures")) == code
        assert next(case.get("name") for case in document.iter("testcase")) == "k_anonymity"
    elif form == "sarif":
        assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["k_anonymity"] * code
    elif form == "json":
        assert document["passed"] is (code == 0)
    else:
        assert "k_anonymity" in document or "k-anonymity" in document


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("-k", "15"), 0), (("-k", "16"), 1), (("-k", "16", "--format", "sarif"), 1), (("-k", "many"), 2)],
)
def test_as_a_process(hospital: Path, arguments: tuple[str, ...], code: int) -> None:
    done = command("audit", hospital / "patients.csv", *QI, *arguments)
    assert done.returncode == code
    assert bool(done.stdout) == (code < 2)
    assert bool(done.stderr) == (code == 2)


@pytest.mark.parametrize("form", ["json", "junit", "sarif"])
def test_without_a_file_stdout_is_the_document_and_nothing_else(
    audit: Audit, hospital: Path, form: str
) -> None:
    done = audit(hospital / "patients.csv", *QI, "-k", "16", "--format", form)
    assert (done.returncode, done.stderr) == (1, "")
    parsed(form, done.stdout)


def test_json_has_the_keys_that_it_always_had(audit: Audit, hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    done = audit(hospital / "patients.parquet", *QI, "-k", "16", "--format", "json", "-o", out)
    assert done.returncode == 1, done.stderr
    report = json.loads(out.read_text())
    assert set(report) >= {"passed", "name", "measures", "violations", "warnings", "plan"}
    assert report["passed"] is False
    (k,) = [m for m in report["measures"] if m["measure"] == "k_anonymity"]
    assert (k["value"], k["classes"], k["violations"], k["records"]) == (15, 4, 4, 60)
    assert report["violations"][0]["class_size"] == 15


def test_thresholds_of_columns(audit: Audit, hospital: Path) -> None:
    flags = ("--sensitive", "charge,diagnosis", "-k", "15", "-t", "diagnosis=0.9")
    done = audit(hospital / "patients.parquet", *QI, *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_thresholds_an_audit_reports_and_exits_0(audit: Audit, hospital: Path) -> None:
    done = audit(hospital / "patients.parquet", *QI)
    assert (done.returncode, done.stderr) == (0, "")
    done = audit(hospital / "patients.parquet", *QI, "--format", "junit")
    root = ET.fromstring(done.stdout)
    assert (done.returncode, root.get("failures"), root.get("skipped")) == (0, "0", root.get("tests"))


BAD = {
    "empty table": (("hospital.duckdb:empty", *QI, "-k", "2"), "empty"),
    "misspelt column": (("patients.csv", "--qi", "zpi", "-k", "2"), "zip"),
    "misspelt sensitive column": (("patients.csv", *QI, "--sensitive", "chrge", "-k", "2"), "charge"),
    "failing view": (("hospital.duckdb:failing", *QI, "-k", "2", "--trust"), "boo"),
    "view of whoever made the file": (("hospital.duckdb:gone", *QI, "-k", "2"), "--trust"),
    "no such table": (("hospital.duckdb:nowhere", *QI, "-k", "2"), "nowhere"),
    "no such file": (("nowhere.csv", *QI, "-k", "2"), "nowhere.csv"),
    "no quasi-identifier": (("patients.csv", "-k", "2"), "--qi is missing"),
    "empty list of quasi-identifiers": (
        ("patients.csv", "--qi", ",", "-k", "2"),
        "--qi ',': there is nothing",
    ),
    "unknown format": (("patients.csv", *QI, "--format", "jnit"), "'junit'"),
    "t out of range": (("patients.csv", *QI, "--sensitive", "charge", "-t", "1.5"), "1.5"),
    "no such policy": (("patients.csv", "--policy", "nowhere.toml"), "nowhere.toml"),
    "no earlier audit": (("patients.csv", *QI, "--against", "nowhere.json"), "nowhere.json"),
    "an original without html": (("patients.csv", *QI, "--original", "patients.csv"), "html"),
    "no folder for the document": (("patients.csv", *QI, "-k", "2", "-o", "nowhere/a.json"), "nowhere"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("form", ["text", "junit"])
def test_what_cannot_be_audited_is_exit_code_2(
    audit: Audit, hospital: Path, monkeypatch: pytest.MonkeyPatch, case: str, form: str
) -> None:
    arguments, words = BAD[case]
    form_flag = () if "--format" in arguments else ("--format", form)
    monkeypatch.chdir(hospital)
    done = audit(*arguments, *form_flag)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 2
    assert words in done.stderr


def test_odd_names(audit: Audit, hospital: Path) -> None:
    source = f"{hospital / 'hospital.duckdb'}:a'b"
    done = audit(source, "--qi", 'my "col', "--sensitive", "charge", "-k", "16", "--format", "sarif")
    assert (done.returncode, done.stderr) == (1, "")
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    assert 'with my "col = z0' in result["message"]["text"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("hospital.duckdb")


def test_a_policy_file_and_a_flag_that_wins(audit: Audit, hospital: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'quasi_identifiers = ["zip"]\nsensitive = ["charge"]\nidentifiers = ["ID"]\nmethod = "mdav"\nk = 15\n'
    )
    source = hospital / "patients.csv"
    done = audit(source, "--policy", policy)
    assert done.returncode == 0, done.stderr
    assert "warning: the policy drops ID, and the audited table still has it" in done.stdout
    assert audit(source, "--policy", policy, "-k", "16").returncode == 1
    # An audit needs no k, and a threshold can stand in the file alone.
    policy.write_text('quasi_identifiers = ["zip"]\nsensitive = ["charge"]\nt = {charge = 0.000001}\n')
    assert audit(source, "--policy", policy).returncode == 1
    policy.write_text('quasi_identifiers = ["zip"]\nsensitve = ["charge"]\n')
    done = audit(source, "--policy", policy)
    assert done.returncode == 2
    assert "'sensitve'" in done.stderr
    assert "'sensitive'" in done.stderr


@pytest.mark.slow
def test_against_tells_what_changed_in_every_format(audit: Audit, hospital: Path, tmp_path: Path) -> None:
    source, before = hospital / "patients.csv", tmp_path / "before.json"
    flags = (*QI, "--sensitive", "charge", "--against", before)
    assert (
        audit(source, *QI, "--sensitive", "charge", "-k", "15", "--format", "json", "-o", before).returncode
        == 0
    )
    done = audit(source, *flags, "-k", "15")
    assert done.returncode == 0
    assert done.stdout.endswith("changes since the audit of --against:\nnothing changed\n")
    told = "k_anonymity: threshold 15 -> 16, violations 0 -> 4, records 0 -> 60, verdict passed -> VIOLATED\n"
    done = audit(source, *flags, "-k", "16")
    assert (done.returncode, done.stderr) == (1, "")
    assert told in done.stdout
    assert "violating class appeared: k_anonymity is 15 with zip = z0" in done.stdout
    for form in ("junit", "sarif"):
        done = audit(source, *flags, "-k", "16", "--format", form)
        parsed(form, done.stdout)
        assert told in done.stderr
        done = audit(source, *flags, "-k", "16", "--format", form, "-o", tmp_path / form)
        assert told in done.stdout
        parsed(form, (tmp_path / form).read_text())
    done = audit(source, *flags, "-k", "16", "--format", "json", "-o", tmp_path / "after.json")
    after = json.loads((tmp_path / "after.json").read_text())
    assert (after["changes"]["same"], after["changes"]["regressed"]) == (False, True)
    cells = {(c["measure"], c["column"]): (c["before"], c["after"]) for c in after["changes"]["cells"]}
    assert cells["k_anonymity", "passed"] == (True, False)
    # The later audit is itself a report to compare with.
    done = audit(source, *QI, "--sensitive", "charge", "-k", "15", "--against", tmp_path / "after.json")
    assert "verdict VIOLATED -> passed" in done.stdout


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"measures": 3}', '{"measures": [], "violations": 3}', "not json", '{"measures": [3]}'],
)
def test_an_earlier_audit_that_is_none_is_an_error_before_the_audit(
    audit: Audit, hospital: Path, tmp_path: Path, text: str
) -> None:
    before = tmp_path / "before.json"
    before.write_text(text)
    done = audit(hospital / "patients.csv", *QI, "-k", "16", "--against", before, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["file", "another database", "the same database"])
def test_the_html_page_shows_the_table_before_and_after(
    audit: Audit, hospital: Path, tmp_path: Path, place: str
) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'duckanon[report]'")
    source, original = f"{hospital / 'hospital.duckdb'}:patients", f"{hospital / 'patients.parquet'}"
    if place == "the same database":
        original = source
    elif place == "another database":
        original = f"{tmp_path / 'before.duckdb'}:before"
        with duckdb.connect(str(tmp_path / "before.duckdb")) as con:
            con.execute(f"CREATE TABLE before AS FROM '{hospital / 'patients.parquet'}'")
    out = tmp_path / "report.html"
    flags = (*QI, "--sensitive", "charge", "-k", "15", "--format", "html")
    done = audit(source, *flags, "--original", original, "-o", out)
    assert done.returncode == 0, done.stderr
    page = out.read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "<script src" not in page


@pytest.mark.slow
def test_the_html_page_shows_what_other_k_and_t_would_cost(
    audit: Audit, hospital: Path, tmp_path: Path
) -> None:
    """The rows are those of FRONTIER on the original, without its seconds, which differ from run to run."""
    pytest.importorskip("matplotlib", reason="pip install 'duckanon[report]'")
    out = tmp_path / "report.html"
    flags = (*QI, "--sensitive", "charge", "-k", "5", "-t", "0.9", "--format", "html", "-o", out)
    done = audit(hospital / "patients.csv", *flags, "--original", hospital / "patients.parquet", "--frontier")
    assert done.returncode in (0, 1), done.stderr
    root = tree(out.read_text(encoding="utf-8"))
    rows = cells(root, "Numbers: Information loss of other k and t")
    with duckanon.connect() as con:
        outcome = con.run_script(
            f"EXPLAIN CREATE ANONYMIZED VIEW v AS FROM '{hospital / 'patients.parquet'}' "
            f"WITH (quasi_identifiers = ({QI[1]}), sensitive = charge, insensitive = *, k = 5, t = 0.9) FRONTIER"
        )[-1]
    assert outcome.table is not None
    expected = outcome.table.to_pylist()
    shown = rows[-len(expected) :]
    assert [row[0] for row in shown] == [str(row["k"]) for row in expected]
    assert [row[3] for row in shown] == [f"{row['information_loss']:.2f} %" for row in expected]
    assert [row[4] == "yes" for row in shown] == [row["chosen"] for row in expected]
    alone = audit(hospital / "patients.csv", *flags, "--frontier")
    assert alone.returncode == 2
    assert "give --original" in alone.stderr


def test_text_and_json_name_what_is_not_audited(audit: Audit, hospital: Path, tmp_path: Path) -> None:
    source = hospital / "patients.csv"
    told = (
        "2 of 5 released columns are not audited: id, diagnosis; 60 of 60 records are unique on them together"
    )
    arguments = (source, "--qi", "zip,age", "--sensitive", "charge", "-k", "2")
    assert f"warning: {told}" in audit(*arguments).stdout.splitlines()
    assert json.loads(audit(*arguments, "--format", "json").stdout)["warnings"] == [told]
    assert audit(*arguments, "-o", tmp_path / "audit.txt").stdout.endswith("; warnings: 1\n")
