"""What leaves is what was audited, type and bytes: every type of DuckDB through every way out of a release."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from tests.duckdb_types import NESTED, NO_COLUMN, OTHERS, SCALARS, column, logical_types, seen
from tests.e2e.doors import FILES, KINDS, REFUSED, Made, as_released, check, held, made, variant_in_union
from tests.e2e.file_scene import run
from tests.examples import some

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = int(os.environ.get("DUCKANON_TABLES", "800"))
"""Random tables of `make test-long`; before a change of types or formats lands, 2,000 are tried."""

# The tables are small, so that columns single records out, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")


@pytest.fixture(scope="module")
def registered() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        duckanon.register(connection.duckdb)
        yield connection


@pytest.fixture
def con(registered: duckanon.Connection) -> Iterator[duckanon.Connection]:
    """One connection with our functions, which are long to parse, and without the table and view of a test."""
    yield registered
    registered.sql("DROP ANONYMIZED VIEW IF EXISTS v")
    registered.execute("DROP TABLE IF EXISTS p")


def test_no_type_of_duckdb_is_forgotten(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """A new version with a new type fails here."""
    assert logical_types(fresh_db) == {*SCALARS, *NESTED, *OTHERS, *NO_COLUMN}
    with pytest.raises(duckdb.Error, match="cannot be created with a 'TYPE' column"):
        fresh_db.execute("CREATE TABLE t AS SELECT get_type(1) AS a")


def one_of_each(kinds: list[str]) -> Made:
    """Give a table with a column of each kind, NULLs and odd values among its rows."""
    return made(random.Random(12), kinds)


def test_every_type_leaves_the_view_and_both_functions_and_the_frame(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    check(con, one_of_each([kind for kind in KINDS if kind != "UNION"]), tmp_path, ["function", "table"])


@pytest.mark.sampled
@pytest.mark.parametrize("ending", FILES)
def test_a_file_holds_every_type_that_its_format_has(
    con: duckanon.Connection, tmp_path: Path, ending: str
) -> None:
    """Nested ones are left out: what they hold is random, and tried by the random tables."""
    kinds = [kind for kind in KINDS if kind not in REFUSED[ending] and kind not in NESTED]
    table = one_of_each(kinds)
    check(con, table, tmp_path, [])
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r'}.{ending}'")
    assert held(con.duckdb, tmp_path / f"r.{ending}")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("ending", "kind", "values", "instead"),
    some(
        [
            ("parquet", "HUGEINT", ["1", "170141183460469231731687303715884105727"], "VARCHAR"),
            ("parquet", "UHUGEINT", ["340282366920938463463374607431768211455", "0"], "VARCHAR"),
            ("parquet", "BIGNUM", ["1", "-1"], "VARCHAR"),
            ("parquet", "BIT", ["01", "1"], "VARCHAR"),
            ("parquet", "TIME WITH TIME ZONE", ["12:00:00+05:30", "12:00:00+00"], "VARCHAR"),
            ("parquet", "TIMESTAMP_S", ["2000-01-01 00:00:01", "2000-01-01 00:00:02"], "TIMESTAMP"),
            ("parquet", "INTEGER[2]", ["[1, 2]", "[3, 4]"], "INTEGER[]"),
            ("parquet", "INTERVAL", ["-1 day", "1 month"], "VARCHAR"),
            ("duckdb", "TUPLE(INTEGER, BIT)", ["(1, 01)", "(2, 1)"], "VARCHAR"),
            ("duckdb", "VARIANT", ["1", "2"], "VARCHAR"),
            ("csv", "VARIANT", ["1", "2"], "VARCHAR"),
        ],
        one_of=3,
    ),
)
def test_a_format_that_lacks_a_type_says_so_and_its_advice_works(
    con: duckanon.Connection, tmp_path: Path, ending: str, kind: str, values: list[str], instead: str
) -> None:
    texts = ", ".join(f"('{value}')" for value in values * 2)
    tuples = kind.startswith("TUPLE")
    value = (
        "row(1, '01'::BIT)" if tuples else f"CAST(t AS {'INTEGER' if kind == 'VARIANT' else kind})::{kind}"
    )
    con.execute(f"CREATE TABLE p AS SELECT 1 AS a, {value} AS odd FROM (VALUES {texts}) AS v(t)")
    create = "CREATE OR REPLACE ANONYMIZED VIEW v AS {} WITH (quasi_identifiers = a, insensitive = *, k = 2)"
    con.sql(create.format("FROM p"))
    file = tmp_path / f"r.{ending}"
    message = f"column 'odd' of type {re.escape(kind)} does not survive this format.*CAST it to {re.escape(instead)} "
    with pytest.raises(duckanon.DuckanonError, match=message):
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    assert list(tmp_path.iterdir()) == []
    con.sql(create.format(f"SELECT a, CAST(odd AS {instead}) AS odd FROM p"))
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    assert held(con.duckdb, file)


@pytest.mark.slow
def test_files_from_the_command_line(con: duckanon.Connection, tmp_path: Path) -> None:
    """`duckanon anonymize IN OUT`: what the three formats have in common, out of a database file."""
    kinds = [k for k in SCALARS if not any(k in REFUSED[e] for e in FILES) and k not in ("VARCHAR", "BLOB")]
    table = one_of_each(kinds)
    with duckdb.connect(str(tmp_path / "in.duckdb")) as source:
        table.load(source)
        kept = as_released(source, "p", table.kept)
    policy = tmp_path / "policy.toml"
    policy.write_text(table.policy.to_toml())
    for ending in FILES:
        out = f"r.{ending}" + (":v" if ending == "duckdb" else "")
        done = run(tmp_path, "anonymize", "in.duckdb:p", out, "--policy", "policy.toml")
        assert done[0] == 0, done
    table.load(con.duckdb)
    duckanon.anonymize(con, "p", table.policy, name="v")
    assert seen(con.duckdb, "v", table.kept) == kept
    for ending in FILES:
        assert held(con.duckdb, tmp_path / f"r.{ending}"), ending


def test_the_faults_of_the_issue(con: duckanon.Connection) -> None:
    """TIMETZ became TIME, so that two values were one; UHUGEINT turned negative, BIT a BLOB, HUGEINT a DECIMAL."""
    con.execute("""CREATE TABLE p AS SELECT 1 AS a, unnest(['12:00:00+00', '12:00:00+05'])::TIMETZ AS b,
        340282366920938463463374607431768211455::UHUGEINT AS c, '101'::BIT AS d, 1::HUGEINT AS e FROM range(4)""")
    call = "anonymize('p', quasi_identifiers := 'a', sensitive := 'b', insensitive := '*', k := 2, l := 2)"
    (row,) = con.execute(
        f"SELECT count(DISTINCT b), typeof(any_value(b)), any_value(c)::VARCHAR, any_value(d)::VARCHAR, typeof(any_value(e)) FROM {call}"
    ).fetchall()
    assert row == (2, "TIME WITH TIME ZONE", "340282366920938463463374607431768211455", "101", "HUGEINT")


def random_table(seed: int) -> tuple[Made, list[str]]:
    """Give a table over all types, and the ways out that it takes beside the view."""
    draw = random.Random(seed)
    table = made(draw, [draw.choice(KINDS) for _ in range(draw.randrange(1, 5))])
    # Both of the first give their rows over in one way; a database file with its macros takes longest of all.
    return table, [("function", "table")[seed % 2], draw.choices(FILES, [1, 5, 5])[0]]


def test_random_tables_leave_as_they_were_audited(con: duckanon.Connection, tmp_path: Path) -> None:
    for seed in range(3):
        check(con, *_with_folder(random_table(seed), tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_many_random_tables_leave_as_they_were_audited(
    con: duckanon.Connection, tmp_path: Path, part: int
) -> None:
    for seed in range(100 + TABLES // 8 * part, 100 + TABLES // 8 * (part + 1)):
        try:
            check(con, *_with_folder(random_table(seed), tmp_path))
        except BaseException as failed:
            failed.add_note(f"seed {seed}")
            raise


def _with_folder(case: tuple[Made, list[str]], folder: Path) -> tuple[Made, Path, list[str]]:
    return case[0], folder, case[1]


def test_values_of_a_column_differ_where_types_have_ties() -> None:
    """The random columns do hold what they are to try."""
    texts = {text for seed in range(30) for text in column(random.Random(seed), "DOUBLE", 8)[1]}
    assert {"CAST('-0.0' AS DOUBLE)", "CAST('0' AS DOUBLE)", "CAST('-nan' AS DOUBLE)", "NULL"} <= texts


@pytest.mark.parametrize(
    ("kind", "values", "refused"),
    [
        ("UNION(one INTEGER, two VARIANT)", "CAST(NULL AS UNION(one INTEGER, two VARIANT))", True),
        ("UNION(one VARIANT[], two INTEGER)", "CAST(NULL AS UNION(one VARIANT[], two INTEGER))", True),
        (
            'STRUCT("x y" UNION(one INTEGER, two BIT), b VARIANT)',
            "{'x y': union_value(one := 1)::UNION(one INTEGER, two BIT), 'b': 1::VARIANT}",
            False,
        ),
    ],
)
def test_a_variant_is_refused_in_a_union_and_not_beside_it(
    con: duckanon.Connection, tmp_path: Path, kind: str, values: str, *, refused: bool
) -> None:
    """The random tables hold such types now and then; here each is tried, and `check` says what is right."""
    assert variant_in_union(kind) is refused
    table = one_of_each([])
    odd = Made({**table.types, "c0": kind}, [[*row, values] for row in table.rows], table.policy)
    check(con, odd, tmp_path, [])
