"""Documents of `duckanon audit` say what was asked of which rows, so that another question is not "nothing changed".

Every expectation is by hand from PATIENTS: 60 records over 4 zips, 15 a class.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import duckdb
import pytest

import duckanon
from duckanon.audits.report import Measure, Report
from tests.e2e.scenes import PATIENTS, command
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = ("--sensitive", "charge,diagnosis", "-k", "5")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    with duckdb.connect() as con:
        con.execute(PATIENTS)
        con.execute(f"COPY patients TO '{tmp_path / 'patients.csv'}'")
    return tmp_path / "patients.csv"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("asked", "said"),
    slowly(
        [
            (("--qi", "zip", *FLAGS), "nothing changed"),
            (("--qi", "zip,zip", *FLAGS), "error: "),
            (("--qi", "zip", "--sensitive", "charge", "-k", "5"), 'now sensitive = ["charge"]'),
            (("--qi", "zip", *FLAGS, "--distance", "charge=equal"), "distance"),
        ],
        one_of=2,
    ),
)
def test_another_question_is_a_change(csv: Path, asked: tuple[str, ...], said: str) -> None:
    """The same measures with other roles or distances give the same numbers by chance; the policy tells."""
    saved = csv.with_suffix(".json")
    first = command("audit", csv, "--qi", "zip", *FLAGS, "--format", "json", "-o", saved)
    assert first.returncode == 0, first.stderr
    done = command("audit", csv, *asked, "--against", saved)
    assert said in done.stdout + done.stderr
    assert ("policy: " in done.stdout) is (said not in {"nothing changed", "error: "})


def test_other_rows_are_a_change_even_where_every_number_stays(csv: Path) -> None:
    saved = csv.with_suffix(".json")
    command("audit", csv, "--qi", "zip", "-k", "5", "--format", "json", "-o", saved)
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM read_csv('{csv}')")
        con.execute("UPDATE t SET charge = charge + 1")
        con.execute(f"COPY t TO '{csv}'")
    done = command("audit", csv, "--qi", "zip", "-k", "5", "--against", saved)
    assert done.returncode == 0
    assert "fingerprint: " in done.stdout
    assert "nothing changed" not in done.stdout


@pytest.mark.slow
def test_json_junit_and_sarif_name_policy_rows_and_programs(csv: Path) -> None:
    documents = {}
    for form in ("json", "junit", "sarif"):
        done = command("audit", csv, "--qi", "zip", *FLAGS, "--format", form)
        assert done.returncode == 0, done.stderr
        documents[form] = done.stdout
    told = json.loads(documents["json"])["evidence"]
    assert 'quasi_identifiers = ["zip"]' in told["policy"]
    assert "k = 5" in told["policy"]
    assert told["duckdb_version"] == duckdb.__version__
    assert told.pop("audited_at").startswith("20")
    (run,) = json.loads(documents["sarif"])["runs"]
    assert run["properties"]["evidence"] == told
    found = {one.get("name"): one.get("value") for one in ET.fromstring(documents["junit"]).iter("property")}
    assert found == {f"duckanon.{name}": str(value) for name, value in told.items()}


def test_a_policy_that_counts_persons_is_refused(csv: Path, tmp_path: Path) -> None:
    """k would count records where the policy says persons: five records of one person would pass."""
    policy = tmp_path / "policy.toml"
    policy.write_text('quasi_identifiers = ["zip"]\nk = 5\nsubject = "id"\n')
    done = command("audit", csv, "--policy", policy)
    assert (done.returncode, done.stdout) == (2, "")
    assert "subject" in done.stderr


def test_a_value_that_breaks_its_threshold_does_not_look_equal_to_it() -> None:
    row = Measure("t_closeness", "charge", 0.3999999, 0.4, 2, 1, 5, False)
    text = Report("t", (row,)).to_text()
    assert "0.3999999" in text
    assert "0.3999999" in Report("t", (row,))._repr_html_()
    kept = Measure("t_closeness", "charge", 0.4, 0.3999999, 2, 0, 0, True)
    assert "0.3999999" not in Report("t", (kept,)).to_text()


def test_a_released_value_cannot_forge_a_line_of_the_report() -> None:
    """A line break, an escape sequence of a terminal and a turn of direction are escaped."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT 'x' || chr(10) || chr(27) || '[2Jk_anonymity' || chr(8238) AS q"
        )
        text = duckanon.audit(con, "t", duckanon.AuditPolicy(quasi_identifiers="q", k=2)).to_text()
    assert "q = x\\n\\x1b[2Jk_anonymity\\u202e" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_the_largest_whole_numbers_have_an_order_as_in_the_macro() -> None:
    """By hand: {0, 0} and {1, 2} of BIGNUM are (1/2 + 1/4) / 2 = 3/8 from the whole; by equal distance 1/2."""
    with duckanon.connect() as con:
        duckanon.register(con.duckdb)
        con.execute("""
            CREATE TABLE t AS SELECT i // 2 AS q, CAST(greatest(i - 1, 0) AS BIGNUM) AS s FROM range(4) AS r(i)
        """)
        report = duckanon.audit(con, "t", duckanon.AuditPolicy(quasi_identifiers="q", sensitive="s"))
        query = "SELECT value FROM audit('t', ['q'], ['s']) WHERE measure = 't_closeness'"
        assert con.execute(query).fetchall() == [(0.375,)]
    assert [m.value for m in report.measures if m.measure == "t_closeness"] == [0.375]
