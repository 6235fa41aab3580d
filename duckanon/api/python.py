"""CREATE ANONYMIZED VIEW and AUDIT as Python functions, for tables of a database and for frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from duckanon.api import sql_functions
from duckanon.api.arguments import check_names, check_policy, plain
from duckanon.api.frames import TEXTS, arrow_table, as_given, in_other_form, variables, with_orders
from duckanon.audits.html.charts import required
from duckanon.audits.html.report import Page, html_report
from duckanon.audits.run import audit_named, kept_relation, roles_of
from duckanon.database import drafts, engine, outgoing, templates
from duckanon.database.handover import same_column
from duckanon.database.intake import plain_type, readable, register_source
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import named, resolve, subquery
from duckanon.errors import SourceError
from duckanon.policy.policy import Policy
from duckanon.policy.reported import check_of_rows
from duckanon.release import metadata, unpublished
from duckanon.release.audit import described
from duckanon.release.destination import check_beside
from duckanon.release.verify.record import of_the_source
from duckanon.release.views import create
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckanon.api.connection import Connection
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
    """Release a table or query as an anonymized view.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        Connection of the source and of the view.
    source : str
        Name of a table, view or file, or a query.
    policy : Policy
        Roles of the columns and thresholds of the release.
    name : str
        Name of the view as in SQL: ``schema.view``, quoted if necessary.
    or_replace : bool
        Whether to replace an anonymized view of that name.
    effect : bool
        Whether to compute the change of each quasi-identifier, `Release.effect`.

    Returns
    -------
    Release
        Name, report, policy and figures of the release.

    Raises
    ------
    DuckanonError
        The source, the policy or the name is wrong, or the audit failed. Nothing is published then.
    """
    duck = plain(con)
    check_names({"source": source, "name": name})
    check_policy(policy)
    target = resolve(duck, parse_name(name))
    with variables(duck, source):
        return create(duck, _query(source), policy, target, or_replace=or_replace, effect=effect)


@interruptible
def audit(con: Connection | duckdb.DuckDBPyConnection, relation: str, policy: Policy | AuditPolicy) -> Report:
    """Audit a table, view or anonymized view by a policy.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        Connection of the relation.
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
        The relation or a column does not exist, or the relation is empty. A PolicyError if the policy asks
        for `subject`, `p_percent` or `min_values`, which cannot be checked in released rows.
    """
    duck = plain(con)
    check_names({"relation": relation})
    check_policy(policy, audit=True)
    if isinstance(policy, Policy):
        check_of_rows(policy.subject, policy.p_percent, policy.min_values)
    with variables(duck, relation):
        return audit_named(duck, parse_name(relation), policy, called=relation)


@interruptible
def report(
    con: Connection | duckdb.DuckDBPyConnection,
    relation: str,
    policy: Policy | AuditPolicy | None = None,
    *,
    path: str | None = None,
    original: str | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Page:
    """HTML report of an anonymized view or of any table, as one file without scripts.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        Connection of the relation.
    relation : str
        Name of an anonymized view, or of a table or view, as in SQL.
    policy : Policy or AuditPolicy, optional
        Columns and thresholds; by default those of the anonymized view.
    path : str, optional
        File to write, ending in ``.html``.
    original : str, optional
        Name or query of the table that the release is from. With it the page shows values before and after,
        and is for internal use.
    title : str, optional
        Heading of the page.
    overwrite : bool
        Whether to replace the file.

    Returns
    -------
    Page
        ``html``, and the ``report`` of the audit. A notebook shows the page.

    Raises
    ------
    MissingExtra
        matplotlib is not installed: ``pip install 'duckanon[report]'``.
    DuckanonError
        The relation is no anonymized view and there is no policy, the original cannot be read, or the file
        exists. Nothing is written then.

    Examples
    --------
    >>> from duckanon import Policy, connect
    >>> with connect() as con:
    ...     _ = con.execute("CREATE TABLE people AS SELECT i % 50 AS age, i % 7 AS pay FROM range(500) t(i)")
    ...     _ = anonymize(con, "people", Policy(quasi_identifiers="age", sensitive="pay", k=5), name="v")
    ...     page = report(con, "v", original="people")
    >>> page.report.passed, page.html.startswith("<!DOCTYPE html>")
    (True, True)
    """
    required()
    duck = plain(con)
    check_names({"relation": relation} | ({} if original is None else {"original": original}))
    if policy is not None:
        check_policy(policy, audit=True)
    file = None if path is None else check_beside(path, ".html", overwrite=overwrite)
    name = parse_name(relation)
    trees: dict[str, str] = {}
    roles = hierarchies = None
    if policy is None:
        audited, published, rows, trees = described(duck, resolve(duck, name))
        stated = Policy.from_toml(published.policy)
        policy, roles, hierarchies = metadata.audited(duck, published), roles_of(stated), stated.hierarchies
        measured = of_the_source(
            audited.classes, information_loss=published.information_loss, suppressed=published.suppressed
        )
        audited = audited.extended(measured, warnings=(), plan=f"classes by {published.method}")
    else:
        audited = audit(con, relation, policy)
        asked = policy.audited() if isinstance(policy, Policy) else policy
        rows = kept_relation(
            duck, named(name.catalog, name.schema, name.name), asked, f"report of {relation}"
        )
    before = None if original is None else subquery(engine.one_query(duck, _query(original)).strip())
    text = html_report(
        duck, rows, audited, policy, original=before, title=title, trees=trees, roles=roles,
        hierarchies=hierarchies,
    )  # fmt: skip
    if file is not None:
        with drafts.draft(file) as draft:
            draft.write_text(text, encoding="utf-8")
            draft.replace(file)
    return Page(text, audited)


def register(con: Connection | duckdb.DuckDBPyConnection) -> None:
    """Add our functions to a DuckDB connection, as temporary objects.

    Table functions ``anonymize`` and ``equivalence_classes``, scalar functions ``microaggregate`` and
    ``emd_ordered``, and the audit macros. A second call renews them. A `Connection` adds them by itself when
    a statement first calls one of them.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection. Close it, or call `unregister`, before the interpreter ends.

    Notes
    -----
    The table functions run when DuckDB binds the query, on their own cursor. They see only committed,
    non-temporary relations, and a prepared statement keeps the rows of its preparation.
    """
    sql_functions.register(plain(con))


def unregister(con: Connection | duckdb.DuckDBPyConnection) -> None:
    """Remove the functions that `register` added, if any.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection. The scalar functions stay while another connection of the database uses them.
    """
    sql_functions.unregister(plain(con))


def _query(source: str) -> str:
    """Return the query that a name means; a text that is not a name is a query itself."""
    try:
        name = parse_name(source)
    except ValueError:
        return source
    relation = named(name.catalog, name.schema, name.name)
    return templates.render("relation.sql.j2:rows", relation=relation)


@interruptible
def anonymize_table(table: object, policy: Policy) -> Any:
    """Release a table in memory; return the released rows as a table of the same kind.

    Parameters
    ----------
    table : pandas.DataFrame, polars.DataFrame, pyarrow.Table, RecordBatch or RecordBatchReader
        The records. Any object with an Arrow C stream works. A pandas index is not a column.
    policy : Policy
        Roles and thresholds.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame, pyarrow.Table, RecordBatch or RecordBatchReader
        Audited rows of the given kind; a pyarrow.Table for any other Arrow stream. Columns are in source
        order, rows in the order of the released values. A column keeps its type if the type can hold the
        released values. A range is a struct, a set is a list. Categories (pandas, polars, an Arrow
        dictionary) without a released record are left out, as are attributes and metadata. A pandas table has
        a new index.

    Raises
    ------
    DuckanonError
        The table cannot be read, or no release can keep the policy.

    Examples
    --------
    >>> from duckanon import Policy
    >>> people = pa.table({"age": [31, 35, 60, 64], "pay": [3, 9, 4, 8]})
    >>> anonymize_table(people, Policy(quasi_identifiers="age", sensitive="pay", k=2)).to_pydict()
    {'age': [33, 33, 62, 62], 'pay': [3, 9, 4, 8]}
    """
    check_policy(policy)
    source = arrow_table(table)
    policy = with_orders(policy, source)
    with engine.in_memory() as con:
        register_source(con, source)
        query = templates.render("relation.sql.j2:rows", relation="source")
        released = unpublished.released_rows(con, query, policy, plain=True).table
        if isinstance(table, pa.RecordBatch):
            # Arrow cannot combine chunks of every encoding.
            released = released.combine_chunks()
        for place, name in enumerate(released.column_names):
            if name not in source.column_names:
                # The column with the number of the class.
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
    """Anonymize a stream in classes of k within a delay, by steered microaggregation or CASTLE.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Batches of one schema, for example a RecordBatchReader or ``to_batches()`` of a pyarrow.Table.
    quasi_identifiers : str or sequence of str
        Columns that are released with one value a class.
    k : int
        Tuples of a class, at least 2, of k different subjects.
    delay : int
        Largest number of tuples read after a tuple before that tuple is written, at least k - 1. A tuple that
        fits no class by then is dropped and counted.
    order_weight : float
        Weight of the place in the stream in the distance, at least 0; the range of a quasi-identifier has the
        length 1. A larger weight reorders tuples less and makes the tuples of a class less alike.
    subject : str or sequence of str, optional
        Columns that identify the person of a tuple; dropped. By default each tuple is another subject.
    method : {'steered', 'castle'}
        'steered': Algorithms 2 and 3 of Domingo-Ferrer and Soria-Comas (2017). 'castle': CASTLE of Cao,
        Carminati, Ferrari and Tan (2011), which releases ranges. A tuple may leave after its class, with the
        ranges of that class. At any time, each released combination of ranges has at least k subjects.
    **options
        ``sensitive``, ``t``, ``l``, ``l_diversity``, ``c``, ``alpha``, ``distance``: as in `Policy`, where
        ``alpha`` names texts only; not with 'castle'. A class is released if it keeps l and alpha, and its
        EMD from the tuples read so far is at most t. Otherwise the class takes the tuples that help most, or
        its oldest tuple is dropped.
        ``reference``: 'all' compares with all tuples read, 'window' with the last ``window`` tuples, by
        default 10 (delay + 1).
        ``identifiers``: columns that are dropped.
        ``recode``, ``weights``, ``min_values``, ``digits``, ``hierarchies`` (rows or files): as in `Policy`.
        A value that is no leaf is an error. 'castle' recodes numbers, dates and timestamps, by 'range' only.
        ``nulls``: 'error', or 'category', where NULL is a value and lies one range below the least number;
        not with 'castle'.
        ``scale``: ends of the range of a number or date, ``{'age': (0, 120)}``; by default the least and the
        largest of the first ``warm_up`` tuples. ``warm_up`` is at most delay + 1, its default. For
        floating-point numbers and timestamps these tuples also decide the digits of released means.
        ``cluster`` of 'steered': 'nearest' takes the tuples nearest to the tuple whose delay is over, 'grow'
        takes one by one the tuple nearest to the centre of the class so far.
        ``clusters`` and ``recent`` of 'castle', its beta and mu: the largest number of open clusters, 50; and
        the number of last classes, 100, whose mean loss limits a cluster and the reuse of a class.
        ``class_id``: whether to add the column ``class_id`` with the number of the class.

    Returns
    -------
    AnonymizedStream
        An iterator of RecordBatch with whole classes, without the columns of identifiers and subject. The
        tuples of a class are in the order of their other values. It has ``schema`` and ``report``, which
        counts tuples read, written, dropped and held.

    Raises
    ------
    DuckanonError
        At once if the options do not fit each other or the columns. While reading if a batch has another
        schema, a quasi-identifier is NaN or infinite, or a subject is NULL. Classes released before the error
        stay valid; tuples that are held then are never written.

    Notes
    -----
    The first batch is read at once. The output does not depend on how the input is cut into batches. Columns
    that no option names are written unchanged; a dictionary has only the values of its batch. Two different
    texts have the distance of the ends of a range of numbers; beyond 16 different texts some count as equal.

    Time: O(delay d) a class; 'castle' needs O(clusters d) more a tuple; t, l and alpha need O(v) more a class
    for v different sensitive values, times the levels of a hierarchy. Memory: delay + 1 tuples, two batches,
    the sensitive values of all tuples read or of the window, and for 'castle' 1,000 classes for reuse.

    Examples
    --------
    >>> visits = pa.table({"age": [31, 60, 35, 64], "ill": ["flu", "acne", "cold", "flu"]})
    >>> stream = anonymize_stream(visits.to_batches(), ["age"], k=2, delay=10)
    >>> [tuple(row.values()) for batch in stream for row in batch.to_pylist()]
    [(33, 'cold'), (33, 'flu'), (62, 'acne'), (62, 'flu')]
    >>> stream.report.written, stream.report.held
    (4, 0)
    """
    # Imported here, as in `Connection.stream`.
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
    """Released values in the type and the encoding of the source; unchanged if that fails."""
    kind = outgoing.bare(like.type)
    typed = _typed(column, pa.chunked_array([], plain_type(kind)))
    try:
        return outgoing.encoded(typed, kind, outgoing.orders(like.chunks))
    except (pa.ArrowException, TypeError, ValueError):
        return typed


def _typed(column: pa.ChunkedArray, like: pa.ChunkedArray) -> pa.ChunkedArray:
    """Released values in the type of the source; unchanged if Arrow cannot convert them."""
    kind = like.type
    try:
        if isinstance(column.type, pa.ExtensionType) and not isinstance(kind, pa.ExtensionType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        instead = in_other_form(column, kind)
        if instead is not None:
            return instead
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
            # The mean of two whole seconds may be no whole second.
            column = column.cast(pa.timestamp(column.type.unit, kind.tz))
        return column.cast(kind)
    except (pa.ArrowException, TypeError, ValueError):
        return column
