"""Text to one of our statements; None for whatever DuckDB runs itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.statements.grammar import MAX_KEYWORDS, form_of
from duckanon.statements.misspelt import refused
from duckanon.statements.tokens import Piece, Reader

if TYPE_CHECKING:
    from duckanon.statements.grammar import Statement


def parse(text: str | Piece) -> Statement | None:
    """Statement of ours that a text, or a piece of `split`, holds; None where DuckDB runs it as it is.

    A StatementError, with its place, where it begins like one of ours or one of our keywords is misspelt.
    """
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
