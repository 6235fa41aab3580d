"""Run each of our statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.audits.run import audit_table
from duckanon.database import arrow, engine, templates
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import Target, current, resolve
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.policy.policy import Policy
from duckanon.release import metadata, views
from duckanon.release.append import since_release
from duckanon.release.audit import audit_named
from duckanon.release.explain import explain
from duckanon.release.export import export
from duckanon.release.frontier import frontier
from duckanon.release.source import Source
from duckanon.statements import grammar
from duckanon.statements.options import EXPORT_OPTIONS, REFRESH_OPTIONS, checked, options_to_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.errors import Place
    from duckanon.release.effect import Effect
    from duckanon.statements.grammar import Statement

REPORT_SCHEMA = pa.schema(
    [
        ("measure", pa.string()),
        ("attribute", pa.string()),
        ("threshold", pa.float64()),
        ("value", pa.float64()),
        ("classes", pa.int64()),
        ("violations", pa.int64()),
        ("records", pa.int64()),
        ("passed", pa.bool_()),
    ]
)
"""Columns of a report as rows."""


SHOWN_COLUMNS = pa.schema(
    [
        ("database_name", pa.string()),
        ("schema_name", pa.string()),
        ("view_name", pa.string()),
        ("records", pa.int64()),
        ("classes", pa.int64()),
        ("suppressed", pa.int64()),
        ("method", pa.string()),
        ("information_loss", pa.float64()),
        ("created_at", pa.timestamp("us")),
    ]
)
"""Columns of SHOW ANONYMIZED VIEWS that are read from the metadata."""

SINCE_COLUMNS = pa.schema([("waiting", pa.int64()), ("gone", pa.int64()), ("changed", pa.int64())])
"""Other columns of SHOW: changes of the subjects since the release; NULL unless it is appended to."""


@dataclass(frozen=True)
class Outcome:
    """Result of one of our statements.

    Attributes
    ----------
    title : str
        What happened, in a few words.
    table : pyarrow.Table or None
        Rows to show, if any.
    report : Report or None
        The audit, if the rows are an audit.
    place : Place or None
        Place of the statement in its script.
    effect : tuple of Effect
        Changes of the quasi-identifiers by a release, if asked for.
    """

    title: str
    table: pa.Table | None
    report: Report | None = None
    place: Place | None = None
    effect: tuple[Effect, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether the outcome is an audit with a violated threshold."""
        return self.report is not None and self.report.violated


@interruptible
def run_statement(con: duckdb.DuckDBPyConnection, statement: Statement, *, effect: bool = False) -> Outcome:
    """Run one of our statements; with `effect`, CREATE and REFRESH also report changed quasi-identifiers."""
    return RUNS[type(statement)](con, statement, effect)


def report_table(report: Report) -> pa.Table:
    """Report rows as an Arrow table of `REPORT_SCHEMA`."""
    columns = [
        arrow.column([getattr(measure, field.name) for measure in report.measures], field.type)
        for field in REPORT_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=REPORT_SCHEMA)


def _reported(title: str, report: Report, effect: tuple[Effect, ...] = ()) -> Outcome:
    return Outcome(title, report_table(report), report, effect=effect)


def _create(con: duckdb.DuckDBPyConnection, statement: grammar.Create, effect: bool) -> Outcome:
    target = resolve(con, statement.name)
    policy = options_to_policy(statement.options)
    if statement.if_not_exists and metadata.find(con, target) is not None:
        return Outcome(f"{target} exists: nothing was done, and it keeps its own policy", None)
    replaces = statement.or_replace
    made = views.create(con, statement.query, policy, target, or_replace=replaces, effect=effect)
    return _reported(f"released {made.name}", made.report, made.effect)


def _explain(con: duckdb.DuckDBPyConnection, statement: grammar.Explain, _effect: bool) -> Outcome:
    title, shown = ("frontier", frontier) if statement.frontier else ("plan", explain)
    if statement.create is None:
        published = metadata.require(con, resolve(con, statement.name))
        source, policy = views.source_of(con, published), Policy.from_toml(published.policy)
    else:
        policy = options_to_policy(statement.create.options)
        source = Source(statement.create.query, *current(con))
    return Outcome(title, shown(con, source, policy))


def _refresh(con: duckdb.DuckDBPyConnection, statement: grammar.Refresh, effect: bool) -> Outcome:
    asked = checked(statement.options, REFRESH_OPTIONS)
    return refreshed(con, resolve(con, statement.name), effect=effect, **asked)


def refreshed(con: duckdb.DuckDBPyConnection, target: Target, *, effect: bool, **options: Any) -> Outcome:
    """Outcome of REFRESH, with the checked options of the statement by name."""
    made = views.refresh(con, target, effect=effect, **options)
    return _reported(f"refreshed {made.name}{_waiting(made)}", made.report, made.effect)


def _waiting(made: views.Release) -> str:
    """Text about source subjects that an appended release lacks, or has with other values than the source."""
    if made.since is None:
        return ""
    why = f" ({made.waits})" if made.waits else ""
    waiting, gone, changed = made.since.waiting, made.since.gone, made.since.changed
    return (
        f": {made.records} records; of the subjects in the source {waiting} wait{why}; as they were "
        f"published stay {changed} that changed, and {gone} that are gone"
    )


def _audit(con: duckdb.DuckDBPyConnection, statement: grammar.Audit, _effect: bool) -> Outcome:
    audited = audit_table if statement.kind == "table" else audit_named
    report = audited(con, statement.name, statement.options)
    notes = "".join(f"; {warning}" for warning in report.warnings)
    return _reported(f"audited {report.name}{notes}", report)


def _show(con: duckdb.DuckDBPyConnection, _statement: grammar.ShowViews, _effect: bool) -> Outcome:
    return Outcome("anonymized views", anonymized_views(con))


def _export(con: duckdb.DuckDBPyConnection, statement: grammar.Export, _effect: bool) -> Outcome:
    target = resolve(con, statement.name)
    with metadata.undisturbed(con, target.catalog):
        report = export(con, target, statement.path, **checked(statement.options, EXPORT_OPTIONS))
    return _reported(f"exported {target} to {statement.path}", report)


def _drop(con: duckdb.DuckDBPyConnection, statement: grammar.Drop, _effect: bool) -> Outcome:
    try:
        target = resolve(con, statement.name)
    except ReleaseError as nowhere:
        if not statement.if_exists:
            raise
        return Outcome(f"nothing to drop: {nowhere}", None)
    with metadata.undisturbed(con, target.catalog):
        dropped = views.drop_view(con, target, if_exists=statement.if_exists)
    if dropped:
        return Outcome(f"dropped {target}", None)
    return Outcome(f"nothing to drop: {target} does not exist", None)


def anonymized_views(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """Rows of SHOW ANONYMIZED VIEWS."""
    views.tidy(con)
    columns = pa.schema([*SHOWN_COLUMNS, *SINCE_COLUMNS])
    catalogs = metadata.with_releases(con)
    if not catalogs:
        return columns.empty_table()
    table = engine.table(con, templates.render("catalog/views.sql.j2:show", catalogs=catalogs), "show")
    names = [Target(*row.values()) for row in table.select(SHOWN_COLUMNS.names[:3]).to_pylist()]
    # A view with the mark of a release is shown only if it is the view of that release.
    found = [metadata.find(con, name) for name in names]
    rows = [
        {**row, **_since(con, published)}
        for row, published in zip(table.to_pylist(), found, strict=True)
        if published is not None
    ]
    return pa.Table.from_pylist(rows, schema=columns)


def _since(con: duckdb.DuckDBPyConnection, published: metadata.Published) -> dict[str, int]:
    """Changes of the subjects since a release that was appended to; empty if they cannot be known."""
    if not published.policy:
        return {}
    try:
        policy = Policy.from_toml(published.policy)
        since = since_release(con, published, views.source_of(con, published), policy)
    except DuckanonError:
        return {}
    return {} if since is None else {name: getattr(since, name) for name in SINCE_COLUMNS.names}


RUNS: Mapping[type[Statement], Callable[[duckdb.DuckDBPyConnection, Any, bool], Outcome]] = {
    grammar.Create: _create,
    grammar.Explain: _explain,
    grammar.Refresh: _refresh,
    grammar.Audit: _audit,
    grammar.ShowViews: _show,
    grammar.Export: _export,
    grammar.Drop: _drop,
}
"""Function that runs each kind of statement; its last argument asks for the effect of a release."""
