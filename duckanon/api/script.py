"""Where in a script a statement failed: errors of one statement count lines from its own beginning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import duckdb

from duckanon.database import engine
from duckanon.errors import SOURCE_QUERY, DuckanonError, Place
from duckanon.statements import parse
from duckanon.statements.tokens import Piece, place_of, split, tokenize

if TYPE_CHECKING:
    from duckanon.statements.parse import Statement


@dataclass(frozen=True)
class Script:
    """Statements, and what a reader calls the text that they stand in.

    Attributes
    ----------
    text : str
        One or several statements.
    name : str or None
        Name of the file; None for a text that has none.
    """

    text: str
    name: str | None = None

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Its statements in order, without the comments before each.

        DuckDB drops these comments, too, but counts some of its lines with them and some without.
        """
        return tuple(_bare(piece) for piece in split(self.text))


def begin(script: Script, piece: Piece) -> Place | None:
    """Place of a statement in its script.

    Parameters
    ----------
    script : Script
        The script.
    piece : Piece
        One of its statements.

    Returns
    -------
    Place or None
        Of its first word; None where the script is this statement, and its place says nothing.
    """
    if script.name is None and (piece.line, piece.column, len(script.pieces)) == (1, 1, 1):
        return None
    return Place(piece.line, piece.column, script.name)


def locate(failure: Exception, script: Script, piece: Piece, statement: Statement | None) -> None:
    """Say in an error at which line of the script the statement failed.

    Parameters
    ----------
    failure : Exception
        Ours or DuckDB's; it keeps its type.
    script : Script
        The script.
    piece : Piece
        The statement that failed.
    statement : Statement, optional
        The same as it was read; None for a statement of DuckDB's, or one that could not be read.
    """
    start = begin(script, piece)
    if isinstance(failure, DuckanonError):
        places = [_in_script(place, script, statement) for place in failure.places]
        if start is not None and not any(place.of == script.name for place in places):
            places.append(start)
        failure.places = tuple(places)
    elif isinstance(failure, duckdb.Error):
        failure.args = (_renumbered(str(failure), script, piece, start),)


def _bare(piece: Piece) -> Piece:
    first = next(token.start for token in tokenize(piece.text))
    return Piece(piece.text[first:], *place_of(piece.text, first, piece.line, piece.column))


def _in_script(place: Place, script: Script, statement: Statement | None) -> Place:
    """Return a place of our own error; that in the query of CREATE counted from the begin of the script."""
    if place.of is None:
        return place._replace(of=script.name)
    create = statement.create if isinstance(statement, parse.Explain) else statement
    if place.of != SOURCE_QUERY or not isinstance(create, parse.Create):
        return place
    line, column = create.query_place
    inner = place.column
    if place.line == 1 and inner is not None:
        inner += column - 1
    return Place(line + place.line - 1, inner, script.name)


def _renumbered(text: str, script: Script, piece: Piece, start: Place | None) -> str:
    """Message of DuckDB with the line of the script; one that names no line gets that of its statement."""
    lines = script.text.split("\n")
    found = engine.LINE.search(text)
    if found is None:
        if start is None:
            return text
        head = f"LINE {start.line}: "
        excerpt = lines[start.line - 1].rstrip("\r")
        return f"{text}\n\n{head}{excerpt}\n{' ' * (len(head) + (start.column or 1) - 1)}^"
    number = int(found[1])
    shown, cut, rest = text[found.end() :].partition("\n")
    # DuckDB shows the line from the begin of the statement on, or a part of it between dots.
    whole = number == 1 and not shown.startswith("...")
    before = lines[piece.line - 1][: piece.column - 1] if whole else ""
    head = f"LINE {piece.line + number - 1}: {before}"
    moved = " " * (len(head) - len(found[0])) + rest if cut else rest
    return text[: found.start()] + head + shown + cut + moved
