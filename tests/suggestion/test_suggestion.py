"""The parts of the role finder: what names mean, what is unique, and how the statement is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.policy.bind import Role
from duckanon.policy.kinds import code_named, words
from duckanon.statements.grammar import Create
from duckanon.statements.options import options_to_policy
from duckanon.statements.parse import parse
from duckanon.statements.tokens import split
from duckanon.suggestion import suggest
from duckanon.suggestion.model import ColumnSuggestion, statement_of
from duckanon.suggestion.names import key_named, named, person_named
from tests.examples import examples

ROLES = {
    "name": "identifier",
    "lastName": "identifier",
    "patient_name": "identifier",
    "E-Mail": "identifier",
    "contact email address": "identifier",
    "HomePhone": "identifier",
    "SSN": "identifier",
    "iban": "identifier",
    "street_address": "identifier",
    "Telefonnummer": "identifier",
    "diagnosis": "sensitive",
    "icd_10": "sensitive",
    "disease": "sensitive",
    "hospital_charge": "sensitive",
    "salary-class": "sensitive",
    "wage_per_hour": "sensitive",
    "household_income": "sensitive",
    "FEDTAX": "sensitive",
    "religion": "sensitive",
    "Gehalt": "sensitive",
    "age": "quasi_identifier",
    "age_at_diagnosis": "quasi_identifier",
    "dateOfBirth": "quasi_identifier",
    "DOB": "quasi_identifier",
    "zip": "quasi_identifier",
    "ZipCode": "quasi_identifier",
    "PLZ": "quasi_identifier",
    "lat": "quasi_identifier",
    "longitude": "quasi_identifier",
    "native-country": "quasi_identifier",
    "tax_year": "quasi_identifier",
    "income_state": "quasi_identifier",
    "date_of_treatment": "quasi_identifier",
    "language": "quasi_identifier",
    "loan_officer": "quasi_identifier",
    "TreatmentDoctor": "quasi_identifier",
    "diagnosis_by": "quasi_identifier",
    "doctor_fee_income": "sensitive",
    "union_member": "sensitive",
    "loan_applicant_name": "identifier",
    "next-of-kin": "identifier",
    "sex": "quasi_identifier",
    "amount": "sensitive",
    "credit_amount": "sensitive",
    "Credit amount": "sensitive",
    "existing_credits": "sensitive",
    "credit_history": "sensitive",
    "Saving accounts": "sensitive",
    "Checking account": "sensitive",
    "checking_status": "sensitive",
    "capital_gains": "sensitive",
    "dividends": "sensitive",
    "Risk": "sensitive",
    "risk_level": "sensitive",
    "income": "sensitive",
    "credit_card_number": "identifier",
    "creditor": "quasi_identifier",
    "body_weight": "quasi_identifier",
}
"""What a person who reads the name would say."""

# Columns of the German credit data (Hofmann 1994, UCI) as OpenML and Kaggle name them, in random values, and
# what a person who knows the data would say of each.
GERMAN = {
    "checking_status": ("'c' || h % 4", "sensitive"),
    "duration": "4 + h % 60",
    "credit_history": ("'h' || h % 5", "sensitive"),
    "purpose": "'p' || h % 8",
    "credit_amount": ("250 + h % 18000", "sensitive"),
    "savings_status": ("'s' || h % 5", "sensitive"),
    "age": "19 + h % 56",
    "existing_credits": ("1 + h % 4", "sensitive"),
    "job": "'j' || h % 4",
    "own_telephone": "CASE WHEN h % 2 = 0 THEN 'none' ELSE 'yes' END",
    "foreign_worker": "CASE WHEN h % 3 = 0 THEN 'no' ELSE 'yes' END",
    "Risk": ("CASE WHEN h % 3 = 0 THEN 'bad' ELSE 'good' END", "sensitive"),
}

values = st.sampled_from([None, 0, 1, 2])
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.tuples(*[values] * width), min_size=2, max_size=14)
)
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
)


def test_the_german_credit_data_get_the_roles_that_a_person_would_give() -> None:
    told = {
        name: (made, "quasi_identifier") if isinstance(made, str) else made for name, made in GERMAN.items()
    }
    columns = ", ".join(
        f"{made.replace('h %', f'CAST(hash(i + {at}) % 1000000 AS BIGINT) %')} AS {name}"
        for at, (name, (made, _)) in enumerate(told.items())
    )
    with duckdb.connect() as con:
        found = suggest(con, f"SELECT {columns} FROM range(1000) AS r(i)").columns
    assert {column.name: column.role.value for column in found} == {n: role for n, (_, role) in told.items()}


NESTED = {
    "lists": ["[]::INT[]", "[NULL]::INT[]", "[NULL, NULL]::INT[]", "[1]", "[1, NULL]", "[NULL, 1]"],
    "texts": ["['']", "[NULL]", "['NULL']", "[]::VARCHAR[]", "['a, b']", "['a', 'b']", "['A', 'b']"],
    "lists in lists": ["[[]]::INT[][]", "[NULL]", "[]::INT[][]", "[[NULL]]", "[[], []]"],
    "structs": ["{'x': NULL::INT[], 'y': 1}", "{'x': [], 'y': 1}", "{'x': [NULL], 'y': 1}", "{'x': [], 'y': NULL}"],
    "maps": ["MAP {}::MAP(INT, INT)", "MAP {1: NULL}", "MAP {2: NULL}"],
    "arrays": ["[NULL, 2]::INT[2]", "[2, NULL]::INT[2]", "[NULL, NULL]::INT[2]"],
    "unions": ["union_value(a := NULL::INT)", "union_value(a := 1)"],
    "bytes": ["''::BLOB", r"'\x00'::BLOB", r"'\x00\x00'::BLOB"],
    "bits": ["'0'::BIT", "'00'::BIT"],
}  # fmt: skip
"""Values of types without an order, each list of different ones."""


@pytest.mark.parametrize("kind", NESTED)
def test_different_values_without_an_order_are_counted_as_different(kind: str) -> None:
    """NULL is none of them; each is there twice, so that no record is alone."""
    values = [*NESTED[kind], "NULL"]
    rows = " UNION ALL ".join(f"SELECT {value} AS v" for value in values * 2)
    with duckdb.connect() as con:
        (found,) = suggest(con, rows).columns
    assert (found.values, found.unique_share) == (len(values) - 1, 0)
    assert found.null_share == pytest.approx(1 / len(values))


@pytest.mark.parametrize(
    "name", ["phone", "has_email", "id_card", "signature", "street", "patient_id", "account"]
)
def test_a_column_of_two_values_is_no_identifier(name: str) -> None:
    """Yes and no about a number are no number; the same name with a value for each record is one."""
    with duckdb.connect() as con:
        (two,) = suggest(con, f"SELECT ['no', 'yes'][1 + i % 2] AS {name} FROM range(100) AS r(i)").columns
        (own,) = suggest(con, f"SELECT 'v' || i AS {name} FROM range(100) AS r(i)").columns
        (pair,) = suggest(con, f"SELECT 'v' || i AS {name} FROM range(2) AS r(i)").columns
    assert two.role is Role.QUASI_IDENTIFIER
    assert own.role is pair.role is Role.IDENTIFIER
    if named(name) is not None:
        assert two.reason.endswith("but two values in 100 records are no identifier")


@pytest.mark.parametrize(("name", "role"), ROLES.items())
def test_names_mean_what_a_reader_takes_them_for(name: str, role: str) -> None:
    found = named(name)
    assert found is not None
    assert found.role == role


@pytest.mark.parametrize("name", ["page", "x7", "percentage", "message", "", "???", "v1", "latency", "stage"])
def test_names_that_only_contain_a_telling_word_say_nothing(name: str) -> None:
    assert named(name) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("id", "subject"),
        ("PatientID", "subject"),
        ("household_id", "subject"),
        ("customer number", "subject"),
        ("UTILITYID", "key"),
        ("plan_id", "key"),
        ("record", "key"),
        ("loan_id", "key"),
        ("mortgage account", "key"),
        ("account_balance", None),
        ("preference", None),
        ("unpaid", None),
        ("number_of_children", None),
        ("body_mass_index", None),
        ("idle", None),
    ],
)
def test_names_of_keys(name: str, key: str | None) -> None:
    assert key_named(name) == key


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("loanOfficer", True),
        ("tax_payer", True),
        ("cancer_patient", True),
        ("diagnosis_by", True),
        ("wife", True),
        ("age_of_spouse", False),
        ("income_per_person", False),
        ("officers_report", False),
        ("season", False),
        ("standby", False),
    ],
)
def test_names_of_persons(name: str, person: bool) -> None:
    assert person_named(name) == person


def test_codes_are_known_by_their_name() -> None:
    assert code_named("zip_code")
    assert code_named("planType")
    assert not code_named("decoded_bytes")
    assert words("HTTPServer2-x") == "_http_server_2_x_"
    assert words("dateOfBirth") == "_date_of_birth_"
    assert words("marital-status") == "_marital_status_"


def special(rows: list[tuple[Any, ...]]) -> dict[frozenset[int], set[int]]:
    """Give the records for which a set of at most three columns is a minimal key, by the definition."""
    found: dict[frozenset[int], set[int]] = {}
    for size in (1, 2, 3):
        for members in combinations(range(len(rows[0])), size):
            counts = Counter(tuple(row[m] for m in members) for row in rows)
            alone = {i for i, row in enumerate(rows) if counts[tuple(row[m] for m in members)] == 1}
            parts = [found[frozenset(part)] for n in range(1, size) for part in combinations(members, n)]
            found[frozenset(members)] = alone - set().union(*parts) if parts else alone
    return found


@settings(max_examples=examples(25))
@given(tables)
def test_uniqueness_is_that_of_the_definition(rows: list[tuple[Any, ...]]) -> None:
    """Against a count in pure Python; a NULL is a value. Columns called age are quasi-identifiers or constant."""
    columns = [f"age_{number}" for number in range(len(rows[0]))]
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in columns)})")
        con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        found = suggest(con, "t")
    for column in found.columns:
        own = [row[columns.index(column.name)] for row in rows]
        assert column.values == len({value for value in own if value is not None})
        assert column.unique_share == sum(c == 1 for c in Counter(own).values()) / len(rows)
        assert column.null_share == own.count(None) / len(rows)
    quasi = [number for number, name in enumerate(columns) if name in found.of(Role.QUASI_IDENTIFIER)]
    if len(quasi) < 2:
        assert not found.sets
        return
    expected = special([tuple(row[q] for q in quasi) for row in rows])
    place = {columns[q]: i for i, q in enumerate(quasi)}
    for own in found.sets:
        assert own.special_records == len(expected[frozenset(place[name] for name in own.columns)])
        picked = Counter(tuple(row[columns.index(name)] for name in own.columns) for row in rows)
        assert own.unique_records == sum(count == 1 for count in picked.values()) == own.unique_in_table
    needed: dict[int, int] = {}
    for members, records in expected.items():
        for record in records:
            needed[record] = min(needed.get(record, 9), len(members))
    for row in found.special_uniques:
        assert row.records == sum(size == row.size for size in needed.values())
        assert row.sets == sum(len(r) for members, r in expected.items() if len(members) == row.size)
    total = sum(len(records) for records in expected.values())
    for name, share in found.contributions:
        inside = sum(len(records) for members, records in expected.items() if place[name] in members)
        assert share == pytest.approx(inside / total if total else 0)


def column(name: str, role: Role, **more: Any) -> ColumnSuggestion:
    return ColumnSuggestion(name, "INTEGER", role, "", 9, 0.1, 0.0, 0.0, **more)


@given(names, names, names, names)
def test_any_name_is_read_back_from_the_statement(
    quasi: str, sensitive: str, dropped: str, view: str
) -> None:
    if len({name.lower() for name in (quasi, sensitive, dropped)}) < 3:
        return
    columns = [
        column(quasi, Role.QUASI_IDENTIFIER, recode="mode"),
        column(sensitive, Role.SENSITIVE, distance="equal", t=0.3),
        column(dropped, Role.IDENTIFIER),
    ]
    text, reasons = statement_of(columns, 100, view, "FROM somewhere", {quasi: "finite"})
    assert text is not None
    assert not reasons
    (piece,) = split(text)
    statement = parse(piece)
    assert isinstance(statement, Create)
    policy = options_to_policy(statement.options)
    assert statement.name.name == view
    assert policy.quasi_identifiers == (quasi,)
    assert policy.sensitive == (sensitive,)
    assert policy.identifiers == (dropped,)
    assert (policy.k, policy.recode[quasi], policy.distance[sensitive]) == (5, "mode", "equal")
    assert isinstance(policy.t, Mapping)
    assert str(policy.t[sensitive]) == "0.3"
