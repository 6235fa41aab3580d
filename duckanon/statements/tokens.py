"""Tokens of SQL text as DuckDB reads it, and names of relations: enough to cut a script and to read our own.

sqlglot's tokenizer reads SQL in other ways than DuckDB. It ends an identifier at ``$`` (``a$b$``), takes all
text after EXPLAIN or CALL for one string, and removes ``{# ; #}`` as a comment. ``duckdb.tokenize`` takes
``SELECT\u00a01``, with a Unicode blank, for one name, though DuckDB runs it as two tokens. It gives the begin
of a token, but not its end, and does not report an open string (``SELECT 'open``). A property test compares
these tokens with DuckDB's own cuts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from duckanon.errors import PolicyError, StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["word", "name", "string", "number", "symbol", "unterminated", "end"]

BLANKS = "\t\n\x0b\x0c\r \u00a0\u202f\u205f\u2060\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200C)))
"""Characters that DuckDB reads as blanks between tokens."""

_LETTER = rf"(?:[A-Za-z_]|[^\x00-\x7f{BLANKS}])"
_TOKEN = re.compile(
    rf"""(?P<space>[{re.escape(BLANKS)}]+|--[^\r\n]*)
    |(?P<string>[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*+'|'[^']*(?:''[^']*)*+'
        |\$(?P<tag>(?:{_LETTER}(?:{_LETTER}|\d)*)?)\$.*?\$(?P=tag)\$)
    |(?P<name>"[^"]*(?:""[^"]*)*+")
    |(?P<unterminated>(?:[eE]?'|"|\$(?:{_LETTER}(?:{_LETTER}|\d)*)?\$).*)
    |(?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
    |(?P<word>{_LETTER}(?:{_LETTER}|[0-9$])*)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


_AFTER_NAME = frozenset({"AS", "WITH", "TO"})


class Token(NamedTuple):
    """A token of SQL text."""

    kind: Kind  # a name is in double quotes; an unterminated string, name or comment goes to the end
    text: str  # as written, quotes included
    start: int  # offset of its first character

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.text)

    @property
    def keyword(self) -> str:
        """Upper-case text of a word, empty for other tokens."""
        return self.text.upper() if self.kind == "word" else ""


class Piece(NamedTuple):
    """One statement of a script."""

    text: str  # with its comments, without the semicolon and the blanks around it
    line: int  # place in the script, counted from 1
    column: int


def tokenize(text: str) -> Iterator[Token]:
    """Tokens of any SQL text, without blanks and comments (nested as in DuckDB). O(len(text))."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            end = _comment_end(text, at)
            if end is None:
                yield Token("unterminated", text[at:], at)
                return
            at = end
            continue
        match = _TOKEN.match(text, at)
        if match is None:  # pragma: no cover - the last alternative takes any character
            raise AssertionError(text[at:])
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], at)  # type: ignore[arg-type]  # group names are kinds
        at = match.end()


def split(text: str) -> tuple[Piece, ...]:
    """Statements of a script without empty ones; an open string makes the rest one piece. O(len(text)).

    >>> [piece.text for piece in split("SELECT ';' /* ; */;; FROM t -- last")]
    ["SELECT ';' /* ; */", 'FROM t -- last']
    """
    pieces: list[Piece] = []
    begin, line, column, filled = 0, 1, 1, False
    for token in (*tokenize(text), Token("end", ";", len(text))):
        if token.text != ";":
            filled = True
            continue
        raw = text[begin : token.start]
        body = raw.strip(BLANKS)
        if filled:
            pieces.append(Piece(body, *place_of(raw, raw.index(body), line, column)))
        line, column = place_of(text[begin : token.end], token.end - begin, line, column)
        begin, filled = token.end, False
    return tuple(pieces)


def place_of(text: str, offset: int, line: int = 1, column: int = 1) -> tuple[int, int]:
    """Line and column, from 1, of an offset in a text that begins at the place `line` and `column`."""
    lines = text.count("\n", 0, offset)
    if lines:
        return line + lines, offset - text.rindex("\n", 0, offset)
    return line, column + offset


class Reader:
    """The tokens of one statement, and the position of the next token to read."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.tokens = (*tokenize(piece.text), Token("end", "", len(piece.text)))
        self.position = 0

    @property
    def next(self) -> Token:
        """Next token to read; at the end a token of kind ``end``."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Read one token; at the end the position stays."""
        token = self.next
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def accept(self, *keywords: str) -> bool:
        """Read these keywords if they come next; return whether they do."""
        ahead = self.tokens[self.position : self.position + len(keywords)]
        if [token.keyword for token in ahead] != list(keywords):
            return False
        self.position += len(keywords)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        """Read this symbol if it comes next; return whether it does."""
        if self.next.kind != "symbol" or self.next.text != symbol:
            return False
        self.take()
        return True

    def error(self, message: str, token: Token | None = None) -> StatementError:
        """Return an error that points at a token, by default the next one."""
        return StatementError(message, *self.place(token or self.next))

    def place(self, token: Token) -> tuple[int, int]:
        """Return line and column of a token in the script."""
        return place_of(self.piece.text, token.start, self.piece.line, self.piece.column)

    def expected(self, what: str, advice: str = "") -> StatementError:
        """Return an error that names the expected and the found token, with advice if given."""
        here = "the end of the statement" if self.next.kind == "end" else repr(_shortened(self.next.text))
        return self.error(f"expected {what}, found {here}" + (f": {advice}" if advice else ""))


def unquoted(token: Token) -> str:
    """Text that a word, name or string means; strings with backslash escapes (``E'...'``) are not allowed."""
    if token.kind == "word":
        return token.text
    quote = token.text[0]
    if quote == "$":
        tag = token.text[: token.text.index("$", 1) + 1]
        return token.text[len(tag) : -len(tag)]
    return token.text[1:-1].replace(quote * 2, quote)


@dataclass(frozen=True)
class QualifiedName:
    """Unquoted name of a relation; of a name of two parts the first part is `schema`."""

    catalog: str | None
    schema: str | None
    name: str


def parse_name(text: str) -> QualifiedName:
    """Name of one to three parts, or of a file in single quotes; a PolicyError for any other text.

    >>> parse_name('main."my view"')
    QualifiedName(catalog=None, schema='main', name='my view')
    """
    reader = Reader(Piece(text, 1, 1))
    try:
        name = read_name(reader, file=True)
        if reader.next.kind == "end":
            return name
    except StatementError as wrong:
        raise PolicyError(f"{text!r} is not a name: {wrong}") from wrong
    raise PolicyError(f'{text!r} is not a name: write name, schema.name or, with other characters, "my name"')


def read_name(reader: Reader, *, file: bool = False) -> QualifiedName:
    """Read a name of one to three parts or, with `file`, the name of a file in single quotes."""
    if file and reader.next.kind == "string":
        return QualifiedName(None, None, read_text(reader, "the name of a file"))
    parts = [_part(reader)]
    while reader.accept_symbol("."):
        parts.append(_part(reader))
    if len(parts) > 3:
        raise reader.error("a name has at most three parts: catalog.schema.name")
    catalog, schema, name = [None] * (3 - len(parts)) + parts
    return QualifiedName(catalog, schema, str(name))


def read_text(reader: Reader, what: str) -> str:
    """Read a string; raise, naming it `what`, if it is empty or has backslash escapes (``E'...'``)."""
    token = reader.next
    if token.kind != "string" or token.text[0] in "eE" or not unquoted(token):
        raise reader.expected(f"{what} (text in single quotes)")
    return unquoted(reader.take())


def _part(reader: Reader) -> str:
    token: Token = reader.next
    if token.kind not in {"word", "name"} or token.keyword in _AFTER_NAME:
        raise reader.expected("a name")
    if token.text == '""':
        raise reader.error("a name is empty: write at least one character between the quotes")
    return unquoted(reader.take())


def _comment_end(text: str, start: int) -> int | None:
    """Return the offset after a block comment, or None if the comment is never closed."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def _shortened(text: str) -> str:
    """Return at most 40 characters of the first line of a text."""
    first = text.split("\n", 1)[0]
    return first if len(first) <= 40 else first[:37] + "..."
