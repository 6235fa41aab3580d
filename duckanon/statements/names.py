"""Names of relations, with schema and catalog, as SQL writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.errors import PolicyError, StatementError
from duckanon.statements.tokens import Piece, Reader, unquoted

if TYPE_CHECKING:
    from duckanon.statements.tokens import Token

_AFTER_NAME = frozenset({"AS", "WITH", "TO"})


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
