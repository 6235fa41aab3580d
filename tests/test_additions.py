"""A statement and a format of export are added in a copy of the package as CONTRIBUTING.md says, and they work."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyarrow import feather

from duckanon.api.execute import RUNS
from duckanon.cli.anonymize import anonymize
from duckanon.database import templates
from duckanon.release.export import FORMATS
from duckanon.statements.grammar import STATEMENTS, form_of
from tests.e2e.scenes import CREATE, ROOT, patients

if TYPE_CHECKING:
    from pathlib import Path

STATEMENTS_PAGE = (ROOT / "docs" / "statements.md").read_text(encoding="utf-8")

GRAMMAR = '''
@dataclass(frozen=True)
class Count(Statement):
    """COUNT ANONYMIZED VIEW name."""

    name: QualifiedName


def _count(reader: Reader) -> Count:
    reader.accept("COUNT", KEYWORD)
    _expect_view(reader)
    return Count(read_name(reader))


'''
RUN = """
def _count(con: duckdb.DuckDBPyConnection, statement: grammar.Count, _effect: bool) -> Outcome:
    published = metadata.require(con, resolve(con, statement.name))
    return Outcome(f"counted {published.target}", pa.table({"records": [published.records]}))


"""
FORMAT = """
def _to_arrow(con: duckdb.DuckDBPyConnection, release: _Release, draft: Path) -> Report:
    (table,), home = release.tables, release.published.target.catalog
    names = [name for name, _ in table.columns]
    query = templates.render(
        "relation.sql.j2:select", columns=names, relation=table.relation, order=table.columns
    )
    feather.write_feather(engine.table(con, query, "export"), draft)
    with engine.registered(con, {"written": feather.read_table(draft, memory_map=False)}):
        require_same(con, con, release.rows, release.columns, lambda _: "written")
        return audit_published(con, con, release.published, "written", home=home)


"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy of the package and its SQL, beside a database with an anonymized view of sixty patients."""
    shutil.copytree(ROOT / "duckanon", tmp_path / "duckanon", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(templates.folder(), tmp_path / "sql")
    with patients(tmp_path / "hospital.duckdb") as con:
        con.sql(CREATE)
    return tmp_path


def inserted(file: Path, *, before: str, text: str) -> None:
    """Write a text in front of the only place of another."""
    code = file.read_text(encoding="utf-8")
    assert code.count(before) == 1
    file.write_text(code.replace(before, text.lstrip("\n") + before), encoding="utf-8")


# One process for all statements: that of the copy has to compile all its files.
PROGRAM = """
import contextlib, io, json, sys
from duckanon.cli.main import main
told = []
for statement in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main(["sql", statement, "-d", "hospital.duckdb"])
    told.append(out.getvalue() or err.getvalue())
print(json.dumps(told))
"""


def answers(copy: Path, *statements: str) -> list[str]:
    """Give what the command line of the copy prints for each statement, or says of its error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *statements],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=True,
    )
    told: list[str] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_a_new_statement_is_an_entry_and_what_runs_it(copy: Path) -> None:
    grammar, execute = copy / "duckanon/statements/grammar.py", copy / "duckanon/api/execute.py"
    inserted(grammar, before="@dataclass(frozen=True)\nclass Form:", text=GRAMMAR)
    inserted(grammar, before="    Form(Refresh,", text='    Form(Count, f"COUNT {KEYWORD}", _count),\n')
    inserted(execute, before="RUNS: ", text=RUN)
    inserted(execute, before="    grammar.Refresh: ", text="    grammar.Count: _count,\n")
    counted, misspelt, unknown = answers(
        copy, "count anonymized view v;", "COUNT ANONYMISED VIEW v", "COUNT ANONYMIZED TABLE v"
    )
    assert re.fullmatch(r"-- counted hospital\.main\.v\nrecords\n-+\n *60\n", counted)
    assert "'ANONYMISED' is no keyword of DuckDB or duckanon: write COUNT ANONYMIZED VIEW (line 1" in misspelt
    assert "expected VIEW after ANONYMIZED, found 'TABLE'" in unknown


@pytest.mark.slow
def test_a_new_format_is_an_entry_and_what_writes_it(copy: Path) -> None:
    export = copy / "duckanon/release/export.py"
    inserted(
        export,
        before="from duckanon.audits.evidence import evidence_of\n",
        text="from pyarrow import feather\n\n",
    )
    inserted(export, before="FORMATS: ", text=FORMAT)
    inserted(export, before='}\n"""By ending', text='    ".arrow": _to_arrow,\n')
    written, refused = answers(
        copy, "EXPORT ANONYMIZED VIEW v TO 'v.arrow'", "EXPORT ANONYMIZED VIEW v TO 'v.txt'"
    )
    assert written.startswith("-- exported hospital.main.v to v.arrow\n")
    assert "the file must end in .duckdb, .parquet, .csv or .arrow" in refused
    with patients(copy / "hospital.duckdb") as con:
        released = con.duckdb.sql("FROM v").to_arrow_table()
    read = feather.read_table(copy / "v.arrow")
    assert sorted(map(repr, read.to_pylist())) == sorted(map(repr, released.to_pylist()))
    assert (read.schema, read.num_rows) == (released.schema, 60)


def test_every_statement_is_run_and_stands_in_the_docs() -> None:
    kinds = [form.kind for form in STATEMENTS]
    assert list(RUNS) == kinds
    (forms,) = re.findall(r"```text\n(CREATE .*?)```", STATEMENTS_PAGE, re.DOTALL)
    written = [re.sub(r"\[.*?\]", "", line) for line in forms.splitlines()]
    found = [form_of(re.findall(r"\w+", line)) for line in written]
    assert {form.kind for form in found if form is not None} == set(kinds)
    assert None not in found


def test_every_format_stands_where_the_others_are_named() -> None:
    out = inspect.signature(anonymize).parameters["target"].annotation.__metadata__[0]
    (example,) = re.findall(r"^EXPORT .* TO (.*; -- or .*)", STATEMENTS_PAGE, re.MULTILINE)
    table = re.findall(r"^\| `(\.\w+)` \|", STATEMENTS_PAGE, re.MULTILINE)
    for place in (out.help, example):
        assert set(re.findall(r"\.[a-z]+", place)) == set(FORMATS)
    assert table == list(FORMATS)
