"""Boxes of (n, t)-closeness beside a release: they prove its audit, and forged boxes prove nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon import ReleaseError
from duckanon.release.verify.file import verify_file
from duckanon.release.verify.verify import verify
from tests.examples import slowly
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = (
    "quasi_identifiers = (area, age), sensitive = (ward), k = 4, t = 0.3, n = 40, recode = {age: 'range'}"
)
BOXES = "duckanon.supersets_1"


def opened(file: Path | str = ":memory:") -> duckanon.Connection:
    """288 people: below 32 years half of every age is in A and half in B, from 32 on in C and D.

    Hand: the distance of a class of one half from all people is 1/2 at least.
    """
    con = duckanon.connect(str(file))
    con.execute(
        "CREATE TABLE people AS SELECT CAST(8 + i % 24 AS INTEGER) AS age, 'abcd'[1 + (i // 24) % 4] AS area, "
        "CASE WHEN i % 24 < 12 THEN 'AB'[1 + (i // 48) % 2] ELSE 'CD'[1 + (i // 48) % 2] END AS ward "
        "FROM range(288) AS r(i)"
    )
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM people WITH ({OPTIONS})")
    return con


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the database of a release, its export, and files with their evidence."""
    folder = tmp_path_factory.mktemp("near")
    with warnings.catch_warnings(action="ignore"):
        con = opened(folder / "own.duckdb")
        con.execute("AUDIT VIEW v WITH (t = 0.2, n = 60)")
        con.execute("AUDIT VIEW v WITH (t = 0.9)")
        for ending in ("duckdb", "parquet"):
            con.execute(f"EXPORT ANONYMIZED VIEW v TO '{folder / f'v.{ending}'}'")
        con.execute(
            f"EXPORT ANONYMIZED VIEW v TO '{folder / 'v.csv'}' WITH (evidence = '{folder / 'v.csv.json'}')"
        )
        con.close()
    return folder


def checked(file: Path) -> dict[str, bool]:
    """Verdicts of the view of an exported file, by DuckDB alone."""
    with duckdb.connect(str(file), read_only=True) as con:
        return dict(con.execute("SELECT measure, passed FROM duckanon.check").fetchall())


def told(file: Path) -> tuple[bool, list[str]]:
    """Whether a database is verified, and its differences."""
    with duckanon.connect(str(file), read_only=True) as con:
        found = verify(con.duckdb)
    return found.verified, [
        *found.differences,
        *(one for release in found.releases for one in release.differences),
    ]


def test_a_release_is_verified_by_its_boxes_wherever_it_lies(files: Path) -> None:
    assert told(files / "own.duckdb") == (True, [])
    assert told(files / "v.duckdb") == (True, [])
    with duckdb.connect(str(files / "v.duckdb"), read_only=True) as con:
        thresholds = con.execute("SELECT measure, attribute, threshold FROM duckanon.thresholds").fetchall()
        columns = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE {BOXES})").fetchall()
        (boxes,) = con.execute(f"SELECT count(*) FROM {BOXES}").fetchone() or (0,)
    assert {(measure, attribute): float(number) for measure, attribute, number in thresholds} == {
        ("k_anonymity", None): 4.0,
        ("nt_closeness", "ward"): 0.3,
        ("nt_records", None): 40.0,
    }
    assert columns == [(name, "BIGINT") for name in ("superset", "place", "first", "last")]
    assert boxes > 0
    for name in ("v.parquet", "v.csv"):
        found = verify_file(files / name)
        assert (found.verified, found.releases[0].differences) == (True, ())


def test_the_stock_command_line_proves_it(files: Path) -> None:
    query = "SELECT measure, passed FROM duckanon.check WHERE column_name = 'ward'"
    done = subprocess.run(
        [str(stock_command()), "-readonly", "-csv", "-noheader", str(files / "v.duckdb"), "-c", query],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "nt_closeness,true\n"


THRESHOLDS = "UPDATE duckanon.thresholds SET {} WHERE measure = '{}'"

FALSE = {
    "no box": f"DELETE FROM {BOXES}",
    "a box less": f"DELETE FROM {BOXES} WHERE superset = 2",
    "boxes of one class": f"UPDATE {BOXES} SET last = first",
    "every class its own box": (
        f"DELETE FROM {BOXES}; INSERT INTO {BOXES} SELECT 1 + i, 1, 1 + i, 1 + i FROM range(60) AS r(i)"
    ),
    "beyond the ranks": f"UPDATE {BOXES} SET first = first + 900, last = last + 900",
    "first above last": f"UPDATE {BOXES} SET first = last + 1",
    "a bound of NULL": f"UPDATE {BOXES} SET first = NULL WHERE superset = 1",
    "a box of NULL": f"UPDATE {BOXES} SET superset = NULL",
    "all numbered 0": f"UPDATE {BOXES} SET superset = 0",
    "a negative number": f"UPDATE {BOXES} SET superset = -superset",
    "places exchanged": f"UPDATE {BOXES} SET place = 3 - place",
    "an unknown place": f"UPDATE {BOXES} SET place = 9 WHERE superset = 1",
    "a bound of an unknown place": f"INSERT INTO {BOXES} VALUES (1, 9, 1, 1)",
    "everybody in each box": f"UPDATE {BOXES} SET first = 1, last = 59",
    "all boxes in one": f"UPDATE {BOXES} SET superset = 1",
    "other rows": "UPDATE v SET ward = translate(ward, 'AC', 'CA') WHERE age.low % 2 = 0",
}
"""Forgeries after which the boxes prove nothing."""

TRUE = {
    "the boxes twice": f"INSERT INTO {BOXES} FROM {BOXES}",
    "a box beyond 256": f"INSERT INTO {BOXES} VALUES (1987, 1, 1, 1)",
    "a rank beyond the classes": f"INSERT INTO {BOXES} VALUES (256, 1, 1987, 1999)",
    "a rank beyond the values": f"UPDATE {BOXES} SET last = last + 1 WHERE last = (SELECT max(last) FROM {BOXES})",
    "ranks apart": (
        f"INSERT INTO {BOXES} SELECT 256, place, bound, bound FROM {BOXES}, unnest([first, last]) AS r(bound)"
    ),
    "a column more": f"ALTER TABLE {BOXES} ADD COLUMN name VARCHAR",
    "other integers": f"ALTER TABLE {BOXES} ALTER superset TYPE INTEGER",
    "a view of boxes": f"ALTER TABLE {BOXES} RENAME TO other; CREATE VIEW {BOXES} AS FROM duckanon.other",
    "a second table": f"CREATE TABLE duckanon.supersets_2 AS FROM {BOXES}",
    "a larger n": THRESHOLDS.format("threshold = 200", "nt_records"),
    "a smaller n": THRESHOLDS.format("threshold = 5", "nt_records"),
    "half an n": THRESHOLDS.format("threshold = 40.5", "nt_records"),
    "an n of a column": THRESHOLDS.format("attribute = 'ward'", "nt_records"),
    "no n": "DELETE FROM duckanon.thresholds WHERE measure = 'nt_records'",
    "two n": "INSERT INTO duckanon.thresholds FROM duckanon.thresholds WHERE measure = 'nt_records'",
    "a larger t": THRESHOLDS.format("threshold = 0.9", "nt_closeness"),
    "t without its n": THRESHOLDS.format("measure = 't_closeness'", "nt_closeness"),
}
"""Forgeries of what the boxes still prove: verify has to tell them."""

HARMLESS = {
    "other numbers": f"UPDATE {BOXES} SET superset = superset + 7",
    "a box again": f"INSERT INTO {BOXES} SELECT 250, place, first, last FROM {BOXES} WHERE superset = 1",
}
"""Other boxes that are natural supersets: the claim is still true."""


def forged(files: Path, to: Path, forgery: str) -> Path:
    file = Path(shutil.copy(files / "v.duckdb", to / "v.duckdb"))
    with duckdb.connect(str(file)) as con:
        con.execute(forgery)
    return file


@pytest.mark.parametrize("forgery", slowly(FALSE, one_of=8))
def test_forged_boxes_prove_nothing(files: Path, tmp_path: Path, forgery: str) -> None:
    file = forged(files, tmp_path, FALSE[forgery])
    assert checked(file)["nt_closeness"] is False
    assert any("nt_closeness of ward" in one for one in told(file)[1])


@pytest.mark.parametrize("forgery", slowly(TRUE, one_of=8))
def test_what_a_release_does_not_store_is_told(files: Path, tmp_path: Path, forgery: str) -> None:
    file = forged(files, tmp_path, TRUE[forgery])
    assert checked(file)["nt_closeness"] is True
    verified, differences = told(file)
    assert not verified
    assert differences


@pytest.mark.slow
@pytest.mark.parametrize("forgery", HARMLESS)
def test_other_true_supersets_are_harmless(files: Path, tmp_path: Path, forgery: str) -> None:
    file = forged(files, tmp_path, HARMLESS[forgery])
    assert checked(file)["nt_closeness"] is True
    assert told(file) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forgery", "words"),
    [
        (f"ALTER TABLE {BOXES} ALTER first TYPE VARCHAR", "first VARCHAR"),
        (
            f"ALTER TABLE {BOXES} ALTER first TYPE VARCHAR; UPDATE {BOXES} SET first = 'Bob'",
            "cannot be audited",
        ),
        (f'DROP VIEW duckanon."check"; DROP TABLE {BOXES}', "there is no table 'supersets_1'"),
        (f"ALTER TABLE {BOXES} RENAME TO supersets_9", "there is no table 'supersets_1'"),
    ],
)
def test_a_file_without_its_boxes_cannot_be_audited(
    files: Path, tmp_path: Path, forgery: str, words: str
) -> None:
    verified, differences = told(forged(files, tmp_path, forgery))
    assert not verified
    assert any(words in one for one in differences)


def _without(evidence: dict[str, Any]) -> None:
    del evidence["supersets"]


def _one_less(evidence: dict[str, Any]) -> None:
    evidence["supersets"] = [row for row in evidence["supersets"] if row[0] != 2]


def _without_n(evidence: dict[str, Any]) -> None:
    evidence["policy"] = evidence["policy"].replace("n = 40\n", "")


def _smuggled(evidence: dict[str, Any]) -> None:
    evidence["supersets"].append([1, 1, 1987, 1999])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_one_less, "nt_closeness of ward"),
        (_without, "the evidence has n without supersets"),
        (_without_n, "the evidence has supersets without n"),
        (_smuggled, "1 of the supersets in the evidence"),
    ],
)
def test_forged_evidence_of_a_file_is_told(
    files: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    """The ranges of a CSV are read as text, in whose order 8 comes after 29: the boxes have its ranks."""
    file = Path(shutil.copy(files / "v.csv", tmp_path / "v.csv"))
    evidence = json.loads((files / "v.csv.json").read_text())
    change(evidence)
    (tmp_path / "v.csv.json").write_text(json.dumps(evidence, indent=2) + "\n")
    found = verify_file(file)
    assert not found.verified
    assert any(words in one for one in found.releases[0].differences)


@pytest.mark.parametrize(
    "rows", [[[1, 1, 1]], [[1, 1, 1, 2.5]], [[1, 1, 1, -1]], [[1, 1, None, 2]], {"1": 1}, None]
)
def test_boxes_of_another_form_are_no_evidence(files: Path, tmp_path: Path, rows: object) -> None:
    file = Path(shutil.copy(files / "v.csv", tmp_path / "v.csv"))
    evidence = json.loads((files / "v.csv.json").read_text()) | {"supersets": rows}
    (tmp_path / "v.csv.json").write_text(json.dumps(evidence))
    with pytest.raises(ReleaseError, match="'supersets' of the file is not a list of rows of four counts"):
        verify_file(file)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_boxes_are_replaced_and_dropped_with_their_release() -> None:
    con = opened()
    query = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'supersets%'"
    assert con.execute(query).fetchall() == [("supersets_1",)]
    con.execute(
        f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM people WITH ({OPTIONS.replace('n = 40', 'n = 60')})"
    )
    assert con.execute(query).fetchall() == [("supersets_2",)]
    con.execute("DROP TABLE duckanon.supersets_2")
    with pytest.raises(ReleaseError, match=r"supersets_2 of memory\.main\.v is gone: REFRESH"):
        con.execute("AUDIT VIEW v")
    con.execute("REFRESH ANONYMIZED VIEW v")
    con.execute("AUDIT VIEW v")
    assert con.execute(query).fetchall() == [("supersets_3",)]
    con.execute("DROP VIEW v")
    con.execute(
        "CREATE ANONYMIZED VIEW w AS FROM people WITH (quasi_identifiers = (age, area), sensitive = (ward), k = 4)"
    )
    assert con.execute(query).fetchall() == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_quoted_names_in_an_attached_database(tmp_path: Path) -> None:
    con = duckanon.connect()
    con.execute(f"""ATTACH '{tmp_path / "other.duckdb"}' AS "odd ""name"; USE "odd ""name" """)
    con.execute(
        'CREATE TABLE people AS SELECT CAST(8 + i % 24 AS INTEGER) AS "the ""age", '
        "CASE WHEN i % 24 < 12 THEN 'AB'[1 + (i // 24) % 2] ELSE 'CD'[1 + (i // 24) % 2] END AS \"it's\" "
        "FROM range(288) AS r(i)"
    )
    con.execute(
        'CREATE ANONYMIZED VIEW "v w" AS FROM people WITH (quasi_identifiers = ("the ""age"), sensitive = ("it\'s"), '
        "k = 4, t = 0.3, n = 40)"
    )
    con.execute('AUDIT VIEW "v w"')
    con.execute(f"""EXPORT ANONYMIZED VIEW "v w" TO '{tmp_path / "v.duckdb"}'""")
    con.close()
    assert checked(tmp_path / "v.duckdb")["nt_closeness"] is True
    assert told(tmp_path / "v.duckdb") == (True, [])
    assert told(tmp_path / "other.duckdb") == (True, [])
