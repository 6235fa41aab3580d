"""The classes of a stream of a query are written to a table of the same database."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.database import arrow, engine, interrupts, templates
from duckanon.database.intake import readable
from duckanon.database.relations import columns_of, lookup, named, relation_of, resolve, subquery
from duckanon.errors import AuditFailure, DuckanonError, ReleaseError, SourceError
from duckanon.policy.names import fold
from duckanon.statements.tokens import parse_name
from duckanon.streams.coordinates import with_rows
from duckanon.streams.report import with_evidence_of_table
from duckanon.streams.stream import AnonymizedStream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import duckdb

    from duckanon.database.relations import Target
    from duckanon.streams.policy import StreamPolicy
    from duckanon.streams.report import StreamReport

STAGE = "stream"

_CLASSES = "duckanon_classes"

_TYPES_AS_TEXT = re.compile(r"ENUM\('(?:[^']|'')*'(?:, '(?:[^']|'')*')*\)|\b(?:UUID|JSON)\b")
"""Types, also nested ones, whose values leave as texts."""

_HUGEINT = re.compile(r"\bHUGEINT\b")
"""Type that leaves as a DECIMAL of 38 digits."""


def stream_to_table(
    con: duckdb.DuckDBPyConnection, query: str, into: str, policy: StreamPolicy
) -> StreamReport:
    """Stream a query into a new table, each batch in its own transaction, and return the report.

    The connection reads in one transaction while a cursor writes: neither waits for the other.
    """
    if engine.in_transaction(con):
        raise ReleaseError(
            "a stream commits its classes as they leave, which an open transaction does not let it do: "
            "COMMIT or ROLLBACK first"
        )
    target = resolve(con, parse_name(into))
    if lookup(con, target) is not None:
        raise ReleaseError(f"{target} exists and a stream never overwrites: drop it or choose another name")
    rows = templates.render("relation.sql.j2:rows", relation=subquery(engine.one_query(con, query)))
    policy = with_rows(con, policy)
    given = columns_of(con, subquery(rows), STAGE)
    whole = [name for name, kind in given if _HUGEINT.search(kind)]
    with con.cursor() as writer:
        engine.quiet(writer)
        with engine.reader(con, rows, STAGE) as reader:
            made = AnonymizedStream(_batches(reader, whole), policy)
            _check_types(writer, given, (reader.schema, made.schema), policy.rows.quasi_identifiers)
            report = _appended(writer, target, made)
        try:
            return _proved(writer, target, report, policy)
        except (DuckanonError, KeyboardInterrupt) as ended:
            _add_counts(ended, report)
            raise


def batches_of(con: duckdb.DuckDBPyConnection, relation: str) -> Iterator[pa.RecordBatch]:
    """Rows of a relation in their order; a SourceError if the type of a column would change."""
    rows = templates.render("relation.sql.j2:rows", relation=relation)
    given = columns_of(con, relation, STAGE)
    whole = [name for name, kind in given if _HUGEINT.search(kind)]
    with con.cursor() as other, engine.reader(con, rows, STAGE) as reader:
        _check_types(other, given, (reader.schema, reader.schema), ())
        yield from _batches(reader, whole)


def _appended(writer: duckdb.DuckDBPyConnection, target: Target, made: AnonymizedStream) -> StreamReport:
    """Append departing classes to the table; an error or Ctrl-C reports the counts so far."""
    written = 0
    with made:
        _create(writer, target, made.schema)
        append = templates.render(
            "stream/output.sql.j2:append", target=relation_of(target), relation=_CLASSES
        )
        try:
            for batch in made:
                tuples = {_CLASSES: readable(pa.Table.from_batches([batch]))}
                with interrupts.undivided():
                    with engine.transaction(writer, last=False), engine.registered(writer, tuples):
                        engine.run(writer, append, STAGE, error=ReleaseError)
                    written += len(batch)
        except (DuckanonError, KeyboardInterrupt) as ended:
            report = made.report
            _add_counts(ended, replace(report, written=written, held=report.held + report.written - written))
            raise
    return made.report


def _add_counts(ended: BaseException, report: StreamReport) -> None:
    """Add the counts of the tuples to the message of an error that ended a stream."""
    ended.args = ("; ".join([*map(str, ended.args[:1]), report.to_text()]),)


def _proved(
    writer: duckdb.DuckDBPyConnection, target: Target, report: StreamReport, policy: StreamPolicy
) -> StreamReport:
    """Return the report with the evidence of the table; an AuditFailure if the table violates the policy."""
    if not report.written:
        return report
    relation = relation_of(target)
    columns = columns_of(writer, relation, STAGE)
    report = with_evidence_of_table(report, writer, relation, columns, policy, name=str(target))
    if report.audit is not None and report.audit.violated:
        raise AuditFailure(f"{target} is not what was asked: {report.audit.to_text()}", report.audit)
    return report


def _check_types(
    writer: duckdb.DuckDBPyConnection,
    given: Sequence[tuple[str, str]],
    schemas: tuple[pa.Schema, pa.Schema],
    quasi: Collection[str],
) -> None:
    """Raise a SourceError if the values of a column would change on output, as a BIT into bytes.

    `schemas` are those of the input batches and of the output batches.
    """
    read, written = (dict(_columns_of(writer, schema)) for schema in schemas)
    recoded = {fold(name) for name in quasi}
    for name, kind in given:
        found = read[name] if fold(name) in recoded else written.get(name)
        if found is not None and _type_as_read(found) != _type_as_read(kind):
            raise SourceError(
                f"column {name!r} has type {kind}, and a stream would make {found} of it: CAST it to VARCHAR "
                "in the query"
            )


def _type_as_read(kind: str) -> str:
    """Return the output type of the values of a type."""
    return _HUGEINT.sub("DECIMAL(38,0)", _TYPES_AS_TEXT.sub("VARCHAR", kind))


def _batches(reader: pa.RecordBatchReader, whole: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of a query after an empty batch, which carries the columns even if the query has no rows.

    A SourceError if a HUGEINT in a column of `whole` has more digits than a DECIMAL.
    """
    yield arrow.nothing(reader.schema)
    for batch in reader:
        for name in whole:
            try:
                batch.column(name).validate(full=True)
            except pa.ArrowInvalid as beyond:
                raise SourceError(
                    f"column {name!r} of type HUGEINT has a number of more than 38 digits: CAST it to "
                    "VARCHAR in the query"
                ) from beyond
        yield batch


def _columns_of(writer: duckdb.DuckDBPyConnection, schema: pa.Schema) -> list[tuple[str, str]]:
    nothing = readable(pa.Table.from_batches([], schema))
    with engine.registered(writer, {_CLASSES: nothing}):
        return columns_of(writer, named("temp", _CLASSES), STAGE)


def _create(writer: duckdb.DuckDBPyConnection, target: Target, schema: pa.Schema) -> None:
    with (
        engine.transaction(writer, last=False),
        engine.registered(writer, {_CLASSES: readable(pa.Table.from_batches([], schema))}),
    ):
        statement = templates.render(
            "stream/output.sql.j2:create", target=relation_of(target), relation=_CLASSES
        )
        engine.run(writer, statement, STAGE, error=ReleaseError)
