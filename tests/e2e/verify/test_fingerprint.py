"""Fingerprint and policy hash: the same rows and the same question, and only those, have the same digits."""

from __future__ import annotations

import hashlib
import json
import re
import struct
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


def by_hand(columns: Sequence[tuple[str, str]], values: Sequence[Sequence[str | int | float | None]]) -> str:
    """Give the fingerprint as docs/evidence.md defines it, of whole numbers, DOUBLEs and texts."""
    numbers = re.compile("U?(TINYINT|SMALLINT|INTEGER|BIGINT)|DOUBLE|FLOAT")
    order = sorted(
        range(len(values[0])), key=lambda place: not numbers.fullmatch(columns[place % len(columns)][1])
    )
    rows = sorted(
        ([written(row[place]) for place in order] for row in values),
        key=lambda row: [(value is not None, value) for value in row],
    )
    line = json.dumps([list(column) for column in columns], ensure_ascii=False, separators=(",", ":"))
    whole = line + "\n"
    for column in range(len(rows[0])):
        cells = [row[column] for row in rows]
        as_bytes = [
            None if cell is None else cell if isinstance(cell, bytes) else eight(cell) for cell in cells
        ]
        lengths = b"".join(
            b"\xff\xff\xff\xff" if one is None else struct.pack(">I", len(one)) for one in as_bytes
        )
        whole += hashlib.sha256(lengths).hexdigest()
        whole += hashlib.sha256(b"".join(one or b"" for one in as_bytes)).hexdigest()
    return "v2:" + hashlib.sha256(whole.encode()).hexdigest()


def written(value: str | int | float | None) -> bytes | int | None:
    """Give a value as it is written: a text as bytes, a DOUBLE as the number that its bits are."""
    if isinstance(value, float):
        (bits,) = struct.unpack(">Q", struct.pack(">d", value))
        return int(bits)
    if isinstance(value, str):
        text = value.encode()
        return text if len(text) < 64 else hashlib.sha256(text).hexdigest().encode()
    return value


def eight(number: int) -> bytes:
    """Give the eight bytes of a whole number, the highest first."""
    return struct.pack(">q" if number < 0 else ">Q", number)


LONG = ["x" * 63, "x" * 64, "ä" * 32, "x" * 65, hashlib.sha256(b"x" * 64).hexdigest()]

cells = st.none() | st.sampled_from(
    ["", "-", "1:a", "a", "A", "0:", "ä", "日本", "a\x00b", "\x00", "2:-", *LONG]
)
whole = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 1])
unsigned = st.none() | st.integers(0, 2**64 - 1)
doubles = st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(cells, cells, whole, doubles, unsigned), min_size=1, max_size=6),
    st.randoms(),
    st.sampled_from([1, 2]),
)
def test_the_fingerprint_is_that_of_the_rows_in_any_order(
    rows: list[tuple[Any, ...]], random: Any, twice: int
) -> None:
    """By hand; rows may stand twice, and neither a collation nor the order of NULL of the session counts."""
    columns = [('a"b', "VARCHAR"), ("digest", "VARCHAR"), ("n", "BIGINT"), ("x", "DOUBLE"), ("u", "UBIGINT")]
    rows = rows * twice
    with duckdb.connect() as con:
        con.execute(
            "SET default_collation = 'nocase'; SET default_null_order = 'nulls_last'; SET default_order = 'desc'"
        )
        con.execute('CREATE TABLE p ("a""b" VARCHAR, "digest" VARCHAR, n BIGINT, x DOUBLE, u UBIGINT)')
        con.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?)", rows)
        first = fingerprint(con, "p")
        assert first == by_hand(columns, rows)
        shuffled = random.sample(rows, len(rows))
        con.execute("DELETE FROM p")
        con.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?)", shuffled)
        assert fingerprint(con, "p") == first


@pytest.mark.parametrize(
    ("type_text", "value", "number"),
    [
        ("TINYINT", "-128", -128), ("SMALLINT", "-300", -300), ("INTEGER", "70000", 70000), ("UTINYINT", "255", 255),
        ("USMALLINT", "65535", 65535), ("UINTEGER", "4294967295", 4294967295), ("BIGINT", "-9223372036854775808", -(2**63)),
        ("UBIGINT", "18446744073709551615", 2**64 - 1), ("FLOAT", "-1.5", 0xBFC00000), ("DOUBLE", "-1.5", 0xBFF8000000000000),
        ("DOUBLE", "-0.0", 1 << 63), ("DOUBLE", "nan", 0x7FF8000000000000), ("DOUBLE", "-inf", 0xFFF0000000000000),
        ("FLOAT", "nan", 0x7FC00000),
    ],
)  # fmt: skip
def test_numbers_are_written_with_eight_bytes(
    fresh_db: duckdb.DuckDBPyConnection, type_text: str, value: str, number: int
) -> None:
    """By hand, IEEE 754; of a DOUBLE or FLOAT the bits."""
    relation = f"(SELECT CAST(CAST('{value}' AS {type_text}) AS {type_text}) AS x)"
    assert fingerprint(fresh_db, relation) == by_hand([("x", type_text)], [[number]])


@pytest.mark.parametrize(
    ("type_text", "text"),
    [
        ("BOOLEAN", "true"), ("DATE", "2020-02-03"), ("DECIMAL(18,3)", "-1.500"), ("HUGEINT", "170141183460469231731687303715884105727"),
        ("TIMESTAMP", "2020-02-03 04:05:06.789"), ("ENUM('b', 'a')", "a"), ("UUID", "00000000-0000-0000-0000-000000000001"),
        ("BLOB", "a\\x00"), ("BIT", "0101"), ("TIME", "04:05:06"), ("INTERVAL", "1 year 02:00:00"), ("INTEGER[]", "[1, NULL]"),
    ],
)  # fmt: skip
def test_other_values_are_written_as_their_text(
    fresh_db: duckdb.DuckDBPyConnection, type_text: str, text: str
) -> None:
    relation = f"(SELECT CAST('{text}' AS {type_text}) AS x)"
    assert fingerprint(fresh_db, relation) == by_hand([("x", type_text)], [[text]])


def test_every_nan_is_one_and_minus_zero_is_not_zero(tmp_path: Path) -> None:
    """Also when DuckDB has packed them: it may store one NaN for many, and keeps both zeros."""
    made = "SELECT CASE WHEN i % 2 = 0 THEN 0.0 ELSE {} END::DOUBLE AS x, {}::DOUBLE AS y FROM range(200000) AS r(i)"
    minus, nan = "CAST('-0.0' AS DOUBLE)", "CASE WHEN i % 2 = 0 THEN 'nan'::DOUBLE ELSE -('nan'::DOUBLE) END"
    with duckdb.connect(tmp_path / "f.db") as con:
        con.execute("CREATE TABLE p AS " + made.format(minus, nan))
        first = fingerprint(con, "p")
        assert first == fingerprint(con, f"({made.format(minus, chr(39) + 'nan' + chr(39))})")
        assert first != fingerprint(con, f"({made.format('0.0', nan)})")
    with duckdb.connect(tmp_path / "f.db") as con:
        assert fingerprint(con, "p") == first


def test_a_row_is_bound_together(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Columns are hashed one by one, in one order of the rows: other pairs of the same values are others."""
    one = "(FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) AS r(n, s))"
    other = "(FROM (VALUES (1, 'b'), (2, 'a'), (3, NULL)) AS r(n, s))"
    assert fingerprint(fresh_db, one) != fingerprint(fresh_db, other)


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
        con.execute("ALTER TABLE p ADD COLUMN s VARCHAR; UPDATE p SET s = 'x' || a WHERE a % 3 > 0")
        columns = [("a", "BIGINT"), ("s", "VARCHAR")]
        values = [(i, f"x{i}" if i % 3 else None) for i in range(150000)]
        assert fingerprint(con, "p") == by_hand(columns, values)


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
    """As docs/evidence.md defines it; a column of another type has no JSON."""
    relation = f"(SELECT {value} AS x)"
    assert fingerprint(fresh_db, relation) == by_hand([("x", type_text)], [texts])


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
