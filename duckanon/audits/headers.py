"""Question, inputs and outputs of each audit, from the header of its file in ``sql/audit``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from duckanon.database import templates

MEMBERS = "class_member(class, value)"
"""Input of an audit that reads only the classes."""

_VERDICT = "verdict_"
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
