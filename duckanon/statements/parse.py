"""Parse a text as one of our statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.statements.grammar import MAX_KEYWORDS, form_of
from duckanon.statements.misspelt import refused
from duckanon.statements.tokens import Piece, Reader

if TYPE_CHECKING:
    from duckanon.statements.grammar import Statement


def parse(text: str | Piece) -> Statement | None:
    """Our statement in a text, or in a piece of `split`; None for a statement that DuckDB runs."""
    # A StatementError, with its place, if it begins like one of ours or has one of our keywords misspelt.
    reader = Reader(text if isinstance(text, Piece) else Piece(text, 1, 1))
    form = form_of([token.keyword for token in reader.tokens[:MAX_KEYWORDS]])
    if form is None:
        wrong = refused(reader)
        if wrong is not None:
            raise wrong
        return None
    for token in reader.tokens:
        if token.kind == "unterminated":
            raise reader.error("the string, quoted name or comment that begins here is never closed", token)
    statement = form.read(reader)
    while reader.accept_symbol(";"):
        continue
    if reader.next.kind != "end":
        raise reader.expected("the end of the statement")
    return statement
