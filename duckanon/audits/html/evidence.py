"""Evidence: what lets another person check a report: versions, and the SQL of every audit."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from duckanon.audits.html.copies import STAGE
from duckanon.database import engine, templates
from duckanon.database.paths import split
from duckanon.database.quoting import ident, one_file
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.policy.bind import Attribute
    from duckanon.policy.policy import AuditPolicy


def versions(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Versions of what made the report.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.

    Returns
    -------
    list of (str, str)
        Name and version.
    """
    database = engine.rows(con, templates.read("report/version.sql"), STAGE)[0][0]
    return [
        ("duckanon", version("duckanon")),
        ("DuckDB", str(database).removeprefix("v")),
        ("Python", platform.python_version()),
        ("matplotlib", version("matplotlib")),
    ]


def audits() -> list[tuple[str, str, str]]:
    """Files of ``sql/audit`` as they were run.

    Returns
    -------
    list of (str, str, str)
        Name, the question that it answers, and its text.
    """
    found = []
    for path in sorted((templates.folder() / "audit").glob("*.sql")):
        text = templates.read(f"audit/{path.name}")
        question = text.partition("-- question: ")[2].partition("\n")[0]
        found.append((path.stem, question, text))
    return found


def install_hash() -> tuple[str, str]:
    """Name the file that the statements of the page read, and its hash.

    Returns
    -------
    tuple of str
        ``sql/install.sql`` and its SHA-256.
    """
    return "sql/install.sql", hashlib.sha256(templates.read("install.sql").encode()).hexdigest()


def stock_sql(
    name: str, policy: AuditPolicy, attributes: Sequence[Attribute], unaudited: Sequence[str] = ()
) -> str:
    """Statements that repeat the audit in the stock ``duckdb`` command line.

    Parameters
    ----------
    name : str
        The audited table.
    policy : AuditPolicy
        The policy.
    attributes : sequence of Attribute
        Its columns.
    unaudited : sequence of str
        Columns of which no threshold speaks.

    Returns
    -------
    str
        SQL with the macros of ``sql/install.sql``.
    """
    path, table = split(name)
    if table is not None:
        schema, _, own = table.rpartition(".")
        name = ".".join(ident(part) for part in ("released", schema or "main", own))
    elif path.is_file():
        name = one_file(name)
    sensitive = [one for one in attributes if one.role is Role.SENSITIVE]
    plain = {one.name for one in sensitive if one.distance != "hierarchical"}
    one_value: list[tuple[str, Any]] = []
    by_column: list[tuple[str, list[tuple[str, Any]]]] = []
    if policy.l_diversity != "distinct":
        one_value.append(("l_diversity", policy.l_diversity))
    for option in ("k", "l", "t", "c"):
        value = getattr(policy, option)
        if isinstance(value, Mapping):
            named = [(column, value[column]) for column in value if column in plain]
            by_column += [(option, named)] if named else []
        elif value is not None and (plain or option == "k"):
            one_value.append((option, value))
    chosen = [(column, kind) for column, kind in policy.distance.items() if kind != "hierarchical"]
    return templates.render(
        "report/check.sql.j2",
        name=name,
        file=None if table is None else str(path),
        quasi=[one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER],
        sensitive=sensitive,
        unaudited=unaudited,
        thresholds=one_value,
        by_column=by_column + ([("distance", chosen)] if chosen else []),
    ).lstrip()
