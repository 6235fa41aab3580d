"""Headers of the files in ``sql/audit``: question, inputs, outputs, and the tables of ``sql/README.md``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from duckanon.database import templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


MEMBERS = "class_member(class, value)"
"""Input of an audit that reads only the classes."""

_VERDICT = "verdict_"
_PLACE = re.compile(r"^-- place: (\d+)$", re.MULTILINE)
_LINES = re.compile(r"\A(?:--[^\n]*\n)+")
_ENTRY = re.compile(r"^-- (\w+): (.*(?:\n--  +.*)*)", re.MULTILINE)
_ROWS = re.compile(r"(\w+) = the rows of (?:an? )?([\w*]+)\.sql")


@dataclass(frozen=True)
class Header:
    """Header of an audit, each part as one line."""

    audit: str  # name, equal to the name of the file
    question: str
    reads: str  # relations
    returns: str  # columns
    violation: str  # what breaks a threshold
    source: str  # publication


class SharedRows(NamedTuple):
    """Rows of another audit that a verdict reads; ``*`` in the name of the audit stands for a distance."""

    relation: str  # name of the relation
    audit: str
    columns: tuple[str, ...]


def audit_names() -> tuple[str, ...]:
    """Names of the files of ``sql/audit``, sorted."""
    return tuple(sorted(path.stem for path in (templates.folder() / "audit").glob("*.sql")))


def templates_of_macros() -> dict[str, int]:
    """Macros with a template of their own in ``sql/macro``, with their places in ``sql/install.sql``."""
    found = {}
    for path in (templates.folder() / "macro").glob("*.sql.j2"):
        place = _PLACE.search(path.read_text(encoding="utf-8"))
        if place:
            found[path.name.removesuffix(".sql.j2")] = int(place[1])
    return found


def audit_file(name: str, engine: str = "duckdb") -> str:
    """Path below ``sql/`` of the text that runs for an audit on an engine.

    The engine's own text comes first, then the fast text of all engines, then the definition. All give equal
    rows.
    """
    others = (f"audit/fast/{engine}/{name}.sql", f"audit/fast/{name}.sql")
    return next((file for file in others if (templates.folder() / file).is_file()), f"audit/{name}.sql")


def verdict_name(measure: str) -> str:
    """Name of the audit that compares a measure with its threshold."""
    return _VERDICT + measure


def verdicts() -> tuple[str, ...]:
    """Measures with such an audit, sorted."""
    return tuple(name.removeprefix(_VERDICT) for name in audit_names() if name.startswith(_VERDICT))


def split(text: str) -> tuple[str, str]:
    """Header and query of the text of a file in ``sql/audit``; together they are the text."""
    lines = _LINES.match(text)
    end = lines.end() if lines else 0
    return text[:end], text[end:]


def entries(text: str) -> dict[str, str]:
    """Entries ``-- key: text`` of a text, each as one line."""
    return {key: re.sub(r"\n--  +", " ", entry) for key, entry in _ENTRY.findall(text)}


def header(name: str) -> Header:
    """Header of an audit; ValueError if a part is missing, or the name differs from the name of the file."""
    parts = entries(split(templates.read(f"audit/{name}.sql"))[0])
    parts.pop("formula", None)
    keys = list(Header.__dataclass_fields__)
    if [*parts] != keys or parts["audit"] != name:
        raise ValueError(f"sql/audit/{name}.sql begins with {', '.join(f'-- {key}:' for key in keys)}")
    return Header(**parts)


def rule(measure: str) -> str:
    """Question and violation of the verdict on a measure, from its header; empty without a verdict."""
    if measure not in verdicts():
        return ""
    said = header(verdict_name(measure))
    return f"{said.question} Violated: {said.violation}."


def rows_of(measure: str) -> SharedRows | None:
    """Rows of another audit that the verdict on a measure reads; None if it reads none."""
    name = verdict_name(measure)
    source = _ROWS.search(header(name).reads)
    if source is None:
        return None
    relation, audit = source.groups()
    _, query = split(templates.read(f"audit/{name}.sql"))
    return SharedRows(relation, audit, tuple(dict.fromkeys(re.findall(rf"\b{relation}\.(\w+)", query))))


_HEAD = re.compile(r"MACRO (\w+)(\(.*\)) AS TABLE")
_SECOND_TABLE = re.compile(r"\b(?:population|original|old)\b")


def listed(page: str, statements: Iterable[str], columns: Mapping[str, Sequence[str]]) -> str:
    """Page with up-to-date tables: a line for each macro, and for each audit without a macro.

    `statements` make the macros in their order; `columns` are the columns of macros without a template.
    """
    signatures = dict(re.findall(_HEAD, statement)[0] for statement in statements)
    # Macros that combine several audits come first.
    names = sorted(signatures, key=set(audit_names()).__contains__)
    alone: list[tuple[str, ...]] = []
    beside: list[tuple[str, ...]] = []
    for name in names:
        line = _macro(name, signatures[name], columns.get(name, ()))
        (beside if _SECOND_TABLE.search(signatures[name]) else alone).append(line)
    head = ("macro", "answers", "rows and columns", "passes if", "file")
    page = _replaced(page, "audits of a table", head, alone)
    page = _replaced(page, "audits beside another table", head, beside)
    parts = [header(name) for name in audit_names() if name not in signatures]
    return _replaced(
        page,
        "parts of audits",
        ("file", "answers", "reads"),
        [(_link(part.audit), part.question, part.reads) for part in parts],
    )


def _macro(name: str, signature: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Cells of a macro, from its own header, or from the header of its audit if it has no template."""
    call = f"`{name}{signature}`"
    if columns:
        said = header(name)
        passes = "" if said.violation.startswith("none") else f"not: {said.violation}"
        return call, said.question, f"`{', '.join(columns)}`", passes, _files(name)
    said_here = entries(templates.read(f"macro/{name}.sql.j2"))
    return call, said_here["question"], said_here["returns"], said_here.get("passes", ""), _files(name)


def _files(macro: str) -> str:
    """Links to the audit of a macro and to its verdicts, or to the template that combines several audits."""
    if macro not in audit_names():
        return f"[{macro}](macro/{macro}.sql.j2)"
    judging = [verdict_name(measure) for measure in verdicts() if _judges(measure, macro)]
    return ", ".join(_link(name) for name in (macro, *judging))


def _judges(measure: str, audit: str) -> bool:
    rows = rows_of(measure)
    return measure == audit or (rows is not None and fnmatch(audit, rows.audit))


def _link(audit: str) -> str:
    return f"[{audit}](audit/{audit}.sql)"


def _replaced(page: str, name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Page with a new table between the two marks of a name."""
    begin, end = f"<!-- {name}: written by make install-sql -->\n", f"<!-- end of {name} -->\n"
    if begin not in page or end not in page:
        raise ValueError(f"sql/README.md has no table between {begin.strip()} and {end.strip()}")
    lines = [[f" {cell.replace('|', '&#124;')} " if cell else " " for cell in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    table = "".join(f"|{'|'.join(line)}|\n" for line in lines)
    return page[: page.index(begin) + len(begin)] + table + page[page.index(end) :]
