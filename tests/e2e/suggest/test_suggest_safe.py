"""The role finder fails closed: no key, no name of a person and no text of one record is in a proposed release.

What is expected is what docs/suggest.md promises, counted in tables whose values were chosen for it.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.suggestion import suggest
from tests.e2e.people import run
from tests.examples import slowly

KEYS = (
    "loan_id", "loan_number", "charge_id", "prescription_id", "prescription_number", "treatment_id",
    "arrest_number", "crime_id", "diagnosis_id", "medicationId", "debt_no", "mortgage_account",
    "pension_number", "SALARY_ID", "payroll_number", "church_id", "hiv_id", "surgery_ref", "loanid",
    "tax_case", "location_id", "birth_number",
)  # fmt: skip
"""Names that end in a word for a key, whatever sensitive or known thing stands before it."""

PERSONS = (
    "loan_officer", "charge_nurse", "treatment_doctor", "prescription_author", "arrestOfficer",
    "tax_payer", "taxpayer", "diagnosis_by", "loan_applicant_name", "tax_payer_name", "salary_owner",
    "spouse", "family_member", "guardian", "next_of_kin",
)  # fmt: skip
"""Names that end in a word for a person."""


@pytest.fixture
def con() -> Any:
    with duckanon.connect() as con:
        yield con


def table(con: duckanon.Connection, *columns: str, records: int = 400) -> None:
    text = ", ".join([*columns, "20 + (i * 7) % 50 AS age"])
    con.execute(f"CREATE OR REPLACE TABLE t AS SELECT {text} FROM range({records}) AS r(i)")


def role(con: duckanon.Connection, column: str) -> Role:
    (found,) = [one for one in suggest(con, "t").columns if one.name == column]
    return found.role


@pytest.mark.parametrize("kind", ["VARCHAR", "BIGINT"])
def test_a_key_is_a_key_whatever_it_is_the_key_of(con: duckanon.Connection, kind: str) -> None:
    """Seven digits, each value once: a release with one of them is the table with its primary key."""
    value = "lpad((1000000 + i * 7919)::VARCHAR, 7, '0')"
    table(con, *(f'CAST({value} AS {kind}) AS "{name}"' for name in KEYS))
    found = suggest(con, "t")
    assert set(found.of(Role.IDENTIFIER)) == set(KEYS)
    run(con, found)
    assert [row[0] for row in con.execute("DESCRIBE t_anon").fetchall()] == ["age"]


def test_a_key_with_many_values_is_a_key_in_a_table_of_any_size(con: duckanon.Connection) -> None:
    """1,500 loans of 20 records each and more: a share of 5 % alone would let them pass."""
    table(con, "'L' || i % 1500 AS loan_id", "i % 12 AS diagnosis_id", records=40_000)
    assert role(con, "loan_id") is Role.IDENTIFIER
    assert role(con, "diagnosis_id") is Role.SENSITIVE, "a dozen values are a code of the diagnosis"


@pytest.mark.parametrize("times", [1, 2])
def test_names_of_persons_are_released_by_no_role(con: duckanon.Connection, times: int) -> None:
    """Full names, each once or twice among 400 records."""
    table(con, *(f"'Anna Surname' || i // {times} AS \"{name}\"" for name in PERSONS))
    found = suggest(con, "t")
    assert set(found.of(Role.IDENTIFIER)) == set(PERSONS)
    run(con, found)
    assert [row[0] for row in con.execute("DESCRIBE t_anon").fetchall()] == ["age"]


def test_few_doctors_are_known_and_a_yes_or_no_about_a_patient_is_sensitive(con: duckanon.Connection) -> None:
    table(
        con,
        "'Dr. Roe ' || i % 9 AS treatment_doctor",
        "CASE WHEN i % 3 = 0 THEN 'yes' ELSE 'no' END AS cancer_patient",
        "CASE WHEN i % 5 = 0 THEN 'yes' ELSE 'no' END AS union_member",
        "'drug ' || i % 30 AS medication_name",
        "(i * 37) % 90 AS income_per_person",
    )
    assert role(con, "treatment_doctor") is Role.QUASI_IDENTIFIER
    for name in ("cancer_patient", "union_member", "medication_name", "income_per_person"):
        assert role(con, name) is Role.SENSITIVE, name


@pytest.mark.parametrize(
    "column",
    slowly(
        [
            "lpad((i * 7919)::VARCHAR, 9, '0') AS x",
            "(10000 + i * 17)::VARCHAR AS x",
            "i::VARCHAR AS x",
            "(i * 1.5)::VARCHAR AS height",
            "'Jane Doe ' || i AS spouse",
            "i || ' Elm Street' AS location",
            "'job ' || i AS occupation",
            "'treatment ' || i AS treatment",
            "(DATE '1930-01-01' + i::INTEGER)::VARCHAR AS dob",
            "'52.' || (1000 + i) || ', 13.4' AS coordinates",
            "CASE WHEN i % 4 = 0 THEN 'Jane ' || i END AS city",
            "CASE WHEN i = 7 THEN 'Jane Doe' END AS region",
        ],
        one_of=3,
    ),
)
def test_a_text_that_is_one_records_own_is_released_by_no_role(con: duckanon.Connection, column: str) -> None:
    """Recoded by their mode, texts that differ everywhere give somebody's own; NULLs change nothing in that."""
    name = column.rpartition(" ")[2]
    table(con, column)
    found = suggest(con, "t")
    assert found.of(Role.IDENTIFIER) == (name,)
    run(con, found)
    assert name not in [row[0] for row in con.execute("DESCRIBE t_anon").fetchall()]


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        ("(DATE '1930-01-01' + i::INTEGER)::VARCHAR AS dob", "CAST it to DATE"),
        ("(i * 1.5)::VARCHAR AS height", "CAST it to a number"),
        ("'52.' || (1000 + i) || ', 13.4' AS home", "latitude and longitude as two numbers"),
        ("'job ' || i AS occupation", "group its values"),
    ],
)
def test_what_may_be_worth_keeping_is_dropped_with_advice(
    con: duckanon.Connection, column: str, advice: str
) -> None:
    table(con, column)
    (warning,) = suggest(con, "t").warnings
    assert "is dropped" in warning
    assert advice in warning


def test_a_postal_code_of_ones_own_is_kept_and_the_warning_says_how_to_shorten_it(
    con: duckanon.Connection,
) -> None:
    """A postal code is a place of many people, also where the table has one of them."""
    table(con, "(10000 + i * 17)::VARCHAR AS zip")
    assert role(con, "zip") is Role.QUASI_IDENTIFIER
    (warning,) = suggest(con, "t").warnings
    assert "shorten it" in warning


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_postal_codes_of_several_people_are_proposed_a_hierarchy(con: duckanon.Connection) -> None:
    """What the warning writes makes a hierarchy that a release takes."""
    table(con, "lpad(CAST(1000 + i % 40 AS VARCHAR), 5, '0') AS \"zip's\"")
    (warning,) = suggest(con, "t").warnings
    found = re.search(r"FROM (prefix_hierarchy\(table, .*\)) writes", warning)
    assert found is not None
    con.execute(f"CREATE TABLE tree AS FROM {found[1].replace('table', chr(39) + 't' + chr(39))}")
    options = "quasi_identifiers = (\"zip's\"), insensitive = *, k = 5, hierarchies = {\"zip's\": 'tree'}"
    con.execute(f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options}, recode = {{\"zip's\": 'hierarchy'}})")


def test_direct_identifiers_are_found_by_their_values_alone(con: duckanon.Connection) -> None:
    con.execute("""
        CREATE TABLE t AS SELECT
            lpad(CAST(i AS VARCHAR), 3, '1') || '-45-' || (6000 + i) AS a,
            'DE' || (10 + i % 80) || '3704 0044 0532 0130 00' AS b,
            '10.0.' || i % 200 || '.' || i % 7 AS c,
            CAST(uuid() AS VARCHAR) AS d,
            uuid() AS e,
            CASE WHEN i % 20 = 0 THEN 'ask bob@example.org' ELSE 'nothing' END AS f,
            100000000 + i * 7919 AS g,
            i + 5 AS h,
            '+1 202-555-' || (1000 + i % 10) AS i2,
            '2020-01-' || (10 + i % 19) AS j,
            i % 10 + 10000 || '' AS k
        FROM range(200) AS r(i)
    """)
    found = suggest(con, "t")
    expected = dict.fromkeys(["a", "b", "c", "d", "e", "f", "g", "h", "i2"], "identifier")
    roles = {column.name: column.role.value for column in found.columns}
    assert roles == expected | {"j": "quasi_identifier", "k": "quasi_identifier"}
    reasons = {column.name: column.reason for column in found.columns}
    assert "dates" in reasons["j"]
    assert "postal" in reasons["k"]
    assert "5 %" in reasons["f"]


def test_no_value_of_an_enum_is_in_the_suggestion() -> None:
    """An ENUM has its values, also those of no record, in its type."""
    names = "'Anna Meier', 'O''Roe', 'a) b', 'Hidden: Person'"
    with duckdb.connect() as con:
        con.execute(f"CREATE TYPE people AS ENUM ({names})")
        con.execute(
            "CREATE TABLE t AS SELECT ['Anna Meier', 'O''Roe'][1 + i % 2]::people AS who, "
            "['Anna Meier']::people[] AS several, {'who': 'a) b'::people} AS one, i % 40 AS age FROM range(99) r(i)"
        )
        found = suggest(con, "t")
    for text in (found.to_text(), found.to_json()):
        for part in ("Anna", "Roe", "a)", "Hidden", "Person"):
            assert part not in text
    types = {column.name: column.type for column in found.columns}
    assert types == {"who": "ENUM", "several": "ENUM[]", "one": "STRUCT(who ENUM)", "age": "BIGINT"}


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    "value",
    slowly(
        [
            "(i % 50)::HUGEINT * 1000000000000000000000000000000000000",
            "170141183460469231731687303715884105727 - (i % 50)::HUGEINT",
            "-170141183460469231731687303715884105727 + (i % 50)::HUGEINT",
            "340282366920938463463374607431768211455 - (i % 50)::UHUGEINT",
            "(99999999999999999999999999999.0 - i % 50)::DECIMAL(38, 9)",
            "9223372036854775807 - i % 50",
        ],
        one_of=3,
    ),
)
def test_the_statement_runs_with_numbers_of_any_size(con: duckanon.Connection, value: str) -> None:
    """HUGEINT ends at 2^127: the sum of 300 such numbers does not fit, and an exact mean needs it."""
    table(con, f"{value} AS quantity", records=300)
    found = suggest(con, "t")
    run(con, found)
    assert found.of(Role.QUASI_IDENTIFIER)
    large = value != "9223372036854775807 - i % 50"
    assert any("DOUBLE" in warning for warning in found.warnings) == large
    (kind,) = con.execute("SELECT DISTINCT typeof(quantity) FROM t_anon").fetchall()
    assert kind == ("DOUBLE" if large else "BIGINT",)


@pytest.mark.parametrize("tail", [" ; -- end", ";;", " -- end", ";\n/* a ; b */ ;", ""])
def test_a_query_ends_as_queries_do(con: duckanon.Connection, tail: str) -> None:
    table(con)
    run(con, suggest(con, f"-- all\nSELECT * FROM t{tail}"))


@pytest.mark.parametrize("query", ["SELECT * FROM t; DROP TABLE t", "-- nothing", "SELECT * FROM t) AS a --"])
def test_what_is_no_single_query_is_an_error(con: duckanon.Connection, query: str) -> None:
    table(con)
    with pytest.raises(SourceError):
        suggest(con, query)
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(400,)]
