"""No release tells in which order its source was stored, where values compare equal that are not the same.

The digest is taken of the bits of every floating-point number and of the text of the rest, by expressions that
stand here; the order of the rows counts. Sources are shuffled by DuckDB's random().
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import duckanon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

ZEROS = ("CAST('0.0' AS DOUBLE)", "CAST('-0.0' AS DOUBLE)", "CAST(1.5 AS DOUBLE)")
NAN = tuple(f"(SELECT x FROM nan_bits WHERE number = {number})" for number in range(4))
NUMBERS = (*ZEROS, *NAN, "NULL")
SPANS = ("INTERVAL '1 month'", "INTERVAL '30 days'", "INTERVAL '720 hours'", "INTERVAL '1 day'")
SMALL = ("CAST(1 AS TINYINT)", "CAST(1 AS INTEGER)", "CAST(1 AS DECIMAL(4, 1))")

Draw = random.Random

QUASI: dict[str, Callable[[Draw], str]] = {
    "q_number": lambda r: r.choice(ZEROS),
    "q_text": lambda r: f"{r.choice(['a', 'A', 'b'])!r} COLLATE NOCASE",
}
OTHERS: dict[str, tuple[Callable[[Draw], str], str]] = {
    "number": (lambda r: r.choice(NUMBERS), "CAST(number AS BIT)"),
    "short": (lambda r: f"CAST({r.choice(NUMBERS)} AS FLOAT)", "CAST(short AS BIT)"),
    "span": (lambda r: r.choice(SPANS), "span"),
    "numbers": (lambda r: f"[{r.choice(NUMBERS)}, {r.choice(ZEROS)}]", "CAST(numbers AS BIT[])"),
    "pair": (
        lambda r: f"{{'a': {r.choice(NUMBERS)}, 'DOUBLE': {r.choice(SPANS)}}}",
        'CAST(pair AS STRUCT(a BIT, "DOUBLE" INTERVAL))',
    ),
    "dictionary": (
        lambda r: f"MAP {{{r.choice(ZEROS + NAN)}: {r.choice(SPANS)}}}",
        "CAST(dictionary AS MAP(BIT, INTERVAL))",
    ),
    "either": (lambda r: f"CAST({r.choice(NUMBERS)} AS UNION(x DOUBLE, y VARCHAR))", "CAST(either.x AS BIT)"),
    "anything": (
        lambda r: f"CAST({r.choice([*NUMBERS, *SPANS, *SMALL])} AS VARIANT)",
        (
            "[CAST(anything AS VARCHAR), variant_typeof(anything), "
            "CAST(TRY(variant_to_parquet_variant(anything)) AS VARCHAR)]"
        ),
    ),
    "inside": (lambda r: f"{{'v': CAST({r.choice(SMALL)} AS VARIANT)}}", "variant_typeof(inside.v)"),
    "clock": (lambda r: f"TIMETZ '{r.choice(['10:00:00+01', '09:00:00+00'])}'", "clock"),
    "word": (lambda r: f"{r.choice(['a', 'A'])!r} COLLATE NOCASE", "word"),
    "words": (lambda r: f"[{r.choice(['a', 'A'])!r}]", "words"),
    "grade": (lambda r: f"CAST({r.choice(['b', 'a'])!r} AS ENUM ('b', 'a'))", "grade"),
    "flags": (lambda r: f"CAST({r.choice(['101', '0101'])!r} AS BIT)", "flags"),
    "document": (
        lambda r: "CAST('{\"a\":%s1}' AS JSON)" % r.choice(["", " "]),  # noqa: UP031 - braces are JSON's
        "document",
    ),
}
"""By column: what is drawn, and the expression that shows all of it."""

RELEASE = """
CREATE OR REPLACE ANONYMIZED VIEW v AS FROM shuffled WITH (
    quasi_identifiers = (q_number, q_text), sensitive = ({sensitive}), insensitive = *, k = 3,
    recode = {{q_number: '{number}', q_text: '{text}'}}
)
"""


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    bits = np.array([0x7FF8 << 48, (0x7FF8 << 48) + 1, (0x7FF8 << 48) + 2, 0xFFF8 << 48], dtype=np.uint64)
    floats = pa.Array.from_buffers(pa.float64(), 4, [None, pa.py_buffer(bits)])
    with duckanon.connect() as connection:
        connection.duckdb.register("bits", pa.table({"number": list(range(4)), "x": floats}))
        connection.execute("CREATE TABLE nan_bits AS FROM bits")
        yield connection


def load(con: duckanon.Connection, draw: Draw, names: Sequence[str], size: int = 24) -> None:
    drawn = [*QUASI.values(), *(OTHERS[name][0] for name in names)]
    rows = ", ".join(f"({', '.join(value(draw) for value in drawn)})" for _ in range(size))
    columns = ", ".join([*QUASI, *names])
    con.execute(f"CREATE OR REPLACE TABLE source AS FROM (VALUES {rows}) AS drawn({columns})")


def shuffle(con: duckanon.Connection, number: int) -> None:
    """The source anew in another order, with one thread or two, and with text compared in another way."""
    collation = "nocase" if number // 2 % 2 else ""
    con.execute(f"SET threads = {1 + number % 2}; SET default_collation = '{collation}'")
    con.execute("CREATE OR REPLACE TABLE shuffled AS FROM source ORDER BY random()")


def digest(con: duckanon.Connection, names: Sequence[str]) -> str:
    """Digest of all that a release shows, row after row."""
    shown = [*QUASI, *(OTHERS[name][1] for name in names)]
    rows = con.duckdb.execute(
        "SELECT " + ", ".join(f"CAST({e} AS VARCHAR)" for e in shown) + " FROM v"
    ).fetchall()
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def check(con: duckanon.Connection, draw: Draw, names: Sequence[str], shuffles: int) -> None:
    """Every shuffle of a table of few columns, so that many rows compare equal, gives one release."""
    load(con, draw, names)
    statement = RELEASE.format(
        sensitive=names[0],
        number=draw.choice(["mean", "median", "mode", "range", "set"]),
        text=draw.choice(["mode", "set"]),
    )
    found = set()
    for number in range(shuffles):
        shuffle(con, number)
        con.execute(statement)
        found.add(digest(con, names))
    assert len(found) == 1, names


@pytest.mark.sampled
@pytest.mark.parametrize("names", [("number", "span"), ("anything", "pair"), ("words", "numbers")])
def test_a_release_does_not_depend_on_the_order_of_values_that_compare_equal(
    con: duckanon.Connection, names: Sequence[str]
) -> None:
    check(con, Draw(1), names, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_many_releases_do_not_depend_on_the_order_of_values_that_compare_equal(
    con: duckanon.Connection, seed: int
) -> None:
    draw = Draw(seed)
    check(con, draw, draw.sample(sorted(OTHERS), 1 + seed % 3), 6)


@pytest.mark.slow
def test_an_exported_file_does_not_depend_on_it_either(con: duckanon.Connection, tmp_path: Path) -> None:
    """CSV keeps the order of the rows, the sign of zero and the words of an interval."""
    load(con, Draw(3), ("number", "span"))
    files = set()
    for number in range(3):
        shuffle(con, number)
        con.execute(RELEASE.format(sensitive="number", number="mean", text="mode"))
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / str(number)}.csv'")
        files.add((tmp_path / f"{number}.csv").read_bytes())
    assert len(files) == 1


def test_a_mean_is_never_minus_zero(con: duckanon.Connection) -> None:
    """By hand: half of the least negative number is rounded to -0.0 as DOUBLE, a 100th of 1e-45 as FLOAT."""
    con.execute(
        "CREATE TABLE source AS SELECT CAST(CASE WHEN i % 2 = 0 THEN -4.9e-324 ELSE 0 END AS DOUBLE) AS wide, "
        "CAST(CASE WHEN i = 0 THEN -1.4e-45 ELSE 0 END AS FLOAT) AS narrow, "
        "CAST(CASE WHEN i < 50 THEN -1.4e-45 ELSE 0 END AS FLOAT) AS middle, i % 2 AS other FROM range(100) AS r(i)"
    )
    con.execute(
        "CREATE ANONYMIZED VIEW v AS FROM source WITH (quasi_identifiers = (wide, narrow, middle), "
        "insensitive = other, k = 100, recode = {middle: 'median'})"
    )
    rows = con.duckdb.execute(
        "SELECT DISTINCT CAST(wide AS VARCHAR), CAST(narrow AS VARCHAR), CAST(middle AS VARCHAR) FROM v"
    ).fetchall()
    ((wide, narrow, middle),) = rows
    assert (wide, narrow) == ("0.0", "0.0")
    # Half of the least negative FLOAT is as near to it as to zero.
    assert middle in ("0.0", "-1e-45")


@pytest.mark.parametrize("columns", ["age, city, pay, code", "pay, age, city, code", "age, pay, city, code"])
def test_rows_stand_in_the_order_of_what_is_released(con: duckanon.Connection, columns: str) -> None:
    # Pay neither rises nor falls with age: rows of a class in the order of their ages would tell who of it is the oldest.
    con.execute(
        "CREATE TABLE staff AS SELECT i AS age, 'c' || i % 3 AS city, i * 37 % 90 AS pay, i * 7 % 5 AS code FROM range(90) AS r(i)"
    )
    con.execute(f"""
        CREATE ANONYMIZED VIEW v AS SELECT {columns} FROM staff
        WITH (quasi_identifiers = (age, city), insensitive = (pay, code), k = 5)
    """)
    con.execute(f"CREATE VIEW people AS SELECT {columns} FROM staff")
    policy = "quasi_identifiers := ['age', 'city'], insensitive := ['pay', 'code'], k := 5"
    for relation in ("v", f"anonymize('people', {policy})"):
        rows = con.sql(f"FROM {relation}").fetchall()
        assert len(rows) == 90
        assert rows == sorted(rows)
        assert len({row[columns.split(", ").index("age")] for row in rows}) > 2
