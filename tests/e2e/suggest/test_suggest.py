"""The role finder, as a user has it: from SQL, Python and the command line."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.suggestion import suggest
from tests.e2e.people import PEOPLE, run
from tests.e2e.scenes import ROOT, patients
from tests.reference import reference_file

if TYPE_CHECKING:
    from duckanon.suggestion import Suggestion

CENSUS = ROOT / "fixtures" / "census_income.parquet"


def roles(found: Suggestion) -> dict[str, str]:
    return {column.name: column.role.value for column in found.columns}


@pytest.fixture
def people() -> Any:
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        yield con


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_roles_of_a_hospital_and_its_statement(people: duckanon.Connection) -> None:
    found = suggest(people, "people")
    assert roles(found) == {
        "patient_id": "identifier",
        "full_name": "identifier",
        "contact": "identifier",
        "reach_me": "identifier",
        "dob": "quasi_identifier",
        "zip": "quasi_identifier",
        "sex": "quasi_identifier",
        "x": "quasi_identifier",
        "charge": "sensitive",
        "diagnosis": "sensitive",
        "remark": "identifier",
        "wing": "insensitive",
        "visits": "identifier",
        "extra": "identifier",
        "scan": "identifier",
    }
    reasons = {column.name: column.reason for column in found.columns}
    assert "e-mail" in reasons["contact"]
    assert "telephone" in reasons["reach_me"]
    assert "birth" in reasons["dob"]
    assert "postal" in reasons["zip"]
    assert "free text" in reasons["remark"]
    assert "nothing says" in reasons["x"]
    run(people, found)
    names = people.execute("DESCRIBE people_anon").fetchall()
    assert {row[0] for row in names} == {"dob", "zip", "sex", "x", "charge", "diagnosis", "wing"}


def test_types_that_cannot_be_recoded_are_dropped_and_the_text_says_what_to_do(
    people: duckanon.Connection,
) -> None:
    warnings = "\n".join(suggest(people, "people").warnings)
    assert "'visits' is dropped, BIGINT[] cannot be recoded: to keep it, use its elements" in warnings
    assert "'extra' is dropped, STRUCT(a BIGINT) cannot be recoded: to keep it, use its fields" in warnings
    assert "'scan' is dropped, BLOB cannot be recoded: to keep it, CAST it to VARCHAR" in warnings


def test_the_most_unique_columns_come_first(people: duckanon.Connection) -> None:
    shares = [column.unique_share for column in suggest(people, "people").columns]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0


def test_no_value_of_the_table_is_in_the_suggestion(people: duckanon.Connection) -> None:
    found = suggest(people, "people")
    for text in (found.to_text(), found.to_json()):
        assert not re.search(r"example\.org|Person [A-Z]|north|complaint|\+49", text)


def test_nothing_is_left_behind_and_a_transaction_stays_open(people: duckanon.Connection) -> None:
    people.execute("BEGIN")
    people.execute("INSERT INTO people SELECT * FROM people LIMIT 1")
    assert suggest(people, "people").records == 301
    people.execute("ROLLBACK")
    assert suggest(people.duckdb, "main.people").records == 300
    assert people.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("people",)]


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("nobody", "nobody"),
        ("SELECT * FROM people WHERE false", "no records"),
        ("SELECT CAST(full_name AS INTEGER) AS x FROM people", "convert"),
        ("'nowhere.csv'", "nowhere"),
        ("failing", "gone"),
    ],
)
def test_what_cannot_be_read_is_an_error(people: duckanon.Connection, relation: str, said: str) -> None:
    people.execute("CREATE VIEW failing AS SELECT error('gone') AS x FROM people")
    with pytest.raises(SourceError, match=said):
        suggest(people, relation)
    assert people.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("people",)]


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_column_it_cannot_place_is_a_quasi_identifier_never_insensitive() -> None:
    """Opaque names and any values: only a constant may be released as it is without a word about it."""
    with duckanon.connect() as con:
        con.execute("""
            CREATE TABLE t AS SELECT i % 2 AS a, i % 9 AS b, (i % 7) / 3.0 AS c, 'v' || i % 5 AS d, i % 3 = 0 AS e,
                TIMESTAMP '2020-01-01' + INTERVAL (i % 30) HOUR AS f, 1 AS g, CASE WHEN i % 2 = 0 THEN 1 END AS h,
                CAST(NULL AS INTEGER) AS n, DATE '2020-01-01' + CAST(i AS INTEGER) AS o, sqrt(i) AS p
            FROM range(60) AS r(i)
        """)
        found = suggest(con, "t")
        assert roles(found) == dict.fromkeys("abcdefhop", "quasi_identifier") | dict.fromkeys(
            "gn", "insensitive"
        )
        run(con, found)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_hostile_names_nan_infinity_and_negative_zero() -> None:
    with duckanon.connect() as con:
        con.execute("""
            CREATE TABLE "my ""odd"" 'table'" AS
            SELECT
                CASE i % 20 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE WHEN 2 THEN -0.0 WHEN 3 THEN 0.0
                    ELSE i % 5 END AS "my col",
                CASE WHEN i % 10 = 0 THEN 'infinity'::DATE ELSE DATE '2000-01-01' + CAST(i % 9 AS INTEGER) END AS "a'b",
                i % 4 AS "a""b",
                'x' || i % 6 AS "select",
                i % 3 AS "order; DROP TABLE t",
                'd' || i % 3 AS "Diagnosis
of"
            FROM range(80) AS r(i)
        """)
        found = suggest(con, '"my ""odd"" \'table\'"')
        (number,) = [column for column in found.columns if column.name == "my col"]
        assert number.values == 7  # nan, inf, 0 (of both signs, and of 5 and 10), 1, 2, 3, 4
        assert sum("NaN or infinite" in warning for warning in found.warnings) == 2
        assert "'my col' is NaN or infinite in 8 records" in "\n".join(found.warnings)
        run(con, found)
    rows = [line for line in found.to_text().splitlines() if line.startswith("Diagnosis")]
    assert len(rows) == 1, "a line break in a name breaks no line of the text"
    assert rows[0].startswith("Diagnosis\\nof ")


def test_a_taken_name_is_not_proposed_again() -> None:
    with patients() as con:
        con.execute("CREATE TABLE PATIENTS_anon AS SELECT 1 AS x")
        statement = suggest(con, "patients").statement
        assert statement is not None
        assert statement.startswith("CREATE ANONYMIZED VIEW patients_anon_2 AS\n")


def test_one_record_or_nothing_to_share_give_no_statement_and_say_so() -> None:
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE one AS SELECT 30 AS age; CREATE TABLE ids AS SELECT i AS id FROM range(50) r(i)"
        )
        one, ids = suggest(con, "one"), suggest(con, "ids")
    assert one.statement is None
    assert "one record" in one.warnings[-1]
    assert ids.statement is None
    assert "quasi-identifier" in ids.warnings[-1]
    assert "CREATE" not in one.to_text() + ids.to_text()


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_query_and_tiny_tables() -> None:
    with duckanon.connect() as con:
        for records in (2, 3, 7):
            found = suggest(con, f"SELECT i % 2 AS age, 'd' AS disease FROM range({records}) AS r(i); ")
            assert found.records == records
            run(con, found)
            con.execute("DROP ANONYMIZED VIEW anonymized")


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_suggested_subject_is_counted() -> None:
    """By hand: 60 patients of ten visits each, k = 5; of a second key, or one that is NULL, nobody knows."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE visits AS SELECT i % 60 AS patient_id, i % 90 AS age, i % 7 AS x FROM range(600) r(i)"
        )
        statement = suggest(con, "visits").statement
        assert statement is not None
        (outcome,) = con.outcomes(statement)
        assert outcome.report is not None
        assert [m.value >= 5 for m in outcome.report.measures if m.measure == "k_subjects" and m.value] == [
            True
        ]
        for query in ("*, i % 50 AS person_id", "* REPLACE (nullif(patient_id, 3) AS patient_id)"):
            found = suggest(con, f"SELECT {query} FROM (SELECT *, rowid AS i FROM visits)")
            assert "subject" not in str(found.statement)
            assert any("name it as subject, or keep one record a person" in text for text in found.warnings)


def test_a_key_with_several_records_and_the_column_that_stands_for_it() -> None:
    with duckanon.connect() as con:
        con.execute("""
            CREATE TABLE visits AS SELECT i % 50 AS patient_id, 'w' || (i % 50) AS handle, i % 40 AS ward_temp,
                i % 9 AS age FROM range(500) AS r(i)
        """)
        found = suggest(con, "visits")
    assert roles(found) == {
        "patient_id": "identifier",
        "handle": "identifier",
        "ward_temp": "quasi_identifier",
        "age": "quasi_identifier",
    }
    (warning,) = [text for text in found.warnings if "several records each" in text]
    assert "with it as subject k counts persons, not records" in warning
    assert found.statement is not None
    assert "subject = (patient_id)" in found.statement
    assert {c.name: c.reason for c in found.columns}["handle"] == "stands one to one with 'patient_id'"


def test_a_sensitive_column_that_singles_out_is_warned_about() -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 9 AS age, i * 1.37 AS salary FROM range(100) AS r(i)")
        (warning,) = suggest(con, "t").warnings
    assert "'salary' is released as it is, and 100 % of the records are alone" in warning


def test_a_large_table_is_sampled_and_the_text_says_what_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records alone in the table are alone in the sample; counted by hand over all records beside it."""
    # A function of the package may hide its module of the same name.
    monkeypatch.setattr(sys.modules[suggest.__module__], "SAMPLE", 500)
    with duckanon.connect() as con:
        con.execute("""
            CREATE TABLE t AS SELECT hash(i) % 40 AS age, hash(i + 1) % 50 AS zip, hash(i + 2) % 2 AS sex
            FROM range(5000) AS r(i)
        """)
        found, again = suggest(con, "t"), suggest(con, "t")
        assert found == again
        assert found.records == 5000
        assert 400 <= found.sampled <= 600
        for own in found.sets:
            counted = con.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM t GROUP BY {', '.join(own.columns)} HAVING count(*) = 1)"
            ).fetchall()[0][0]
            assert own.unique_in_table == counted
            assert own.unique_share >= counted / 5000
    text = found.to_text()
    assert f"a sample of {found.sampled} of 5000 records" in text
    assert "overstates uniqueness" in text
    assert "unique in the table" in text


@pytest.mark.slow
def test_wide_tables_take_a_bounded_number_of_sets() -> None:
    columns = ", ".join(f"hash(i * {n}) % {n + 2} AS v{n}" for n in range(1, 41))
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(200) AS r(i)")
        found = suggest(con, "wide")
    assert len(found.of(Role.QUASI_IDENTIFIER)) >= 39
    assert len(found.sets) == 24 * 23 // 2 + 12 * 11 * 10 // 6
    assert len(found.examined) == 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_census_persons() -> None:
    """Every column of the bundled survey; what single persons earn is sensitive, all else could be known."""
    with duckanon.connect() as con:
        found = suggest(con, f"'{CENSUS}'")
        assert found.records == 299_285
        assert found.of(Role.SENSITIVE) == ("wage_per_hour",)
        assert len(found.of(Role.QUASI_IDENTIFIER)) == 10
        con.execute(f"CREATE TABLE census AS FROM '{CENSUS}' LIMIT 400")
        run(con, suggest(con, "census"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    ("file", "identifiers", "sensitive"),
    [
        ("adult/adult.csv", set(), {"salary-class"}),
        ("census.csv", set(), {"FEDTAX", "STATETAX", "FICA"}),
        ("eia.csv", {"UTILITYID", "UTILNAME"}, set()),
    ],
)
def test_reference_data(file: str, identifiers: set[str], sensitive: set[str]) -> None:
    path = reference_file(file)
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM read_csv('{path}') LIMIT 400")
        found = suggest(con, "t")
        assert set(found.of(Role.SENSITIVE)) == sensitive
        assert set(found.of(Role.IDENTIFIER)) == identifiers
        run(con, found)
