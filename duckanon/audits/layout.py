"""Line breaks for SQL statements made of parts: only white space between words changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LINE_CHARACTERS = 120
_CALL_CHARACTERS = 80
_INDENT = 4
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[\w.$]+|<=|>=|<>|\|\||//|:=|::|\S")
_COMMENT = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|--[^\n]*")
_CLOSES = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_STARTS = frozenset({"WITH", "SELECT", "UNION", "WHEN", "ELSE"})
"""Words that always begin a line."""
_JOINS = frozenset({"CROSS", "LEFT", "NATURAL", "ANTI", "FULL"})
_CLAUSES = _JOINS | {"FROM", "WHERE", "HAVING", "WINDOW", "LIMIT", "UNPIVOT", "JOIN", "GROUP", "ORDER"}


@dataclass(frozen=True)
class _Word:
    """A word of SQL, or a bracketed text; `apart` if a blank precedes it."""

    text: str
    apart: bool
    inner: tuple[_Word, ...] = ()
    close: str = ""


def in_lines(text: str) -> str:
    """Statement without comments, in lines of at most `LINE_CHARACTERS` except for longer words."""
    words = _nested(_COMMENT.sub(lambda found: found[1] or " ", text))
    return "\n".join(_block(words, 0))


def _nested(text: str) -> tuple[_Word, ...]:
    levels: list[list[_Word]] = [[]]
    opened: list[_Word] = []
    end = 0
    for found in _TOKEN.finditer(text):
        word = _Word(found[0], apart=found.start() > end and found[0] not in ",;")
        end = found.end()
        if word.text in _CLOSES:
            opened.append(word)
            levels.append([])
        elif opened and word.text == _CLOSES[opened[-1].text]:
            begin = opened.pop()
            levels[-2].append(_Word(begin.text, begin.apart, tuple(levels.pop()), word.text))
        else:
            levels[-1].append(word)
    return tuple(levels[0])


def _flat(words: Sequence[_Word]) -> str:
    """Words in one line, without blanks inside brackets."""
    parts = []
    for number, word in enumerate(words):
        blank = " " if number and word.apart else ""
        inside = " " if word.text == "CASE" else ""
        parts.append(f"{blank}{word.text}{inside}{_flat(word.inner)}{inside}{word.close}")
    return "".join(parts)


def _selects(words: Sequence[_Word]) -> bool:
    return any(word.text in {"SELECT", "WITH"} or _selects(word.inner) for word in words)


def _block(words: Sequence[_Word], indent: int) -> Iterator[str]:
    """Lines of words: clauses share a line if they fit, except for clauses that begin a line."""
    for unit in _units(words):
        whole = " " * indent + _flat([word for clause in unit for word in clause])
        if len(whole) <= LINE_CHARACTERS:
            yield whole
            continue
        line, selected = "", False
        for clause in unit:
            text = _flat(clause)
            if line and not selected and len(line) + 1 + len(text) <= LINE_CHARACTERS:
                line += f" {text}"
                continue
            if line:
                yield line
            *full, line = _filled(clause, indent)
            yield from full
            selected = clause[0].text == "SELECT"
        yield line


def _units(words: Sequence[_Word]) -> Iterator[list[list[_Word]]]:
    """Clauses of each SELECT, of each CTE and of each WHEN."""
    unit: list[list[_Word]] = []
    listed = False
    before = _Word("", apart=False)
    for word in words:
        listed = (listed or word.text == "WITH") and word.text not in {"SELECT", "FROM"}
        united = before.text == "NAME" or (before.text == "ALL" and word.text == "FROM")
        if unit and (word.text in _STARTS or (listed and before.text == ",") or united):
            yield unit
            unit = []
        if not unit or (word.text in _CLAUSES and before.text not in _JOINS):
            unit.append([])
        unit[-1].append(word)
        before = word
    if unit:
        yield unit


def _filled(words: Sequence[_Word], indent: int) -> list[str]:
    """Lines of one clause; a subquery or CASE that does not fit gets its own lines."""
    lines = [" " * indent]
    for word in _glued(_flowing(words)):
        text = (" " if word.apart and lines[-1].strip() else "") + _flat([word])
        if len(lines[-1]) + len(text) <= LINE_CHARACTERS:
            lines[-1] += text
        elif word.inner:
            base = len(lines[-1]) - len(lines[-1].lstrip())
            lines[-1] += text[: text.index(word.text)] + word.text
            lines += _block(word.inner, base + _INDENT)
            lines.append(" " * base + word.close)
        elif word.apart:
            lines.append(" " * (indent + _INDENT) + text.lstrip())
        else:
            lines[-1] += text
    return lines


def _flowing(words: Iterable[_Word]) -> Iterator[_Word]:
    """Words of a clause: a short bracket, a subquery or a CASE is one word; other brackets are several."""
    for word in words:
        flat = _flat([word])
        if not word.close or len(flat) <= _CALL_CHARACTERS:
            yield _Word(flat, word.apart)
        elif word.text == "CASE" or _selects(word.inner):
            yield word
        else:
            first, *others = word.inner
            yield _Word(word.text, word.apart)
            yield from _flowing([replace(first, apart=False), *others])
            yield _Word(word.close, apart=False)


def _glued(words: Iterable[_Word]) -> Iterator[_Word]:
    """Join words without a blank between them."""
    last: _Word | None = None
    for word in words:
        if last is not None and not (word.apart or word.inner or last.inner):
            last = replace(last, text=last.text + word.text)
            continue
        if last is not None:
            yield last
        last = word
    if last is not None:
        yield last
