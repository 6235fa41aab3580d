"""A file that lies about its rows in its statistics: no verdict comes from what it states.

Rows are 256 * g + i % 2 in class g, a tenth NULL: DuckDB, which sorts and groups by what a file states, takes values that
differ by 256 for one where the stated maximum is below 256. By hand, of 100 classes with two values of their own the
equal distance to the whole is 0.99 with NULL apart, and above 0.1 in any case: exit code 1 where the file is honest.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import duckanon
from duckanon.database import own_copy
from duckanon.database.relations import Target, named
from duckanon.policy.policy import AuditPolicy
from duckanon.testing import assert_private
from tests.e2e.evidence_scene import everything_wrong, verified
from tests.e2e.file_scene import run
from tests.e2e.forged_database import mended, number, replaced
from tests.e2e.forged_parquet import COLUMNS, ROW_GROUPS, Fields, forged, with_footer
from tests.e2e.scenes import CREATE, patients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DAY = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
LAST = 256 * 99 + 1

ROWS = """
SELECT
    i // 10 AS age,
    (CASE WHEN i % 10 < 9 THEN 256 * (i // 10) + i % 2 END) AS n
FROM range(1000) AS r(i)
"""


@dataclass(frozen=True)
class Kind:
    """A type, its values and how both formats write a statistic of them."""

    value: str  # SQL of the value for a number n
    parquet: Callable[[int], bytes]
    stored: Callable[[int], bytes]


def _big(n: int) -> bytes:
    """Write a number of 128 bits as DuckDB does: the upper half, and the lower one."""
    return number(0) + _unsigned(n)


def _unsigned(n: int) -> bytes:
    written = bytearray()
    while n > 127:
        written.append(n & 127 | 128)
        n >>= 7
    return bytes([*written, n])


KINDS = {
    "INTEGER": Kind("n::INTEGER", lambda n: struct.pack("<i", n), number),
    "BIGINT": Kind("n::BIGINT", lambda n: struct.pack("<q", n), number),
    "DECIMAL(9,2)": Kind("(n / 100)::DECIMAL(9,2)", lambda n: struct.pack("<i", n), number),
    "DECIMAL(30,2)": Kind("(n / 100)::DECIMAL(30,2)", lambda n: n.to_bytes(16, "big"), _big),
    "VARCHAR": Kind("printf('v%05d', n)", lambda n: b"v%05d" % n, lambda n: b"v%05d" % n),
    "DATE": Kind("DATE '2020-01-01' + n::INTEGER", lambda n: struct.pack("<i", DAY + n), lambda n: number(DAY + n)),
    "DOUBLE": Kind("n / 4", lambda n: struct.pack("<d", n / 4), lambda n: struct.pack("<d", n / 4)),
}  # fmt: skip

AUDIT = ["--qi", "age", "--sensitive", "s", "-t", "0.1", "--distance", "s=equal", "--format", "json"]


def scene(folder: Path, kind: str) -> None:
    """Write the rows of a type as Parquet and as a database."""
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT age, {KINDS[kind].value} AS s FROM ({ROWS})")
        con.execute(f"COPY t TO '{folder / 'honest.parquet'}'")
        (folder / "honest.duckdb").unlink(missing_ok=True)
        con.execute(f"ATTACH '{folder / 'honest.duckdb'}' AS d; CREATE TABLE d.t AS FROM t; DETACH d")


def lies_of_parquet(kind: Kind) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Give name, statistics and what is told of each lie."""
    yield "max", {"max": kind.parquet(50)}, "stated max "
    yield "min", {"min": kind.parquet(LAST - 1)}, "stated min "
    yield "no NULL", {"null_count": 0}, "stated number of NULLs 0, found 100"
    yield "all NULL", {"null_count": 1000}, "stated NULL throughout, found values"
    yield "one value", {"distinct_count": 1}, "stated number of different values 1, found "
    yield "a constant", {"min": kind.parquet(3), "max": kind.parquet(3), "null_count": 0}, "stated max "


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_no_parquet_file_is_believed(tmp_path: Path, kind: str) -> None:
    scene(tmp_path, kind)
    honest = run(tmp_path, "audit", "honest.parquet", *AUDIT)
    assert honest[0] == 1
    file = tmp_path / "forged.parquet"
    for name, statistics, words in lies_of_parquet(KINDS[kind]):
        shutil.copy(tmp_path / "honest.parquet", file)
        forged(file, "s", **statistics)
        code, out, err = run(tmp_path, "audit", file.name, *AUDIT)
        if kind == "DOUBLE" and name == "one value":
            # Writers do not agree on the number of different numbers, so it is not compared, nor believed.
            assert json.loads(out)["measures"] == json.loads(honest[1])["measures"], name
            continue
        assert (code, out, len(err.splitlines())) == (2, "", 1), name
        assert 'the file\'s statistics contradict its rows: column "s", ' + words in err, name


def lies_of_database(kind: str) -> Iterator[tuple[str, bytes, bytes, str | None]]:
    """Give name, bytes of the statistics, a lie of the same length, and what is told; None where nothing is."""
    write = KINDS[kind].stored
    low, high = write(0), write(LAST)
    if kind == "VARCHAR":
        low, high, near = (text.ljust(12, b"\0") for text in (low, high, write(50)))
        yield "max", b"\xcd\0\x18" + low + high, b"\xcd\0\x18" + low + near, "stated max "
        yield "min", b"\xcd\0\x18" + low + high, b"\xcd\0\x18" + high + high, "stated min "
        place = b"\xcc"
    else:
        near = write(50).ljust(len(high), b"\0") if kind == "DOUBLE" else KINDS[kind].stored(50)
        if kind != "DOUBLE" and len(near) < len(high):
            near = near[:-1] + bytes([near[-1] | 128]) + b"\x80" * (len(high) - len(near) - 1) + b"\0"
        most, least = b"\xc9\0\x64\0\x01\x65\0", b"\xc8\0\x64\0\x01\x65\0"
        yield "max", most + high, most + near, "stated max "
        one = {"DATE": number(DAY + 1), "DOUBLE": struct.pack("<d", 1.0)}.get(kind, low[:-1] + b"\x01")
        yield "min", least + low + b"\xff\xff\xc9", least + one + b"\xff\xff\xc9", "stated min "
        place = b"\xc8"
    nulls = b"\x64\0%b\x65\0\x01\x66\0%b\x67\0" + place
    yield "no NULL", nulls % (b"\x01", b"\0"), nulls % (b"\0", b"\0"), "stated no NULL, found 100"
    yield "one value", b"", b"", None


SKETCH = re.compile(rb"\x65\0\x01\x64\0(..)\x65\0\xe8\x07\x66\0\x01\x64", re.DOTALL)
"""Where the statistics of a table say of how many records its sketch of different values was made."""


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_no_database_is_believed(tmp_path: Path, kind: str) -> None:
    scene(tmp_path, kind)
    honest = run(tmp_path, "audit", "honest.duckdb:t", *AUDIT)
    assert honest[0] == 1
    file = tmp_path / "forged.duckdb"
    for name, stated, lie, words in lies_of_database(kind):
        shutil.copy(tmp_path / "honest.duckdb", file)
        if words is None:
            whole = file.read_bytes()
            *_, last = SKETCH.finditer(whole)
            forged_one = whole[: last.start(1)] + b"\x81\0" + whole[last.end(1) :]
            file.write_bytes(mended(bytearray(forged_one)))
        else:
            assert replaced(file, stated, lie), name
        code, out, err = run(tmp_path, "audit", f"{file.name}:t", *AUDIT)
        if words is None:  # a sketch estimates, so it contradicts nothing
            assert code == 1, err
            assert json.loads(out)["measures"] == json.loads(honest[1])["measures"]
            continue
        assert (code, out, len(err.splitlines())) == (2, "", 1), name
        assert "the file's statistics contradict its rows: " in err, name
        assert f'column "s", {words}' in err, name


def test_a_forged_file_changes_no_command(tmp_path: Path) -> None:
    """Whoever reads it refuses it: as table, as original, as release, as hierarchy and in SQL."""
    scene(tmp_path, "INTEGER")
    forged(shutil.copy(tmp_path / "honest.parquet", tmp_path / "f.parquet"), "s", max=struct.pack("<i", 50))
    (tmp_path / "q.sql").write_text("SELECT sum(s) AS n FROM data")
    with duckdb.connect() as con:
        tree = "SELECT DISTINCT 256 * (i // 10) + i % 2 AS leaf, 1 AS root FROM range(1000) AS r(i)"
        con.execute(f"COPY ({tree}) TO '{tmp_path / 'tree.parquet'}'")
    forged(tmp_path / "tree.parquet", "leaf", max=struct.pack("<q", 50))
    graded = [
        "--sensitive",
        "s",
        "-t",
        "0.5",
        "--distance",
        "s=hierarchical",
        "--hierarchies",
        "s=tree.parquet",
    ]
    for call in (
        ["anonymize", "f.parquet", "o.csv", "--qi", "age", "-k", "2", "--insensitive", "s"],
        ["suggest", "f.parquet"],
        ["compare", "f.parquet", "honest.parquet", "--queries", "q.sql"],
        ["compare", "honest.parquet", "f.parquet", "--queries", "q.sql"],
        ["linkage", "f.parquet", "honest.parquet", "--qi", "age"],
        ["compare-releases", "honest.parquet", "f.parquet", "--qi", "age", "-k", "2"],
        ["audit", "honest.parquet", "--qi", "age", "--format", "html", "--original", "f.parquet", "-o", "o.html"],
        ["audit", "honest.parquet", "--qi", "age", *graded],
    ):  # fmt: skip
        code, _, err = run(tmp_path, *call)
        assert code == 2, call
        assert "the file's statistics contradict its rows: column" in err, call
    assert not (tmp_path / "o.csv").exists()
    policy = AuditPolicy(quasi_identifiers="age", sensitive="s", t=0.1, distance={"s": "equal"})
    with duckdb.connect() as con, pytest.raises(duckanon.SourceError, match="stated max 50"):
        duckanon.audit(con, f'"{tmp_path / "f.parquet"}"', policy)
    asked = "WITH (quasi_identifiers = (age), sensitive = (s), t = 0.1, distance = {s: 'equal'})"
    with duckanon.connect() as con, pytest.raises(duckanon.SourceError, match="stated max 50"):
        con.sql(f'AUDIT TABLE "{tmp_path / "f.parquet"}" {asked}')


@pytest.mark.parametrize(
    "name", ["*.parquet", "f?.parquet", "{0}/**/*.parquet", "file://{0}/f1.parquet", "~/f1.parquet"]
)
def test_no_file_is_believed_whatever_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """DuckDB takes patterns, addresses and ~ for files; a file called f[1].parquet is none of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    scene(tmp_path, "INTEGER")
    shutil.move("honest.parquet", "f1.parquet")
    forged(tmp_path / "f1.parquet", "s", max=struct.pack("<i", 50))
    asked = "WITH (quasi_identifiers = (age), sensitive = (s), t = 0.1, distance = {s: 'equal'})"
    with duckanon.connect() as con, pytest.raises(duckanon.SourceError, match="stated max 50"):
        con.sql(f'AUDIT TABLE "{name.format(tmp_path)}" {asked}')


def test_a_view_over_a_forged_file_is_not_led_by_it(tmp_path: Path) -> None:
    """The rows of a view are copied by a plain scan: t = 0.99 by hand, as for the honest file."""
    scene(tmp_path, "INTEGER")
    forged(tmp_path / "honest.parquet", "s", max=struct.pack("<i", 50))
    policy = AuditPolicy(quasi_identifiers="age", sensitive="s", t=0.1, distance={"s": "equal"})
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW v AS SELECT * FROM '{tmp_path / 'honest.parquet'}' WHERE s IS NOT NULL")
        report = duckanon.audit(con, "v", policy)
    assert not report.passed
    assert {each.measure: each.value for each in report.measures}["t_closeness"] == pytest.approx(0.99)


def test_bloom_filters_and_page_indexes_are_not_read(tmp_path: Path) -> None:
    """A filter of DuckDB goes by a Bloom filter: cleared, it says that no value is there. A plain scan asks none."""
    scene(tmp_path, "INTEGER")
    honest = run(tmp_path, "audit", "honest.parquet", *AUDIT)
    wanted = json.loads(honest[1])["measures"]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS FROM '" + str(tmp_path / "honest.parquet") + "'")
        blooming = tmp_path / "bloom.parquet"
        con.execute(f"COPY t TO '{blooming}' (DICTIONARY_SIZE_LIMIT 1000)")
        whole = bytearray(blooming.read_bytes())
        places = con.execute(
            f"SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata('{blooming}')"
        ).fetchall()
        header = 16
        for start, length in places:
            whole[start + header : start + length] = bytes(length - header)
        blooming.write_bytes(whole)
        assert con.execute(f"SELECT count(*) FROM '{blooming}' WHERE s = 256").fetchall() == [(0,)]
        assert con.execute("SELECT count(*) FROM t WHERE s = 256").fetchall() != [(0,)]
    paged = tmp_path / "pages.parquet"
    rows = pq.read_table(tmp_path / "honest.parquet")
    pq.write_table(rows, paged, write_page_index=True, data_page_size=500, use_dictionary=False)
    spoiled = bytearray(paged.read_bytes())

    def spoil(footer: Fields) -> None:
        for group in footer[ROW_GROUPS][1][1]:
            for chunk in group[COLUMNS][1][1]:
                for place, length in ((4, 5), (6, 7)):  # where its offset index and column index are
                    start = chunk[place][1]
                    spoiled[start : start + chunk[length][1]] = b"\xff" * chunk[length][1]

    with_footer(paged, spoil)
    assert spoiled != paged.read_bytes()
    paged.write_bytes(spoiled)
    for file in (blooming, paged):
        code, out, _ = run(tmp_path, "audit", file.name, *AUDIT)
        assert (code, json.loads(out)["measures"]) == (1, wanted)


def test_a_file_that_two_readers_read_differently_is_named(tmp_path: Path) -> None:
    """Spark finds the columns of a row group by name, DuckDB by their place; count(*) goes by the footer."""
    rows = pa.table({"age": [1, 1, 2, 2, 9], "s": [5, 5, 5, 5, 1]})

    def swapped(footer: Fields) -> None:
        footer[ROW_GROUPS][1][1][-1][COLUMNS][1][1].reverse()

    def fewer(footer: Fields) -> None:
        footer[3] = (footer[3][0], 4)

    for change, words in (
        (swapped, 'column "age", stated "s" in its place'),
        (fewer, "stated number of rows 4, found 5"),
    ):
        file = tmp_path / "f.parquet"
        pq.write_table(rows, file, row_group_size=4)
        assert run(tmp_path, "audit", file.name, "--qi", "age", "-k", "2")[0] == 1
        with_footer(file, change)
        code, out, err = run(tmp_path, "audit", file.name, "--qi", "age", "-k", "2")
        assert (code, out) == (2, "")
        assert words in err


def test_a_segment_whose_least_value_is_above_its_greatest_states_neither(tmp_path: Path) -> None:
    """DuckDB drops both then; the verdict is that of the rows."""
    scene(tmp_path, "INTEGER")
    honest = run(tmp_path, "audit", "honest.duckdb:t", *AUDIT)
    least, most = b"\xc8\0\x64\0\x01\x65\0", b"\xff\xff\xc9\0\x64\0\x01\x65\0"
    stated, lie = least + number(0) + most + number(LAST), least + number(60) + most + number(50, 3)
    assert replaced(tmp_path / "honest.duckdb", stated, lie)
    code, out, _ = run(tmp_path, "audit", "honest.duckdb:t", *AUDIT)
    assert (code, json.loads(out)["measures"]) == (1, json.loads(honest[1])["measures"])


@pytest.mark.parametrize("kind", ["INTEGER", "VARCHAR"])
def test_no_table_or_relation_of_a_connection_is_led_by_its_file(tmp_path: Path, kind: str) -> None:
    """By hand, with NULL left out: each of 100 classes has two values of its own, so the distance is 0.99 * 0.9."""
    scene(tmp_path, kind)
    file, table = tmp_path / "honest.duckdb", tmp_path / "honest.parquet"
    _, stated, lie, _ = next(lies_of_database(kind))
    assert replaced(file, stated, lie)
    forged(table, "s", max=KINDS[kind].parquet(50))
    asked: dict[str, Any] = {
        "quasi_identifiers": "age",
        "sensitive": "s",
        "t": 0.1,
        "distance": {"s": "equal"},
    }
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file}' AS foreign_one (READ_ONLY)")
        report = duckanon.audit(con, "foreign_one.main.t", AuditPolicy(**asked))
        assert {each.measure: each.value for each in report.measures}["t_closeness"] == pytest.approx(0.891)
        for rows in ("foreign_one.t", f"'{table}'"):
            with pytest.raises(AssertionError, match=r"0\.891"):
                assert_private(con.sql(f"FROM {rows}"), **asked)
        assert con.execute("SELECT current_setting('disabled_optimizers')").fetchall() == [("",)]
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]
    with duckanon.connect(file) as own:
        found = own.sql(
            "AUDIT TABLE t WITH (quasi_identifiers = (age), sensitive = (s), distance = {s: 'equal'})"
        )
        assert dict(found.select("measure", "value").fetchall())["t_closeness"] == pytest.approx(0.891)


def test_a_computed_column_that_changes_is_an_error_in_a_file_too(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "h.duckdb")) as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER AS ((random() * 1000)::INTEGER))")
        con.execute("INSERT INTO t SELECT i FROM range(3000) AS r(i)")
        policy = AuditPolicy(quasi_identifiers="b", sensitive="a")
        with pytest.raises(duckanon.SourceError, match="other rows each time"):
            duckanon.audit(con, "t", policy)


def test_rows_are_compared_in_their_order_whatever_the_settings(tmp_path: Path) -> None:
    """DuckDB copies row groups as they come unless it is to keep their order; the setting stays the user's."""
    file = tmp_path / "x.parquet"
    policy = AuditPolicy(quasi_identifiers="age", k=10)
    with duckdb.connect(config={"threads": 4}) as con:
        con.execute(
            f"COPY (SELECT i // 10 AS age FROM range(600000) AS r(i)) TO '{file}' (ROW_GROUP_SIZE 2048)"
        )
        con.execute("SET preserve_insertion_order = false")
        for _ in range(3):
            assert duckanon.audit(con, f'"{file}"', policy).passed
        assert con.execute("SELECT current_setting('preserve_insertion_order')").fetchall() == [(False,)]


@pytest.mark.slow
def test_audits_at_a_time_leave_the_settings_of_the_user(tmp_path: Path) -> None:
    """The setting is that of the database: who restores it must not undo, nor keep, what another one needs."""
    scene(tmp_path, "INTEGER")
    policy = AuditPolicy(quasi_identifiers="age", sensitive="s", t=0.1, distance={"s": "equal"})
    with duckdb.connect() as con:
        con.execute("SET disabled_optimizers = 'join_order'")

        def audits(other: duckdb.DuckDBPyConnection) -> list[bool]:
            name = f'"{tmp_path / "honest.parquet"}"'
            return [duckanon.audit(other, name, policy).passed for _ in range(8)]

        with ThreadPoolExecutor(4) as pool:
            assert not any(any(each) for each in pool.map(audits, [con.cursor() for _ in range(4)]))
        assert con.execute("SELECT current_setting('disabled_optimizers')").fetchall() == [("join_order",)]


def test_all_null_inside_a_struct_is_not_believed(tmp_path: Path) -> None:
    """DuckDB does not read what a row group states to be NULL throughout, so not even a plain scan finds it."""
    file = tmp_path / "s.parquet"
    pq.write_table(pa.table({"age": [1, 1], "s": [{"a": 1}, {"a": 2}]}), file)
    forged(file, "a", null_count=2)
    with duckdb.connect() as con:
        assert con.execute(f"SELECT count(s.a) FROM '{file}'").fetchall() == [(0,)]
    code, _, err = run(tmp_path, "audit", file.name, "--qi", "age")
    assert (code, "stated NULL throughout, found values" in err) == (2, True)


@pytest.mark.slow
def test_verify_is_not_led_by_what_a_file_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values of an insensitive column grow by multiples of 256: the sort of a fingerprint took them for the old ones."""
    with duckdb.connect(str(tmp_path / "home.duckdb")) as con:
        con.execute(
            "CREATE TABLE p AS SELECT i // 8 AS age, (i % 8) // 4 AS s, (i % 50)::INTEGER AS n FROM range(400) AS r(i)"
        )
    file = tmp_path / "file.duckdb"
    with duckanon.connect(tmp_path / "home.duckdb") as con:
        asked = "(quasi_identifiers = (age), sensitive = (s), insensitive = (n), k = 4)"
        con.sql(f"CREATE ANONYMIZED VIEW v AS FROM p WITH {asked}; EXPORT ANONYMIZED VIEW v TO '{file}'")
    honest = verified(file, capsys)[1]["releases"][0]
    with duckdb.connect(str(file)) as con:
        con.execute("UPDATE v SET n = n + 256 * (1 + rowid % 99) WHERE n > 0; CHECKPOINT")
        ((most,),) = con.execute("SELECT max(n) FROM v").fetchall()
    most_stated = b"\xc9\0\x64\0\x01\x65\0"
    low = number(49 | 128, 0)[:1]
    assert replaced(file, most_stated + number(most), most_stated + low + b"\x80\0")
    code, found = verified(file, capsys, expect=[honest["fingerprint"]], head=honest["heads"])
    wrong = everything_wrong(found)
    assert code == 1
    assert any(
        line.startswith('table main.v: the file\'s statistics contradict its rows: column "n", stated max 49')
        for line in wrong
    )
    assert any(f"fingerprint recorded {honest['fingerprint']}, found" in line for line in wrong)


def test_metadata_with_forged_statistics_are_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file.duckdb"
    with patients(tmp_path / "home.duckdb") as con:
        con.sql(CREATE)
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    # EXPORT writes the format of DuckDB 1.2, which keeps 8 bytes of a text.
    least, most = b"\xc8\0\x08quasi_id", b"\xc9\0\x08sensitiv"
    assert replaced(file, least + most, least + most[:3] + least[3:])
    code, found = verified(file, capsys)
    assert code == 1
    assert any(
        line.startswith('table duckanon.columns: the file\'s statistics contradict its rows: column "role"')
        for line in found["differences"]
    )


WORDS = [
    "",
    "a",
    "A",
    "ä",
    "日本",
    "\x00x",
    "z" * 300,
    "\\x41",
    "it's",
    "\U0001f600",
    "é" * 40,
    "\U0010ffff" * 30,
]
REAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 1e30, 1 / 3]
ROWS_OF_A_SWEEP = 600


def honest_columns() -> Iterator[tuple[str, pa.Array]]:
    """Give columns of every type that Parquet has, a fifth of each NULL, and what is hard in each."""
    draw = np.random.default_rng(1)
    hidden = draw.random(ROWS_OF_A_SWEEP) < 0.2
    whole = [int(n) for n in draw.integers(-100, 100, ROWS_OF_A_SWEEP)]
    above = [abs(n) for n in whole]

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        kept = [None if gone else value for gone, value in zip(hidden, values, strict=True)]
        return pa.array(kept, kind)

    def some(values: list[Any]) -> list[Any]:
        return [values[n % len(values)] for n in above]

    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        yield str(kind), column(whole, kind)
    for kind, factor in (
        (pa.uint8(), 2),
        (pa.uint16(), 600),
        (pa.uint32(), 42949672),
        (pa.uint64(), 184467440737095516),
    ):
        yield str(kind), column([n * factor for n in above], kind)
    yield "double", column(some(REAL), pa.float64())
    yield "float", column(some(REAL), pa.float32())
    yield "half", column([np.float16(n) for n in whole], pa.float16())
    yield "only NaN", pa.array([math.nan] * ROWS_OF_A_SWEEP)
    yield "only NULL", pa.array([None] * ROWS_OF_A_SWEEP, pa.string())
    for digits, scale in ((5, 2), (9, 0), (18, 4), (25, 3), (38, 10)):
        kind = pa.decimal128(digits, scale)
        yield str(kind), column([Decimal(n * 7).scaleb(-scale) for n in whole], kind)
    yield "date", column([dt.date(1970, 1, 1) + dt.timedelta(days=n * 300) for n in whole], pa.date32())
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        times = [n * factor * 86_400 + n for n in whole]
        yield f"time {unit}", column(times, pa.timestamp(unit))
        yield f"zoned {unit}", column(times, pa.timestamp(unit, "Europe/Berlin"))
    yield "long ago", column([-n * 10**6 * 86_400 * 600 for n in above], pa.timestamp("us"))
    yield "hour", column([n * 3 for n in above], pa.time64("us"))
    yield "fine hour", column([n * 3 for n in above], pa.time64("ns"))
    yield "text", column(some(WORDS), pa.string())
    yield "growing", column(["é" * n for n in above], pa.string())
    yield "dictionary", column(some(WORDS), pa.string()).dictionary_encode()
    yield "bytes", column(some([b"", b"\xff\xfe", b"a", b"\0", b"\x80" * 300, b"\\x41"]), pa.binary())
    yield "truth", column([n > 0 for n in whole], pa.bool_())
    yield (
        "json",
        pa.ExtensionArray.from_storage(pa.json_(), column([f'{{"a":{n}}}' for n in whole], pa.string())),
    )
    numbers = column([n.to_bytes(16, "big") for n in above], pa.binary(16))
    yield "uuid", pa.ExtensionArray.from_storage(pa.uuid(), numbers)
    yield "list", column([[n, None] if n > 0 else [] for n in whole], pa.list_(pa.int32()))
    yield (
        "struct",
        column([{"a": n, "b": None} for n in whole], pa.struct({"a": pa.int32(), "b": pa.int32()})),
    )
    yield "map", column([[("k", n)] for n in whole], pa.map_(pa.string(), pa.int32()))
    yield "a.b", column(whole, pa.int32())


WRITERS: dict[str, dict[str, Any]] = {
    "usual": {},
    "small row groups, pages of version 2": {"row_group_size": 64, "data_page_version": "2.0"},
    "page index, no dictionary": {"use_dictionary": False, "write_page_index": True, "row_group_size": 300},
    "old times, old decimals": {"use_deprecated_int96_timestamps": True, "version": "1.0"},
    "decimals as integers": {"store_decimal_as_integer": True},
    "no statistics": {"write_statistics": False},
}
POLARS: list[dict[str, Any]] = [{}, {"statistics": "full", "row_group_size": 100, "data_page_size": 64}]
DUCKDB = ["", "ROW_GROUP_SIZE 100, PARQUET_VERSION v2,", "DICTIONARY_SIZE_LIMIT 1,"]


def contradictions(con: duckdb.DuckDBPyConnection, relation: str, source: Path | Target) -> list[str]:
    """Copy rows and give what is said of them."""
    rows = own_copy.copy(con, relation, named("temp", "rows"), "test")
    found = own_copy.lies(con, source, rows, "test")
    con.execute("DROP TABLE temp.rows")
    return found


def _by_polars(table: pa.Table, file: Path, options: dict[str, Any]) -> None:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(file, **options)


def _by_duckdb(con: duckdb.DuckDBPyConnection, table: pa.Table, copy: str) -> None:
    con.register("given", table)
    con.execute(copy)


@pytest.mark.slow
@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.long)])
def test_no_honest_file_is_refused(tmp_path: Path, each: int) -> None:
    """Some four hundred files of pyarrow, polars and DuckDB, of every type; make test tries a fourth of the types."""
    file, tried = tmp_path / "x.parquet", 0
    with duckdb.connect() as con:
        for name, values in list(honest_columns())[::each]:
            table = pa.table({name: values, "z": list(range(ROWS_OF_A_SWEEP))})
            writers = [partial(pq.write_table, table, file, **options) for options in WRITERS.values()]
            writers += [partial(_by_polars, table, file, options) for options in POLARS]
            copies = [f"COPY (FROM given) TO '{file}' ({options} FORMAT parquet)" for options in DUCKDB]
            writers += [partial(_by_duckdb, con, table, copy) for copy in copies]
            for write in writers:
                try:
                    write()
                except (duckdb.Error, pa.ArrowException, OSError, pl.exceptions.PolarsError):
                    continue  # a type that this writer does not have
                tried += 1
                assert contradictions(con, f"read_parquet('{file}')", file) == [], name
    assert tried > 350 // each


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.long)])
def test_no_honest_database_is_refused(tmp_path: Path, each: int) -> None:
    """Several row groups, rows that were deleted and changed, and every type; NaN in one of the segments alone."""
    with duckdb.connect() as con:
        for place, (name, values) in enumerate(list(honest_columns())[::each]):
            try:
                con.register("given", pa.table({name: values, "z": list(range(ROWS_OF_A_SWEEP))}))
                con.execute("CREATE OR REPLACE TEMP TABLE source AS FROM given")
            except duckdb.Error:
                continue
            file = tmp_path / f"{place}.duckdb"
            many = "SELECT s.* FROM source AS s, range(12) AS r(i) ORDER BY z, i"
            con.execute(f"ATTACH '{file}' AS d (ROW_GROUP_SIZE 2048); CREATE TABLE d.t AS {many}")
            con.execute(
                "CREATE TABLE d.u AS FROM d.t; DELETE FROM d.u WHERE z % 7 = 3; UPDATE d.u SET z = z * 9 WHERE z % 5 = 0"
            )
            con.execute(f"DETACH d; ATTACH '{file}' AS d (READ_ONLY)")
            for table in ("t", "u"):
                assert contradictions(con, f"d.{table}", Target("d", "main", table)) == [], name
            con.execute("DETACH d")


def test_a_lie_about_one_row_group_is_found(tmp_path: Path) -> None:
    """The greatest value of the first group is lowered, and that of the file stays what it is."""
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"s": list(range(1000))}), file, row_group_size=100)
    data = file.read_bytes()
    foot = len(data) - 8 - struct.unpack("<i", data[-8:-4])[0]
    file.write_bytes(data[:foot] + data[foot:].replace(struct.pack("<q", 299), struct.pack("<q", 250)))
    with duckdb.connect() as con:
        found = contradictions(con, f"read_parquet('{file}')", file)
    assert found == ['column "s", stated max 250, found 299']
