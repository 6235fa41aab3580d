"""A CSV that cannot be read: the cause and the line of DuckDB, and what to do."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from tests.e2e.file_scene import run, write

if TYPE_CHECKING:
    from pathlib import Path

UTF = "not utf-8 encoded. Convert it, or read it in SQL by read_csv(..., encoding = 'latin-1')"
AHEAD = "name,age\n" + "Miller,3\n" * 25_000


@pytest.mark.parametrize("where", ["at the beginning", "behind what is sampled"])
def test_a_file_that_is_not_utf_8_says_so(tmp_path: Path, where: str) -> None:
    ahead = "name,age\n" if where == "at the beginning" else AHEAD
    (tmp_path / "p.csv").write_bytes((ahead + "Müller,4\n" * 2).encode("latin-1"))
    line = 25_002 if ahead is AHEAD else 2
    for call in (["audit", "p.csv", "--qi", "name"], ["suggest", "p.csv"]):
        code, out, err = run(tmp_path, *call)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert f"Line: {line}: " in err
        assert UTF in err
    with duckanon.connect() as con:
        con.execute(f"CREATE VIEW p AS FROM read_csv('{tmp_path / 'p.csv'}', encoding = 'latin-1')")
        assert con.sql("SELECT count(*) FROM p WHERE name = 'Müller'").fetchall() == [(2,)], (
            "the advice works"
        )
        with pytest.raises(duckanon.SourceError, match=r"not utf-8 encoded\. Convert it"):
            con.sql(
                f"CREATE ANONYMIZED VIEW v AS FROM '{tmp_path / 'p.csv'}' WITH (quasi_identifiers = (name, age), k = 2)"
            )


def test_a_line_with_too_few_fields_is_named(tmp_path: Path) -> None:
    """Behind what is sampled it is DuckDB's error; within, DuckDB takes the file for one column, which is said."""
    write(tmp_path / "late.csv", AHEAD + "Miller\n")
    code, out, err = run(tmp_path, "audit", "late.csv", "--qi", "age", "-k", "2")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "Line: 25002: Expected Number of Columns: 2 Found: 1" in err
    write(tmp_path / "soon.csv", "age,zip,charge\n1,2,3\n4,5\n6,7,8\n")
    code, out, err = run(tmp_path, "audit", "soon.csv", "--qi", "age", "-k", "2")
    warning, error = err.splitlines()
    assert (code, out) == (2, "")
    assert "Line: 3: Expected Number of Columns: 3 Found: 2. Mend that line" in warning
    assert (
        "names 'age', which the source does not have: Columns: 'age,zip,charge' (one column: the delimiter"
        in error
    )


def test_a_late_text_in_a_column_of_numbers_names_the_way_out(tmp_path: Path) -> None:
    """The advice works: the text is a missing value then, or the column a text."""
    write(tmp_path / "p.csv", AHEAD + "Miller,not known\n")
    call = ["anonymize", "p.csv", "o.csv", "--qi", "age", "--insensitive", "name", "-k", "2"]
    code, out, err = run(tmp_path, *call)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "Line: 25002: " in err
    assert "give --null 'not known' (nullstr of read_csv in SQL)" in err
    assert "read_csv(..., all_varchar = true)" in err
    # A missing value is a class of its own; one record is fewer than k = 2, so it joins the others.
    assert run(tmp_path, *call, "--null", "not known", "--dry-run")[0] == 0
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE p AS FROM read_csv('{tmp_path / 'p.csv'}', all_varchar = true)")
        assert con.execute("SELECT count(*) FROM p WHERE age = 'not known'").fetchall() == [(1,)]


def test_a_compressed_file_says_how_to_unpack_it(tmp_path: Path) -> None:
    (tmp_path / "p.csv.xz").write_bytes(lzma.compress(b"age\n3\n3\n"))
    for call in (["audit", "p.csv.xz", "--qi", "age"], ["stream", "p.csv.xz", "o.csv", "--qi", "age"]):
        code, out, err = run(tmp_path, *call)
        assert (code, out) == (2, "")
        assert err == "error: 'p.csv.xz' is compressed: unpack it first, unxz -k p.csv.xz\n"


def test_one_column_with_commas_in_its_name_is_seen_as_one(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", '"age,zip,charge"\n"1,2,3"\n"1,2,3"\n')
    for call in (
        ["audit", "p.csv", "--qi", "age", "-k", "2"],
        ["anonymize", "p.csv", "o.csv", "--qi", "age", "-k", "2"],
        ["linkage", "p.csv", "p.csv", "--qi", "age"],
    ):
        code, out, err = run(tmp_path, *call)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "Columns: 'age,zip,charge' (one column: the delimiter of the file may not" in err
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute('CREATE TABLE "a, b" (x INTEGER); CREATE TABLE c (x INTEGER)')
    assert "Tables: 'a, b', 'c'" in run(tmp_path, "audit", "d.duckdb:nowhere", "--qi", "x")[2]


def test_a_file_of_one_column_is_no_news(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", "remark\nhello\nhello\n")
    assert run(tmp_path, "audit", "p.csv", "--qi", "remark", "-k", "2")[::2] == (0, "")
