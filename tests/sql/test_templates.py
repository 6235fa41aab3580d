"""Every file under sql/, or each of its sections, says what it is for, and something uses it."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import duckdb
import jinja2
import pytest

import duckanon
from duckanon.database import templates

SQL = templates.folder()
PACKAGE = Path(duckanon.__file__).parent
GENERATED = {"install.sql", "gate.sql"}


def _texts() -> dict[str, str]:
    """Text of each file, or of each section of it, by the name that `templates.render` takes."""
    found = {}
    for path in sorted(SQL.rglob("*.sql*")):
        name, text = path.relative_to(SQL).as_posix(), path.read_text(encoding="utf-8")
        sections = templates.sections_of(text)
        found |= {f"{name}:{section}": part for section, part in sections.items()} or {name: text}
    return found


TEXTS = _texts()
ours = [name for name in TEXTS if name not in GENERATED and not name.startswith("audit/")]
each_file = pytest.mark.parametrize("name", ours)

HEADER = re.compile(r"(?P<hidden>\{#\n)?(?P<lines>(?:--.*\n)+)(?(hidden)#\}\n)")
WRITES = {
    "ALTER", "ATTACH", "AUDIT", "BEGIN", "COMMENT", "COPY", "CREATE ANONYMIZED VIEW", "CREATE SCHEMA", "CREATE TABLE", "CREATE VIEW", "DELETE",
    "DETACH", "DROP", "EXPORT", "INSERT", "RESET", "SET", "UPDATE", "USE",
}  # fmt: skip
ANSWERS = {"CREATE OR REPLACE TEMP", "CREATE TEMP", "DESCRIBE", "FROM", "SELECT", "WITH"}
STATEMENT = re.compile(rf"\s*({'|'.join(sorted(WRITES | ANSWERS, key=len, reverse=True))})\b")
FOLDERS = "|".join(sorted({name.split("/")[0] for name in TEXTS if "/" in name}))
NAME = re.compile(rf"(?:(?:{FOLDERS})/\w+\.sql(?:\.j2)?|\w+\.sql\.j2(?=:))(?::\w+)?")


def parts(name: str) -> tuple[re.Match[str], str]:
    """Header of a file or section, and the SQL behind it without what Jinja makes of it."""
    text = TEXTS[name]
    header = HEADER.match(text)
    assert header is not None, f"{name} does not begin with a header"
    code = re.sub(
        r"\{#.*?#\}|\{% macro.*?endmacro %\}|\{% set.*?%\}.*?\{% endset %\}|\{%.*?%\}|^--.*?$",
        "",
        text[header.end() :],
        flags=re.DOTALL | re.MULTILINE,
    )
    return header, code


@each_file
def test_it_says_what_it_answers_or_does_and_what_it_reads_and_returns(name: str) -> None:
    lines = parts(name)[0]["lines"].splitlines()
    file, _, section = name.partition(":")
    folder, stem = ("name", section) if section else Path(file).parts[-2:]
    assert lines[0] == f"-- {folder}: {stem.partition('.')[0]}", name
    first = itertools.takewhile(lambda line: line != "--", lines[1:])
    keys = [found[1] for line in first if (found := re.match(r"-- (\w+): \S", line))]
    assert keys[:3] in (["question", "reads", "returns"], ["does", "reads", "returns"]), name
    assert set(keys[3:]) <= {"source", "place", "passes"}, name


@each_file
def test_what_writes_says_what_it_does(name: str) -> None:
    header, code = parts(name)
    found = STATEMENT.match(code)
    if found is not None and found[1] in WRITES:
        assert "\n-- does: " in header["lines"], name


@each_file
def test_the_header_of_a_part_stays_out_of_the_query_that_it_is_put_into(name: str) -> None:
    header, code = parts(name)
    assert header["hidden"] or STATEMENT.match(code) or code.lstrip().startswith(","), name


def used_by_python() -> set[str]:
    """Names in the code; where one is put together, the folder with every word that its package writes."""
    found: set[str] = set()
    for package in {path.parent for path in PACKAGE.rglob("*.py")}:
        nodes = [
            node for path in package.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))
        ]
        words = {
            node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found |= {word for word in words if NAME.fullmatch(word) or word in GENERATED}
        for node in nodes:
            if isinstance(node, ast.JoinedStr) and len(node.values) in (2, 3):
                begin, _, end = (*node.values, ast.Constant(""))[:3]
                if isinstance(begin, ast.Constant) and isinstance(end, ast.Constant):
                    found |= {f"{begin.value}{word}{end.value}" for word in words} & set(TEXTS)
    return found


def used_by(name: str) -> set[str]:
    """Names in a template; where one is put together, the folder with every word that the template writes."""
    tags = " ".join(re.findall(r"\{%.*?%\}", TEXTS[name], flags=re.DOTALL))
    words = re.findall(r"['\"](\w+)['\"]", tags)
    joined = re.findall(r"'(\w+/\w*)' ~ \w+ ~ '(\.sql(?:\.j2)?)'", tags)
    folders = re.findall(r"\"([\w/]+/)\" ~ [\w.]+ ~ \"\.sql\.j2\"", tags)
    return (
        set(NAME.findall(tags))
        | {name for name in TEXTS if name.startswith(tuple(folders))}
        | {f"{begin}{word}{end}" for begin, end in joined for word in words if f"{begin}{word}{end}" in TEXTS}
    )


def test_a_section_is_a_template_and_a_file_of_sections_is_none() -> None:
    assert templates.render("session.sql.j2:use", catalog="a", schema="b").endswith('\nUSE "a"."b"\n')
    for name in ("session.sql.j2", "session.sql.j2:nothing", "stage/raw.sql.j2:raw"):
        with pytest.raises(jinja2.TemplateNotFound, match="has the sections"):
            templates.render(name)


def test_short_templates_are_sections_and_there_are_not_too_many_files() -> None:
    """A file for each query of a line or two was a folder that nobody could read."""
    files = [path for path in SQL.rglob("*") if path.is_file()]
    assert len(files) <= 250


def test_every_file_is_used_and_every_name_is_a_file() -> None:
    # Macros with a place are found by it, those of hierarchies and parts by their folder: a new one is no row in a list.
    placed = {name for name in ours if "\n-- place: " in parts(name)[0]["lines"]}
    placed |= {name for name in ours if name.startswith(("hierarchy/", "macro/part/"))}
    used, new = set(), used_by_python() | placed | {"macro/plain.sql.j2"}
    unknown = {name for name in new if name not in TEXTS}
    while new:
        used |= new
        new = {other for name in new if ".j2" in name and name in TEXTS for other in used_by(name)} - used
        unknown |= {name for name in new if name not in TEXTS}
    assert not unknown, f"no such file under sql/: {sorted(unknown)}"
    unused = sorted({*ours, *GENERATED} - used)
    assert not unused, f"nothing in duckanon uses {unused}"


def written_texts(path: Path) -> list[tuple[int, str, str]]:
    """Line and text of every string of a module but docstrings; of an f-string with names, and with queries, in it."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    passed_over = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    passed_over |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = []
    for node in nodes:
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append((node.lineno, node.value, node.value))
        if isinstance(node, ast.JoinedStr):
            named, queried = (
                "".join(str(part.value) if isinstance(part, ast.Constant) else hole for part in node.values)
                for hole in ("x", "SELECT 1")
            )
            texts.append((node.lineno, named, queried))
    return texts


def is_sql(con: duckdb.DuckDBPyConnection, text: str) -> bool:
    try:
        return bool(con.extract_statements(text))
    except duckdb.Error:
        return False


def own_sql(path: Path) -> list[str]:
    """What a module writes of SQL: statements whose first word is in upper case, and queries in parentheses."""
    with duckdb.connect() as con:
        return [
            f"{path.name}:{line}: {named}"
            for line, named, queried in written_texts(path)
            if (len(named.split()) > 1 and named.split()[0].isupper() and is_sql(con, named))
            or (re.fullmatch(r"\(.*\)", queried, flags=re.DOTALL) and is_sql(con, queried))
        ]


@pytest.mark.slow
def test_python_has_no_sql_of_its_own() -> None:
    assert not [text for path in sorted(PACKAGE.rglob("*.py")) for text in own_sql(path)]


@pytest.mark.parametrize(
    "line", ["'SELECT 1'", "f'FROM {name} LIMIT 1'", "f'USE {name}'", "f'({query})'", "'DETACH export'"]
)
def test_sql_in_python_would_be_seen(line: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'"""SELECT 1"""\n\nname = query = "audit"\ntext = {line}\n', encoding="utf-8")
    assert own_sql(module)
