"""Names and values on a terminal: none of them moves the cursor, turns the text or begins a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
import typer

import duckanon
from duckanon.audits.formats import FORMATS
from duckanon.cli.main import app, main
from duckanon.database.templates import ident

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = "verified: fake"
NAME = f"x\x1b[2J\n{FORGED}\u202e"
"""Clears the screen, begins a line that looks like ours, and turns what follows."""

QUOTED = ident(NAME)
KEPT = ["--qi", QUOTED, "--sensitive", "s", "-k", "2"]

STATEMENTS = (
    f"CREATE ANONYMIZED VIEW {QUOTED} AS FROM 'p.parquet' WITH (quasi_identifiers = ({QUOTED}), "
    f"insensitive = *, k = 2); SHOW ANONYMIZED VIEWS; AUDIT VIEW {QUOTED}; EXPLAIN ANONYMIZED VIEW "
    f"{QUOTED}; EXPORT ANONYMIZED VIEW {QUOTED} TO 'e.duckdb'; DROP ANONYMIZED VIEW {QUOTED}; "
    f"AUDIT VIEW {QUOTED}"
)

CALLS = {
    "audit": [
        *(["audit", "p.parquet", *KEPT, "-t", ".1", "--format", form] for form in FORMATS),
        ["audit", "p.parquet", "--qi", QUOTED, "-k", "900"],
        ["audit", "p.parquet", "--qi", "age", "--sensitive", f"{QUOTED},s", "-k", "900", "-t", ".001"],
        ["audit", "p.parquet", "--qi", "age", "-k", "2"],
        ["audit", "p.parquet", "--qi", "nothing", "-k", "2"],
        ["audit", "p.parquet", "--qi", NAME, "-k", "2", "--format", NAME],
        ["audit", f"h.duckdb:{QUOTED}", "--qi", "age", "-k", "2"],
        ["audit", f"h.duckdb:{NAME}", "--qi", "age", "-k", "900"],
        ["audit", "h.duckdb:nothing", "--qi", "age", "-k", "2"],
        ["audit", f"{NAME}.parquet", "--qi", "age", "-k", "2", "-o", "audit.txt"],
        ["audit", f"{NAME}.csv", "--qi", "nothing", "-k", "2"],
        ["audit", f"no{NAME}.csv", "--qi", "age", "-k", "2"],
        ["audit", "p.parquet", "--qi", "age", "--distance", f"{NAME}=x"],
    ],
    "anonymize": [
        ["anonymize", "p.parquet", "m.parquet", *KEPT, "--insensitive", "*", "--effect"],
        ["anonymize", "p.parquet", f"w{NAME}.duckdb:v", *KEPT, "--insensitive", "*"],
        ["anonymize", "p.parquet", "n.parquet", *KEPT, "--insensitive", "*", "--dry-run"],
        ["anonymize", "p.csv", "n.csv", "--qi", "age", "-k", "2"],
        ["anonymize", "p.parquet", f"{NAME}/n.parquet", *KEPT, "--insensitive", "*"],
    ],
    "sql-kit": [["sql-kit", f"kit{NAME}"], ["sql-kit", f"kit{NAME}"]],
    "verify": [["verify", f"{NAME}.duckdb"], ["verify", "h.duckdb"], ["verify", f"no{NAME}.duckdb"]],
    "linkage": [
        ["linkage", "p.parquet", "o.parquet", "--known", f"{QUOTED},age"],
        ["linkage", f"{NAME}.parquet", "o.parquet", "--qi", f"{QUOTED}"],
        ["linkage", f"{NAME}.parquet", "o.parquet", "--qi", "nothing"],
    ],
    "compare": [
        ["compare", f"{NAME}.parquet", "o.parquet", "--queries", "good.sql"],
        ["compare", "p.parquet", "o.parquet", "--queries", "bad.sql"],
    ],
    "compare-releases": [
        ["compare-releases", "o.parquet", f"{NAME}.duckdb:v", *KEPT],
        ["compare-releases", f"{NAME}.parquet", "o.parquet", "--qi", "nothing", "-k", "2"],
    ],
    "suggest": [
        ["suggest", f"{NAME}.parquet"],
        ["suggest", f"h.duckdb:{QUOTED}"],
        ["suggest", "p.parquet", "--sql"],
        ["suggest", f"no{NAME}.csv"],
    ],
    "sql": [
        ["sql", f"SELECT {QUOTED}, s FROM 'p.parquet' LIMIT 3"],
        ["sql", f"SELECT * FROM {QUOTED}"],
        ["sql", STATEMENTS],
        ["sql", f"SELECT {QUOTED}, s FROM 'p.parquet' LIMIT 3", "--format", "json"],
        ["sql", f"CREATE ANONYMIZED VIEW v AS SELECT 1 AS {QUOTED} WITH (k = 2)"],
    ],
    "run": [["run", "fine.sql"], ["run", f"{NAME}.sql"], ["run", f"no{NAME}.sql"], ["run", "violated.sql"]],
    "stream": [
        ["stream", f"{NAME}.csv", "--qi", QUOTED, "-k", "2", "--delay", "10"],
        ["stream", f"{NAME}.csv", "--qi", "nothing"],
    ],
    "list": [["list", f"{NAME}.duckdb"], ["list", f"no{NAME}.duckdb"], ["list", f"{NAME}.csv"]],
    "refresh": [
        ["refresh", f"{NAME}.duckdb:v"],
        ["refresh", f"h.duckdb:{QUOTED}"],
        ["refresh", f"live.duckdb:{QUOTED}"],
    ],
    "methods": [["methods", NAME]],
    "demo": [["demo", NAME]],
    "spark": [["spark", "audit", f"no{NAME}", "--qi", "age"], ["spark", NAME]],
}
"""By command: calls that succeed, find a violation, and fail; each tells of something with the name."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with files, tables and scripts that have the name, as the current one."""
    path = tmp_path_factory.mktemp("terminal")
    with pytest.MonkeyPatch.context() as patch, duckdb.connect() as con:
        patch.chdir(path)
        con.execute(
            f"CREATE TABLE p AS SELECT i % 4 AS age, i % 3 AS {QUOTED}, (i % 5)::VARCHAR || $name AS s "
            "FROM range(40) AS r(i)",
            {"name": NAME},
        )
        for file in ("p.parquet", "p.csv"):
            con.execute(f"COPY p TO '{file}'")
            Path(f"{NAME}.{file[2:]}").symlink_to(file)
        for name in ("p", QUOTED):
            con.execute(f"ATTACH 'h.duckdb' AS h; CREATE TABLE h.{name} AS FROM p; DETACH h")
        Path("good.sql").write_text(f"SELECT s, avg({QUOTED}) AS {QUOTED} FROM data GROUP BY s")
        Path("bad.sql").write_text(f"SELECT {ident('no' + NAME)} FROM data")
        asked = f"(quasi_identifiers = ({QUOTED}), k = 99)"
        Path("violated.sql").write_text(
            f"ATTACH 'h.duckdb' AS h (READ_ONLY); AUDIT TABLE h.{QUOTED} WITH {asked}"
        )
        Path("fine.sql").write_text(f"SELECT 1 AS {QUOTED}")
        Path(f"{NAME}.sql").write_text(f"SELECT 1 AS {QUOTED}; SELECT {ident('no' + NAME)}")
        view = f"CREATE ANONYMIZED VIEW v AS FROM 'p.parquet' WITH (quasi_identifiers = ({QUOTED}), insensitive = *, k = 2)"
        with duckanon.connect("live.duckdb") as live:
            live.sql(view.replace("VIEW v", f"VIEW {QUOTED}"))
        with duckanon.connect() as ours:
            ours.sql(
                f"{view}; EXPORT ANONYMIZED VIEW v TO 'o.parquet'; EXPORT ANONYMIZED VIEW v TO '{NAME}.duckdb'"
            )
        yield path


def test_every_command_is_tried() -> None:
    assert CALLS.keys() == typer.main.get_command(app).commands.keys()


@pytest.mark.sampled
@pytest.mark.parametrize("command", CALLS)
def test_no_name_acts_on_the_terminal(command: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    codes = set()
    for call in CALLS[command]:
        with pytest.raises(SystemExit) as left:
            main(call)
        codes.add(left.value.code)
        out, err = capfd.readouterr()
        # A released table is data: what reads it tells what is in it.
        printed = err if command == "stream" else out + err
        assert not {"\x1b", "\u202e"} & set(printed), call
        assert not [line for line in printed.split("\n") if line.strip(" │").startswith(FORGED)], call
    # The calls reach what they are meant for, and not one early error.
    assert 2 in codes, printed
    assert codes - {2} or command in {"methods", "demo", "spark"}, printed
