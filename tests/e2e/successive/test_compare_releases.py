"""The command compare-releases: two exported files, and what they say together; every number is counted by hand."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from tests.e2e.file_scene import run

if TYPE_CHECKING:
    from pathlib import Path

# Three classes of four, alike in age and place within: k = 4 makes them so, and two places never mix.
RECORDS = [
    (1, 30, "a", "flu"), (2, 30, "a", "cold"), (3, 32, "a", "flu"), (4, 32, "a", "ulcer"),
    (5, 50, "b", "flu"), (6, 50, "b", "cold"), (7, 52, "b", "acne"), (8, 52, "b", "cold"),
    (9, 70, "c", "acne"), (10, 70, "c", "flu"), (11, 72, "c", "ulcer"), (12, 72, "c", "acne"),
]  # fmt: skip
POLICY = "identifiers = (id), quasi_identifiers = (age, place), sensitive = ill, k = 4, l = 2"
CHANGES = {
    "same": "UPDATE patients SET id = id",
    "more": "INSERT INTO patients VALUES (13, 33, 'a', 'acne')",
    "replaced": "UPDATE patients SET age = 36, ill = 'gout' WHERE id = 4",
    "changed": "UPDATE patients SET ill = 'gout' WHERE id = 4",
    "older": "UPDATE patients SET age = 36 WHERE id = 4",
    "ten": "INSERT INTO patients SELECT 20 + i, 90, 'd', ['flu', 'cold'][1 + i % 2] FROM range(10) AS r(i)",
}


# That the releases tell of fewer than k together is what is looked for.
pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the first release and, for each change, the release that REFRESH makes then."""
    folder = tmp_path_factory.mktemp("exports")
    for name, change in CHANGES.items():
        with duckanon.connect() as con:
            con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
            con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
            con.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({POLICY})")
            if name == "same":
                for ending in ("duckdb", "csv", "parquet"):
                    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{folder}/first.{ending}'")
            con.duckdb.execute(change)
            con.execute("REFRESH ANONYMIZED VIEW v")
            for ending in ("duckdb", "csv", "parquet"):
                con.execute(f"EXPORT ANONYMIZED VIEW v TO '{folder}/{name}.{ending}'")
    return folder


def broken(folder: Path, *arguments: str) -> tuple[int, dict[tuple[str, str | None], Any]]:
    """Exit code, and the value of each measure that is violated."""
    code, out, err = run(folder, "compare-releases", *arguments, "--format", "json")
    assert not err, err
    measures = json.loads(out)["measures"]
    return code, {(m["measure"], m["attribute"]): m["value"] for m in measures if m["passed"] is False}


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["duckdb", "csv", "parquet"])
def test_nothing_new_says_nothing(exports: Path, ending: str) -> None:
    options = [] if ending == "duckdb" else ["--qi", "age,place", "--sensitive", "ill", "-k", "4"]
    for newer in (f"same.{ending}", f"first.{ending}"):
        assert broken(exports, f"first.{ending}", newer, *options) == (0, {})


@pytest.mark.parametrize("ending", ["duckdb", "csv", "parquet"])
def test_one_person_more_is_told(exports: Path, ending: str) -> None:
    """Class a, 31 on average, becomes five of 157 years in all, 31 on average: the sum grows by 31."""
    options = [] if ending == "duckdb" else ["--qi", "age,place", "--sensitive", "ill", "-k", "4"]
    code, found = broken(exports, f"first.{ending}", f"more.{ending}", *options)
    assert code == 1
    assert found == {
        ("records_difference", None): 1,
        ("records_changed", None): 1,
        ("rows_added", None): 1,
        ("class_size_difference", None): 1,
        ("values_added", "ill"): 1,
        ("sum_difference", "age"): 31,
    }


def test_one_replaced_by_another_is_told(exports: Path) -> None:
    """An ulcer became a gout, and class a has 128 years in place of 124: 32 on average in place of 31."""
    assert broken(exports, "first.duckdb", "replaced.duckdb") == (
        1,
        {
            ("records_changed", None): 1,
            ("values_removed", "ill"): 1,
            ("values_added", "ill"): 1,
            ("sum_difference", "age"): 4,
        },
    )


@pytest.mark.slow
def test_one_value_that_changed_is_told(exports: Path) -> None:
    code, found = broken(exports, "first.duckdb", "changed.duckdb")
    assert code == 1
    assert found == dict.fromkeys((("records_changed", None), ("rows_removed", None), ("rows_added", None), ("values_removed", "ill"), ("values_added", "ill")), 1)  # fmt: skip


def test_a_mean_that_moved_alone_is_told(exports: Path) -> None:
    """No value and no size changed, so nothing shows that four records did."""
    assert broken(exports, "first.duckdb", "older.duckdb") == (
        1,
        {("records_changed", None): 0, ("sum_difference", "age"): 4},
    )


@pytest.mark.slow
def test_ten_more_in_classes_of_their_own_say_nothing_of_fewer(exports: Path) -> None:
    assert broken(exports, "first.duckdb", "ten.duckdb") == (0, {})
    code, found = broken(exports, "first.duckdb", "ten.duckdb", "-k", "11")
    assert code == 1
    assert found["records_difference", None] == 10


def test_the_other_way_round_they_left(exports: Path) -> None:
    code, found = broken(exports, "more.duckdb", "first.duckdb")
    assert code == 1
    assert (found["records_difference", None], found["values_removed", "ill"]) == (-1, 1)


@pytest.mark.slow
def test_the_text_has_the_rows_and_says_what_to_do(exports: Path, tmp_path: Path) -> None:
    code, out, err = run(exports, "compare-releases", "first.duckdb", "more.duckdb")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].split() == [
        "measure",
        "attribute",
        "threshold",
        "value",
        "classes",
        "violations",
        "records",
        "passed",
    ]
    assert lines[-1].startswith(
        "together they say something about fewer than 4 records: give out one of the two"
    )
    assert (
        "or make the newer one, with subject = (...), by REFRESH ANONYMIZED VIEW ... WITH (mode = 'append')"
        in lines[-1]
    )
    code, out, _ = run(
        exports, "compare-releases", "first.duckdb", "same.duckdb", "-o", str(tmp_path / "told")
    )
    assert (code, out) == (0, "")
    assert (tmp_path / "told").read_text(encoding="utf-8").endswith("about fewer than 4 records\n")


def test_values_in_common_are_asked_by_l(tmp_path: Path) -> None:
    """The class has flu and cold, then flu and gout: who stayed has flu. l = 1 lets that be."""
    (tmp_path / "a.csv").write_text("q,s\n1,flu\n1,cold\n1,cold\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("q,s\n1,flu\n1,gout\n1,gout\n", encoding="utf-8")
    options = ["a.csv", "b.csv", "--qi", "q", "--sensitive", "s", "-k", "2"]
    assert broken(tmp_path, *options) == (1, {("common_values", "s"): 1})
    assert broken(tmp_path, *options, "-l", "1") == (0, {})
    _, out, _ = run(tmp_path, "compare-releases", *options)
    assert "together they say of who stays in a class that fewer than 2 values are possible" in out


def test_a_column_that_nobody_named_is_told_of(exports: Path) -> None:
    code, out, _ = run(
        exports, "compare-releases", "first.csv", "changed.csv", "--qi", "age,place", "-k", "4"
    )
    assert code == 0
    assert "warning: not compared: ill; a change of few of their values is told, too" in out
    assert out.endswith(
        "together, in the columns that were compared, they say nothing that the files show to be about fewer than 4 records\n"
    )


def test_files_without_metadata_do_not_say_whether_the_view_has_a_subject(exports: Path) -> None:
    options = ["--qi", "age,place", "--sensitive", "ill", "-k", "4"]
    code, out, _ = run(exports, "compare-releases", "first.csv", "more.csv", *options)
    assert code == 1
    assert "or make the newer one by REFRESH ANONYMIZED VIEW ... WITH (mode = 'append')" in out


@pytest.mark.slow
def test_k_of_subjects_is_no_number_of_records(tmp_path: Path) -> None:
    """One person with six records came to class a: six are no fewer than k = 4, and one is."""
    with duckanon.connect() as con:
        con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
        policy = POLICY.replace("identifiers = (id)", "subject = (id)")
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({policy})")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/a.duckdb'")
        con.duckdb.execute("INSERT INTO patients SELECT 13, 31, 'a', 'gout' FROM range(6)")
        con.execute("REFRESH ANONYMIZED VIEW v")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/b.duckdb'")
    code, out, err = run(tmp_path, "compare-releases", "a.duckdb", "b.duckdb")
    assert (code, out) == (2, "")
    assert err == (
        "error: -k is missing: the k of the release counts subjects, whom the files do not name: give -k, the number "
        "of records below which a difference is too few (such as k times the most records that a subject has)\n"
    )
    warning = (
        "warning: the k of the release counts subjects, whom the files do not name: here -k counts records"
    )
    code, out, _ = run(tmp_path, "compare-releases", "a.duckdb", "b.duckdb", "-k", "4")
    assert code == 0
    assert warning in out
    code, out, _ = run(tmp_path, "compare-releases", "a.duckdb", "b.duckdb", "-k", "24")
    assert code == 1
    assert warning in out
    assert "or make the newer one by REFRESH" in out
    _, found = broken(tmp_path, "a.duckdb", "b.duckdb", "-k", "24")
    assert (found["records_difference", None], found["values_added", "ill"]) == (6, 6)


@pytest.mark.slow
def test_a_changed_insensitive_value_is_told(tmp_path: Path) -> None:
    """One of twelve beds is another one. Each class has one ward, and nobody asks for two."""
    with duckanon.connect() as con:
        con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
        con.duckdb.execute("CREATE TABLE beds AS SELECT *, id AS bed, 'w' AS ward FROM patients")
        policy = f"{POLICY.replace('(id)', 'id')}, insensitive = (bed, ward)"
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM beds WITH ({policy})")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/a.duckdb'")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/a.csv'")
        con.duckdb.execute("UPDATE beds SET bed = 99 WHERE id = 4")
        con.execute("REFRESH ANONYMIZED VIEW v")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/b.duckdb'")
    code, out, _ = run(tmp_path, "compare-releases", "a.duckdb", "a.csv", "-l", "2")
    assert code == 0
    assert out.endswith("\ntogether they say nothing that the files show to be about fewer than 4 records\n")
    measures = ("records_changed", None), ("rows_removed", None), ("rows_added", None), ("values_removed", "bed"), ("values_added", "bed")  # fmt: skip
    for options in ([], ["--sensitive", "ill"], ["--sensitive", "ill,bed", "-l", "1"]):
        assert broken(tmp_path, "a.duckdb", "b.duckdb", *options) == (1, dict.fromkeys(measures, 1))
    _, out, _ = run(tmp_path, "compare-releases", "a.duckdb", "b.duckdb", "--format", "json")
    asked = [one["attribute"] for one in json.loads(out)["measures"] if one["measure"] == "common_values"]
    assert asked == ["ill"]


@pytest.mark.slow
@pytest.mark.parametrize("newer", ["first", "more", "changed"])
def test_a_database_and_a_csv_of_the_same_view_are_compared(exports: Path, newer: str) -> None:
    """An age is INTEGER in one and BIGINT in the other; what they say is what two databases say."""
    found = broken(exports, "first.duckdb", f"{newer}.duckdb")
    assert broken(exports, "first.duckdb", f"{newer}.csv") == found
    assert broken(exports, "first.csv", f"{newer}.duckdb") == found
    assert found[0] == (newer != "first")


# A type and its values in the older release, a type and the same values in the newer one, and one more there.
ALIKE = {
    "whole numbers": ("INTEGER", "1, 2, 3", "BIGINT", "4"),
    "beyond BIGINT": ("UBIGINT", "1, 2, 3", "HUGEINT", "18446744073709551615"),
    "decimals": ("DECIMAL(9,2)", "1.5, 2, 3", "DECIMAL(12,1)", "4.5"),
    "decimals and whole ones": ("DECIMAL(9,2)", "1, 2, 3", "BIGINT", "4"),
    "decimals as text": ("DECIMAL(9,2)", "0.13, 2.1, 3.7", "DOUBLE", "0.14"),
    "whole ones as text": ("BIGINT", "1, 2, 9007199254740992", "DOUBLE", "2.5"),
    "FLOAT as text": ("FLOAT", "0.1, 2.3, 1e30", "DOUBLE", "0.2"),
    "nothing": ("INTEGER", "NULL, NULL, NULL", "VARCHAR", "'x'"),
    "nothing in a list": ("INTEGER[]", "NULL, NULL, NULL", "DATE", "'2000-02-29'"),
    "words": ("ENUM('a', 'b')", "'a', 'b', 'a'", "VARCHAR", "'c'"),
    "two lists of words": ("ENUM('a', 'b')", "'a', 'b', 'a'", "ENUM('c', 'b', 'a')", "'c'"),
}
UNLIKE = {
    "text": ("BIGINT", "1, 2, 3", "VARCHAR"),
    "a date": ("BIGINT", "1, 2, 3", "DATE"),
    "beyond DOUBLE": ("BIGINT", "1, 2, 9007199254740993", "DOUBLE"),
    "decimals beyond DOUBLE": ("DECIMAL(38,18)", "1, 2, 1.000000000000000001", "DOUBLE"),
    "decimals beyond DECIMAL": ("DECIMAL(38,30)", "1, 2, 3", "DECIMAL(38,2)"),
    "beyond HUGEINT": ("UHUGEINT", "1, 2, 3", "BIGINT"),
}
TWO = ("a.duckdb:t", "b.duckdb:t", "--qi", "q", "--sensitive", "s", "-k", "3")


def columns(folder: Path, file: str, kind: str, values: str) -> None:
    with duckdb.connect(str(folder / file)) as con:
        con.execute(f"CREATE OR REPLACE TABLE t AS SELECT 1 AS q, CAST(unnest([{values}]) AS {kind}) AS s")


@pytest.mark.sampled
@pytest.mark.parametrize("what", ALIKE)
def test_the_same_values_of_another_type_are_the_same(tmp_path: Path, what: str) -> None:
    kind, values, other, more = ALIKE[what]
    columns(tmp_path, "a.duckdb", kind, values)
    columns(tmp_path, "b.duckdb", other, values)
    assert broken(tmp_path, *TWO, "-l", "1") == (0, {})
    columns(tmp_path, "b.duckdb", other, f"{values}, {more}")
    code, found = broken(tmp_path, *TWO, "-l", "1")
    assert (code, found["values_added", "s"], found["records_difference", None]) == (1, 1, 1)
    assert ("values_removed", "s") not in found


@pytest.mark.parametrize("what", UNLIKE)
def test_types_without_a_common_one_are_an_error(tmp_path: Path, what: str) -> None:
    kind, values, other = UNLIKE[what]
    columns(tmp_path, "a.duckdb", kind, values)
    columns(tmp_path, "b.duckdb", other, "'2000-02-29'" if other == "DATE" else "1, 2, 3")
    code, out, err = run(tmp_path, "compare-releases", *TWO)
    assert (code, out) == (2, "")
    assert err == (
        f"error: column 's' is {kind} in a.duckdb:t and {other} in b.duckdb:t, and no type holds the values of both: "
        "export both as .duckdb or .parquet\n"
    )


@pytest.mark.slow
def test_the_stricter_k_of_two_counts(exports: Path, tmp_path: Path) -> None:
    """A second release with k = 6: of the same records, in other classes, which nothing shows to be others."""
    with duckanon.connect() as con:
        con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
        con.execute(f"CREATE ANONYMIZED VIEW w AS FROM patients WITH ({POLICY.replace('k = 4', 'k = 6')})")
        con.execute(f"EXPORT ANONYMIZED VIEW w TO '{tmp_path}/other.duckdb'")
    code, out, _ = run(
        exports, "compare-releases", "first.duckdb", str(tmp_path / "other.duckdb"), "--format", "json"
    )
    measures = {m["measure"]: m for m in json.loads(out)["measures"]}
    assert code == 1
    assert (measures["records_changed"]["threshold"], measures["records_changed"]["passed"]) == (6, False)
    assert "is not judged, since files do not tell who is where" in json.loads(out)["warnings"][-1]


@pytest.mark.slow
def test_a_release_by_swap_is_compared_by_its_class(tmp_path: Path) -> None:
    """The same data twice pass; one more is one age, one place and one value more."""
    with duckanon.connect() as con:
        con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({POLICY}, release = 'swap')")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/a.duckdb'")
        con.execute("REFRESH ANONYMIZED VIEW v")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/b.duckdb'")
        con.duckdb.execute(CHANGES["more"])
        con.execute("REFRESH ANONYMIZED VIEW v")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/c.duckdb'")
    assert broken(tmp_path, "a.duckdb", "b.duckdb") == (0, {})
    code, found = broken(tmp_path, "a.duckdb", "c.duckdb")
    assert code == 1
    assert [found["values_added", column] for column in ("age", "place", "ill")] == [1, 1, 1]
    _, out, _ = run(tmp_path, "compare-releases", "a.duckdb", "c.duckdb", "--format", "json")
    asked = [one["attribute"] for one in json.loads(out)["measures"] if one["measure"] == "common_values"]
    assert asked == ["ill"]


@pytest.mark.slow
def test_a_release_of_two_tables_is_refused(tmp_path: Path) -> None:
    with duckanon.connect() as con:
        con.duckdb.execute("CREATE TABLE patients (id INTEGER, age INTEGER, place VARCHAR, ill VARCHAR)")
        con.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", RECORDS)
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({POLICY}, release = 'anatomy')")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/a.duckdb'")
    code, out, err = run(tmp_path, "compare-releases", "a.duckdb", "a.duckdb")
    assert (code, out) == (2, "")
    assert err == (
        "error: v was released as 'anatomy': its quasi-identifiers are exact, and each row that only one of two "
        "such releases has is a person\n"
    )


WRONG = {
    "a missing file": (
        ("first.csv", "nowhere.csv", "--qi", "age", "-k", "4"),
        "'nowhere.csv' does not exist",
    ),
    "a folder": (("first.csv", ".", "--qi", "age", "-k", "4"), "'.' means files of two forms"),
    "no roles": (("first.csv", "same.csv", "-k", "4"), "--qi is missing"),
    "no k": (("first.csv", "same.csv", "--qi", "age"), "-k is missing"),
    "k of one": (("first.csv", "same.csv", "--qi", "age", "-k", "1"), "k"),
    "l of nothing": (("first.duckdb", "same.duckdb", "-l", "0"), "-l must be at least 1"),
    "too much l": (
        ("first.duckdb", "same.duckdb", "-l", "99999999999999999999"),
        "-l is out of range: use an integer of at most 18 digits",
    ),
    "too much k": (
        ("first.duckdb", "same.duckdb", "-k", "99999999999999999999"),
        "k is out of range: use an integer of at most 18 digits",
    ),
    "an unknown column": (("first.csv", "same.csv", "--qi", "agee", "-k", "4"), "did you mean 'age'"),
    "a column of one": (
        ("first.csv", "columns.csv", "--qi", "age,place", "-k", "4"),
        "columns.csv has no column 'place'",
    ),
    "two roles": (("first.csv", "same.csv", "--qi", "age", "--sensitive", "age", "-k", "4"), "one role"),
    "another type": (
        ("first.csv", "types.csv", "--qi", "age,place", "-k", "4"),
        "column 'age' is BIGINT in first.csv and VARCHAR in types.csv, and no type holds the values of both: export",
    ),
    "no rows": (("first.csv", "nobody.csv", "--qi", "place", "-k", "4"), "the newer table is empty"),
    "other classes": (
        ("first.duckdb", "roles.duckdb"),
        "different quasi-identifiers, age, place and place: give --qi",
    ),
    "no such table": (("first.duckdb:w", "same.duckdb"), "there is no table 'w'"),
    "no release": (("plain.duckdb", "same.duckdb"), "plain.duckdb:table"),
    "another format": (("first.csv", "same.csv", "--format", "html"), "unknown format 'html'"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_compared_is_an_error(exports: Path, tmp_path: Path, what: str) -> None:
    for file in exports.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "columns.csv").write_text("age,ill\n1,flu\n", encoding="utf-8")
    (tmp_path / "types.csv").write_text("age,place,ill\nold,a,flu\n", encoding="utf-8")
    (tmp_path / "nobody.csv").write_text("age,place,ill\n", encoding="utf-8")
    with duckdb.connect(str(tmp_path / "plain.duckdb")) as plain:
        plain.execute("CREATE TABLE t AS SELECT 1 AS age")
    if what == "other classes":
        with duckanon.connect() as con:
            con.duckdb.execute(
                "CREATE TABLE t AS SELECT i // 6 AS place, i % 3 AS ill FROM range(12) AS r(i)"
            )
            con.execute(
                "CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = place, sensitive = ill, k = 4)"
            )
            con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/roles.duckdb'")
    arguments, message = WRONG[what]
    code, out, err = run(tmp_path, "compare-releases", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) <= 2


def test_metadata_that_somebody_changed_is_not_believed(exports: Path, tmp_path: Path) -> None:
    """A view in the place of a table of the metadata would be a program of its maker."""
    shutil.copy(exports / "first.duckdb", tmp_path / "forged.duckdb")
    with duckdb.connect(str(tmp_path / "forged.duckdb")) as con:
        con.execute("CREATE TABLE duckanon.kept AS FROM duckanon.thresholds; DROP TABLE duckanon.thresholds")
        con.execute("CREATE VIEW duckanon.thresholds AS FROM duckanon.kept")
    code, _, err = run(tmp_path, "compare-releases", str(exports / "first.duckdb"), "forged.duckdb")
    assert code == 2
    assert "duckanon.thresholds is a view" in err


def test_the_macro_of_an_exported_file_says_the_same(exports: Path) -> None:
    """Whoever has the stock program and the two files asks the macro that either file carries."""
    with duckdb.connect(str(exports / "more.duckdb"), read_only=True) as con:
        con.execute(f"ATTACH '{exports}/first.duckdb' AS older (READ_ONLY)")
        rows = con.execute(
            "SELECT measure, attribute, value FROM release_intersection('older.v', 'v', ['age', 'place'], ['ill'], "
            "k := 4, l := 2) WHERE NOT passed"
        ).fetchall()
    _, found = broken(exports, "first.duckdb", "more.duckdb")
    assert {row[:2]: row[2] for row in rows} == found
