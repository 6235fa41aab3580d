"""An audit registers itself: its file in sql/audit is a macro, a line of the README and a portable audit."""

from __future__ import annotations

import shutil
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.audits import headers, macros, portable
from duckanon.audits.formats import formatted
from duckanon.audits.html.verdict import card
from duckanon.audits.report import Measure, Report
from duckanon.database import templates
from tests.slt import read_blocks, run_in_python, run_in_stock
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

HEADER = """-- audit: {name}
-- question: Is it there?
-- reads: class_member(class, value)
-- returns: what it says
-- violation: none
-- source: this test
"""
NEW = {
    "new_pairs": "SELECT count(*) AS records, min(1.5) AS weight FROM class_member",
    "new_sizes": "SELECT class, count(*) AS members FROM class_member GROUP BY class",
}
TABLE = "CREATE TABLE t AS FROM (VALUES (1, 'x'), (1, NULL), (2, 'x')) AS v(q, s)"
# By hand: three records in classes of two and one.
CALLS = {
    "SELECT records, weight FROM new_pairs('{t}', ['q'])": [(3, 1.5)],
    "SELECT class.q, members FROM new_sizes('{t}', ['q']) ORDER BY members": [(2, 1), (1, 2)],
}


@pytest.fixture
def own_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copy of the folder of SQL files with the new audits, which is read in its place."""
    copy = shutil.copytree(templates.folder(), tmp_path / "sql")
    for name, query in NEW.items():
        (copy / "audit" / f"{name}.sql").write_text(f"{HEADER.format(name=name)}{query}\n", encoding="utf-8")
    monkeypatch.setattr(templates, "folder", lambda: copy)
    for cached in (templates._environment, macros._statements):
        cached.cache_clear()
    yield copy
    for cached in (templates._environment, macros._statements):
        cached.cache_clear()


@pytest.fixture
def con(own_sql: Path) -> Iterator[DuckDBPyConnection]:
    """The macros of install.sql as it is written from the copy, in a database with a table."""
    assert macros.main([]) == 0
    with duckdb.connect() as connection:
        connection.execute((own_sql / "install.sql").read_text(encoding="utf-8"))
        connection.execute(f"{TABLE}; CREATE TABLE nothing AS FROM t LIMIT 0")
        yield connection


# The whole of what CONTRIBUTING.md asks of who adds an audit: this beside the file, and `make install-sql`.
TEST = """# The mean size of a class; source: by hand, three records in two classes.

statement ok
CREATE TABLE t AS FROM (VALUES (1, 'x'), (1, NULL), (2, 'x')) AS v(q, s);

query IR
SELECT records, weight FROM new_pairs('t', ['q']);
----
3\t1.5
"""


@pytest.mark.slow
def test_a_new_audit_is_a_file_and_its_test(own_sql: Path, tmp_path: Path) -> None:
    assert macros.main([]) == 0
    (tmp_path / "new_pairs.test").write_text(TEST, encoding="utf-8")
    blocks = read_blocks(tmp_path / "new_pairs.test")
    run_in_python(blocks)
    run_in_stock(blocks, stock_command())
    page = (own_sql / "README.md").read_text(encoding="utf-8")
    columns = "| `new_pairs(tbl, qi)` | Is it there? | `records, weight` | |"
    assert f"{columns} [new_pairs](audit/new_pairs.sql) |\n" in page
    assert macros.main(["--check"]) == 0


def test_a_new_verdict_says_its_own_rule_and_what_it_reads(own_sql: Path) -> None:
    said = HEADER.format(name="verdict_new_pairs").replace("Is it there?", "Which pairs are too light?")
    said = said.replace("class_member(class, value)", "pair = the rows of new_pairs.sql, threshold(w)")
    query = "SELECT pair.class, pair.weight < threshold.w AS violated FROM pair CROSS JOIN threshold"
    file = own_sql / "audit" / "verdict_new_pairs.sql"
    file.write_text(f"{said.replace('violation: none', 'violation: weight < w')}{query}\n", encoding="utf-8")
    assert headers.rows_of("new_pairs") == ("pair", "new_pairs", ("class", "weight"))
    light = Measure("new_pairs", None, Decimal(2), 1.5, 2, 1, 1, passed=False)
    assert "Which pairs are too light? Violated: weight < w." in formatted(Report("t", (light,)), "sarif")
    assert card(light).means == "Which pairs are too light? Violated: weight < w."
    page = macros.generated()["README.md"]
    assert "(audit/new_pairs.sql), [verdict_new_pairs](audit/verdict_new_pairs.sql) |" in page


@pytest.mark.parametrize("call", CALLS)
def test_a_new_audit_is_a_macro(con: DuckDBPyConnection, call: str) -> None:
    assert con.execute(call.format(t="t")).fetchall() == CALLS[call]
    with pytest.raises(duckdb.Error, match="the table is empty"):
        con.execute(call.format(t="nothing")).fetchall()


@pytest.mark.usefixtures("own_sql")
def test_new_audits_stand_behind_those_that_have_a_place() -> None:
    names = list(macros.bindings())
    assert names[-len(NEW) - 1 :] == [*sorted(NEW), "audit"]
    assert set(NEW) < set(portable.audit_names())
    assert "FROM class_member" in portable.audit_sql("new_pairs", "spark")


def test_every_header_says_all_parts() -> None:
    said = [headers.header(name) for name in headers.audit_names()]
    assert len(said) > 25
    assert all(text for one in said for text in vars(one).values())


def test_a_header_without_its_parts_is_an_error(own_sql: Path) -> None:
    path = own_sql / "audit" / "new_pairs.sql"
    path.write_text(path.read_text(encoding="utf-8").replace("-- source: this test\n", ""), encoding="utf-8")
    with pytest.raises(ValueError, match=r"new_pairs\.sql begins with -- audit:, -- question:"):
        macros.bindings()


def test_an_audit_of_values_says_what_stands_for_them(own_sql: Path) -> None:
    """Without a template of its own it would be given ranks, and a mean of ranks is no mean."""
    query = "SELECT avg(value) AS mean FROM class_member"
    (own_sql / "audit" / "new_mean.sql").write_text(
        f"{HEADER.format(name='new_mean')}{query}\n", encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"new_mean\.sql reads values: write sql/macro/new_mean\.sql\.j2"):
        macros.bindings()
