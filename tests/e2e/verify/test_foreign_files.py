"""A database from elsewhere acts in nothing: no view, computed column or macro of it is evaluated.

A file may be made by an attacker. What is expected is by hand: exit code 2 (or 1 where verify finds a difference), one
line on stderr, and none of the bytes of a file that was not named.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.api import files
from duckanon.testing import assert_private
from tests.e2e.evidence_scene import altered, copied, with_evidence
from tests.e2e.file_scene import k_of, run, write
from tests.e2e.scenes import ROOT
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "nobody-may-read-this"

PROGRAMS = {
    "reads a text": "SELECT content AS x FROM read_text('{secret}')",
    "reads a CSV": "SELECT * FROM read_csv('{secret}', header = false, names = ['x'])",
    "lists a folder": "SELECT file AS x FROM glob('{folder}/*')",
    "attaches by name": "SELECT * FROM '{folder}/other.parquet'",
    "never ends": "SELECT sum(range) AS x FROM range(1000000000000)",
    "never ends, recursive": "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x > 0) SELECT count(*) AS x FROM r",
    "fills the memory": "SELECT repeat('x', 1000000000) AS x",
    "calls a macro of its own": "SELECT * FROM k_anonymity('t', ['x'])",
    "asks what is asked": "SELECT CASE WHEN contains(current_query(), 'count') THEN 1 ELSE 2 END AS x",
    "a plain copy": "SELECT x FROM t",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a secret, and a database of programs that want it, or time, or memory."""
    folder = tmp_path_factory.mktemp("hostile")
    write(folder / "secret.txt", SECRET)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT '{SECRET}' AS x) TO '{folder / 'other.parquet'}'")
    write(folder / "queries.sql", "SELECT count(x) AS n FROM data")
    write(folder / "plain.csv", "x,s\n1,a\n1,b\n2,a\n2,b\n")
    with duckdb.connect(str(folder / "h.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT i // 2 AS x FROM range(6) AS r(i)")
        con.execute("CREATE MACRO k_anonymity(tbl, qi) AS TABLE SELECT 99 AS k, 1 AS classes, 2 AS records")
        con.execute("CREATE MACRO count(x) AS 42; CREATE MACRO sha256(x) AS 'lie'")
        for number, program in enumerate(PROGRAMS.values()):
            query = program.format(secret=folder / "secret.txt", folder=folder)
            con.execute(f"CREATE VIEW v{number} AS {query}")
        con.execute("CREATE TABLE computed (a INTEGER, x VARCHAR AS (repeat('x', a)))")
        con.execute("INSERT INTO computed VALUES (1), (1)")
        con.execute(
            "CREATE TABLE tree (leaf VARCHAR, root VARCHAR); INSERT INTO tree VALUES ('a', 'r'), ('b', 'r')"
        )
        con.execute("CREATE VIEW planted AS FROM tree")
    return folder


def test_a_view_of_a_foreign_file_never_runs(hostile: Path) -> None:
    for number, what in enumerate(PROGRAMS):
        code, out, err = run(hostile, "audit", f"h.duckdb:v{number}", "--qi", "x", "-k", "2")
        assert (code, out, len(err.splitlines())) == (2, "", 1), what
        assert "is a view" in err
        assert "--trust" in err
        assert SECRET not in err


COMMANDS = {
    "audit": ["{}", "--qi", "x"],
    "audit of a page": ["plain.csv", "--qi", "x", "--format", "html", "--original", "{}"],
    "anonymize": ["{}", "out.csv", "--qi", "x", "-k", "2"],
    "anonymize, dry": ["{}", "out.csv", "--qi", "x", "-k", "2", "--dry-run"],
    "suggest": ["{}"],
    "linkage": ["plain.csv", "{}", "--qi", "x"],
    "linkage of it": ["{}", "plain.csv", "--qi", "x"],
    "compare": ["{}", "plain.csv", "--queries", "queries.sql"],
    "compare with it": ["plain.csv", "{}", "--queries", "queries.sql"],
}


@pytest.mark.parametrize(
    ("what", "table"),
    [
        *(pytest.param(what, "v0", marks=pytest.mark.long if " " in what else []) for what in COMMANDS),
        ("audit of a page", "v0"),
        ("anonymize", "computed"),
    ],
)
def test_no_command_runs_a_program_of_a_file(hostile: Path, what: str, table: str) -> None:
    words = [word.format(f"h.duckdb:{table}") for word in COMMANDS[what]]
    code, out, err = run(hostile, what.partition(" ")[0].rstrip(","), *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "a program of whoever made the file" in err
    assert not (hostile / "out.csv").exists()


@pytest.mark.parametrize("name", ["h.main.planted", "h.PLANTED"])
def test_a_hierarchy_in_a_foreign_file_is_a_table(hostile: Path, name: str) -> None:
    """By hand: of a, b below one root each class has both values, so EMD 0 where the hierarchy is the table."""
    with duckdb.connect(str(hostile / "graded.duckdb")) as con:
        con.execute(f"CREATE OR REPLACE TABLE p AS FROM read_csv('{hostile / 'plain.csv'}')")
    shutil.copy(hostile / "h.duckdb", hostile / "both.duckdb")
    with duckdb.connect(str(hostile / "both.duckdb")) as con:
        con.execute(f"CREATE TABLE p AS FROM read_csv('{hostile / 'plain.csv'}')")
    flags = ["--qi", "x", "--sensitive", "s", "--distance", "s=hierarchical", "-t", "0.1"]
    own = name.replace("h", "both", 1) if "." in name else name
    code, _, err = run(hostile, "audit", "both.duckdb:p", *flags, "--hierarchies", f"s={own}")
    assert code == 2
    assert "is a view" in err
    assert run(hostile, "audit", "both.duckdb:p", *flags, "--hierarchies", "s=both.main.tree")[0] == 0
    code, _, err = run(hostile, "audit", "plain.csv", *flags, "--hierarchies", "s=h.duckdb")
    assert code == 2
    assert "is a database" in err


def test_nothing_is_reached_but_the_files_that_were_named(hostile: Path) -> None:
    """A connection for foreign files, asked directly: by whatever way a program came to run, it would find nothing."""
    with files.opened(hostile / "h.duckdb", hostile / "plain.csv") as con:
        files.use(con, hostile / "h.duckdb")
        assert con.execute(f"SELECT count(*) FROM read_csv('{hostile / 'plain.csv'}')").fetchall() == [(4,)]
        for query in (
            "FROM v0", "FROM v1", "FROM v2", "FROM v3", f"FROM read_text('{hostile / 'secret.txt'}')",
            f"COPY t TO '{hostile / 'out.csv'}'", f"ATTACH '{hostile / 'new.duckdb'}'", "INSERT INTO t VALUES (1)",
            "SET enable_external_access = true", "SET allowed_paths = ['/']", "SET threads = 1", "INSTALL httpfs",
        ):  # fmt: skip
            with pytest.raises(duckdb.Error):
                con.execute(query).fetchall()
    assert not (hostile / "out.csv").exists()


def test_ones_own_views_run_with_trust(hostile: Path) -> None:
    found = run(hostile, "audit", "h.duckdb:v0", "--qi", "x", "-k", "2", "--trust")
    assert found[0] == 1
    assert SECRET in found[1], "the view reads the file of its owner"
    # By hand: of x = 0, 0, 1, 1, 2, 2 each stands twice.
    assert k_of(run(hostile, "audit", "h.duckdb:v9", "--qi", "x", "--format", "json", "--trust")) == 2
    assert assert_private(hostile / "h.duckdb:v9", quasi_identifiers="x", k=2, trust=True).passed
    with pytest.raises(duckanon.SourceError, match="is a view"):
        assert_private(hostile / "h.duckdb:v9", quasi_identifiers="x", k=2)


@pytest.mark.parametrize("table", ["v4", "v5"])
def test_a_timeout_ends_what_never_ends(hostile: Path, table: str) -> None:
    flags = ["--qi", "x", "-k", "2", "--trust", "--timeout", "0.3"]
    code, out, err = run(hostile, "audit", f"h.duckdb:{table}", *flags)
    assert (code, out) == (2, "")
    assert err == "error: stopped after --timeout: nothing was written\n"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_timeout_is_a_number_of_seconds(hostile: Path, seconds: str) -> None:
    code, _, err = run(hostile, "audit", "plain.csv", "--qi", "x", f"--timeout={seconds}")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--timeout takes a number of seconds" in err


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_evidence(tmp_path_factory.mktemp("evidence"))


@pytest.mark.parametrize(
    ("table", "program"),
    [
        (
            "audits",
            "SELECT * REPLACE ((SELECT content FROM read_text('{secret}')) AS measure) FROM duckanon.kept",
        ),
        ("columns", "FROM duckanon.kept, range(1000000000000)"),
        ("thresholds", "FROM duckanon.kept"),
    ],
)
def test_metadata_that_is_a_view_is_not_read(
    originals: Path, hostile: Path, tmp_path: Path, table: str, program: str
) -> None:
    column = {"columns": "role", "thresholds": "measure", "audits": "measure"}[table]
    query = program.format(secret=hostile / "secret.txt").replace("measure", column)
    file = copied(originals / "file.duckdb", tmp_path)
    altered(file, f"ALTER TABLE duckanon.{table} RENAME TO kept; CREATE VIEW duckanon.{table} AS {query}")
    code, out, err = run(tmp_path, "verify", "file.duckdb")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"duckanon.{table} is a view" in err
    assert SECRET not in err


def test_metadata_of_another_type_or_computed_is_not_read(originals: Path, tmp_path: Path) -> None:
    other = copied(
        originals / "file.duckdb", tmp_path, "ALTER TABLE duckanon.thresholds ALTER c TYPE VARCHAR"
    )
    assert run(tmp_path, "verify", other.name)[2] == (
        "error: verify: duckanon.thresholds.c is VARCHAR, and duckanon writes DECIMAL(18,12)\n"
    )
    computed = """CREATE TABLE duckanon.made AS SELECT * EXCLUDE (c) FROM duckanon.thresholds;
        DROP TABLE duckanon.thresholds; CREATE TABLE duckanon.thresholds (release_id INTEGER, schema_version INTEGER,
        measure VARCHAR, attribute VARCHAR, threshold DECIMAL(18, 12), l_diversity VARCHAR,
        c DECIMAL(18, 12) AS (error('ran')));"""
    copied(originals / "file.duckdb", tmp_path, computed)
    code, out, err = run(tmp_path, "verify", other.name)
    assert (code, out) == (2, "")
    assert "duckanon.thresholds.c is computed when it is read" in err


REPLACED = {
    "with a filter": "SELECT age, zip, charge, diagnosis FROM duckanon.release_1 WHERE age > 0",
    "with a function": "SELECT abs(age) AS age, zip, charge, diagnosis FROM duckanon.release_1",
    "with all columns": "FROM duckanon.release_1",
    "of another table": "SELECT age, zip, charge, diagnosis FROM duckanon.release_2",
    "that never ends": "SELECT age, zip, charge, diagnosis FROM duckanon.release_1, range(1000000000000)",
}


USUAL = {"with a filter", "that never ends"}
"""What make test tries; the others are like the first."""


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[] if how in USUAL else [pytest.mark.long]) for how in REPLACED]
)
def test_a_released_view_is_exactly_ours_or_it_is_not_read(originals: Path, tmp_path: Path, how: str) -> None:
    change = f"CREATE OR REPLACE VIEW v AS {REPLACED[how]}; COMMENT ON VIEW v IS 'duckanon release 1'"
    copied(originals / "home.duckdb", tmp_path, change)
    code, out, _ = run(tmp_path, "verify", "home.duckdb", "--format", "json")
    assert code == 1
    first, second = json.loads(out)["releases"]
    assert first["differences"] == [
        "the view main.v is not the one that duckanon wrote: its rows were not read, but those of duckanon.release_1"
    ]
    assert second["differences"] == []
    code, _, err = run(tmp_path, "audit", "home.duckdb:v", "--qi", "age", "-k", "2")
    # What is exactly our view of the other release shows the rows of that.
    assert (code, "is a view" in err) == ((0, False) if how == "of another table" else (2, True))


def test_the_view_of_a_release_is_audited_without_trust(originals: Path, tmp_path: Path) -> None:
    """It is exactly the SELECT that duckanon wrote, also after it was renamed, so its table is read."""
    file = copied(originals / "home.duckdb", tmp_path, 'ALTER VIEW w RENAME TO "my w"')
    for table in ("v", '"my w"'):
        assert run(tmp_path, "audit", f"{file.name}:{table}", "--qi", "age,zip", "-k", "3")[0] == 0


def test_a_tree_that_is_a_view_is_not_read(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "h.duckdb") as con:
        con.execute("CREATE TABLE tree AS SELECT * FROM (VALUES ('a', 'r'), ('b', 'r')) AS t(leaf, root)")
        con.execute("CREATE TABLE p AS SELECT i // 4 AS x, ['a', 'b'][i % 2 + 1] AS s FROM range(16) AS r(i)")
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (x), sensitive = (s), k = 2, t = 0.5, "
            "distance = {s: 'hierarchical'}, hierarchies = {s: 'tree'})"
        )
        con.execute("ALTER TABLE duckanon.tree_1_1 RENAME TO kept")
        con.execute("CREATE VIEW duckanon.tree_1_1 AS FROM duckanon.kept, range(1000000000000)")
    code, out, _ = run(tmp_path, "verify", "h.duckdb")
    assert code == 1
    assert "'tree_1_1' is a view" in out


def test_no_name_in_a_file_writes_to_the_terminal_as_it_likes(tmp_path: Path) -> None:
    """An escape sequence can clear the screen, and a line break add a line that says passed."""
    evil = "x\x1b[2J\rerror\nverified: all is well"
    with duckdb.connect(str(tmp_path / "n.duckdb")) as con:
        con.execute(f'CREATE TABLE "{evil}" AS SELECT 1 AS "{evil}", \'{evil}\' AS s')
        con.execute(f'CREATE TABLE t AS FROM "{evil}"')
        con.execute(f"COMMENT ON COLUMN t.s IS '{evil}'; CREATE VIEW \"v{evil}\" AS FROM t")
    calls = (
        ["audit", "n.duckdb:nowhere", "--qi", "x"], ["audit", f"n.duckdb:v{evil}", "--qi", "x"],
        ["audit", "n.duckdb:t", "--qi", "x"], ["audit", "n.duckdb:t", "--qi", "s", "-k", "2"],
        ["audit", f"{evil}.csv", "--qi", "x"], ["suggest", "n.duckdb:t"], ["verify", "n.duckdb"],
        ["anonymize", "n.duckdb:t", f"{evil}/o.csv", "--qi", "s", "-k", "2"],
    )  # fmt: skip
    for call in calls:
        _, out, err = run(tmp_path, *call)
        assert "\x1b" not in out + err, call
        assert not any(line.startswith("verified") for line in (out + err).splitlines()), call
        assert len(err.splitlines()) <= 2, call


KINDS = {
    "a folder": (lambda file: file.mkdir(), "is a folder"),
    "a pipe": (os.mkfifo, "is a pipe or a device"),
    "a socket": (lambda file: os.mknod(file, stat.S_IFSOCK | 0o600), "is a socket: give a file"),
    "a link to nothing": (lambda file: file.symlink_to("nowhere"), "is a link to 'nowhere', which does not exist"),
    "a link to itself": (lambda file: file.symlink_to(file.name), "cannot be read|which does not exist"),
    "empty": (lambda file: file.touch(), "is empty"),
    "noise": (lambda file: file.write_bytes(bytes(range(256)) * 40), "no DuckDB database|sniffing file|no file of Parquet"),
    "half a database": (lambda file: file.write_bytes(bytes(8) + b"DUCK" + bytes(5000)), "file|database|byte 0"),
    "another database": (lambda file: file.write_bytes(b"SQLite format 3\0" + bytes(4080)), "file|database|byte 0"),
}  # fmt: skip


@pytest.mark.parametrize("ending", [".duckdb", ".csv", pytest.param(".parquet", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", slowly(KINDS, one_of=3))
def test_what_is_no_file_is_one_clear_line(tmp_path: Path, kind: str, ending: str) -> None:
    """A pipe that nobody writes to would hang for good, so the test would not end."""
    make, words = KINDS[kind]
    make(tmp_path / f"x{ending}")
    source = f"x{ending}{':t' if ending == '.duckdb' else ''}"
    calls = [["audit", source, "--qi", "a"], ["anonymize", source, "o.csv", "--qi", "a", "-k", "2"]]
    for call in calls + ([["verify", "x.duckdb"]] if ending == ".duckdb" else []):
        code, out, err = run(tmp_path, *call)
        assert (code, out) == (2, ""), err
        assert 1 <= len(err.splitlines()) <= 2, err
        assert any(word in err for word in words.split("|")), err
    assert not (tmp_path / "o.csv").exists()


def test_a_name_that_is_too_long_is_one_clear_line(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", "a\n1\n1\n")
    long = "x" * 300
    for call in (
        ["audit", f"{long}.csv", "--qi", "a"], ["verify", f"{long}.duckdb"], ["suggest", f"{long}.duckdb:t"],
        ["anonymize", "p.csv", f"{long}.csv", "--qi", "a", "-k", "2"],
        ["audit", "p.csv", "--qi", "a", "-o", f"{long}.txt"],
    ):  # fmt: skip
        code, out, err = run(tmp_path, *call)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "name too long" in err.lower()
    # DuckDB itself takes 250 characters, and the name of a draft is no longer than that of the file.
    fine = f"{'y' * 246}.csv"
    assert run(tmp_path, "anonymize", "p.csv", fine, "--qi", "a", "-k", "2")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["p.csv", fine]


def test_an_encrypted_database_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "e.duckdb"
    with duckdb.connect() as con:
        con.execute("SET force_mbedtls_unsafe = 'true'")
        con.execute(f"ATTACH '{file}' AS e (ENCRYPTION_KEY 'k'); CREATE TABLE e.t AS SELECT 1 AS x")
    for call in (["audit", "e.duckdb:t", "--qi", "x"], ["verify", "e.duckdb"]):
        code, out, err = run(tmp_path, *call)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "encrypted" in err


def test_links_and_the_log_of_a_database_are_read(tmp_path: Path) -> None:
    """By hand: two rows stand in the file and two in its log, which was not written back when its process was killed."""
    program = f"""
import duckdb, os, signal
con = duckdb.connect({str(tmp_path / "w.duckdb")!r})
con.execute("CREATE TABLE t AS SELECT 1 AS x FROM range(2); CHECKPOINT; INSERT INTO t VALUES (1), (1)")
os.kill(os.getpid(), signal.SIGKILL)"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    (tmp_path / "link.duckdb").symlink_to("w.duckdb")
    (tmp_path / "l.csv").symlink_to(write(tmp_path / "p.csv", "x\n1\n1\n"))
    for name in ("w.duckdb:t", "link.duckdb:t"):
        assert k_of(run(tmp_path, "audit", name, "--qi", "x", "--format", "json")) == 4
    assert k_of(run(tmp_path, "audit", "l.csv", "--qi", "x", "--format", "json")) == 2


@pytest.mark.parametrize("collation", ["NOCASE", pytest.param("NOACCENT", marks=pytest.mark.long)])
def test_a_collation_of_a_foreign_file_merges_no_classes(tmp_path: Path, collation: str) -> None:
    """By hand: a, A, á, Á are four texts, one record each, so k = 1; the collation would make them two classes."""
    with duckdb.connect(str(tmp_path / "c.duckdb")) as con:
        con.execute(
            f"CREATE TABLE t (x VARCHAR COLLATE {collation}); INSERT INTO t VALUES ('a'), ('A'), ('á'), ('Á')"
        )
    assert k_of(run(tmp_path, "audit", "c.duckdb:t", "--qi", "x", "--format", "json")) == 1


def test_a_huge_value_does_not_flood_the_report(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "l.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT repeat('x', 1000000) || i AS x FROM range(3) AS r(i)")
    code, out, _ = run(tmp_path, "audit", "l.duckdb:t", "--qi", "x", "-k", "2")
    assert code == 1
    assert len(out) < 5000


PIPES = {
    "the database of sql": ("q.duckdb", ["sql", "--database", "q.duckdb", "SELECT 1"]),
    "its log": ("h.duckdb.wal", ["sql", "--database", "h.duckdb", "SELECT 1"]),
    "the log of a database": ("h.duckdb.wal", ["verify", "h.duckdb"]),
    "the log, audited": ("h.duckdb.wal", ["audit", "h.duckdb:t", "--qi", "x"]),
    "a policy": ("p.toml", ["audit", "p.csv", "--policy", "p.toml"]),
    "a saved audit": ("a.json", ["audit", "p.csv", "--qi", "x", "--against", "a.json"]),
    "queries": ("q.sql", ["compare", "p.csv", "p.csv", "--queries", "q.sql"]),
    "a script": ("q.sql", ["run", "q.sql"]),
    **{
        f"a hierarchy {ending}": (
            f"tree{ending}",
            ["audit", "p.csv", "--qi", "x", "--sensitive", "s", "--distance", "s=hierarchical",
             "--hierarchies", f"s=tree{ending}"],
        )
        for ending in (".csv", ".parquet", ".duckdb", "")
    },
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("what", PIPES)
def test_no_pipe_is_waited_for(tmp_path: Path, what: str) -> None:
    """Nobody writes to it, so that whoever opens it waits for ever."""
    pipe, words = PIPES[what]
    write(tmp_path / "p.csv", "x,s\n1,a\n1,b\n")
    with duckdb.connect(str(tmp_path / "h.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x FROM range(4)")
    os.mkfifo(tmp_path / pipe)
    call = [
        sys.executable,
        "-c",
        "import sys; from duckanon.cli.main import main; main(sys.argv[1:])",
        *words,
    ]
    ended = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "pipe or a device" in ended.stderr or "no plain file" in ended.stderr
