"""`classes` is everywhere the number of equivalence classes of the release: groups of records with equal released values.

Classes of the partition that are recoded to equal values are one class for whoever reads the release.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

import duckanon
from duckanon.cli.verify import verify
from duckanon.errors import DuckanonWarning
from duckanon.kernels.recipes import Start
from duckanon.policy.methods import RECORDED
from tests.e2e.evidence_scene import altered
from tests.e2e.scenes import rows
from tests.examples import examples
from tests.strategies import Case, cases, load

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

LETTERS = """
CREATE TABLE letters AS
SELECT letter, i AS charge
FROM (VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'a'), (5, 'a'), (6, 'c')) AS listed(i, letter)
"""

OPTIONS = "quasi_identifiers = (letter), sensitive = (charge), k = 3, method = 'mdav', refine = false"


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    """Six records in two classes of three: whichever hold b and c, the most frequent letter of both is a.

    Of three letters out of a, a, a, a, b, c the mode is a, and of a, b, c the smallest of the three modes is.
    """
    with duckanon.connect() as connection:
        connection.execute(LETTERS)
        yield connection


@pytest.mark.slow
def test_classes_that_are_recoded_to_equal_values_are_one_class(
    con: duckanon.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: one released value, so one class of six records, in every place that tells the number."""
    release = duckanon.anonymize(
        con, "letters", duckanon.Policy(quasi_identifiers="letter", sensitive="charge", k=3), name="v"
    )
    assert release.classes == 1
    created = rows(con, f"CREATE ANONYMIZED VIEW w AS FROM letters WITH ({OPTIONS})")
    assert rows(con, "SELECT count(DISTINCT letter) AS n FROM w") == [{"n": 1}]
    assert {row["classes"] for row in created} == {1}
    assert {row["measure"] for row in created} >= {"k_anonymity", "information_loss", "suppressed_records"}
    assert [row["classes"] for row in rows(con, "SHOW ANONYMIZED VIEWS")] == [1, 1]
    assert rows(con, "SELECT DISTINCT classes FROM duckanon.releases") == [{"classes": 1}]
    assert rows(con, "SELECT DISTINCT classes FROM duckanon.audits") == [{"classes": 1}]
    con.sql(f"EXPORT ANONYMIZED VIEW w TO '{tmp_path / 'w.duckdb'}'")
    assert verify(tmp_path / "w.duckdb", form="json") == 0
    (found,) = json.loads(capsys.readouterr().out)["releases"]
    assert {row["classes"] for row in found["report"]["measures"]} == {1}
    with duckdb.connect(str(tmp_path / "w.duckdb"), read_only=True) as file:
        assert file.execute("SELECT DISTINCT classes FROM duckanon.audits").fetchall() == [(1,)]


def test_a_collapse_is_told_in_classes_of_the_release(con: duckanon.Connection) -> None:
    """By hand: so small a t pairs every 0 with a 1, and the mean 0.5 of each of the 30 pairs is released as 1."""
    con.execute("CREATE TABLE bits AS SELECT i % 2 AS bit, i % 2 AS known FROM range(60) AS r(i)")
    policy = duckanon.Policy(
        quasi_identifiers="bit", sensitive="known", k=2, t=Decimal("0.0001"), method="kanonymity_first"
    )
    with pytest.warns(DuckanonWarning, match="the thresholds cost the data: 1 class of 60 records"):
        release = duckanon.anonymize(con, "bits", policy, name="v")
    assert (release.classes, rows(con, "SELECT DISTINCT bit FROM v")) == (1, [{"bit": 1}])


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An exported file with one class of six records in it; its metadata are put as a case needs them."""
    file = tmp_path / "exported.duckdb"
    with duckanon.connect() as con:
        con.execute(LETTERS)
        con.sql(
            "CREATE ANONYMIZED VIEW v AS SELECT *, 1 AS n FROM letters WITH (quasi_identifiers = (letter, n), sensitive = (charge), k = 3, recode = {n: 'range'}, method = 'mdav', refine = false)"
        )
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    return file


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statements", "difference"),
    [
        ("UPDATE duckanon.releases SET classes = 2", "classes recorded 2, found 1"),
        ("UPDATE duckanon.columns SET data_type = 'INTEGER' WHERE recode = 'range'", "n INTEGER, found"),
    ],
)
def test_a_number_or_type_that_is_not_that_of_the_release_is_a_difference(
    exported: Path, capsys: pytest.CaptureFixture[str], statements: str, difference: str
) -> None:
    altered(exported, statements)
    assert verify(exported) == 1
    assert difference in capsys.readouterr().out


# --- random releases ----------------------------------------------------------------------------------------


def check_that_an_export_is_verified(case: Case) -> None:
    """Fail unless the release of a case, exported and not touched, is verified, and its classes are counted."""
    if case.refusal:
        return
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        file = Path(folder) / "file.duckdb"
        with duckanon.connect() as con:
            load(con.duckdb, case, "source_table")
            release = duckanon.anonymize(con, "source_table", duckanon.Policy(**case.policy), name="v")
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
            quasi = ", ".join(
                '"' + name.replace('"', '""') + '"' for name in case.policy["quasi_identifiers"]
            )
            (counted,) = rows(con, f"SELECT count(*) AS classes FROM (SELECT DISTINCT {quasi} FROM v)")
            assert rows(con, "SELECT classes FROM duckanon.releases") == [counted]
        assert {release.classes, *(m.classes for m in release.report.measures)} == {counted["classes"]}
        assert verify(file) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    ("method", "people"),
    [
        (
            "forest",
            (
                "0 7q 0 0p 20 7r 5 5p 5 7p 9 8r 0 3r 20 4r 20 1q 5 1q 9 4q 0 3r 5 1p 20 3r 5 7p "
                "20 9r 20 0r 5 3r 9 4q 20 1p 20 8p 0 9r 5 4r 1 6q 1 2r 1 8p 1 2p 5 8r 20 9q 5 6r"
            ),
        ),
        (
            "k_alone",
            (
                "20 5p 0 5p 1 6p 1 9p 20 8p 20 5q 0 1r 1 3r 9 2r 5 9q 5 3q 0 1p 1 9p 0 1q "
                "0 3r 1 9q 1 5q 0 7q 1 8p 20 1r 5 5r 0 8p 5 8p 9 8p 0 9q 0 0r 9 2r"
            ),
        ),
    ],
)
def test_every_first_partition_of_auto_is_a_method_that_verify_knows(
    tmp_path: Path, method: str, people: str
) -> None:
    """With l alone other starts may lose least: methods that nobody can choose by name."""
    assert set(get_args(Start)) <= set(RECORDED)
    ages, rest = people.split()[::2], people.split()[1::2]
    rows = [[int(age), int(one[0]), one[1]] for age, one in zip(ages, rest, strict=True)]
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t(age INTEGER, weight INTEGER, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        options = "quasi_identifiers = (age, weight), sensitive = ill, k = 2, l = 2, effort = 'fast'"
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options})")
        assert con.duckdb.execute("SELECT method FROM duckanon.releases").fetchall() == [(method,)]
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
    assert verify(tmp_path / "v.duckdb") == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_release_that_begins_with_anatomize_is_verified(tmp_path: Path) -> None:
    """No charge has more than 1/4 of a class: five charges, which go with the ages."""
    table = "SELECT round(900 * sin(i * i)) AS age, round(900 * cos(3 * i * i)) AS zip FROM range(300) r(i)"
    options = "quasi_identifiers = (age, zip), recode = {zip: mean}, sensitive = charge, k = 2, l = 1, l_diversity = 'recursive'"
    with duckanon.connect() as con:
        con.execute(
            f"CREATE TABLE t AS SELECT *, ntile(5) OVER (ORDER BY 2 * age + zip, age) AS charge FROM ({table})"
        )
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options}, c = 0.250000000001, effort = 'fast')"
        )
        assert con.duckdb.execute("SELECT method FROM duckanon.releases").fetchall() == [("anatomy",)]
        counts = "SELECT age, zip, count(*) AS records FROM v GROUP BY age, zip, charge"
        shares = f"SELECT max(records), sum(records) FROM ({counts}) GROUP BY age, zip"
        assert all(4 * most <= size for most, size in con.duckdb.execute(shares).fetchall())
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
    assert verify(tmp_path / "v.duckdb") == 0


@pytest.mark.slow
@settings(max_examples=examples(200, few=3), suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_random_releases_are_exported_and_verified(case: Case) -> None:
    check_that_an_export_is_verified(case)
