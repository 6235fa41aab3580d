"""Files on the command line: the file that was named is read, and the table in it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.api import files
from duckanon.testing import assert_private
from tests.e2e.file_scene import k_of, parquet, run, write
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

# By hand: in the file that is named each x stands once, so k = 1; in the other file x = 1 stands twice, so k = 2.
NAMED, OTHER = "x,p\n1,1\n2,2\n", "x,p\n1,1\n1,2\n"


# What DuckDB would read instead, where there is such a file.
NAMES = {
    "data[1].csv": "data1.csv",
    "a*b.csv": "aXb.csv",
    "q?.csv": "qq.csv",
    "[[]z.csv": "[z.csv",
    "d[1]/r.csv": "d1/r.csv",
    "it's.csv": None,
    'say "x".csv': None,
    "~/r.csv": None,
    "s3:/r.csv": None,
    "x=1/r.csv": None,
    "c\\d.csv": None,
    "{a,b}.csv": "a.csv",
}


@pytest.mark.parametrize("form", slowly(["csv", "parquet"]))
@pytest.mark.parametrize("name", NAMES)
def test_the_file_that_was_named_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    """A folder called x=1 would give all records the value 1 in x."""
    make = write if form == "csv" else parquet
    wanted, other = name.replace("csv", form), (NAMES[name] or "").replace("csv", form)
    make(tmp_path / wanted, NAMED)
    if other:
        make(tmp_path / other, OTHER)
    found = run(tmp_path, "audit", wanted, "--qi", "x", "-k", "2", "--format", "json")
    assert (found[0], k_of(found)) == (1, 1)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="is not private"):
        assert_private(wanted, quasi_identifiers="x", k=2)


def test_a_name_that_no_pattern_matches_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "b\\[1].csv", NAMED)
    write(tmp_path / "b\\1.csv", OTHER)
    code, _, err = run(tmp_path, "audit", "b\\[1].csv", "--qi", "x", "-k", "2")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "rename it" in err


@pytest.mark.parametrize("command", slowly(["anonymize", "suggest", "linkage", "compare"], one_of=3))
def test_every_command_reads_the_file_that_was_named(tmp_path: Path, command: str) -> None:
    """The other file has no column x."""
    write(tmp_path / "data[1].csv", "x,p\n" + "1,1\n2,2\n" * 30)
    write(tmp_path / "data1.csv", "y\n1\n")
    write(tmp_path / "queries.sql", "SELECT sum(x) AS x FROM data")
    rest = {
        "anonymize": ["out.csv", "--qi", "x", "--sensitive", "p", "-k", "2"],
        "suggest": [],
        "linkage": ["data[1].csv", "--qi", "x"],
        "compare": ["data[1].csv", "--queries", "queries.sql"],
    }
    code, out, err = run(tmp_path, command, "data[1].csv", *rest[command])
    assert code == 0, err
    assert "x" in out if command != "anonymize" else (tmp_path / "out.csv").read_text().startswith("x,p")


@pytest.mark.parametrize("tree", ["tree[1].csv", "tree[1].parquet", "level=9/tree.csv"])
def test_the_hierarchy_that_was_named_is_read(tmp_path: Path, tree: str) -> None:
    """By hand: a alone in its class, of a, b, c, d: 1/4 stays, 1/4 from b at 1/2, 2/4 from c, d at 1: t = 5/8.

    Below one root at level 1, as in the other tree, it would be 3/4; with a level on top of all 5/12.
    """
    make = write if tree.endswith("csv") else parquet
    make(tmp_path / tree, "leaf,group,root\na,g,r\nb,g,r\nc,h,r\nd,h,r\n")
    if "[1]" in tree:
        make(tmp_path / tree.replace("[1]", "1"), "leaf,root\na,r\nb,r\nc,r\nd,r\n")
    write(tmp_path / "r.csv", "x,s\n1,a\n2,b\n3,c\n4,d\n")
    options = ["--qi", "x", "--sensitive", "s", "--distance", "s=hierarchical", "--hierarchies", f"s={tree}"]
    found = run(tmp_path, "audit", "r.csv", *options, "--format", "json")
    closeness = [m for m in json.loads(found[1])["measures"] if m["measure"] == "t_closeness"]
    assert [m["value"] for m in closeness] == [pytest.approx(5 / 8)]


def test_a_parquet_file_with_a_column_twice_is_an_error(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    inner = pa.array([{"A": 1}, {"A": 1}])
    pq.write_table(pa.table([[1, 1], inner, [1, 2]], names=["a", "s", "A"]), tmp_path / "r.parquet")
    with pytest.raises(duckanon.SourceError, match="'A' twice"):
        assert_private(tmp_path / "r.parquet", quasi_identifiers="a", k=2)
    pq.write_table(pa.table([[1, 1], inner], names=["a", "s"]), tmp_path / "fine.parquet")
    assert_private(tmp_path / "fine.parquet", quasi_identifiers="a", k=2)


@pytest.fixture
def q(tmp_path: Path) -> Path:
    """A database with names that need care; by hand: k = 2 in t, 3 in "a.b", 4 in a.b, 5 in the view."""
    with duckdb.connect(tmp_path / "q.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT i // 2 AS x FROM range(4) AS r(i)")
        con.execute('CREATE TABLE "a.c" AS SELECT i // 3 AS x FROM range(6) AS r(i)')
        con.execute('CREATE SCHEMA a; CREATE TABLE a."b.c" AS SELECT i // 4 AS x FROM range(8) AS r(i)')
        con.execute('CREATE TABLE "a.b.c" AS SELECT i // 6 AS x FROM range(12) AS r(i)')
        con.execute('CREATE TABLE "say ""x""" AS SELECT i // 5 AS x FROM range(10) AS r(i)')
    return tmp_path / "q.duckdb"


@pytest.mark.parametrize(
    ("table", "k"),
    slowly([
        ("t", 2), ("T", 2), ("main.t", 2), ('"main"."t"', 2), ("a.c", 3), ('"a.c"', 3), ("main.a.c", 3),
        ('a."b.c"', 4), ('"a"."b.c"', 4), ('"a.b.c"', 6), ('say "x"', 5), ('"say ""x"""', 5),
    ], one_of=3),
)  # fmt: skip
def test_every_table_can_be_named(q: Path, table: str, k: int) -> None:
    assert k_of(run(q.parent, "audit", f"{q.name}:{table}", "--qi", "x", "--format", "json")) == k


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("q.duckdb:", "which table"),
        ("q.duckdb", "q.duckdb:table"),
        ("q.duckdb:tt", "did you mean 't'"),
        ("q.duckdb:a.b.c", '"a.b.c"'),
        ("q.duckdb:a.t", "no table"),
        ('q.duckdb:"t', "no table"),
        ("folder.csv", "folder"),
        ("nothing.csv", "is empty"),
        ("fake.duckdb:t", "is no DuckDB database"),
    ],
)
def test_what_is_no_table_is_one_line(q: Path, name: str, words: str) -> None:
    (q.parent / "folder.csv").mkdir()
    write(q.parent / "nothing.csv", "")
    write(q.parent / "fake.duckdb", NAMED)
    code, out, err = run(q.parent, "audit", name, "--qi", "x", "-k", "2")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err


def with_a_view(path: Path, rows: int) -> None:
    """Make a view whose text names its database, by way of a macro; DuckDB before 2.0 writes all views so."""
    with duckdb.connect(path) as con:
        con.execute(f"CREATE TABLE t AS SELECT i // {rows} AS x FROM range({2 * rows}) AS r(i)")
        (own,) = con.execute("SELECT current_database()").fetchone() or ("",)
        con.execute(f"""CREATE MACRO m() AS TABLE FROM "{own}".main.t; CREATE VIEW v AS FROM m()""")


@pytest.mark.parametrize("stem", ["q", "my.data", "ä b", "source", "select"])
def test_a_database_has_its_own_name(tmp_path: Path, stem: str) -> None:
    with_a_view(tmp_path / f"{stem}.duckdb", 2)
    for table in ("t", "v"):
        options = ["--qi", "x", "--format", "json", "--trust"]
        assert k_of(run(tmp_path, "audit", f"{stem}.duckdb:{table}", *options)) == 2


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    "stem", slowly(["memory", "system", "temp", "main", "duckanon", "MEMORY", "information_schema"])
)
def test_a_database_with_a_name_that_is_taken_gets_another(tmp_path: Path, stem: str) -> None:
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT i // 2 AS x, 1 AS s FROM range(8) AS r(i)")
        con.sql("CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = (x), sensitive = (s), k = 2)")
    os.rename(tmp_path / "x.duckdb", tmp_path / f"{stem}.duckdb")
    for table in ("t", "v"):
        assert run(tmp_path, "audit", f"{stem}.duckdb:{table}", "--qi", "x", "-k", "2")[0] == 0
    assert (
        run(tmp_path, "anonymize", f"{stem}.duckdb:t", "o.csv", "--qi", "x", "--sensitive", "s", "-k", "2")[0]
        == 0
    )


def test_two_files_of_one_name(tmp_path: Path) -> None:
    """Tables are told apart; a view of the second could name its own database and would be read from the first."""
    for folder, rows in (("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir()
        with_a_view(tmp_path / folder / "q.duckdb", rows)
    with duckdb.connect() as con:
        names = ("a/q.duckdb:t", "b/q.duckdb:t", "a/q.duckdb:v")
        found = [files.relation(con, str(tmp_path / name), trust=True) for name in names]
        counts = [con.execute(f"SELECT count(*) FROM {one}").fetchall() for one in found]
        assert counts == [[(4,)], [(6,)], [(4,)]]
        with pytest.raises(duckanon.SourceError, match="another name"):
            files.relation(con, str(tmp_path / "b" / "q.duckdb:v"), trust=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rel.csv", "'rel.csv.json' is missing, the evidence of 'rel.csv': give --evidence FILE"),
        ("rel.parquet", "No magic bytes found"),
        ("rel.txt", "no DuckDB database"),
        ("empty.duckdb", "is empty"),
        ("folder", "is a folder"),
    ],
)
def test_verify_says_what_it_wants(tmp_path: Path, name: str, words: str) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        write(tmp_path / name, "" if name == "empty.duckdb" else NAMED)
    code, _, err = run(tmp_path, "verify", name)
    assert (code, len(err.splitlines())) == (2, 1)
    assert words in err
    assert "in-memory" not in err
