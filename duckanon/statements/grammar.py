"""The grammar of our statements: a dataclass, the first keywords and a reader for each, and the list of all.

The source query of CREATE is not parsed. It is the text between AS and the last ``WITH (`` that is outside
parentheses, strings, names and comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from duckanon.statements.options import read_options
from duckanon.statements.tokens import BLANKS, QualifiedName, place_of, read_name, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duckanon.statements.options import Options
    from duckanon.statements.tokens import Reader, Token

KEYWORD = "ANONYMIZED"
"""Keyword that marks a statement as ours."""

_CREATE_FORM = (
    "write CREATE [OR REPLACE] ANONYMIZED VIEW [IF NOT EXISTS] name AS query WITH (option = value, ...)"
)


class Statement:
    """One of our statements."""

    @property
    def query_place(self) -> tuple[int, int] | None:
        """Line and column of the source query in the script, counted from 1; None without a source query."""
        return None


@dataclass(frozen=True)
class Create(Statement):
    """CREATE [OR REPLACE] ANONYMIZED VIEW [IF NOT EXISTS] name AS query WITH (options)."""

    name: QualifiedName
    query: str  # as written, comments included; it may end in a line break
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False
    query_place: tuple[int, int] = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN ANONYMIZED VIEW name, or EXPLAIN CREATE ANONYMIZED VIEW ... with ``create`` set."""

    name: QualifiedName
    create: Create | None = None
    frontier: bool = False  # with FRONTIER at the end: a table of other k and t instead of the plan

    @property
    def query_place(self) -> tuple[int, int] | None:
        """Place of the source query of the explained CREATE."""
        return None if self.create is None else self.create.query_place


@dataclass(frozen=True)
class Refresh(Statement):
    """REFRESH ANONYMIZED VIEW name [WITH (options)]."""

    name: QualifiedName
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Audit(Statement):
    """AUDIT VIEW | TABLE name [WITH (options)]; the name of a file stands in ``name.name``."""

    kind: Literal["view", "table"]
    name: QualifiedName
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class ShowViews(Statement):
    """SHOW ANONYMIZED VIEWS."""


@dataclass(frozen=True)
class Export(Statement):
    """EXPORT ANONYMIZED VIEW name TO 'path' [WITH (options)]."""

    name: QualifiedName
    path: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Drop(Statement):
    """DROP ANONYMIZED VIEW [IF EXISTS] name."""

    name: QualifiedName
    if_exists: bool = False


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
    name = read_name(reader)
    return Refresh(name, read_options(reader) if reader.accept("WITH") else {})


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
    """Read the source query and the WITH after it; return the text of the query and its place."""
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
    """Return the index of the last ``WITH (`` outside parentheses, or None."""
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


@dataclass(frozen=True)
class Form:
    """The first keywords of one of our statements, and its reader."""

    kind: type[Statement]
    words: str  # regular expression of the first keywords, one blank between them
    read: Callable[[Reader], Statement]
    then: str = "VIEW"  # next keyword, named by the error for a misspelt one


_CREATES = f"CREATE( OR REPLACE)?( TEMP| TEMPORARY)? {KEYWORD}"

STATEMENTS = (
    Form(Create, _CREATES, _create),
    Form(Explain, f"EXPLAIN ({_CREATES}|{KEYWORD})", _explain),
    Form(Refresh, f"REFRESH {KEYWORD}", _refresh),
    Form(Audit, "AUDIT", _audit),
    # Without a next word, SHOW anonymized is DuckDB's: it describes the table anonymized.
    Form(ShowViews, f"SHOW {KEYWORD}(?= [^ ])", _show, "VIEWS"),
    Form(Export, f"EXPORT {KEYWORD}", _export),
    Form(Drop, f"DROP {KEYWORD}", _drop),
)
"""All our statements; ``api/execute.py`` runs them."""

LEADING = frozenset(
    word
    for form in STATEMENTS
    if KEYWORD in form.words
    for word in re.findall("[A-Z]+", form.words.partition(KEYWORD)[0])
)
"""Keywords that may stand before ANONYMIZED."""

MAX_KEYWORDS = 6
"""Largest number of keywords that identify a statement."""


def form_of(keywords: Sequence[str]) -> Form | None:
    """Form of the statement that begins with these upper-case keywords; None for a statement of DuckDB."""
    begin = " ".join(keywords)
    return next((form for form in STATEMENTS if re.match(f"({form.words})( |$)", begin)), None)
