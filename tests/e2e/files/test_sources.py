"""Sources that are no plain files: a test per kind through anonymize, audit, suggest and stream."""

from __future__ import annotations

import errno
import functools
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.api import files
from duckanon.database import engine
from tests.e2e.file_scene import k_of, run, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.file_scene import Run

# Two classes of four ages; the zip begins with a zero.
ROWS = [(age, "0123", f"ill {number}") for number in range(4) for age in (20, 40)]
HEADER = "age,zip,ill\n"
TEXT = HEADER + "".join(f"{age},{code},{ill}\n" for age, code, ill in ROWS)
RELEASED = sorted(ROWS)


def _lines(rows: list[tuple[int, str, str]]) -> str:
    return "".join(json.dumps(dict(zip(("age", "zip", "ill"), row, strict=True))) + "\n" for row in rows)


def _csv(rows: list[tuple[int, str, str]]) -> str:
    return HEADER + "".join(f"{age},{code},{ill}\n" for age, code, ill in rows)


def _packed(folder: Path) -> str:
    (folder / "p.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    return "p.csv.gz"


def _pattern(folder: Path) -> str:
    # The first file has no newline at its end, the second a byte order mark.
    write(folder / "in" / "1.csv", _csv(ROWS[:3]).rstrip("\n"))
    write(folder / "in" / "2.csv", "\ufeff" + _csv(ROWS[3:]))
    return "in/*.csv"


def _folder(folder: Path) -> str:
    _pattern(folder)
    write(folder / "in" / "deeper" / "3.csv", HEADER)
    write(folder / "in" / "_SUCCESS", "")
    return "in"


def _array(folder: Path) -> str:
    write(folder / "p.json", f"[{','.join(_lines(ROWS).splitlines())}]")
    return "p.json"


def _json_lines(folder: Path) -> str:
    write(folder / "p.jsonl", _lines(ROWS))
    return "p.jsonl"


def _hive(folder: Path) -> str:
    """The zip and the age stand in the names of folders alone."""
    path = folder / "rows.csv"
    write(path, TEXT)
    with duckdb.connect() as con:
        con.execute(
            f"COPY (FROM read_csv('{path}', types = {{'zip': 'VARCHAR'}})) TO '{folder / 'hive'}' "
            "(FORMAT parquet, PARTITION_BY (age, zip))"
        )
    return "hive"


def _hive_pattern(folder: Path) -> str:
    _hive(folder)
    return "hive/**/*.parquet"


KINDS = [_packed, _pattern, _folder, _array, _json_lines, _hive, _hive_pattern]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__[1:])
def test_every_kind_of_source_through_four_commands(tmp_path: Path, kind: Callable[[Path], str]) -> None:
    name = kind(tmp_path)
    there = set(tmp_path.iterdir())
    assert k_of(run(tmp_path, "audit", name, "--qi", "age,zip", "--format", "json")) == 4
    code, out, err = run(tmp_path, "suggest", name, "--format", "json")
    assert code == 0, err
    assert {column["name"] for column in json.loads(out)["columns"]} == {"age", "zip", "ill"}
    call = ["--qi", "age,zip", "--sensitive", "ill", "-k", "2"]
    assert run(tmp_path, "anonymize", name, "out.csv", *call)[0] == 0
    assert _released(tmp_path / "out.csv") == RELEASED
    code, _, err = run(tmp_path, "stream", name, "stream.csv", *call, "--delay", "20")
    assert code == 0, err
    assert _released(tmp_path / "stream.csv") == RELEASED
    # Private copies are gone.
    assert {path.name for path in set(tmp_path.iterdir()) - there} == {
        "out.csv", "stream.csv", "stream.csv.json",
    }  # fmt: skip


def _released(path: Path) -> list[tuple[int, str, str]]:
    with duckdb.connect() as con:
        return con.execute(
            f"SELECT CAST(age AS INT), zip, ill FROM read_csv('{path}', all_varchar = true) ORDER BY ALL"
        ).fetchall()


@pytest.mark.parametrize(
    "form", [str.encode, lambda text: gzip.compress(text.encode())], ids=["plain", "packed"]
)
@pytest.mark.parametrize("text", [TEXT, _lines(ROWS)], ids=["csv", "json"])
def test_standard_input_is_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, form: Callable[[str], bytes]
) -> None:
    def given(*call: str) -> Run:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(form(text))))
        return run(tmp_path, *call)

    assert k_of(given("audit", "-", "--qi", "age", "--format", "json")) == 4
    code, out, _ = given("suggest", "-", "--sql")
    assert code == 0
    assert out.startswith("CREATE ANONYMIZED VIEW stdin_anon AS\nFROM read_")
    assert "'/dev/stdin'" in out
    assert given("anonymize", "-", "out.csv", "--qi", "age,zip", "--sensitive", "ill", "-k", "2")[0] == 0
    assert _released(tmp_path / "out.csv") == RELEASED


def test_the_proposed_statement_reads_the_named_files(tmp_path: Path) -> None:
    """The types of columns in names of folders are those that the command read."""
    _hive(tmp_path)
    _folder(tmp_path)
    for name in ("hive", "in"):
        code, out, _ = run(tmp_path, "suggest", name, "--sql")
        assert code == 0
        assert run(tmp_path, "sql", out.replace("k = 4", "k = 2").replace("k = 5", "k = 2"))[0] == 0
        assert "draft" not in out


SEMICOLONS = "age;cost;day\n" + "".join(
    f"{age};{number},50;0{number + 1}.12.2025\n" for number, (age, _, _) in enumerate(ROWS)
)
READ = "delim=';', dateformat='%d.%m.%Y', nullstr=['NA', '-'], decimal_separator=','"


def test_read_tells_how_a_csv_is_written(tmp_path: Path) -> None:
    """An insensitive 0,50 leaves as it was written; the mean of 0,50 and 2,50 is a number."""
    write(tmp_path / "p.csv", SEMICOLONS + "20;NA;-\n40;-;NA\n")
    call = ["p.csv", "o.csv", "--insensitive", "*", "-k", "5", "--read", READ]
    assert run(tmp_path, "anonymize", *call, "--qi", "age")[0] == 0
    costs = [line.split('"')[1] for line in (tmp_path / "o.csv").read_text().splitlines()[1:] if '"' in line]
    assert sorted(costs) == [f"{number},50" for number in range(8)]
    (tmp_path / "o.csv").unlink()
    call[call.index("5")] = "10"
    call += ["--min-values", "3"]
    assert run(tmp_path, "anonymize", *call, "--qi", "age,cost")[0] == 0
    with duckdb.connect() as con:
        found = con.execute(f"SELECT DISTINCT age, cost FROM '{tmp_path / 'o.csv'}'").fetchall()
    # One class: the mean of .5 to 7.5.
    assert [(age, float(cost)) for age, cost in found] == [(30, 4.0)]
    code, _, err = run(
        tmp_path, "stream", "p.csv", "s.csv", "--qi", "age", "-k", "5", "--delay", "30", "--read", READ
    )
    assert code == 0, err
    assert '"0,50",01.12.2025' in (tmp_path / "s.csv").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("delimiter=';'", "unknown option 'delimiter'"),
        ("delim", "--read 'delim'"),
        ("skip='x'", "skip is a number"),
        ("delim=3", "delim is a text"),
        ("delim=';') x", "--read"),
    ],
)
def test_wrong_words_of_read_are_told(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path / "p.csv", TEXT)
    code, _, err = run(tmp_path, "audit", "p.csv", "--qi", "age", "--read", text)
    assert (code, len(err.splitlines())) == (2, 1)
    assert words in err


def _mixed_csv(folder: Path) -> None:
    write(folder / "in" / "1.csv", TEXT)
    write(folder / "in" / "2.csv", "zip,age,ill\n1,2,3\n")


def _mixed_parquet(folder: Path) -> None:
    (folder / "in").mkdir()
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 1 AS age) TO '{folder / 'in' / '1.parquet'}'")
        con.execute(f"COPY (SELECT '1' AS age) TO '{folder / 'in' / '2.parquet'}'")


def _mixed_json(folder: Path) -> None:
    write(folder / "in" / "1.jsonl", '{"age": 1}\n')
    write(folder / "in" / "2.jsonl", '{"age": 1, "zip": 2}\n')


def _mixed_forms(folder: Path) -> None:
    write(folder / "in" / "1.jsonl", '{"age": 1}\n')
    write(folder / "in" / "2.csv", "age\n1\n")


def _nothing(folder: Path) -> None:
    (folder / "in").mkdir()


def _preface(folder: Path) -> None:
    for number in (1, 2):
        write(folder / "in" / f"{number}.csv", "Export of today\n\n" + TEXT)


def _cut(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.csv.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])


def _folders_differ(folder: Path) -> None:
    for place in ("year=2025", "month=1"):
        write(folder / "in" / place / "1.jsonl", '{"age": 1}\n')


def _hive_csv(folder: Path) -> None:
    for year in (2025, 2026):
        write(folder / "in" / f"year={year}" / "1.csv", TEXT)


def _digits(folder: Path) -> None:
    """2^53 + 1, beside a number with a point, has no DOUBLE."""
    write(folder / "in" / "1.jsonl", '{"age": 9007199254740993}\n{"age": 1.5}\n')


def _both(folder: Path) -> None:
    write(folder / "in" / "age=2" / "1.jsonl", '{"age": 1}\n')


def _line_ends(folder: Path) -> None:
    write(folder / "in" / "1.csv", TEXT)
    (folder / "in" / "2.csv").write_bytes(TEXT.replace("\n", "\r\n").encode())


def _open_quote(folder: Path) -> None:
    """One record of both files together; two records of two files."""
    write(folder / "in" / "1.csv", TEXT + '30,1,"ill\n')
    write(folder / "in" / "2.csv", HEADER + '30,1,ill"\n')


def _case(folder: Path) -> None:
    """DuckDB would call the second key AGE_1."""
    write(folder / "in" / "1.jsonl", '{"age": 1, "AGE": 2}\n')


def _folder_twice(folder: Path) -> None:
    write(folder / "in" / "year=1" / "Year=2" / "1.jsonl", '{"age": 1}\n')


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (_line_ends, ("1.csv", "2.csv", "different line ends")),
        (_open_quote, ("'in'", "quote")),
        (_case, ("'AGE'", "another case")),
        (_folder_twice, ("'year'", "twice")),
        (_mixed_csv, ("1.csv", "2.csv", "different headers")),
        (_mixed_parquet, ("1.parquet", "2.parquet", "age INTEGER", "age VARCHAR")),
        (_mixed_json, ("1.jsonl", "2.jsonl", "'zip'")),
        (_mixed_forms, ("1.jsonl", "2.csv", "two forms")),
        (_nothing, ("'in'", "without a file")),
        (_preface, ("lines before the header",)),
        (_cut, ("'in' cannot be read",)),
        (_hive_csv, ("year", "read_csv(..., hive_partitioning = true)")),
        (_digits, ("column 'age'", "more digits")),
        (_folders_differ, ("different columns",)),
        (_both, ("column 'age' is in a file and in the name of its folder",)),
    ],
    ids=lambda one: one.__name__[1:] if callable(one) else "",
)
def test_what_cannot_be_read_as_one_is_an_error(
    tmp_path: Path, made: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    made(tmp_path)
    for call in (
        ["anonymize", "in", "o.csv", "--qi", "age", "-k", "2"],
        ["stream", "in", "o.csv", "--qi", "age"],
    ):
        code, out, err = run(tmp_path, *call)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) <= 2, err
        assert not [one for one in words if one not in err], err
        assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("texts", "records"),
    [
        (("age\r1\r1\r", "age\r1\r1\r"), [1, 1, 1, 1]),  # lines of an old Macintosh
        (("age\n1\n2\n", "age"), [1, 2]),
        (("age", "age\r\n1\r\n2"), [1, 2]),
        (("age", "age"), []),
        (('"age\n in 5"""\n1\n', '"age\n in 5"""\n2'), [1, 2]),
        (('age 5"\n1\n', 'age 5"\n2'), [1, 2]),
    ],
)
def test_joined_files_have_the_records_of_each(
    tmp_path: Path, texts: tuple[str, ...], records: list[int]
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.csv").write_bytes(text.encode())
    with files.opened(str(tmp_path)) as con:
        found = engine.rows(con, f"FROM {files.relation(con, str(tmp_path))}", "test")
    assert [age for (age,) in found] == records


@pytest.mark.parametrize("source", ["in", "in/**/*.csv", "in/*/*.csv"])
def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """DuckDB lists the files of the other folders; root may list all, so the system is asked in its place."""
    for place in ("in/open", "in/shut"):
        write(tmp_path / place / "1.csv", TEXT)
    listed = os.scandir

    def scandir(path: str | Path = ".") -> object:
        if os.path.basename(path) == "shut":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    code, out, err = run(tmp_path, "audit", source, "--qi", "age", "-k", "2")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "cannot be read: Permission denied" in err


def test_folders_name_a_column_in_any_case(tmp_path: Path) -> None:
    write(tmp_path / "Year=1" / "1.jsonl", '{"age": 1}\n')
    write(tmp_path / "year=2" / "1.jsonl", '{"age": 2}\n')
    with files.opened(str(tmp_path)) as con:
        found = engine.rows(con, f"FROM {files.relation(con, str(tmp_path))}", "test")
    assert found == [(1, 1), (2, 2)]


def test_an_output_that_is_a_source_is_refused(tmp_path: Path) -> None:
    """A pattern would read the new file in the next night, too."""
    _folder(tmp_path)
    (tmp_path / "link").symlink_to("in")
    for name, target in (
        ("in", "in/new.csv"),
        ("in/*.csv", "in/new.csv"),
        ("in/*.csv", "in/1.csv"),
        ("link/*.csv", "in/new.csv"),
        ("in/*.csv", "link/new.csv"),
        ("in/../in/*.csv", "in/new.csv"),
    ):
        call = ["--qi", "age", "--insensitive", "*", "-k", "2"]
        for more in (
            ["anonymize", name, target, *call, "--overwrite"],
            ["stream", name, target, "--qi", "age"],
        ):
            code, _, err = run(tmp_path, *more)
            assert (code, len(err.splitlines())) == (2, 1), err
            assert target in err
    assert run(tmp_path, "audit", "in", "--qi", "age", "-o", "in/1.csv")[0] == 2
    assert (tmp_path / "in" / "1.csv").read_text() == _csv(ROWS[:3]).rstrip("\n")
    assert (
        run(tmp_path, "anonymize", "no*.csv", "o.csv", "--qi", "age", "-k", "2")[2]
        == "error: 'no*.csv' matches no file\n"
    )


def test_standard_input_from_the_output_is_refused(tmp_path: Path) -> None:
    """Such as `anonymize - p.csv --overwrite < p.csv`."""
    write(tmp_path / "p.csv", TEXT)
    before = os.dup(0)
    try:
        with (tmp_path / "p.csv").open() as opened:
            os.dup2(opened.fileno(), 0)
        call = ["anonymize", "-", "p.csv", "--qi", "age", "--insensitive", "*", "-k", "2", "--overwrite"]
        assert run(tmp_path, *call)[::2] == (
            2,
            "error: 'p.csv' is read by this command: give another file\n",
        )
        assert run(tmp_path, "audit", "-", "--qi", "age", "-o", "p.csv")[0] == 2
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert (tmp_path / "p.csv").read_text() == TEXT


@pytest.mark.sampled
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_removes_the_copy_of_the_source(tmp_path: Path, sent: signal.Signals) -> None:
    """Nobody ends the input, so the signal comes while it is copied, for its owner only."""
    call = ["anonymize", "-", "o.csv", "--qi", "age", "--insensitive", "*", "-k", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "duckanon", *call], cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (copies := list(tmp_path.glob(".duckanon-*/draft.*"))) and time.monotonic() < end:
        time.sleep(0.02)
    assert [one.parent.stat().st_mode & 0o077 for one in copies] == [0]
    process.send_signal(sent)
    errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (2, b"interrupted: nothing was released\n")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_packed_file_is_told(tmp_path: Path) -> None:
    call = ["anonymize", "no.csv.gz", "o.csv", "--qi", "age", "-k", "2"]
    assert run(tmp_path, *call)[::2] == (2, "error: 'no.csv.gz' matches no file\n")


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["s3://bucket/p.csv", "https://example.invalid/p.parquet"])
@pytest.mark.parametrize("command", ["anonymize", "audit", "suggest", "stream"])
def test_an_address_is_given_to_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    """Here no extension can be had: its own words are the error."""
    without = functools.partial(
        engine.in_memory,
        extension_directory=str(tmp_path / "none"),
        custom_extension_repository="http://127.0.0.1:9",
    )
    monkeypatch.setattr("duckanon.database.sources.engine.in_memory", without)
    more = {"anonymize": ["o.csv", "--qi", "age", "-k", "2"], "audit": ["--qi", "age"], "suggest": []}
    code, out, err = run(tmp_path, command, name, *more.get(command, ["o.csv", "--qi", "age"]))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"{name!r} cannot be fetched" in err
    assert "extension" in err
    assert "httpfs" in err
    assert not (tmp_path / "o.csv").exists()


def test_a_fetched_file_is_read_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extension an address gives the bytes of its files; read_blob of a local file stands for it."""
    _pattern(tmp_path)
    monkeypatch.setattr("duckanon.database.sources.local", lambda name: "*" not in str(name))
    monkeypatch.setattr("duckanon.api.files.local", lambda name: "*" not in str(name))
    assert k_of(run(tmp_path, "audit", "in/*.csv", "--qi", "age,zip", "--format", "json")) == 4
