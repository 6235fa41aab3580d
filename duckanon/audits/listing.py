"""The tables of audits in ``sql/README.md``, from the headers of the audits and of their macros."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from duckanon.audits import headers
from duckanon.database import templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_HEAD = re.compile(r"MACRO (\w+)(\(.*\)) AS TABLE")
_SECOND_TABLE = re.compile(r"\b(?:population|original|old)\b")


def listed(page: str, statements: Iterable[str], columns: Mapping[str, Sequence[str]]) -> str:
    """Page with up-to-date tables: a line for each macro, and for each audit without a macro.

    `statements` make the macros in their order; `columns` are the columns of macros without a template.
    """
    signatures = dict(re.findall(_HEAD, statement)[0] for statement in statements)
    # Macros that combine several audits come first.
    names = sorted(signatures, key=set(headers.audit_names()).__contains__)
    alone: list[tuple[str, ...]] = []
    beside: list[tuple[str, ...]] = []
    for name in names:
        line = _macro(name, signatures[name], columns.get(name, ()))
        (beside if _SECOND_TABLE.search(signatures[name]) else alone).append(line)
    head = ("macro", "answers", "rows and columns", "passes if", "file")
    page = _replaced(page, "audits of a table", head, alone)
    page = _replaced(page, "audits beside another table", head, beside)
    parts = [headers.header(name) for name in headers.audit_names() if name not in signatures]
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
        said = headers.header(name)
        passes = "" if said.violation.startswith("none") else f"not: {said.violation}"
        return call, said.question, f"`{', '.join(columns)}`", passes, _files(name)
    entries = headers.entries(templates.read(f"macro/{name}.sql.j2"))
    return call, entries["question"], entries["returns"], entries.get("passes", ""), _files(name)


def _files(macro: str) -> str:
    """Links to the audit of a macro and to its verdicts, or to the template that combines several audits."""
    if macro not in headers.audit_names():
        return f"[{macro}](macro/{macro}.sql.j2)"
    verdicts = [headers.verdict_name(measure) for measure in headers.verdicts() if _judges(measure, macro)]
    return ", ".join(_link(name) for name in (macro, *verdicts))


def _judges(measure: str, audit: str) -> bool:
    rows = headers.rows_of(measure)
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
