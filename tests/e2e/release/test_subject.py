"""k counts persons and not rows: subjects of several records, in every method, and who is told of it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.cli.verify import verify
from duckanon.database import templates
from duckanon.errors import PolicyError, SourceError
from duckanon.literature.registry import PUBLISHED
from duckanon.policy.methods import METHODS
from tests.e2e.scenes import command, stock_script
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

OPTIONS = "quasi_identifiers = (age, zip), sensitive = charge, k = 3, subject = patient"
CREATE = f"CREATE ANONYMIZED VIEW v AS FROM visits WITH ({OPTIONS})"
OF_ITS_OWN = {"full_domain", "incognito"}
"""Methods that want a hierarchy."""


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    """Twenty patients, one to seven visits each; all visits of a patient are at one age and in one place."""
    with duckanon.connect() as connection:
        connection.execute(
            """CREATE TABLE visits AS
            SELECT 'p' || p AS patient, 20 + p * 7 % 50 AS age, 'z' || p % 4 AS zip, (p + v) % 5 AS charge
            FROM range(20) AS person(p), range(1 + p % 7) AS visit(v)"""
        )
        yield connection


def subjects_by_class(con: duckdb.DuckDBPyConnection, told: str) -> dict[Any, set[Any]]:
    """Give the patients of each released class, of the rows that the owner is told."""
    found: dict[Any, set[Any]] = defaultdict(set)
    for number, patient in con.execute(f"SELECT class_id, patient FROM {told}").fetchall():
        if number is not None:
            found[number].add(patient)
    return found


def told_of(con: duckanon.Connection, options: str) -> str:
    duckanon.register(con)
    return f"equivalence_classes('visits', {options})"


def test_rows_of_one_person_are_one(con: duckanon.Connection) -> None:
    """By hand: without subject six visits of one patient are a class of k = 3; with it each class has three patients."""
    asked = "quasi_identifiers := ['age', 'zip'], sensitive := ['charge'], k := 3"
    without = subjects_by_class(con.duckdb, told_of(con, f"{asked}, identifiers := ['patient']"))
    assert min(map(len, without.values())) < 3
    kept = subjects_by_class(con.duckdb, told_of(con, f"{asked}, subject := ['patient']"))
    assert min(map(len, kept.values())) >= 3
    assert set().union(*kept.values()) == {f"p{number}" for number in range(20)}


def test_the_report_has_both_counts(con: duckanon.Connection) -> None:
    (outcome,) = con.outcomes(CREATE)
    assert outcome.report is not None
    measures = {one.measure: one for one in outcome.report.measures}
    assert measures["k_subjects"].passed
    assert measures["k_subjects"].threshold == 3
    kept = subjects_by_class(con.duckdb, told_of(con, arguments()))
    assert measures["k_subjects"].value == min(map(len, kept.values()))
    rows = con.duckdb.execute("SELECT min(n) FROM (SELECT count(*) AS n FROM v GROUP BY age, zip)").fetchone()
    assert rows == (measures["k_anonymity"].value,)
    assert "proved at release, not from the rows" in outcome.report.plan
    (audited,) = con.outcomes("AUDIT VIEW v")
    assert audited.report is not None
    assert any("proved at release, not from the rows" in text for text in audited.report.warnings)


def arguments() -> str:
    return "quasi_identifiers := ['age', 'zip'], sensitive := ['charge'], k := 3, subject := ['patient']"


def test_a_subject_is_dropped_unless_it_has_another_role(con: duckanon.Connection) -> None:
    con.execute(CREATE)
    names = [column[0] for column in con.duckdb.execute("FROM v").description]
    assert names == ["age", "zip", "charge"]
    # The star takes what nothing is said of; of a subject something is said.
    con.execute(CREATE.replace("CREATE", "CREATE OR REPLACE", 1).replace("k = 3", "insensitive = *, k = 3"))
    assert len(con.duckdb.execute("FROM v").description) == 3
    con.execute(
        CREATE.replace("CREATE", "CREATE OR REPLACE", 1).replace("k = 3", "insensitive = Patient, k = 3")
    )
    names = [column[0] for column in con.duckdb.execute("FROM v").description]
    assert names == ["patient", "age", "zip", "charge"]
    kept = con.duckdb.execute(
        "SELECT min(n) FROM (SELECT count(DISTINCT patient) n FROM v GROUP BY age, zip)"
    )
    assert kept.fetchone() >= (3,)


def test_several_columns_name_a_subject_together(con: duckanon.Connection) -> None:
    """By hand: the numbers 0, 1, 2 in two houses are six persons, and three if the house is left out."""
    con.execute(
        "CREATE TABLE houses AS SELECT i % 2 AS house, i % 3 AS number, i % 2 * 10 AS age, 'z' AS zip, i AS charge, "
        "FROM range(12) r(i)"
    )
    statement = CREATE.replace("visits", "houses").replace("CREATE", "CREATE OR REPLACE", 1)
    con.execute(statement.replace("subject = patient", "subject = (house, number)").replace("k = 3", "k = 6"))
    with pytest.raises(
        PolicyError, match="k = 6 is more than the 3 subjects that the 12 records of the source have"
    ):
        con.execute(
            statement.replace("subject = patient", "subject = number, identifiers = house").replace(
                "k = 3", "k = 6"
            )
        )


def test_a_subject_of_one_record_each_changes_nothing(con: duckanon.Connection) -> None:
    """The same rows as without: every record is a subject of its own."""
    con.execute("CREATE TABLE single AS SELECT * REPLACE (row_number() OVER () AS patient) FROM visits")
    con.execute(CREATE.replace("visits", "single"))
    with_subject = con.duckdb.execute("FROM v ORDER BY ALL").fetchall()
    con.execute(
        CREATE.replace("CREATE", "CREATE OR REPLACE", 1)
        .replace("visits", "single")
        .replace("subject = patient", "identifiers = patient")
    )
    assert con.duckdb.execute("FROM v ORDER BY ALL").fetchall() == with_subject


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("subject = patient", "subject = age"), PolicyError, "column 'age' is in subject and in quasi_identifiers"),
        (("subject = patient", "subject = patent"), PolicyError, "subject names 'patent', which the source does not have"),
        (("k = 3", "k = 21"), PolicyError, "k = 21 is more than the 20 subjects that the 77 records of the source have"),
        (("FROM visits", "SELECT * REPLACE (nullif(patient, 'p6') AS patient) FROM visits"), SourceError,
         "subject (patient) is NULL in 7 of 77 records"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_an_error(
    con: duckanon.Connection, change: tuple[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        con.execute(CREATE.replace(*change))
    assert con.duckdb.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


@pytest.mark.slow
def test_an_exported_file_says_what_was_proved(con: duckanon.Connection, tmp_path: Path) -> None:
    file = tmp_path / "o.duckdb"
    con.execute(f"{CREATE}; EXPORT ANONYMIZED VIEW v TO '{file}'")
    verified = command("verify", file)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert verified.stdout.count("note: k counts subjects (k_subjects), which was proved at release") == 1
    gate = stock_script(file, f".read '{templates.folder() / 'gate.sql'}'")
    assert gate.returncode == 0, gate.stderr
    assert "that a class has 3 subjects was proved at release, not from the rows" in gate.stdout


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE duckanon.audits SET value = 2 WHERE measure = 'k_subjects'", "k_subjects is recorded as 2.0, where"),
        ("DELETE FROM duckanon.audits WHERE measure = 'k_subjects'", "k_subjects is recorded in duckanon.thresholds alone"),
        ("DELETE FROM duckanon.thresholds WHERE measure = 'k_subjects'", "k_subjects is recorded in duckanon.audits alone"),
        ("UPDATE duckanon.audits SET passed = NULL WHERE measure = 'k_subjects'", "k_subjects is recorded as"),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_found(
    con: duckanon.Connection, tmp_path: Path, statement: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "o.duckdb"
    con.execute(f"{CREATE}; EXPORT ANONYMIZED VIEW v TO '{file}'")
    with duckdb.connect(str(file)) as other:
        other.execute(statement)
    assert verify(file) == 1
    assert message in capsys.readouterr().out


def test_the_command_line_counts_subjects(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute(f"COPY visits TO '{tmp_path / 'in.csv'}'")
    flags = ["--qi", "age,zip", "--sensitive", "charge", "-k", "3", "--subject", "patient"]
    made = command("anonymize", tmp_path / "in.csv", tmp_path / "out.csv", *flags)
    assert made.returncode == 0, made.stderr
    assert re.search(r"^k_subjects +3 +\d", made.stdout, re.MULTILINE)
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("age,zip,charge\n")
    policy = duckanon.Policy(quasi_identifiers=["age", "zip"], k=3, sensitive="charge", subject="patient")
    assert duckanon.Policy.from_toml(policy.to_toml()) == policy
    (tmp_path / "policy.toml").write_text(policy.to_toml(), encoding="utf-8")
    audited = command("audit", tmp_path / "out.csv", "--policy", tmp_path / "policy.toml")
    assert audited.returncode == 2
    assert "counts subjects, whom the rows of a release do not tell" in audited.stderr
    with pytest.raises(duckanon.PolicyError, match="counts subjects, whom the rows of a release do not tell"):
        duckanon.audit(con, f"'{tmp_path / 'out.csv'}'", policy)


@pytest.mark.slow
def test_suppression_and_labels_keep_subjects(con: duckanon.Connection) -> None:
    """Records that go take their subjects along: what is left has three in each class."""
    con.execute("CREATE TABLE tree AS SELECT 'z' || i AS leaf, 'z' AS root FROM range(4) r(i)")
    con.execute(
        "CREATE TABLE ages AS SELECT i AS leaf, i // 20 * 20 AS twenty, 'all' AS root FROM range(20, 70) r(i)"
    )
    for more in (
        "suppression_limit = 0.2, t = 0.25",
        "method = 'full_domain', hierarchies = {zip: 'tree', age: 'ages'}, suppression_limit = 0.5",
        "method = 'mondrian', suppression_limit = 0.2",
        "release = 'swap'",
        "release = 'anatomy', l = 2",
        "recode = {zip: 'set', age: 'range'}",
    ):
        (outcome,) = con.outcomes(
            CREATE.replace("CREATE", "CREATE OR REPLACE", 1).replace("k = 3", f"k = 3, {more}")
        )
        assert outcome.report is not None
        (kept,) = [one for one in outcome.report.measures if one.measure == "k_subjects"]
        assert kept.value is not None
        assert kept.value >= 3
        assert kept.passed


def refusal(con: duckanon.Connection, told: str) -> str | None:
    """Give the error of a query, if it is one."""
    try:
        con.duckdb.execute(f"SELECT count(*) FROM {told}")
    except duckdb.Error as error:
        return str(error)
    return None


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[int, int, str, int]], int]:
    """Draw records (subject, age, zip, charge): one to forty a subject, alike or not, and a k they can have."""
    subjects = draw(st.integers(2, 12))
    alike = draw(st.booleans())
    records = []
    for subject in range(subjects):
        own = draw(st.integers(0, 9)), draw(st.sampled_from("abc"))
        for _ in range(draw(st.integers(1, draw(st.sampled_from([1, 3, 40]))))):
            age, place = own if alike else (draw(st.integers(0, 9)), draw(st.sampled_from("abc")))
            records.append((subject, age, place, draw(st.integers(0, 4))))
    return draw(st.permutations(records)), draw(st.integers(2, subjects))


@pytest.mark.slow
@settings(
    max_examples=examples(300, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    table=tables(),
    method=st.sampled_from([name for name in METHODS if name not in OF_ITS_OWN]),
    t=st.booleans(),
)
def test_every_method_keeps_k_subjects(
    table: tuple[list[tuple[int, int, str, int]], int], method: str, t: bool
) -> None:
    """Source: counting, in the rows that the owner is told, by released class; all records are released."""
    records, k = table
    with duckanon.connect() as con:
        con.execute("CREATE TABLE visits (patient INTEGER, age INTEGER, zip VARCHAR, charge INTEGER)")
        con.duckdb.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", records)
        options = f"{arguments().replace('k := 3', f'k := {k}')}, method := '{method}'"
        needed = method in PUBLISHED and PUBLISHED[method].needs_t
        options += ", t := 0.6" if t or needed else ""
        told = told_of(con, options)
        refused = refusal(con, told)
        # A method with limits of its own may refuse a table; it never releases one with too few subjects.
        if refused is not None:
            assert method != "auto", refused
            return
        found = con.duckdb.execute(f"SELECT class_id, patient FROM {told}").fetchall()
    by_class = defaultdict(set)
    for number, patient in found:
        by_class[number].add(patient)
    assert len(found) == len(records)
    assert min(map(len, by_class.values())) >= k
