"""A plugin for dbt-duckdb: our functions, audits and anonymized views in a dbt project.

In ``profiles.yml``::

    plugins:
      - module: duckanon.dbt

The dbt package with generic tests and the materialization is installed beside this module. Its folder, for
``packages.yml``, is printed by ``python -m duckanon.dbt``. See docs/workflows.md.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.api.sql_functions import LEFT_OUT, given_options, register
from duckanon.audits.columns import SHARE_MEASURES, audit_columns
from duckanon.audits.headers import rows_of
from duckanon.audits.run import kept_relation
from duckanon.audits.subsets import subset_values
from duckanon.database import engine, templates
from duckanon.database.relations import columns_of, relation_of, resolve, subquery
from duckanon.errors import DuckanonError, MissingExtra, PolicyError, ReleaseError, SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.policy.subsets import subset_thresholds
from duckanon.release import metadata
from duckanon.release.views import create
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# No table has more rows.
_MAX_ROWS = 2**63 - 1
# dbt opens connections in several threads at once, and scalar functions are shared by all connections.
_lock = threading.Lock()
# Of two simultaneous transactions that write the metadata of releases, DuckDB fails one.
_turn = threading.Lock()
_STAGE = "release"
_FULL_REFRESH = (
    "Name a new column in the policy, or run dbt with --full-refresh to make the view of what is there now"
)


class _Missing:
    """Base of the plugin if dbt is not installed: the module can be imported, but not used."""

    def __init__(self, *_: object, **__: object) -> None:
        raise MissingExtra("duckanon.dbt needs dbt-duckdb: pip install 'duckanon[dbt]'")


def _base() -> Any:
    try:
        return importlib.import_module("dbt.adapters.duckdb.plugins").BasePlugin
    except ImportError:
        return _Missing


_Base: Any = _base()


class Plugin(_Base):  # type: ignore[misc]  # dbt is optional, so its class is not known here
    """Plugin that dbt-duckdb calls when it connects."""

    # Every model and test of dbt runs on its own cursor. Scalar functions belong to the database and are
    # visible to all cursors. Macros and slots are temporary, so each cursor gets its own, in about 0.1 s of
    # CPU time.
    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Register our functions on the connection that lasts for the whole run of dbt."""
        with _lock:
            register(conn)
            # An open connection of the process may keep the database and the functions of an earlier run.
            self._planner = f"{engine.workspace()}_violating_classes"
            conn.create_function(self._planner, _planner(conn), ["VARCHAR", "VARCHAR"], "VARCHAR")

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Register the functions that a cursor of a model, test or hook does not share with others."""
        with _lock:
            register(cursor)
            macro = templates.render("dbt.sql.j2:violating_classes", planner=self._planner, left_out=LEFT_OUT)
            engine.run(cursor, macro, "register")


def publish(
    session: Any, query: str, name: str, options: str, *, full_refresh: bool = False, contract: str = ""
) -> None:
    """Release a query as an anonymized view, on the `session` of a dbt Python model."""
    # An error is not raised, since dbt would show its traceback: its text goes to the session variable
    # `duckanon_refused`, which is NULL after success. Releases of one process take turns. `name` is the full,
    # quoted name of the view, which is replaced; `options` are those of WITH (...) as JSON. Without
    # `full_refresh` the policy must name every new column of the source. `contract` is a query without rows,
    # whose columns the release must have in any order; empty for no contract.
    con = _plain(session)
    refused = columns = None
    try:
        with _turn:
            _publish(con, query, name, options, full_refresh=full_refresh, contract=contract)
    except (DuckanonError, duckdb.Error) as failure:
        if isinstance(failure, duckdb.InterruptException):
            raise
        with contextlib.suppress(duckdb.TransactionException):
            con.rollback()
        refused, columns = engine.described(failure), getattr(failure, "columns", None)
    engine.run(con, templates.render("dbt.sql.j2:told", refused=refused, columns=columns), _STAGE)


class _ContractError(ReleaseError):
    """A release differs from its contract in columns; `columns` is a query with those of the release."""

    columns: str


def _publish(
    con: duckdb.DuckDBPyConnection, query: str, name: str, options: str, *, full_refresh: bool, contract: str
) -> None:
    given = json.loads(options, parse_float=Decimal)
    if not isinstance(given, dict):
        raise PolicyError("the model has no policy: add policy={...} to its config()")
    policy, target = Policy.from_toml("", **given), resolve(con, parse_name(name))
    standing = None if full_refresh else metadata.find(con, target)
    before = None if standing is None else replace(metadata.drawn(con, standing), way_out=_FULL_REFRESH)
    with engine.transaction(con):
        create(con, query, policy, target, or_replace=True, before=before)
        released = columns_of(con, relation_of(target), _STAGE)
        if contract and _by_name(columns_of(con, subquery(contract), _STAGE)) != _by_name(released):
            broken = _ContractError(f"{target} would have other columns than the contract of the model says")
            broken.columns = templates.render("dbt.sql.j2:columns", columns=released)
            raise broken


def _by_name(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {fold(name): type_text for name, type_text in columns}


def package() -> Path:
    """Folder of the dbt package, with ``dbt_project.yml`` and ``macros/``."""
    return Path(__file__).parent / "dbt_package"


def _plain(session: Any) -> duckdb.DuckDBPyConnection:
    # dbt wraps a cursor once or twice.
    while not isinstance(session, duckdb.DuckDBPyConnection):
        session = session._cursor
    return session


def _planner(con: duckdb.DuckDBPyConnection) -> Callable[[str, str], str]:
    def duckanon_violating_classes(relation: str, options: str) -> str:
        # It runs while DuckDB binds a query, and the connection cannot run a second query meanwhile.
        with con.cursor() as cursor:
            return _violating_classes(cursor, relation, _audit_policy(options))

    return duckanon_violating_classes


def _audit_policy(options: str) -> AuditPolicy:
    given = given_options(options)
    if "quasi_identifiers" not in given:
        raise PolicyError("an audit needs at least one quasi-identifier: write quasi_identifiers := [...]")
    if not {"k", "k_subsets", "l", "t", *SHARE_MEASURES} & set(given):
        raise PolicyError("there is nothing to judge: give k, l, t, alpha, delta or beta")
    if not {"k", "k_subsets"} & set(given) and "sensitive" not in given:
        raise PolicyError("all thresholds but k speak of sensitive columns: write sensitive := [...]")
    return AuditPolicy(**given)


def _violating_classes(con: duckdb.DuckDBPyConnection, relation: str, policy: AuditPolicy) -> str:
    """SQL text of a query for the classes of a relation that violate a threshold."""
    stage = f"audit of {relation}"
    source = _selected(con, relation, stage)
    attributes = bind.bind_audit(policy, columns_of(con, source, stage))
    # Checked here, since a filter on the query could hide that the table is empty.
    if not engine.rows(con, templates.render("relation.sql.j2:any_record", relation=source), stage):
        raise SourceError(f"{stage}: the table is empty: there is nothing to audit")
    source = kept_relation(con, source, policy, stage)
    asked = audit_columns(attributes, policy, {})
    if any(judgement.distance == "hierarchical" for judgement in asked):
        raise PolicyError(f"{stage}: a hierarchical distance needs its tree: use AUDIT TABLE, outside of dbt")
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    texts = {attribute.name for attribute in attributes if attribute.type == "VARCHAR"}
    rows = templates.render(
        "dbt.sql.j2:rows",
        relation=source, qi=quasi, attributes=asked, texts=texts, k=policy.k,
        limit=_MAX_ROWS, rows_of=rows_of,
    )  # fmt: skip
    subsets = subset_thresholds(policy.k_subsets, quasi, policy.k)
    if not subsets:
        return rows
    values = subset_values(source, subsets, texts)
    return templates.render("dbt.sql.j2:subsets", rows=rows, names=quasi, **vars(values), limit=_MAX_ROWS)


def _selected(con: duckdb.DuckDBPyConnection, relation: str, stage: str) -> str:
    """Subquery of the text that a caller wrote after FROM; raise unless it is one SELECT."""
    query = templates.render("relation.sql.j2:rows", relation=relation)
    try:
        kinds = [statement.type for statement in con.extract_statements(query)]
    except duckdb.Error as cause:
        raise engine.wrapped(cause, query, stage, error=SourceError) from cause
    if kinds != [duckdb.StatementType.SELECT]:
        raise SourceError(f"{stage}: write what stands after FROM in one SELECT, and nothing else")
    return subquery(query)


if __name__ == "__main__":
    sys.stdout.write(f"{package()}\n")
