"""Parse a text as one of our statements; the error for a misspelt statement names the right word."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from duckanon.policy.names import fold, unknown_option
from duckanon.policy.policy import OPTIONS
from duckanon.statements.grammar import KEYWORD, LEADING, MAX_KEYWORDS, form_of
from duckanon.statements.tokens import Piece, Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.errors import StatementError
    from duckanon.statements.grammar import Statement
    from duckanon.statements.tokens import Token

_MIN_LIKENESS = 0.85
"""Least similarity (difflib, 0 to 1) of a misspelt keyword: ANONYMISED, ANONIMIZED, ANNONYMIZED."""

_RIGHT = "write CREATE ANONYMIZED VIEW name AS query WITH (option = value, ...)"
_KINDS = frozenset({"VIEW", "VIEWS", "TABLE", "TABLES"})
_FUNCTIONS = frozenset({"ANONYMIZE", "EQUIVALENCE_CLASSES"})


def parse(text: str | Piece) -> Statement | None:
    """Our statement in a text, or in a piece of `split`; None for a statement that DuckDB runs."""
    # A StatementError, with its place, if it begins like one of ours or has one of our keywords misspelt.
    reader = Reader(text if isinstance(text, Piece) else Piece(text, 1, 1))
    form = form_of([token.keyword for token in reader.tokens[:MAX_KEYWORDS]])
    if form is None:
        wrong = _refused(reader)
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


def _refused(reader: Reader) -> StatementError | None:
    """Error, with the place of the wrong word, for a misspelt statement of ours; else None."""
    tokens = [token for token in reader.tokens if token.kind != "end"]
    words = [token.keyword for token in tokens[:MAX_KEYWORDS]]
    if not words:
        return None
    return _keyword(reader, tokens, words) or _view(reader, tokens, words)


def wrong_argument(piece: Piece) -> StatementError | None:
    """Error, with the nearest name, for an unknown argument of a table function of ours; else None."""
    reader = Reader(piece)
    depth: list[bool] = []
    before = reader.tokens[0]
    for token, behind in zip(reader.tokens, reader.tokens[1:], strict=False):
        if token.text == "(" and token.kind == "symbol":
            depth.append(before.keyword in _FUNCTIONS)
        elif token.text == ")" and depth:
            depth.pop()
        named = before.text in {"(", ","} and token.kind == "word" and behind.text in {":", "="}
        if named and depth and depth[-1] and fold(token.text) not in OPTIONS:
            return reader.error(unknown_option(token.text, OPTIONS), token)
        before = token
    return None


def _keyword(reader: Reader, tokens: Sequence[Token], words: list[str]) -> StatementError | None:
    """Find a misspelt keyword before VIEW or TABLE, where DuckDB's statements have no name."""
    at = next((place for place, word in enumerate(words) if word not in LEADING), len(words))
    if words[at + 1 : at + 2] == [] or words[at + 1] not in _KINDS or not _near(words[at]):
        return None
    begin = words[:at] or ["CREATE"]
    form = form_of([*begin, KEYWORD, *words[at + 1 :]])
    right = " ".join([*begin, KEYWORD, form.then if form is not None else "VIEW"])
    return reader.error(f"{tokens[at].text!r} is no keyword of DuckDB or duckanon: write {right}", tokens[at])


def _view(reader: Reader, tokens: Sequence[Token], words: Sequence[str]) -> StatementError | None:
    """Find a CREATE VIEW or TABLE that has our options, or our keyword in the wrong place."""
    at = 3 if words[:3] == ["CREATE", "OR", "REPLACE"] else 1
    at += words[at : at + 1] in (["TEMP"], ["TEMPORARY"])
    if words[0] != "CREATE" or words[at : at + 1] not in (["VIEW"], ["TABLE"]):
        return None
    rest = tokens[at + 1 :]
    # In CREATE VIEW anonymized AS ... and CREATE VIEW anonymized WITH ... the word is the name of a view.
    named = len(rest) > 1 and rest[1].kind in {"word", "name"} and rest[1].keyword not in {"AS", "WITH"}
    end = 1
    while len(rest) > end + 1 and rest[end].text == ".":
        end += 2
    wrong = [token for token in rest[:1] if named] + list(rest[end : end + 1])
    for token in wrong:
        if _near(token.keyword):
            return reader.error(f"{token.text!r} does not stand there: {_RIGHT}", token)
    if _our_options(rest):
        return reader.error(f"only an anonymized view has these options: {_RIGHT}", tokens[at])
    return None


def _our_options(tokens: Sequence[Token]) -> bool:
    """Tell whether ``WITH ( ... quasi_identifiers = `` stands after AS."""
    inside = after = False
    for before, token, behind in zip(tokens, tokens[1:], tokens[2:], strict=False):
        after = after or before.keyword == "AS"
        inside = inside or (after and before.keyword == "WITH" and token.text == "(")
        if inside and token.keyword == "QUASI_IDENTIFIERS" and behind.text == "=":
            return True
    return False


def _near(word: str) -> bool:
    begins = word.startswith(("ANONYM", "ANONIM"))
    return begins or SequenceMatcher(None, word, KEYWORD).ratio() >= _MIN_LIKENESS
