"""Values dealt anew within a class: what a release shows, what it does not tell, and who else has to know of it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars
import pytest
from hypothesis import HealthCheck, given, settings

import duckanon
from duckanon.database import templates
from duckanon.errors import PolicyError
from tests.e2e.scenes import command, stock_script
from tests.examples import examples
from tests.oracle import key
from tests.oracle_release import assert_ordered_by_values, assert_swap_valid
from tests.strategies import Case, cases, load, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

OPTIONS = "quasi_identifiers = (age, zip), sensitive = charge, insensitive = ward, k = 4, release = 'swap'"
CREATE = f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({OPTIONS})"
POLICY = duckanon.Policy(
    quasi_identifiers=["age", "zip"], sensitive="charge", insensitive="ward", k=4, release="swap"
)
COLUMNS = ["class_id", "age", "zip", "charge", "ward"]


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.execute(
            """CREATE TABLE patients AS SELECT
                CASE WHEN i % 13 > 0 THEN (i * 37 % 71)::INTEGER END AS age, 'z' || i * 29 % 23 AS zip,
                i % 9 AS charge, 'w' || i % 3 AS ward
            FROM range(80) AS r(i)"""
        )
        yield connection


def rows_of(con: duckanon.Connection, relation: str) -> list[dict[str, Any]]:
    return con.duckdb.sql(f"FROM {relation}").to_arrow_table().to_pylist()


def members(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["class_id"], []).append(row)
    return found


def values(rows: list[dict[str, Any]], column: str) -> Counter[Any]:
    return Counter(key(row[column]) for row in rows)


def test_each_class_keeps_its_values_and_the_rows_beside_them(con: duckanon.Connection) -> None:
    """Source: the classes that the owner is told; each column is a permutation of what the class had."""
    con.execute(CREATE)
    released, told = members(rows_of(con, "v")), f"equivalence_classes('patients', {arguments()})"
    duckanon.register(con)
    original = members(rows_of(con, told))
    assert released.keys() == original.keys() == set(range(len(released)))
    for number, rows in released.items():
        assert len(rows) >= 4
        for column in ("age", "zip"):
            assert values(rows, column) == values(original[number], column)
        beside = [Counter((r["charge"], r["ward"]) for r in each) for each in (rows, original[number])]
        assert beside[0] == beside[1]
    assert list(rows_of(con, "v")[0]) == COLUMNS


def arguments() -> str:
    return "quasi_identifiers := ['age', 'zip'], sensitive := ['charge'], insensitive := ['ward'], k := 4, release := 'swap'"


def test_a_release_does_not_depend_on_whose_a_value_was(con: duckanon.Connection) -> None:
    """Patients of one class who exchange their charges leave the release as it was, to the last row.

    So nobody can deal the values back, whoever knows the seed and the code: many tables give the same release.
    """
    con.execute(CREATE)
    before = rows_of(con, "v")
    duckanon.register(con)
    told = rows_of(con, f"equivalence_classes('patients', {arguments()})")
    turned = []
    for rows in members(told).values():
        beside = [(row["charge"], row["ward"]) for row in rows]
        for row, (charge, ward) in zip(rows, [*beside[1:], beside[0]], strict=True):
            turned.append((row["age"], row["zip"], charge, ward))
    assert Counter(turned) != Counter((r["age"], r["zip"], r["charge"], r["ward"]) for r in told)
    con.execute("DELETE FROM patients")
    con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", turned)
    con.execute("REFRESH ANONYMIZED VIEW v")
    assert rows_of(con, "v") == before


def test_values_do_not_stay_together(con: duckanon.Connection) -> None:
    """Of 80 patients few keep zip or charge beside their age; another seed deals in another way."""
    con.execute(
        "CREATE OR REPLACE TABLE patients AS SELECT i AS age, i AS zip, i AS charge, 'w' AS ward FROM range(80) r(i)"
    )
    con.execute(CREATE)
    one = rows_of(con, "v")
    con.execute(CREATE.replace("CREATE", "CREATE OR REPLACE", 1).replace("k = 4", "k = 4, seed = 1"))
    other = rows_of(con, "v")
    for rows in (one, other):
        for column in ("zip", "charge"):
            # A class of four keeps one of four by chance.
            assert sum(row["age"] == row[column] for row in rows) < 40
    assert one != other
    assert Counter(row["age"] for row in one) == Counter(range(80))


def test_a_source_in_another_order_gives_the_same_release(con: duckanon.Connection) -> None:
    con.execute(CREATE)
    before = rows_of(con, "v")
    con.execute(
        "CREATE OR REPLACE TABLE patients AS FROM patients ORDER BY hash(age, zip, charge), ward DESC"
    )
    con.execute("REFRESH ANONYMIZED VIEW v")
    assert rows_of(con, "v") == before


def test_columns_may_have_the_names_that_we_use_inside(con: duckanon.Connection) -> None:
    """Columns are q1, q2, s3 inside; a text that is called q2 stood for a number that is, and was sorted as one."""
    con.execute(
        "CREATE VIEW named AS SELECT zip AS q2, age AS q1, charge AS released_class, ward AS seat FROM patients"
    )
    options = "quasi_identifiers = (q1, q2), sensitive = released_class, insensitive = seat, k = 4, release = 'swap'"
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM named WITH ({options})")
    rows = rows_of(con, "v")
    assert values(rows, "q2") == values(rows_of(con, "named"), "q2")
    assert_ordered_by_values(rows)


def test_the_report_says_what_k_is(con: duckanon.Connection) -> None:
    release = duckanon.anonymize(con, "patients", POLICY, name="v")
    assert "probabilistic k-anonymity" in release.report.plan
    outcomes = con.outcomes("AUDIT VIEW v")
    assert any("probabilistic k-anonymity" in text for one in outcomes for text in one.report.warnings)
    assert release.report.passed
    audited = con.sql("AUDIT VIEW v")
    assert audited is not None
    measures = {row[0]: row for row in audited.fetchall()}
    assert measures["k_anonymity"][2:5] == (4.0, 4.0, release.classes)
    assert duckanon.audit(con, "v", POLICY).passed


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["duckdb", "csv", "parquet"])
def test_exported_files_hold_it(con: duckanon.Connection, tmp_path: Path, ending: str) -> None:
    con.execute(f"{CREATE}; EXPORT ANONYMIZED VIEW v TO '{tmp_path / f'o.{ending}'}'")
    file = tmp_path / f"o.{ending}"
    if ending == "duckdb":
        verified = command("verify", file)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        # An auditor who has the file alone must not take k for that of the quasi-identifiers.
        assert verified.stdout.count("note: released as 'swap': classes are those of class_id") == 1
        gate = stock_script(file, f".read '{templates.folder() / 'gate.sql'}'")
        assert gate.returncode == 0, gate.stderr
        assert (
            "k_anonymity 4 (asked 4); classes are those of class_id, quasi-identifiers are exact"
            in gate.stdout
        )
        file = f"{file}:v"
    audited = command("audit", file, "--qi", "class_id", "--sensitive", "charge", "-k", "4")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert command("audit", file, "--qi", "age,zip", "-k", "4").returncode == 1


def test_a_changed_class_is_found(con: duckanon.Connection, tmp_path: Path) -> None:
    """A record that someone puts into another class is no record of the release."""
    file = tmp_path / "p.duckdb"
    with duckanon.connect(file) as other:
        other.duckdb.register("patients", con.duckdb.sql("FROM patients").to_arrow_table())
        other.execute("CREATE TABLE source AS FROM patients")
        other.execute(CREATE.replace("patients", "source"))
        other.execute(
            "UPDATE duckanon.release_1 SET class_id = class_id + 1 WHERE class_id = 0 AND charge < 3"
        )
    verified = command("verify", file)
    assert verified.returncode == 1
    assert "fingerprint recorded" in verified.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("recode = {age: 'mean'}", "recode names 'age' and release = 'swap' releases values as they are"),
        ("release = 'anatomy'", "stands twice"),
        (
            "method = 'full_domain', hierarchies = {zip: 't'}",
            "method = 'full_domain' releases labels and release = 'swap' values as they are: use one of them",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error(con: duckanon.Connection, more: str, message: str) -> None:
    with pytest.raises(duckanon.DuckanonError, match=re.escape(message)):
        con.execute(f"{CREATE[:-1]}, {more})")


def test_errors_name_the_way_out(con: duckanon.Connection) -> None:
    with pytest.raises(
        PolicyError,
        match=r"release = 'swapped' is unknown, did you mean 'swap'\? Use table \| anatomy \| swap",
    ):
        con.execute(CREATE.replace("'swap'", "'swapped'"))
    with pytest.raises(
        PolicyError, match="adds a column 'class_id', which the source has: rename it with AS"
    ):
        con.execute(
            CREATE.replace("FROM patients", "SELECT *, 1 AS Class_Id FROM patients").replace(
                "ward,", "(ward, class_id),"
            )
        )
    with pytest.raises(PolicyError, match="the effect of release = 'swap' cannot be told"):
        duckanon.anonymize(con, "patients", POLICY, name="v", effect=True)
    assert con.duckdb.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = 'v'").fetchone() == (0,)


def test_frames_get_a_column_more() -> None:
    """The column of the class is new, the others keep their types."""
    frame = pd.DataFrame({"age": pd.array([30, 31, 32, 33], dtype="Int8"), "charge": [1, 2, 3, 4]})
    policy = duckanon.Policy(quasi_identifiers="age", sensitive="charge", k=2, release="swap")
    made = duckanon.anonymize_table(frame, policy)
    assert list(made.columns) == ["class_id", "age", "charge"]
    assert made.dtypes["age"] == "Int8"
    assert sorted(made["age"]) == [30, 31, 32, 33]
    assert made["class_id"].tolist() == [0, 0, 1, 1]
    assert duckanon.anonymize_table(polars.from_pandas(frame), policy).columns == [
        "class_id",
        "age",
        "charge",
    ]


@pytest.mark.slow
def test_the_command_line_swaps(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute(f"COPY patients TO '{tmp_path / 'in.csv'}'")
    flags = [
        "--qi",
        "age,zip",
        "--sensitive",
        "charge",
        "--insensitive",
        "ward",
        "-k",
        "4",
        "--release",
        "swap",
    ]
    made = command("anonymize", tmp_path / "in.csv", tmp_path / "out.csv", *flags)
    assert made.returncode == 0, made.stderr
    (tmp_path / "policy.toml").write_text(POLICY.to_toml(), encoding="utf-8")
    for form in ("text", "html"):
        audited = command(
            "audit", tmp_path / "out.csv", "--policy", tmp_path / "policy.toml", "--format", form
        )
        assert audited.returncode == 0, audited.stdout + audited.stderr
    by_values = command(
        "audit", tmp_path / "out.csv", "--policy", tmp_path / "policy.toml", "--qi", "age,zip"
    )
    assert by_values.returncode == 1
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("class_id,age,zip,charge,ward\n0,")


@settings(
    max_examples=examples(150, 5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=cases())
def test_any_table_keeps_its_thresholds(case: Case) -> None:
    """Source: the oracle, with the number of the class as the only quasi-identifier."""
    policy = {name: value for name, value in case.policy.items() if name != "recode"} | {"release": "swap"}
    with duckanon.connect() as con:
        load(con.duckdb, case, "source_table")
        if case.refusal or any(name.lower() == "class_id" for name, _ in case.columns):
            with pytest.raises(duckanon.DuckanonError):
                duckanon.anonymize(con, "source_table", duckanon.Policy(**policy), name="v")
            return
        duckanon.anonymize(con, "source_table", duckanon.Policy(**policy), name="v")
        rows, source = records_of(con.duckdb, "v"), records_of(con.duckdb, "source_table")
    assert_swap_valid(source, rows, policy, trees=case.trees)
    assert_ordered_by_values(rows)
