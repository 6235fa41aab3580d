"""A linkage attack tells apart what the engine tells apart, be numbers as large or as near as they may.

Truth by hand: of a release that is the original unchanged, with n different values, each record is nearest to
itself alone, so that there are n groups, and all records are linked. Truth else: an attacker who computes with
fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError, PolicyError, SourceError
from duckanon.evaluation.linkage import linkage
from tests.examples import examples, some

if TYPE_CHECKING:
    import duckdb

    from duckanon.evaluation.linkage import SubsetRisk

SIZE = 40
UNCHANGED = {
    "bigint": "1000000000000000000 + i",
    "bigint beside an outlier": "CASE WHEN i = 0 THEN -9223372036854775808 ELSE 9223372036854775807 - i END",
    "ubigint": "18446744073709551615::UBIGINT - i::UBIGINT",
    "hugeint": "CAST('1' || repeat('0', 30) AS HUGEINT) + i",
    "random": "(hash(i) // 2)::BIGINT",
    "decimal": "(1000000000000000000 + i)::DECIMAL(38, 0)",
    "decimal with digits": "CASE WHEN i = 0 THEN -99999999999.99 ELSE i / 1000 END::DECIMAL(38, 9)",
    "double beside an outlier": "CASE WHEN i = 0 THEN 1e20 ELSE i END::DOUBLE",
    "double far from zero": "(1e15 + i / 8)::DOUBLE",
    "float": "(16777216 + i * 2)::FLOAT",
    "timestamp_ns": "make_timestamp_ns(1700000000000000000 + i * 10)",
    "timestamp_ns for centuries": "make_timestamp_ns(CASE WHEN i = 0 THEN -9223286400000000000 ELSE 9000000000000000000 + i END::BIGINT)",
    "timestamp in the year 1000": "TIMESTAMP '1000-01-01' + to_microseconds(i)",
    "timestamp BC": "TIMESTAMP '290000-01-01 (BC)' + to_microseconds(i)",
    "timestamp until 9999": "CASE WHEN i = 0 THEN TIMESTAMP '9999-12-31 23:59:59.999999' ELSE TIMESTAMP '2020-01-01' + to_microseconds(i) END",
    "timestamp_s": "(TIMESTAMP '200000-01-01' + to_seconds(i))::TIMESTAMP_S",
    "timestamptz": "TIMESTAMPTZ '1000-01-01 00:00:00+00' + to_microseconds(i)",
    "date": "DATE '5000000-01-01' + i::INTEGER",
}


def unchanged(con: duckdb.DuckDBPyConnection, expression: str) -> None:
    con.execute(f"CREATE TABLE o AS SELECT {expression} AS x, i AS id FROM range({SIZE}) AS r(i)")
    con.execute("CREATE TABLE r AS FROM o ORDER BY id DESC")
    assert con.execute("SELECT count(DISTINCT x) FROM o").fetchall() == [(SIZE,)], "the test itself"


def by_x(con: duckdb.DuckDBPyConnection, **options: Any) -> SubsetRisk:
    return linkage(con, "o", "r", ["x"], **options).attacks[1]


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["id", None])
@pytest.mark.parametrize("expression", some(UNCHANGED.values(), one_of=3), ids=UNCHANGED)
def test_every_record_of_an_unchanged_table_is_found(
    fresh_db: duckdb.DuckDBPyConnection, expression: str, truth: str | None
) -> None:
    unchanged(fresh_db, expression)
    risk = by_x(fresh_db, id=truth)
    assert (risk.groups, risk.linked.value, risk.ceiling) == (SIZE, 1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["range", "rank", "sd"])
def test_disclosure_of_large_numbers_is_that_of_small_ones(
    fresh_db: duckdb.DuckDBPyConnection, interval: Any
) -> None:
    """Intervals do not move with the numbers: 0..39 and 10^18 + 0..39 disclose the same.

    Blind, of 0..39 within 5 % of the range (1.95): 1 to either side; 40 + 2 * 39 pairs of 1600.
    """
    unchanged(fresh_db, UNCHANGED["bigint"])
    large = linkage(fresh_db, "o", "r", ["x"], interval=interval, id="id")
    fresh_db.execute("UPDATE o SET x = id; UPDATE r SET x = id")
    small = linkage(fresh_db, "o", "r", ["x"], interval=interval, id="id")
    assert large.attacks == small.attacks
    assert large.own == small.own
    if interval == "range":
        assert large.attacks[0].disclosed["x"].value == pytest.approx((40 + 2 * 39) / 1600)


STEPS = st.integers(0, 30) | st.sampled_from([2**53, 2**53 + 1, 10**17])


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Give records of two whole numbers, and those of the member of their class that stands for all."""
    base = draw(st.sampled_from([0, 10**18, -(10**18) - 7]))
    rows = draw(st.lists(st.tuples(STEPS, STEPS), min_size=2, max_size=12))
    rows = [(base + first, second) for first, second in rows]
    labels = draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    return [(row, rows[labels.index(label)]) for row, label in zip(rows, labels, strict=True)]


def nearest(row: tuple[int, ...], cells: list[tuple[int, ...]], variances: list[Fraction]) -> set[int]:
    far = [
        sum(Fraction(x - y) ** 2 / variance for x, y, variance in zip(row, cell, variances, strict=True))
        for cell in cells
    ]
    return {at for at, distance in enumerate(far) if distance <= min(far) * (1 + Fraction(1, 10**9))}


def variance(values: list[int]) -> Fraction:
    mean = Fraction(sum(values), len(values))
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(tables(), st.sampled_from(["BIGINT", "DECIMAL(38, 3)", "TIMESTAMP_NS"]))
def test_it_is_what_an_attacker_with_fractions_finds(
    case: list[tuple[tuple[int, int], tuple[int, int]]], type_text: str
) -> None:
    """Two columns, one of them of another type; distances are squared z-scores, ties within a billionth."""
    originals, released = [row for row, _ in case], [cell for _, cell in case]
    spreads = [variance([row[j] for row in originals]) for j in range(2)]
    unit = {"DECIMAL(38, 3)": "a * 0.001::DECIMAL(9, 3)", "TIMESTAMP_NS": "make_timestamp_ns(a)"}
    with duckanon.connect() as con:
        for table, rows in (("o", originals), ("r", released)):
            con.execute(f"CREATE TABLE {table} (id INTEGER, a BIGINT, b BIGINT)")
            con.duckdb.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?)", [[at, *row] for at, row in enumerate(rows)]
            )
            con.execute(f"ALTER TABLE {table} ALTER a TYPE {type_text} USING {unit.get(type_text, 'a')}")
        found = linkage(con, "o", "r", ["a", "b"], id="id", subsets=[["a"], ["b"], ["a", "b"]])
    for risk, columns in zip(found.attacks[1:], [(0,), (1,), (0, 1)], strict=True):
        if not all(spreads[j] for j in columns):
            continue
        cells = [tuple(cell[j] for j in columns) for cell in released]
        right = Fraction(0)
        for at, row in enumerate(originals):
            near = nearest(tuple(row[j] for j in columns), cells, [spreads[j] for j in columns])
            right += Fraction(at in near, len(near))
        assert risk.groups == len(set(cells))
        assert risk.linked.value == pytest.approx(float(right / len(case)), abs=1e-12)


def test_ranges_and_sets_of_large_numbers_by_hand(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Pairs 2i and 2i + 1 above 10^18: everybody is in the own range or set only, one of two; 20 groups."""
    fresh_db.execute("CREATE TABLE o AS SELECT 1000000000000000000 + i AS x, i AS id FROM range(40) AS t(i)")
    fresh_db.execute(
        "CREATE VIEW ends AS SELECT id, 1000000000000000000 + id - id % 2 AS low, low + 1 AS high FROM o"
    )
    for cell in ("{'low': low, 'high': high}", "[low, high]"):
        fresh_db.execute(f"CREATE OR REPLACE TABLE r AS SELECT id, {cell} AS x FROM ends")
        for truth in ("id", None):
            risk = by_x(fresh_db, id=truth)
            assert (risk.groups, risk.linked.value, risk.ceiling) == (20, 0.5, 0.5), cell


def test_sets_whose_texts_look_alike_are_different_groups(fresh_db: duckdb.DuckDBPyConnection) -> None:
    fresh_db.execute("CREATE TABLE o AS FROM (VALUES ('a, b', 0), ('a', 1), ('b', 2)) AS t(x, id)")
    fresh_db.execute(
        "CREATE TABLE r AS FROM (VALUES (['a, b'], 0), (['a', 'b'], 1), (['a', 'b'], 2)) AS t(x, id)"
    )
    risk = by_x(fresh_db, id="id")
    assert (risk.groups, risk.linked.value) == (2, pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("original", "released"),
    [
        ("9007199254740992 + i", "(9007199254740992 + i // 2 * 2)::DOUBLE"),
        ("(i / 100)::DECIMAL(9, 2)", "((i // 2 * 2) / 100)::DOUBLE"),
        ("(i / 100)::DECIMAL(9, 2)", "((i // 2 * 2) / 100)::DECIMAL(38, 6)"),
        ("i::BIGINT", "(i // 2 * 2)::DECIMAL(20, 4)"),
        ("DATE '1000-01-01' + i::INTEGER", "(DATE '1000-01-01' + (i // 2 * 2)::INTEGER)::TIMESTAMP"),
        ("TIMESTAMP '2000-01-01' + to_microseconds(i)", "(TIMESTAMP '2000-01-01' + to_microseconds(i // 2 * 2))::TIMESTAMP_NS"),
    ],
)  # fmt: skip
def test_two_types_of_numbers_are_compared_by_value(
    fresh_db: duckdb.DuckDBPyConnection, original: str, released: str
) -> None:
    """Even numbers are released as they are, and each for the next one, too.

    2i finds itself, 1/2; 2i + 1 is as near to 2i + 2, so 1/4, but for the last one, 1/2.
    """
    fresh_db.execute(f"CREATE TABLE o AS SELECT {original} AS x, i AS id FROM range(40) AS t(i)")
    fresh_db.execute(f"CREATE TABLE r AS SELECT {released} AS x, i AS id FROM range(40) AS t(i)")
    risk = by_x(fresh_db, id="id")
    assert risk.groups == 20
    assert risk.linked.value == pytest.approx((20 / 2 + 19 / 4 + 1 / 2) / 40)


def test_a_collation_does_not_hide_what_a_reader_sees(fresh_db: duckdb.DuckDBPyConnection) -> None:
    fresh_db.execute(
        "CREATE TABLE o (x VARCHAR COLLATE NOCASE, id INTEGER); INSERT INTO o VALUES ('a', 0), ('A', 1)"
    )
    fresh_db.execute("CREATE TABLE r (x VARCHAR COLLATE NOCASE, id INTEGER); INSERT INTO r FROM o")
    risk = by_x(fresh_db, id="id")
    assert (risk.groups, risk.linked.value) == (2, 1.0)


@pytest.mark.parametrize("collation", ['"binary"', "C", "NOCASE"])
@pytest.mark.parametrize("other", ['"binary"', "C", "NOCASE"])
def test_sets_of_texts_under_any_two_collations(
    fresh_db: duckdb.DuckDBPyConnection, collation: str, other: str
) -> None:
    """By hand: two groups of two equally near records each, so that every second record is linked."""
    fresh_db.execute(
        f"CREATE TABLE o AS SELECT 'abcd'[i + 1] COLLATE {collation} AS x, i AS id FROM range(4) t(i)"
    )
    fresh_db.execute(
        f"CREATE TABLE r AS SELECT ['abcd'[i // 2 * 2 + 1] COLLATE {other}, 'abcd'[i // 2 * 2 + 2]] AS x, i AS id "
        "FROM range(4) t(i)"
    )
    for options in ({}, {"id": "id"}):
        risk = by_x(fresh_db, **options)
        assert (risk.groups, risk.linked.value) == (2, 0.5)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_view_of_ours_with_sets_of_texts(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """By hand: two classes of two, each with both of its texts."""
    fresh_db.execute("CREATE TABLE o AS FROM (VALUES ('a', 0), ('b', 0), ('c', 9), ('d', 9)) AS t(x, n)")
    policy = duckanon.Policy(quasi_identifiers=["x", "n"], k=2, recode={"x": "set"}, weights={"n": 99})
    duckanon.anonymize(fresh_db, "o", policy, name="r")
    risk = by_x(fresh_db)
    assert (risk.groups, risk.linked.value) == (2, 0.5)


ZONE = "depends on the time zone"
DIGITS = "more digits than can be compared"


@pytest.mark.parametrize(
    ("original", "released", "kind", "words"),
    [
        ("TIMESTAMP '2020-01-01'", "TIMESTAMPTZ '2020-01-01 00:00:00+00'", PolicyError, ZONE),
        ("TIMESTAMPTZ '2020-01-01 00:00:00+00'", "[DATE '2020-01-01']", PolicyError, ZONE),
        ("1", "TIMESTAMPTZ '2020-01-01 00:00:00+00'", PolicyError, "CAST one"),
        ("TIMESTAMPTZ_NS '2020-01-01 00:00:00+00'", "TIMESTAMPTZ_NS '2020-01-01 00:00:00+00'", PolicyError, "no distance"),
        ("5", "'[1, 5]'", PolicyError, "a CSV turns ranges and sets into text"),
        ("'a'", "'[a, b]'", SourceError, r"1 texts that the original does not have, such as '\[a, b\]'"),
        ("'a'", "['a', 'c']", SourceError, "1 texts that the original does not have, such as 'c'"),
        ("5", "{'low': 1, 'high': 'z'}", PolicyError, "CAST one"),
        ("5", "{'low': 1, 'high': NULL::INTEGER}", SourceError, "ranges with one end"),
        ("5", "{'low': 9, 'high': 1}", SourceError, "low end is above the high one"),
        ("5.0::DOUBLE", "{'low': 1.0::DOUBLE, 'high': 'infinity'::DOUBLE}", SourceError, "of the release holds NaN or infinity"),
        ("5.0::DOUBLE", "[5.0, 'nan'::DOUBLE]", SourceError, "of the release holds NaN or infinity"),
        ("5", "'nan'::DOUBLE", SourceError, "of the release holds NaN or infinity"),
        ("DATE '2000-01-01'", "{'low': '-infinity'::DATE, 'high': DATE '2001-01-01'}", SourceError, "of the release holds NaN or infinity"),
        ("DATE '2000-01-01'", "'infinity'::TIMESTAMP", SourceError, "of the release holds NaN or infinity"),
        ("'infinity'::TIMESTAMP", "TIMESTAMP '2000-01-01'", SourceError, "of the original holds NaN or infinity in 1"),
        ("repeat('9', 38)::DECIMAL(38, 0)", "repeat('9', 38)::DECIMAL(38, 0)", SourceError, DIGITS),
        ("340282366920938463463374607431768211455::UHUGEINT", "1", SourceError, DIGITS),
        ("1", "-17014118346046923173168730371588410572::HUGEINT * 10", SourceError, DIGITS),
        ("1::DECIMAL(38, 0)", "0.5::DECIMAL(38, 38)", SourceError, DIGITS),
        ("12345678901234567.89::DECIMAL(38, 2)", "1.0::DOUBLE", SourceError, DIGITS),
        ("1.0::DOUBLE", "12345678901234567.89::DECIMAL(38, 2)", SourceError, DIGITS),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(
    fresh_db: duckdb.DuckDBPyConnection, original: str, released: str, kind: type[DuckanonError], words: str
) -> None:
    fresh_db.execute("SET timezone = 'America/New_York'")
    fresh_db.execute(f"CREATE TABLE o AS SELECT {original} AS x; CREATE TABLE r AS SELECT {released} AS x")
    with pytest.raises(kind, match=words) as refused:
        by_x(fresh_db)
    assert "column 'x'" in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("original", "released", "words"),
    [
        ("CASE WHEN i = 0 THEN 1.0 ELSE i * 1e-200 END::DOUBLE", "x", "too near to each other"),
        ("CASE WHEN i = 0 THEN 1e300 ELSE i * 1e-300 END::DOUBLE", "x", "too near to each other"),
        (
            "(i * 1e-10)::DOUBLE",
            "CASE WHEN id = 0 THEN 1e200 ELSE x END",
            "too far from those of the original",
        ),
    ],
)
def test_a_distance_whose_square_vanishes_or_overflows_is_refused(
    fresh_db: duckdb.DuckDBPyConnection, original: str, released: str, words: str
) -> None:
    """The squares of 1e-200 and 1e+210 standard deviations are no DOUBLEs, so all would be ties."""
    fresh_db.execute(f"CREATE TABLE o AS SELECT {original} AS x, i AS id FROM range(9) AS t(i)")
    fresh_db.execute(f"CREATE TABLE r AS SELECT {released} AS x, id FROM o")
    with pytest.raises(SourceError, match=words):
        by_x(fresh_db, id="id")


def test_constant_columns_far_apart_do_not_hide_the_others(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """A column that says nothing changes nothing: by the other one everybody is found."""
    fresh_db.execute("CREATE TABLE o AS SELECT 5 AS x, i AS y FROM range(9) AS t(i)")
    fresh_db.execute("CREATE TABLE r AS SELECT 1000000000000000 AS x, y FROM o")
    assert linkage(fresh_db, "o", "r", ["x", "y"]).attacks[1].linked.value == 1.0
