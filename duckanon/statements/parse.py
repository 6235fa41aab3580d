"""Our statements: text to frozen dataclasses; None for whatever DuckDB runs itself.

The source query of CREATE is never parsed: it is the text between AS and the last ``WITH (`` that stands
outside parentheses, strings, names and comments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from duckanon.statements.misspelt import refused
from duckanon.statements.names import QualifiedName, parse_name, read_name, read_text
from duckanon.statements.options import read_options
from duckanon.statements.tokens import BLANKS, Piece, Reader, Token, place_of, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duckanon.statements.options import Options

__all__ = [
    "Audit",
    "Create",
    "Drop",
    "Explain",
    "Export",
    "Piece",
    "QualifiedName",
    "Refresh",
    "ShowViews",
    "Statement",
    "parse",
    "parse_name",
    "split",
]

_CREATE_FORM = (
    "write CREATE [OR REPLACE] ANONYMIZED VIEW [IF NOT EXISTS] name AS query WITH (option = value, ...)"
)


@dataclass(frozen=True)
class Create:
    """CREATE [OR REPLACE] ANONYMIZED VIEW [IF NOT EXISTS] name AS query WITH (options).

    The query begins at `query_place`, line and column in the script, counted from 1.
    """

    name: QualifiedName
    query: str  # as written, comments included; it may end in a line break
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False
    query_place: tuple[int, int] = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class Explain:
    """EXPLAIN ANONYMIZED VIEW name, or EXPLAIN CREATE ANONYMIZED VIEW ... with ``create`` set."""

    name: QualifiedName
    create: Create | None = None
    frontier: bool = False  # FRONTIER stands at the end: other k and t instead of the plan


@dataclass(frozen=True)
class Refresh:
    """REFRESH ANONYMIZED VIEW name."""

    name: QualifiedName


@dataclass(frozen=True)
class Audit:
    """AUDIT VIEW | TABLE name [WITH (options)]; the name of a file stands in ``name.name``."""

    kind: Literal["view", "table"]
    name: QualifiedName
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class ShowViews:
    """SHOW ANONYMIZED VIEWS."""


@dataclass(frozen=True)
class Export:
    """EXPORT ANONYMIZED VIEW name TO 'path' [WITH (options)]."""

    name: QualifiedName
    path: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """DROP ANONYMIZED VIEW [IF EXISTS] name."""

    name: QualifiedName
    if_exists: bool = False


Statement = Create | Explain | Refresh | Audit | ShowViews | Export | Drop


def parse(text: str | Piece) -> Statement | None:
    """Statement of ours that a text, or a piece of `split`, holds; None where DuckDB runs it as it is.

    A StatementError, with its place, where it begins like one of ours or one of our keywords is misspelt.
    """
    reader = Reader(text if isinstance(text, Piece) else Piece(text, 1, 1))
    read = _reader_of([token.keyword for token in reader.tokens[:6]])
    if read is None:
        wrong = refused(reader)
        if wrong is not None:
            raise wrong
        return None
    for token in reader.tokens:
        if token.kind == "unterminated":
            raise reader.error("the string, quoted name or comment that begins here is never closed", token)
    statement = read(reader)
    while reader.accept_symbol(";"):
        continue
    if reader.next.kind != "end":
        raise reader.expected("the end of the statement")
    return statement


def _reader_of(words: Sequence[str]) -> Callable[[Reader], Statement] | None:
    """Return the function for the first keywords of a statement, None if they are not ours."""
    match words:
        case ["EXPLAIN", "ANONYMIZED", *_]:
            return _explain
        case ["EXPLAIN", *rest] if _creates(rest):
            return _explain
        case ["REFRESH", "ANONYMIZED", *_]:
            return _refresh
        case ["AUDIT", *_]:
            return _audit
        case ["SHOW", "ANONYMIZED", word, *_] if word:
            # SHOW anonymized alone is DuckDB's: it describes a table of that name.
            return _show
        case ["EXPORT", "ANONYMIZED", *_]:
            return _export
        case ["DROP", "ANONYMIZED", *_]:
            return _drop
    return _create if _creates(words) else None


def _creates(words: Sequence[str]) -> bool:
    """Tell whether words begin CREATE [OR REPLACE] [TEMP] ANONYMIZED."""
    match words:
        case ["CREATE", "OR", "REPLACE", *rest] | ["CREATE", *rest]:
            return "ANONYMIZED" in (rest[1:2] if rest[:1] in (["TEMP"], ["TEMPORARY"]) else rest[:1])
    return False


def _create(reader: Reader) -> Create:
    reader.accept("CREATE")
    or_replace = reader.accept("OR", "REPLACE")
    if reader.next.keyword in {"TEMP", "TEMPORARY"}:
        raise reader.error(f"an anonymized view is never temporary, leave out {reader.next.text}")
    reader.accept("ANONYMIZED")
    _expect_view(reader)
    clause = reader.next
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise reader.error("OR REPLACE and IF NOT EXISTS contradict each other: leave out one", clause)
    name = read_name(reader)
    if not reader.accept("AS"):
        raise reader.expected("AS after the name of the view", _CREATE_FORM)
    query, place = _query(reader)
    return Create(name, query, read_options(reader), or_replace, if_not_exists, place)


def _explain(reader: Reader) -> Explain:
    reader.accept("EXPLAIN")
    if reader.next.keyword == "CREATE":
        create = _create(reader)
        return Explain(create.name, create, reader.accept("FRONTIER"))
    reader.accept("ANONYMIZED")
    _expect_view(reader)
    return Explain(read_name(reader), None, reader.accept("FRONTIER"))


def _refresh(reader: Reader) -> Refresh:
    reader.accept("REFRESH", "ANONYMIZED")
    _expect_view(reader)
    return Refresh(read_name(reader))


def _audit(reader: Reader) -> Audit:
    reader.accept("AUDIT")
    kind: Literal["view", "table"] = "table" if reader.next.keyword == "TABLE" else "view"
    if not reader.accept(kind.upper()):
        raise reader.expected("VIEW name or TABLE name after AUDIT")
    name = read_name(reader, file=kind == "table")
    return Audit(kind, name, read_options(reader) if reader.accept("WITH") else {})


def _show(reader: Reader) -> ShowViews:
    reader.accept("SHOW", "ANONYMIZED")
    if not reader.accept("VIEWS"):
        raise reader.expected("VIEWS after SHOW ANONYMIZED")
    return ShowViews()


def _export(reader: Reader) -> Export:
    reader.accept("EXPORT", "ANONYMIZED")
    _expect_view(reader)
    name = read_name(reader)
    if not reader.accept("TO"):
        raise reader.expected("TO 'file' after the name of the view")
    path = read_text(reader, "the name of a file, as in TO 'release.duckdb'")
    return Export(name, path, read_options(reader) if reader.accept("WITH") else {})


def _drop(reader: Reader) -> Drop:
    reader.accept("DROP", "ANONYMIZED")
    _expect_view(reader)
    if_exists = reader.accept("IF", "EXISTS")
    return Drop(read_name(reader), if_exists)


def _expect_view(reader: Reader) -> None:
    if not reader.accept("VIEW"):
        only = "a release is always a view, and its rows are a table behind it"
        raise reader.expected("VIEW after ANONYMIZED", only if reader.next.keyword == "TABLE" else "")


def _query(reader: Reader) -> tuple[str, tuple[int, int]]:
    """Read up to the WITH of the options, and that WITH; return the text before it, and its place."""
    begin = reader.tokens[reader.position - 1].end
    clause = _clause(reader)
    if clause is None:
        raise reader.error(f"WITH (...) is missing at the end: {_CREATE_FORM}", reader.tokens[-1])
    if clause == reader.position:
        raise reader.error("the source query between AS and WITH is missing")
    reader.position = clause + 1
    raw = reader.piece.text[begin : reader.tokens[clause].start]
    query = raw.lstrip(BLANKS)
    skipped = begin + len(raw) - len(query)
    return query, place_of(reader.piece.text, skipped, reader.piece.line, reader.piece.column)


def _clause(reader: Reader) -> int | None:
    """Return the index of the last ``WITH (`` outside parentheses, None if there is none."""
    clause: int | None = None
    opened: list[Token] = []
    for at in range(reader.position, len(reader.tokens)):
        token = reader.tokens[at]
        if token.kind != "symbol":
            continue
        if token.text == "(":
            if not opened and at > reader.position and reader.tokens[at - 1].keyword == "WITH":
                clause = at - 1
            opened.append(token)
        elif token.text == ")" and opened:
            opened.pop()
    if opened:
        raise reader.error("this parenthesis is never closed", opened[0])
    return clause
