"""What each audit asks, reads and returns, as the header of its file in ``sql/audit`` says it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from duckanon.database import templates

MEMBERS = "class_member(class, value)"
"""What an audit reads that looks at classes and at nothing else."""

_LINES = re.compile(r"\A(?:--[^\n]*\n)+")
_ENTRY = re.compile(r"^-- (\w+): (.*(?:\n--  +.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Header:
    """What an audit says of itself, each part as one line.

    Its name, which is that of the file; what it asks; relations that it reads; its columns; what breaks a
    threshold; where it is published.
    """

    audit: str
    question: str
    reads: str
    returns: str
    violation: str
    source: str


def audit_names() -> tuple[str, ...]:
    """Names of the files of ``sql/audit``, sorted."""
    return tuple(sorted(path.stem for path in (templates.folder() / "audit").glob("*.sql")))


def split(text: str) -> tuple[str, str]:
    """Header and query of the text of a file in ``sql/audit``; together they are the text."""
    found = _LINES.match(text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def header(name: str) -> Header:
    """What an audit says of itself; ValueError if a part is missing, or the name is not that of the file."""
    head, _ = split(templates.read(f"audit/{name}.sql"))
    parts = {key: re.sub(r"\n--  +", " ", text) for key, text in _ENTRY.findall(head)}
    wanted = list(Header.__dataclass_fields__)
    if [*parts] != wanted or parts["audit"] != name:
        raise ValueError(f"sql/audit/{name}.sql begins with {', '.join(f'-- {key}:' for key in wanted)}")
    return Header(**parts)
