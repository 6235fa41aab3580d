"""Connections that run our statements, and pass every other statement to DuckDB unchanged."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import duckdb
from duckdb import DuckDBPyConnection, DuckDBPyRelation, ExpectedResultType

from duckanon.api.execute import Outcome, run_statement
from duckanon.api.frames import variables
from duckanon.api.sql_functions import add_called, own_errors
from duckanon.audits.run import UNKNOWN_VALUE
from duckanon.database import engine
from duckanon.database.interrupts import interruptible, watching
from duckanon.errors import SOURCE_QUERY, DuckanonError, Place, StatementError, tell
from duckanon.release.audit import UNRECORDED
from duckanon.statements.parse import parse, wrong_argument
from duckanon.statements.tokens import Piece, place_of, split, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from duckanon.statements.grammar import Statement
    from duckanon.streams.report import StreamReport


class Connection:
    """A DuckDB connection that also runs our statements and functions.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The plain connection, which `close` closes.

    Examples
    --------
    >>> with connect() as con:
    ...     con.sql("SELECT 42 AS answer").fetchall()
    [(42,)]
    """

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    @property
    def duckdb(self) -> DuckDBPyConnection:
        """The plain DuckDB connection."""
        return self._connection

    @interruptible
    def sql(self, text: str, params: object = None) -> DuckDBPyRelation | None:
        """Run a text and return the result of its last statement.

        Parameters
        ----------
        text : str
            One or several statements, ours or any of DuckDB's.
        params : object, optional
            Values for the parameters of a single DuckDB statement.

        Returns
        -------
        duckdb.DuckDBPyRelation or None
            Rows of a query; rows of the report after CREATE, REFRESH, EXPORT and AUDIT; else None.

        Raises
        ------
        DuckanonError
            One of our statements or table functions fails.
        duckdb.Error
            Any other statement fails.
        """
        result = None
        for outcome in self.outcomes(text, params, lazy_end=True):
            result = self._relation(outcome) if isinstance(outcome, Outcome) else outcome
        return result

    @interruptible
    def execute(self, text: str, params: object = None) -> DuckDBPyConnection | DuckDBPyRelation:
        """Run a text now; the result has ``fetchall``, ``fetchone`` and ``df``.

        Parameters
        ----------
        text : str
            One or several statements.
        params : object, optional
            Values for the parameters of a single DuckDB statement.

        Returns
        -------
        duckdb.DuckDBPyConnection or duckdb.DuckDBPyRelation
            The plain connection after a statement of DuckDB, a relation of rows after one of ours.
        """
        script = Script(text)
        pieces = script.pieces
        if pieces and parse(pieces[-1]) is None:
            for piece in pieces[:-1]:
                self._run(script, piece, None, lazy=False)
            last = pieces[-1].text
            with _located(script, pieces[-1]), variables(self._connection, last) as replaced:
                if replaced:
                    # The rows are read while the variable is seen.
                    return self._rows(last, params, lazy=False) or self._connection
                with watching(self._connection):
                    add_called(self._connection, last)
                    return self._connection.execute(last, params)
        return self.sql(text, params) or self._connection

    @interruptible
    def stream(self, query: str, into: str, **options: Any) -> StreamReport:
        """Anonymize the rows of a query as a stream into a new table, in classes of k; return the report.

        Parameters
        ----------
        query : str
            One query. Its rows are read in their order, a batch at a time.
        into : str
            Name of a new table. It is made, with the released types, before the first row.
        **options
            As in `duckanon.anonymize_stream`: ``quasi_identifiers``, ``k``, ``delay`` and others. A hierarchy
            may also be a table of the database.

        Returns
        -------
        StreamReport
            Counts of the rows; fingerprint and audit of the table.

        Raises
        ------
        DuckanonError
            The query or an option is wrong, the table exists, or a transaction is open. After an error in the
            rows, the classes appended before it stay, and the message counts them. AuditFailure: the table
            misses a threshold, for example because another connection wrote to it.

        Notes
        -----
        Each batch of whole classes is one transaction, so the table holds only whole classes even if the
        process ends early. The query runs in one transaction, which does not see the new rows.

        Examples
        --------
        >>> with connect() as con:
        ...     query = "SELECT i % 4 AS age FROM range(8) AS r(i)"
        ...     report = con.stream(query, "t", quasi_identifiers="age", k=2)
        ...     con.sql("SELECT age, count(*) FROM t GROUP BY ALL ORDER BY ALL").fetchall()
        [(0, 2), (1, 2), (2, 2), (3, 2)]
        """
        # Imported here because few connections have a stream.
        from duckanon.streams.policy import stream_options
        from duckanon.streams.tables import stream_to_table

        asked = stream_options(options)
        with variables(self._connection, query):
            add_called(self._connection, query)
            return stream_to_table(self._connection, query, into, asked)

    @interruptible
    def run_script(self, script: str | Path) -> list[Outcome]:
        """Run a script and return the outcomes of our statements; DuckDB's statements run in their order.

        Parameters
        ----------
        script : str or Path
            Text of a script, or the path of a file.

        Returns
        -------
        list of Outcome
            One outcome for each of our statements, in order.

        Raises
        ------
        DuckanonError, duckdb.Error
            The first statement that fails. The statements before it have run.
        """
        if isinstance(script, str):
            outcomes = self.outcomes(script)
        else:
            outcomes = self.outcomes(script.read_text(encoding="utf-8"), name=script.name)
        return [outcome for outcome in outcomes if isinstance(outcome, Outcome)]

    def outcomes(
        self,
        text: str,
        params: object = None,
        *,
        lazy_end: bool = False,
        name: str | None = None,
        effect: bool = False,
    ) -> Iterator[Outcome | DuckDBPyRelation | None]:
        """Yield the outcome of each statement of a text; a statement runs when its outcome is asked for.

        Parameters
        ----------
        text : str
            One or several statements.
        params : object, optional
            Values for the parameters of statements of DuckDB.
        lazy_end : bool
            Whether a query at the end of the text runs only when its rows are read.
        name : str, optional
            File of the text, which errors name beside the line.
        effect : bool
            Whether CREATE and REFRESH report the change of each quasi-identifier.

        Yields
        ------
        Outcome, duckdb.DuckDBPyRelation or None
            An outcome for one of our statements, rows for a query, None for any other statement.
        """
        script = Script(text, name)
        pieces = script.pieces
        for piece in pieces:
            lazy = lazy_end and piece is pieces[-1]
            yield self._run(script, piece, params, lazy=lazy, effect=effect)

    def close(self) -> None:
        """Close the plain connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self, script: Script, piece: Piece, params: object, *, lazy: bool, effect: bool = False
    ) -> Outcome | DuckDBPyRelation | None:
        """Run one statement of a script; an error gets its line of the script."""
        with _located(script, piece):
            statement = parse(piece)
        with _located(script, piece, statement), variables(self._connection, piece.text) as replaced:
            if statement is None:
                # A variable is seen only while the statement runs.
                return self._rows(piece.text, params, lazy=lazy and not replaced)
            if params:
                raise StatementError(
                    "our statements take no parameters; write the values", piece.line, piece.column
                )
            outcome = run_statement(self._connection, statement, effect=effect)
            return replace(outcome, place=begin(script, piece))

    @interruptible
    def _rows(self, text: str, params: object, *, lazy: bool) -> DuckDBPyRelation | None:
        """Run a statement of DuckDB; return None for a count of changed rows and for a mere success."""
        with watching(self._connection):
            add_called(self._connection, text)
            relation = self._connection.sql(text, params=params)
        (statement,) = self._connection.extract_statements(text)
        kinds = statement.expected_result_type
        if relation is None or ExpectedResultType.QUERY_RESULT not in kinds:
            return None
        if ExpectedResultType.CHANGED_ROWS in kinds and relation.columns == ["Count"]:
            return None
        # DuckDB runs a relation only when it is read, but a statement of a script must run in its turn.
        if lazy:
            return relation
        with watching(self._connection):
            return relation.materialize()

    def _relation(self, outcome: Outcome) -> DuckDBPyRelation | None:
        # The rows are a recorded audit. Relations show no title.
        for warning in () if outcome.report is None else outcome.report.warnings:
            if warning.startswith((UNRECORDED, UNKNOWN_VALUE)):
                tell(warning)
        return None if outcome.table is None else self._connection.from_arrow(outcome.table)


@contextlib.contextmanager
def _arguments_named(piece: Piece) -> Iterator[None]:
    """Name an unknown argument of one of our table functions; DuckDB's error only lists the known ones."""
    try:
        yield
    except duckdb.BinderException as refused:
        wrong = wrong_argument(piece) if "does not support the supplied" in str(refused) else None
        if wrong is None:
            raise
        raise wrong from refused


@contextlib.contextmanager
def _located(script: Script, piece: Piece, statement: Statement | None = None) -> Iterator[None]:
    try:
        with _arguments_named(piece), own_errors():
            yield
    except (DuckanonError, duckdb.Error) as failure:
        if not isinstance(failure, duckdb.InterruptException):
            locate(failure, script, piece, statement)
        raise


_OLD_STORAGE = {"storage_compatibility_version": "v1.2.0"}
"""Setting for the files of new databases; files that exist, and databases in memory, are as they are."""


def connect(database: str | Path = ":memory:", *, read_only: bool = False, **config: Any) -> Connection:
    """Connect to a DuckDB database and run our statements on it.

    Parameters
    ----------
    database : str or Path
        A database file, or ``:memory:``.
    read_only : bool
        Whether to open the file for reading only: AUDIT and SHOW work, nothing can be released.
    **config : object
        DuckDB settings, for example ``memory_limit="4GB"``.

    Returns
    -------
    Connection
        To be closed, or used as a context manager.

    Notes
    -----
    A statement sees tables of pandas, polars and Arrow in the variables of its caller, as in DuckDB: ``FROM
    frame``. The setting ``python_enable_replacements=False`` ends that. DuckDB's progress bar is off, since
    it writes to stdout. DuckDB's allocator returns memory sooner than by default.

    A new database file has the storage version of DuckDB 1.2, so that the stock command line opens it. For a
    VARIANT in it ask for ``storage_compatibility_version="latest"``. An existing file keeps its version.
    """
    connection = duckdb.connect(str(database), read_only=read_only, config={**_OLD_STORAGE, **config})
    engine.quiet(connection)
    engine.frugal(connection, config)
    return Connection(connection)


@dataclass(frozen=True)
class Script:
    """Text of one or several statements, with the name of its file, if any."""

    text: str
    name: str | None = None

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Statements of the script in order, each without the comments before it."""
        # DuckDB drops these comments too, but counts some of their lines and not others.
        return tuple(_bare(piece) for piece in split(self.text))


def begin(script: Script, piece: Piece) -> Place | None:
    """Place of the first word of a statement in its script; None if the statement is the whole script."""
    if script.name is None and (piece.line, piece.column, len(script.pieces)) == (1, 1, 1):
        return None
    return Place(piece.line, piece.column, script.name)


def locate(failure: Exception, script: Script, piece: Piece, statement: Statement | None) -> None:
    """Add the line of the script at which a statement failed to the error, which keeps its type."""
    # The statement is None if it is one of DuckDB's, or could not be read.
    start = begin(script, piece)
    if isinstance(failure, DuckanonError):
        places = [_in_script(place, script, statement) for place in failure.places]
        if start is not None and not any(place.of == script.name for place in places):
            places.append(start)
        failure.places = tuple(places)
    elif isinstance(failure, duckdb.Error):
        first, cut, rest = _renumbered(str(failure), script, piece, start).partition("\n")
        failure.args = (first + engine.variable_hint(failure) + cut + rest,)


def _bare(piece: Piece) -> Piece:
    first = next(token.start for token in tokenize(piece.text))
    return Piece(piece.text[first:], *place_of(piece.text, first, piece.line, piece.column))


def _in_script(place: Place, script: Script, statement: Statement | None) -> Place:
    """Return the place of an error of ours; a place in a source query becomes a place in the script."""
    if place.of is None:
        return place._replace(of=script.name)
    query_place = None if statement is None else statement.query_place
    if place.of != SOURCE_QUERY or query_place is None:
        return place
    line, column = query_place
    inner = place.column
    if place.line == 1 and inner is not None:
        inner += column - 1
    return Place(line + place.line - 1, inner, script.name)


def _renumbered(text: str, script: Script, piece: Piece, start: Place | None) -> str:
    """Message of DuckDB with the line in the script; without a line in it, the line of the statement."""
    lines = script.text.split("\n")
    match = engine.LINE.search(text)
    if match is None:
        if start is None:
            return text
        head = f"LINE {start.line}: "
        excerpt = lines[start.line - 1].rstrip("\r")
        return f"{text}\n\n{head}{excerpt}\n{' ' * (len(head) + (start.column or 1) - 1)}^"
    number = int(match[1])
    shown, cut, rest = text[match.end() :].partition("\n")
    # DuckDB shows the line from the begin of the statement, or a part of the line between dots.
    whole = number == 1 and not shown.startswith("...")
    before = lines[piece.line - 1][: piece.column - 1] if whole else ""
    head = f"LINE {piece.line + number - 1}: {before}"
    moved = " " * (len(head) - len(match[0])) + rest if cut else rest
    return text[: match.start()] + head + shown + cut + moved
