"""Fingerprint and policy hash: the same rows and the same question, and only those, have the same digits."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.audits.evidence import canonical, evidence_of, read_canonical
from duckanon.database.fingerprint import fingerprint
from duckanon.policy.policy import AuditPolicy
from tests.e2e.scenes import CREATE, ROOT, patients, rows, stock_cli
from tests.examples import examples, slowly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def by_hand(columns: Sequence[tuple[str, str]], texts: Sequence[Sequence[str | None]]) -> str:
    """Give the fingerprint as docs/evidence.md defines it."""
    digests = sorted(
        hashlib.sha256("".join("-" if t is None else f"{len(t)}:{t}" for t in row).encode()).hexdigest() for row in texts
    )  # fmt: skip
    head = json.dumps([list(column) for column in columns], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256((head + "\n" + "".join(digests)).encode()).hexdigest()


cells = st.none() | st.sampled_from(["", "-", "1:a", "a", "0:", "ä", "日本", "a\x00b", "2:-"])


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=6), st.randoms())
def test_the_fingerprint_is_that_of_the_rows_in_any_order(rows: list[tuple[Any, Any]], random: Any) -> None:
    with duckdb.connect() as con:
        con.execute('CREATE TABLE p ("a""b" VARCHAR, "digest" VARCHAR)')
        con.executemany("INSERT INTO p VALUES (?, ?)", rows)
        first = fingerprint(con, "p")
        assert first == by_hand([('a"b', "VARCHAR"), ("digest", "VARCHAR")], rows)
        shuffled = random.sample(rows, len(rows))
        con.execute("DELETE FROM p")
        con.executemany("INSERT INTO p VALUES (?, ?)", shuffled)
        assert fingerprint(con, "p") == first


@pytest.mark.parametrize(
    "setting",
    slowly(
        [
            "SET threads = 2",
            "SET arrow_large_buffer_size = true",
            "SET produce_arrow_string_view = true; SET arrow_output_version = '1.4'",
        ],
        one_of=3,
    ),
)
def test_many_rows_however_the_session_hands_over_its_texts(setting: str) -> None:
    """More rows than one batch of Arrow has; by hand, from the numbers."""
    with duckdb.connect() as con:
        con.execute(setting)
        con.execute("CREATE TABLE p AS SELECT i AS a FROM range(150000) AS r(i)")
        assert fingerprint(con, "p") == by_hand([("a", "BIGINT")], [[str(i)] for i in range(150000)])


@pytest.mark.parametrize(
    "other",
    [
        "SELECT 1 AS a, NULL AS b FROM range(3)", "SELECT 1 AS a, '' AS b FROM range(2)", "SELECT 1 AS a, 'NULL' AS b FROM range(2)",
        "SELECT 1::BIGINT AS a, NULL::VARCHAR AS b FROM range(2)", "SELECT 1 AS a, NULL::VARCHAR AS c FROM range(2)",
        "SELECT NULL::VARCHAR AS b, 1 AS a FROM range(2)", "SELECT 1 AS a, NULL::VARCHAR AS b, 1 AS c FROM range(2)",
    ],
)  # fmt: skip
def test_another_value_type_name_order_of_columns_or_count_gives_another(
    fresh_db: duckdb.DuckDBPyConnection, other: str
) -> None:
    one = "(SELECT 1 AS a, NULL::VARCHAR AS b FROM range(2))"
    assert fingerprint(fresh_db, one) != fingerprint(fresh_db, f"({other})")


UNION = "UNION(n INTEGER, s VARCHAR)"
STAMP = "TIMESTAMPTZ '2020-01-01 00:00:00+00'"

WITH_A_TYPE_INSIDE = [
    (f"union_value(n := 1)::{UNION}", f"union_value(s := '1')::{UNION}"),
    (f"union_value(n := NULL)::{UNION}", f"union_value(s := NULL)::{UNION}"),
    (f"union_value(s := 'NULL')::{UNION}", f"union_value(s := NULL)::{UNION}"),
    (f"[union_value(s := 'a, b')::{UNION}]", f"[union_value(s := 'a')::{UNION}, union_value(s := 'b')::{UNION}]"),
    (f"{{'u': union_value(n := 1)::{UNION}}}", f"{{'u': union_value(s := '1')::{UNION}}}"),
    ("1::VARIANT", "'1'::VARIANT"),
    ("'NULL'::VARIANT", "NULL::VARIANT"),
    ("[1]::VARIANT", "['1']::VARIANT"),
    ("{'a': 'x, b: y'}::VARIANT", "{'a': 'x', 'b': 'y'}::VARIANT"),
    ("[1::VARIANT]", "['1'::VARIANT]"),
    ("MAP {'a': true::VARIANT}", "MAP {'a': 'true'::VARIANT}"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), WITH_A_TYPE_INSIDE)
def test_values_that_carry_their_type_are_told_apart(
    fresh_db: duckdb.DuckDBPyConnection, one: str, other: str
) -> None:
    """The text of a UNION or VARIANT does not say its type: DuckDB finds the values distinct, so must we."""
    (distinct,) = fresh_db.execute(f"SELECT ({one}) IS DISTINCT FROM ({other})").fetchall()
    assert distinct == (True,)
    first, second = (fingerprint(fresh_db, f"(SELECT {value} AS x)") for value in (one, other))
    assert first != second


@pytest.mark.parametrize(
    ("value", "type_text", "texts"),
    [
        (f"union_value(s := 'a, b')::{UNION}", UNION, ["a, b", '{"s":"a, b"}']),
        (f"[union_value(n := 1)::{UNION}]", f"{UNION}[]", ["[1]", '[{"n":1}]']),
        ("'1'::VARIANT", "VARIANT", ["1", '"1"']),
        (f"NULL::{UNION}", UNION, [None, None]),
        # Plain types have one text, whatever names of types are in them.
        ("{'VARIANT': 1}", "STRUCT(VARIANT INTEGER)", ["{'VARIANT': 1}"]),
        ("{'UNION(': 1}", 'STRUCT("UNION(" INTEGER)', ["{'UNION(': 1}"]),
        ("{'VARIANT)': 1}", 'STRUCT("VARIANT)" INTEGER)', ["{'VARIANT)': 1}"]),
        ("'VARIANT'::ENUM('VARIANT', '(VARIANT)')", "ENUM('VARIANT', '(VARIANT)')", ["VARIANT"]),
        ("['a, b', NULL]", "VARCHAR[]", ["['a, b', NULL]"]),
    ],
)  # fmt: skip
def test_a_value_that_carries_its_type_is_followed_by_its_json(
    fresh_db: duckdb.DuckDBPyConnection, value: str, type_text: str, texts: list[str | None]
) -> None:
    """As docs/evidence.md defines it; the fingerprint of a column of another type stays what it was."""
    assert fingerprint(fresh_db, f"(SELECT {value} AS x)") == by_hand([("x", type_text)], [texts])


@pytest.mark.parametrize(
    "value",
    [f"[{STAMP}]", f"{STAMP}::TIMESTAMPTZ_NS", f"{STAMP}::VARIANT", f"union_value(z := {STAMP})", f"{{'TIMESTAMPTZ_NS': {STAMP}}}"],
)  # fmt: skip
def test_times_with_a_zone_are_the_same_in_every_session(
    fresh_db: duckdb.DuckDBPyConnection, value: str
) -> None:
    fresh_db.execute("SET TimeZone = 'UTC'; CREATE TABLE stamp AS SELECT " + value + " AS t")
    found = set()
    for zone in ("UTC", "Asia/Tokyo"):
        fresh_db.execute(f"SET TimeZone = '{zone}'")
        found.add(fingerprint(fresh_db, "stamp"))
        assert fresh_db.execute("SELECT current_setting('TimeZone')").fetchall() == [(zone,)]
    assert len(found) == 1


def test_the_stock_command_line_computes_the_fingerprint(tmp_path: Path) -> None:
    """The queries of docs/evidence.md."""
    with patients() as con:
        con.sql(CREATE)
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'f.duckdb'}'")
        text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
        query = text.split("```sql\n-- the fingerprint")[1].split("```")[0]
        listed = text.split("```sql\n")[1].split("```")[0].strip().rstrip(";")
        (recorded,) = rows(con, "SELECT DISTINCT fingerprint FROM duckanon.audits")
        assert rows(con, listed)[0]["fingerprint"] == recorded["fingerprint"]
    done = stock_cli(tmp_path / "f.duckdb", "--" + query.strip().rstrip(";"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == recorded["fingerprint"]


COLUMNS = [("Age", "INTEGER"), ("zip", "VARCHAR"), ("charge", "DOUBLE"), ("my col", "VARCHAR")]


@pytest.mark.parametrize(
    "options",
    [
        {"quasi_identifiers": ["zip", "AGE"], "sensitive": ["my col", "charge"], "k": 5, "t": "0.150"},
        {"quasi_identifiers": ["age", "ZIP"], "sensitive": ["charge", "MY COL"], "k": 5, "t": {"charge": 0.15, "My col": Decimal("0.15")}},
        {"quasi_identifiers": ["age", "zip"], "sensitive": ["charge", "my col"], "k": 5, "t": 0.15, "distance": {"charge": "ordered", "my col": "equal"}},
    ],
)  # fmt: skip
def test_policies_that_ask_the_same_have_one_text(options: dict[str, Any]) -> None:
    text = canonical(AuditPolicy(**options), COLUMNS, {})
    assert text == (
        'quasi_identifiers = ["Age", "zip"]\nsensitive = ["charge", "my col"]\nk = 5\n'
        't = {charge = 0.15, "my col" = 0.15}\nl_diversity = "distinct"\n'
        'distance = {charge = "ordered", "my col" = "equal"}\n'
    )
    assert canonical(read_canonical(text), COLUMNS, {}) == text


@pytest.mark.parametrize(
    "other",
    [
        {"k": 6}, {"t": "0.150000000001"}, {"t": {"charge": "0.15"}}, {"l": 2}, {"sensitive": ["charge"], "t": "0.15"},
        {"quasi_identifiers": ["age"]}, {"l_diversity": "entropy"}, {"distance": {"charge": "equal"}},
    ],
)  # fmt: skip
def test_policies_that_ask_something_else_have_another_hash(other: dict[str, Any]) -> None:
    given_ = {"quasi_identifiers": ["age", "zip"], "sensitive": ["charge", "my col"], "k": 5, "t": "0.15"}
    with duckdb.connect() as con:
        relation = "(SELECT 1 AS age, '' AS zip, 1.5::DOUBLE AS charge, '' AS \"my col\")"
        one, two = (
            evidence_of(con, relation, AuditPolicy(**options)) for options in (given_, {**given_, **other})
        )
    assert one.policy_hash != two.policy_hash
    assert one.fingerprint == two.fingerprint
    assert json.loads(json.dumps(one.to_dict()))["policy_hash"] == one.policy_hash
