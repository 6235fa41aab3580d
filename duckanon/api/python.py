"""From Python what CREATE ANONYMIZED VIEW and AUDIT are in SQL, of tables of a database and of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from duckanon.api import sql_functions
from duckanon.api.connection import Connection
from duckanon.api.frames import TEXTS, arrow_table, as_given, in_other_form
from duckanon.audits.run import audit_named
from duckanon.database import engine, outgoing, templates
from duckanon.database.handover import same_column
from duckanon.database.intake import plain_type, readable, register_source
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import named, resolve
from duckanon.errors import SourceError
from duckanon.policy.policy import Policy
from duckanon.policy.reported import check_of_rows
from duckanon.release import unpublished
from duckanon.release.views import create
from duckanon.statements.names import QualifiedName, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckanon.audits.report import Report
    from duckanon.policy.policy import AuditPolicy
    from duckanon.release.views import Release
    from duckanon.streams.policy import Method as StreamMethod
    from duckanon.streams.stream import AnonymizedStream


@interruptible
def anonymize(
    con: Connection | duckdb.DuckDBPyConnection,
    source: str,
    policy: Policy,
    *,
    name: str,
    or_replace: bool = False,
    effect: bool = False,
) -> Release:
    """Release of a table or query as an anonymized view.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection.
    source : str
        Name of a table, view or file, or a query.
    policy : Policy
        Roles of the columns and what the release must keep.
    name : str
        Name of the view, as in SQL: ``schema.view``, quoted where it must be.
    or_replace : bool
        Whether an anonymized view of that name is replaced.
    effect : bool
        Whether to tell what changes in each quasi-identifier, as `Release.effect`.

    Returns
    -------
    Release
        Name, report, policy and figures of the release.

    Raises
    ------
    DuckanonError
        Source, policy or name is wrong, or the audit failed; nothing is visible then.
    """
    plain = _plain(con)
    target = resolve(plain, parse_name(name))
    return create(plain, _query(source), policy, target, or_replace=or_replace, effect=effect)


@interruptible
def audit(con: Connection | duckdb.DuckDBPyConnection, relation: str, policy: Policy | AuditPolicy) -> Report:
    """Audit of a table, view or anonymized view by a policy.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection.
    relation : str
        Name of the table or view, as in SQL, or a file in single quotes.
    policy : Policy or AuditPolicy
        Columns and thresholds.

    Returns
    -------
    Report
        ``passed``, ``measures``, ``violations``.

    Raises
    ------
    DuckanonError
        The relation or a column does not exist, or the relation is empty: never a pass. A PolicyError where
        the policy asks for `subject`, `p_percent` or `min_values`, of which rows do not tell.
    """
    if isinstance(policy, Policy):
        check_of_rows(policy.subject, policy.p_percent, policy.min_values)
    return audit_named(_plain(con), parse_name(relation), policy, called=relation)


def register(con: Connection | duckdb.DuckDBPyConnection) -> None:
    """Add our functions to a DuckDB connection, as temporary objects.

    Table functions ``anonymize`` and ``equivalence_classes``, scalar functions ``microaggregate`` and
    ``emd_ordered``, and the audit macros. Calling it again renews them. A `Connection` has them anyway, from
    the first statement on that calls one.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection. Close it, or call `unregister`, before the interpreter ends.

    Notes
    -----
    The table functions run when the query is bound, on a cursor of their own: they see committed,
    non-temporary relations only, and a prepared statement keeps the rows of its preparation.
    """
    sql_functions.register(_plain(con))


def unregister(con: Connection | duckdb.DuckDBPyConnection) -> None:
    """Remove what `register` added; nothing happens where nothing was added.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection. The scalar functions stay while another connection of the database uses them.
    """
    sql_functions.unregister(_plain(con))


def _plain(con: Connection | duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return con.duckdb if isinstance(con, Connection) else con


def _relation(name: QualifiedName) -> str:
    return named(name.catalog, name.schema, name.name)


def _query(source: str) -> str:
    """Return the query that a name stands for; a text that is not a name is a query itself."""
    try:
        named = parse_name(source)
    except ValueError:
        return source
    return templates.render("relation.sql.j2:rows", relation=_relation(named))


@interruptible
def anonymize_table(table: object, policy: Policy) -> Any:
    """Released rows of a table in memory, as a table of the same kind.

    Parameters
    ----------
    table : pandas.DataFrame, polars.DataFrame, pyarrow.Table, RecordBatch or RecordBatchReader
        The records; anything that offers the Arrow C stream works. A pandas index is not a column.
    policy : Policy
        Roles and thresholds.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame, pyarrow.Table, RecordBatch or RecordBatchReader
        Released columns in source order, rows in the order of the released values, audited; the kind that was
        given, a pyarrow.Table for any other Arrow stream. A column has the type that it had, if that can hold
        the released values: a range is a struct, a set a list. Of categories (pandas, polars, an Arrow
        dictionary) those that no record is released with are left out, and so are attributes and metadata. A
        pandas table has a new index.

    Raises
    ------
    DuckanonError
        The table cannot be read, or the policy cannot be kept.

    Examples
    --------
    >>> from duckanon import Policy
    >>> people = pa.table({"age": [31, 35, 60, 64], "pay": [3, 9, 4, 8]})
    >>> anonymize_table(people, Policy(quasi_identifiers="age", sensitive="pay", k=2)).to_pydict()
    {'age': [33, 33, 62, 62], 'pay': [3, 9, 4, 8]}
    """
    source = arrow_table(table)
    with engine.in_memory() as con:
        register_source(con, source)
        query = templates.render("relation.sql.j2:rows", relation="source")
        released = unpublished.released_rows(con, query, policy, plain=True).table
        if isinstance(table, pa.RecordBatch):
            # Arrow does not put together chunks of every encoding.
            released = released.combine_chunks()
        for place, name in enumerate(released.column_names):
            if name not in source.column_names:
                # The number of the class.
                continue
            audited = released.column(name)
            column = _returned(audited, source.column(name))
            if column.type != audited.type and _is_same(con, audited, column):
                released = released.set_column(place, pa.field(name, column.type), column)
    return as_given(released, table, source)


def anonymize_stream(
    batches: Iterable[pa.RecordBatch],
    quasi_identifiers: str | Sequence[str],
    k: int = 10,
    delay: int = 100,
    order_weight: float = 0.0,
    subject: str | Sequence[str] | None = None,
    method: StreamMethod = "steered",
    **options: Any,
) -> AnonymizedStream:
    """Tuples of a stream in classes of k, none later than a delay (steered microaggregation, or CASTLE).

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The stream, all batches of one schema; also a RecordBatchReader or a pyarrow.Table's ``to_batches()``.
    quasi_identifiers : str or sequence of str
        Columns that get one value a class.
    k : int
        Tuples of a class, at least 2, each of another subject.
    delay : int
        How many tuples may come after one before it is written, at least k - 1. A tuple that cannot leave in
        a class by then is dropped, and counted.
    order_weight : float
        What a place in the stream counts beside a quasi-identifier, of which a whole range counts 1; at
        least 0. The greater, the less tuples are reordered, and the less alike are those of a class.
    subject : str or sequence of str, optional
        Columns that tell whose a tuple is; dropped. Without it every tuple is of a subject of its own.
    method : {'steered', 'castle'}
        Algorithms 2 and 3 of Domingo-Ferrer and Soria-Comas (2017); or CASTLE of Cao, Carminati, Ferrari and
        Tan (2011), which releases ranges. With it a tuple may leave after its class, with the same ranges:
        whatever was given out so far, every combination of ranges in it is of at least k subjects.
    **options
        ``sensitive``, ``t``, ``l``, ``distance``: as in `Policy`, l distinct and no distance 'hierarchical'.
        A class leaves if it has l values and its EMD from the tuples that were read by then is at most t;
        else it takes more tuples, those that help most, or its oldest is dropped; not with 'castle'.
        ``reference``: 'all', or 'window', the last ``window`` of them, 10 (delay + 1) if it is not given.
        ``identifiers``: columns that are dropped. ``recode``, ``weights``, ``min_values``, ``digits``,
        ``hierarchies`` (rows or files): as in `Policy`; a value that is no leaf is an error. With 'castle'
        all are 'range', of numbers, dates and timestamps. ``nulls``: 'category'
        (NULL is a value; among numbers it lies a range below the least), not with 'castle'; or 'error'.
        ``scale``: ends of the range of a number or date, ``{'age': (0, 120)}``; else from the least
        to the largest of the first ``warm_up`` tuples, delay + 1 if it is not given, which is the most. The
        first ``warm_up`` values of a column tell, too, to how many digits its means are rounded, where these
        are floating-point numbers or timestamps.
        ``cluster``: 'nearest' (the others of a class are the nearest to the tuple whose delay is over) or
        'grow' (each is the nearest to the centre of those before), of 'steered'. ``clusters``: how many
        wait at a time, 50; ``recent``: of how many classes the mean loss decides what a cluster may lose and
        which class is used again, 100; both of 'castle', its beta and mu. ``class_id``: whether a column of
        that name numbers the classes.

    Returns
    -------
    AnonymizedStream
        An iterator of RecordBatch: the columns of the input without identifiers and subject, whole classes,
        in each the tuples in the order of their other values. ``schema``; ``report``, which counts what was
        read, written, dropped and held.

    Raises
    ------
    DuckanonError
        At once where the options do not fit each other or the columns; while reading where a batch has
        another schema, a quasi-identifier is NaN or infinite, a subject is NULL. Classes that were given stay
        right; tuples that are held then are never written.

    Notes
    -----
    The first batch is read at once. The output does not depend on how the input is cut into batches. Columns
    that are not named are written as they are; a dictionary has the values of its batch alone. Texts are as
    far from each other as the ends of a range of numbers; beyond 16 different ones some count as
    equal. O(delay d) a class, with 'castle' O(clusters d) a tuple more; memory of delay + 1 tuples and two
    batches, and of 1,000 classes that 'castle' may use again.
    For t and l O(v) a class more, v different sensitive values, which are kept: of all that were read, or of
    the window.

    Examples
    --------
    >>> visits = pa.table({"age": [31, 60, 35, 64], "ill": ["flu", "acne", "cold", "flu"]})
    >>> stream = anonymize_stream(visits.to_batches(), ["age"], k=2, delay=10)
    >>> [tuple(row.values()) for batch in stream for row in batch.to_pylist()]
    [(33, 'cold'), (33, 'flu'), (62, 'acne'), (62, 'flu')]
    >>> stream.report.written, stream.report.held
    (4, 0)
    """
    # Not loaded before, as in `Connection.stream`.
    from duckanon.streams.policy import stream_options
    from duckanon.streams.stream import AnonymizedStream

    asked = {"quasi_identifiers": quasi_identifiers, "k": k, "delay": delay, "order_weight": order_weight}
    policy = stream_options({**asked, "subject": subject, "method": method, **options})
    return AnonymizedStream(batches, policy)


def _is_same(con: duckdb.DuckDBPyConnection, audited: pa.ChunkedArray, column: pa.ChunkedArray) -> bool:
    if pa.types.is_string(audited.type) and column.type in TEXTS:
        return bool(audited.to_pylist() == [None if one is None else str(one) for one in column.to_pylist()])
    try:
        return same_column(con, audited, readable(pa.table({"value": column})).column(0))
    except (SourceError, duckdb.Error):
        return False


def _returned(column: pa.ChunkedArray, like: pa.ChunkedArray) -> pa.ChunkedArray:
    """Released values in the type that the source had, encodings too; or as they are."""
    kind = outgoing.bare(like.type)
    typed = _typed(column, pa.chunked_array([], plain_type(kind)))
    try:
        return outgoing.encoded(typed, kind, outgoing.orders(like.chunks))
    except (pa.ArrowException, TypeError, ValueError):
        return typed


def _typed(column: pa.ChunkedArray, like: pa.ChunkedArray) -> pa.ChunkedArray:
    """Released values in the type that the source had, or as they are where Arrow cannot do that."""
    kind = like.type
    try:
        if isinstance(column.type, pa.ExtensionType) and not isinstance(kind, pa.ExtensionType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        instead = in_other_form(column, kind)
        if instead is not None:
            return instead
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
            # The mean of two whole seconds may not be one.
            column = column.cast(pa.timestamp(column.type.unit, kind.tz))
        return column.cast(kind)
    except (pa.ArrowException, TypeError, ValueError):
        return column
