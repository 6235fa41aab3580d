"""The generated macros: up to date, documented, safe from foreign macros, and alive in a file of the oldest format."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.audits import macros
from duckanon.audits.listing import listed
from duckanon.database import templates
from tests.examples import slowly
from tests.sql.gates import runs_in_1_2_2
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [name for name, _ in macros.macro_names()]
README = (templates.folder() / "README.md").read_text(encoding="utf-8")
QUESTION = "SELECT measure, value, passed FROM audit('released', ['k'], ['s'], k := 2, t := 0.2) LIMIT 3"


@pytest.mark.parametrize(("name", "parts"), [("install.sql", "sql/audit"), ("gate.sql", "sql/gate")])
def test_a_generated_file_is_what_its_parts_make(name: str, parts: str) -> None:
    text = (templates.folder() / name).read_text(encoding="utf-8")
    assert text == macros.generated()[name]
    assert "enerated by" in text[:800]
    assert parts in text[:800]


def test_the_tables_of_the_readme_are_what_the_headers_say() -> None:
    assert macros.generated()["README.md"] == README
    line = "| `uniqueness(tbl, qi)` | How many records are alone? | one: `records, unique_records, unique_share` | your policy |"
    assert README.count(line) == 1
    with pytest.raises(ValueError, match=r"no table between <!-- audits of a table"):
        listed("# Audits\n", macros.macro_statements(temporary=False), {})


def test_the_gate_holds_the_audit_that_was_reviewed() -> None:
    gate = macros.generated()["gate.sql"]
    for audit in ("t_closeness_hierarchical", "verdict_t_closeness"):
        assert templates.read(f"audit/{audit}.sql") in gate


def test_check_tells_a_stale_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a copy of the folder of SQL files, which is read in its place."""
    copy = shutil.copytree(templates.folder(), tmp_path / "sql")
    monkeypatch.setattr(templates, "folder", lambda: copy)
    assert macros.main(["--check"]) == 0
    for name, text in macros.generated().items():
        (copy / name).write_text(text.replace("emd", "emb", 1), encoding="utf-8")
        assert macros.main(["--check"]) == 1
        assert f"sql/{name} is not" in capsys.readouterr().err
        assert macros.main([]) == 0
        assert macros.main(["--check"]) == 0
    assert macros.main(["--other"]) == 2


@pytest.mark.parametrize("name", slowly(NAMES, one_of=3))
def test_every_macro_is_documented_with_its_parameters_and_columns(name: str) -> None:
    with duckdb.connect() as con:
        for statement in macros.macro_statements(temporary=False):
            con.execute(statement)
        query = "SELECT parameters FROM duckdb_functions() WHERE function_name = ? AND function_type = 'table_macro'"
        ((parameters,),) = con.execute(query, [name]).fetchall()
        (line,) = [row for row in README.splitlines() if row.startswith(f"| `{name}(")]
        signature = line.split("`")[1]
        assert [
            part.split(":=")[0].strip(" )") for part in signature.partition("(")[2].split(",")
        ] == parameters
        con.execute(
            "CREATE TABLE t AS SELECT 1 AS q, 2 AS r, 'x' AS s; CREATE TABLE h AS SELECT 'x' AS leaf, 'all' AS root"
        )
        given = {"tbl": "'t'", "qi": "['q']", "s": "['s']", "tree": "'h'", "k": "1", "level": "0"}
        given |= {"groups": "['q']", "n": "1", "t": "0.5", "population": "'t'", "original": "'t'"}
        given |= {"columns": "['q', 'r']", "subject": "['r']", "old": "'t'", "new": "'t'", "l": "1"}
        con.execute("CREATE TABLE told AS SELECT *, 0 AS class_id FROM t")
        given |= {"p": "10", "original": "'told'" if name == "dominance" else "'t'"}
        wanted = parameters[:3] if name == "audit" else parameters
        call = ", ".join(given[parameter] for parameter in wanted)
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM {name}({call})").fetchall()]
        assert ", ".join(columns) in line


def test_every_audit_file_is_in_the_readme() -> None:
    for path in (templates.folder() / "audit").glob("*.sql"):
        assert f"(audit/{path.name})" in README


def test_temporary_macros_vanish_with_the_connection(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "kept.duckdb") as con:
        for statement in macros.macro_statements(temporary=True):
            con.execute(statement)
        con.execute("CREATE TABLE t AS SELECT 1 AS q")
        assert con.execute("SELECT k FROM k_anonymity('t', ['q'])").fetchone() == (1,)
    with duckdb.connect(tmp_path / "kept.duckdb") as con, pytest.raises(duckdb.CatalogException):
        con.execute("SELECT k FROM k_anonymity('t', ['q'])")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Table 5's salaries (classes 1/6, 1/6, 1/12) and a class more, in a file that DuckDB 1.2 can open."""
    path = tmp_path_factory.mktemp("release") / "release.duckdb"
    rows = "(1, 3), (1, 5), (1, 9), (2, 6), (2, 11), (2, 8), (3, 4), (3, 7), (3, 10)"
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS file (STORAGE_VERSION 'v1.2.0')")
        con.execute("USE file")
        con.execute(f"CREATE TABLE released AS FROM (VALUES {rows}) AS v(k, s)")
        for statement in macros.macro_statements(temporary=False):
            con.execute(statement)
    return path


def test_the_stock_command_line_reads_the_macros_of_a_release(released: Path) -> None:
    command = [str(stock_command()), "-readonly", "-list", "-noheader", str(released), "-c", QUESTION]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split("|") for line in done.stdout.split()]
    assert [(row[0], float(row[1]), row[2]) for row in rows] == [
        ("k_anonymity", 3.0, "true"), ("distinct_l_diversity", 3.0, "NULL"), ("t_closeness", pytest.approx(1 / 6), "true"),
    ]  # fmt: skip


def test_the_macros_of_a_release_work_from_outside_the_file(released: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{released}' AS other (READ_ONLY)")
        assert con.execute("SELECT k FROM other.k_anonymity('other.released', ['k'])").fetchone() == (3,)
        query = "SELECT max(emd) FROM other.t_closeness_ordered('other.released', ['k'], ['s'])"
        assert con.execute(query).fetchone() == (pytest.approx(1 / 6),)


PART = re.compile(r"\bduckanon_\w+(?=\()")


def test_install_sql_says_once_what_several_audits_have_in_common() -> None:
    """Each part is made before who reads it, so none can be left over; and the file stays one that can be read."""
    text = (templates.folder() / "install.sql").read_text(encoding="utf-8")
    made = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)\(", text, flags=re.MULTILINE)
    assert len(made) == len(set(made)) == text.count("CREATE OR REPLACE")
    files = (templates.folder() / "macro" / "part").glob("*.sql.j2")
    written = [re.findall(r"\{% macro ([a-z]\w*)\(", file.read_text(encoding="utf-8")) for file in files]
    assert set(made) == {*NAMES, *(f"duckanon_{name}" for names in written for name in names)}
    assert text.count("\n") < 2000


def test_the_macros_of_a_release_read_no_other() -> None:
    """DuckDB looks for a macro that another reads where the caller stands, not in the file of the other."""
    for statement in macros.macro_statements(temporary=False):
        assert not PART.search(statement)


# Whatever these macros of a foreign file are asked, all is well.
FOREIGN = """
CREATE TABLE t AS FROM (VALUES (1, 3), (1, 5), (2, 9)) AS v(q, s);
CREATE MACRO duckanon_fault(macro, tbl, qi) AS TABLE SELECT FALSE AS found;
CREATE MACRO duckanon_sensitive_fault(macro, tbl, qi, s) AS TABLE SELECT FALSE AS found;
CREATE MACRO duckanon_ordered_emd(members_in) AS TABLE
    SELECT 1 AS attribute, 1 AS class, 3 AS class_size, 0 AS emd_numerator, 1 AS emd_denominator, 0.0 AS emd;
CREATE MACRO k_anonymity(tbl, qi, subject := NULL) AS TABLE SELECT 99 AS k, 1 AS classes, 99 AS records;
CREATE MACRO audit(tbl, qi, s, k := NULL, l := NULL, t := NULL, distance := NULL, l_diversity := 'distinct', c := NULL)
    AS TABLE SELECT 'k_anonymity' AS measure, TRUE AS passed;
"""
# By hand: ranks 1, 2, 3; class {9} is (1/3 + 2/3) / 2 = 1/2 away from the table.
ASKED = """
SELECT (SELECT k FROM k_anonymity('t', ['q'])) || ' ' || string_agg(measure || ' ' || value || ' ' || passed, ', ')
FROM audit('t', ['q'], ['s'], k := 2, t := 0.4) WHERE NOT passed
"""


def test_the_macros_of_install_sql_ask_none_of_a_foreign_file(tmp_path: Path) -> None:
    install = (templates.folder() / "install.sql").read_text(encoding="utf-8")
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'foreign.duckdb'}' AS foreign_file (STORAGE_VERSION 'v1.2.0')")
        con.execute(f"USE foreign_file; {FOREIGN}")
    said = "1 k_anonymity 1.0 false, t_closeness 0.5 false"
    attached = f"{install}ATTACH 'foreign.duckdb' AS foreign_file (READ_ONLY); USE foreign_file; {ASKED}"
    with duckdb.connect() as con:
        relative = attached.replace("'foreign.duckdb'", f"'{tmp_path / 'foreign.duckdb'}'")
        assert con.execute(relative).fetchall() == [(said,)]
    # The foreign file itself may be open, read-only: temporary macros are written nowhere.
    command = [str(stock_command()), "-readonly", "-list", "-noheader", str(tmp_path / "foreign.duckdb")]
    done = subprocess.run(
        [*command, "-c", f".read '{templates.folder() / 'install.sql'}'", "-c", ASKED],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (said, "")
    assert runs_in_1_2_2(tmp_path, [(":memory:", False, attached), ("foreign.duckdb", False, install + ASKED)]) == [
        said, said,
    ]  # fmt: skip


def test_null_stays_last_whatever_the_reader_has_set() -> None:
    """Order 1, 2, NULL: class {NULL} of {1, 2, NULL} is (1/3 + 2/3) / 2 away, and 1/3 if NULL came between."""
    with duckdb.connect() as con:
        for statement in macros.macro_statements(temporary=True):
            con.execute(statement)
        con.execute("CREATE TABLE t AS FROM (VALUES (1, 1), (1, 2), (2, NULL)) AS v(q, s)")
        query = "SELECT emd FROM t_closeness_ordered('t', ['q'], ['s']) WHERE class.q = 2"
        for order in ("NULLS FIRST", "NULLS LAST"):
            con.execute(f"SET default_null_order = '{order}'")
            assert con.execute(query).fetchone() == (pytest.approx(1 / 2),)


def test_a_body_that_the_generator_does_not_cover_is_refused() -> None:
    with pytest.raises(ValueError, match="SELECTs over named relations"):
        macros.for_every_attribute("SELECT class FROM (SELECT class FROM class_member) AS nested")


def test_the_attribute_joins_every_grouping_window_and_join() -> None:
    text = macros.for_every_attribute(
        "WITH total AS (SELECT count(*) AS n FROM class_member), big AS (SELECT max(path.level) AS top FROM tree AS path) "
        "SELECT value, row_number() OVER (ORDER BY value) AS r, total.n, big.top FROM class_member CROSS JOIN total CROSS JOIN big"
    )
    flat = " ".join(text.split())
    assert (
        "SELECT class_member.attribute, count(*) AS n FROM class_member GROUP BY class_member.attribute"
        in flat
    )
    assert "OVER (PARTITION BY class_member.attribute ORDER BY value NULLS LAST)" in flat
    assert "JOIN total ON total.attribute = class_member.attribute CROSS JOIN big" in flat
    assert "SELECT max(path.level) AS top FROM tree AS path )" in flat


def test_a_cte_whose_rows_are_there_already_is_left_out() -> None:
    body = "WITH ranked AS (SELECT class FROM class_member), size AS (SELECT count(*) AS n FROM ranked) SELECT n FROM size"
    text = " ".join(macros.for_every_attribute(body, {"ranked": "given"}).split())
    assert text == (
        "WITH size AS ( SELECT ranked.attribute, count(*) AS n FROM given AS ranked GROUP BY ranked.attribute ) "
        "SELECT size.attribute, n FROM size"
    )


def test_rows_of_which_there_are_few_are_looked_up_for_each_record() -> None:
    text = macros.for_every_attribute(
        "WITH faced AS (SELECT class, max(value) AS top FROM class_member GROUP BY class) "
        "SELECT r.class, f.top FROM class_member AS r JOIN faced AS f ON f.class = r.class"
    )
    flat = " ".join(text.split())
    assert flat.endswith(
        "SELECT r.attribute, r.class, f.top FROM ( SELECT *, ( SELECT f FROM faced AS f "
        "WHERE f.class = r.class AND f.attribute = r.attribute ) AS f FROM class_member AS r ) AS r"
    )
    with duckdb.connect() as con:
        members = "SELECT 1 AS attribute, i // 2 AS class, i AS value FROM range(4) AS r(i)"
        con.execute(f"CREATE TABLE class_member AS {members}")
        assert con.execute(f"{text} ORDER BY ALL").fetchall() == [(1, 0, 1), (1, 0, 1), (1, 1, 3), (1, 1, 3)]
