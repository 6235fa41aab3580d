"""Columns that no threshold covers: their names, and the number of records that are unique in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duckanon.audits.legible import legible
from duckanon.database import engine, templates
from duckanon.database.templates import ident
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.policy.names import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import duckdb

    from duckanon.policy.bind import Attribute

_PLAIN_NAME = re.compile(r"[^\s,;:()\"](?:[^,;:()\"]*[^\s,;:()\"])?")

COLUMNS_LISTED = 20
"""Columns that a warning names."""


@dataclass(frozen=True)
class Roles:
    """Roles of a policy for columns that an audit does not cover."""

    insensitive: tuple[str, ...] | Literal["*"] = ()  # released unchanged
    identifiers: tuple[str, ...] = ()  # dropped

    def of(self, column: str) -> Role | None:
        """Return the role of an unaudited column; None if the policy does not name it."""
        if fold(column) in map(fold, self.identifiers):
            return Role.IDENTIFIER
        if self.insensitive == "*" or fold(column) in map(fold, self.insensitive):
            return Role.INSENSITIVE
        return None


def unaudited(columns: Iterable[str], attributes: Sequence[Attribute]) -> list[str]:
    """Columns that an audit does not cover, in the order of the table."""
    looked_at = {fold(one.name) for one in attributes}
    return [name for name in columns if fold(name) not in looked_at]


def unique_records(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    columns: Sequence[str],
    *,
    texts: Collection[str],
    stage: str,
) -> tuple[int, int]:
    """Number of records, and of records that are unique in some columns, by sql/audit/uniqueness.sql. O(n).

    `texts` are the columns of text; errors name `stage`.
    """
    query = templates.render(
        "audit_bind/uniqueness.sql.j2", relation=relation, columns=list(columns), texts=texts
    )
    records, alone = engine.rows(con, query, stage, error=SourceError)[0]
    return int(records), int(alone)


def warnings_of(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    columns: Sequence[tuple[str, str]],
    attributes: Sequence[Attribute],
    *,
    roles: Roles,
    stage: str,
) -> tuple[str, ...]:
    """Warnings about columns that the audit does not cover; none if it covers all columns.

    `columns` are names and types of all columns of the relation.
    """
    left = unaudited([name for name, _ in columns], attributes)
    if not left:
        return ()
    texts = {name for name, kind in columns if kind == "VARCHAR"}
    records, alone = unique_records(con, relation, left, texts=texts, stage=stage)
    warnings = [warning_of(left, len(columns), records, alone, roles)]
    kept = set(map(fold, left))
    dropped = [name for name in roles.identifiers if fold(name) in kept]
    if dropped:
        warnings.append(f"the policy drops {', '.join(dropped)}, and the audited table still has it")
    return tuple(warnings)


def _named(name: str) -> str:
    """Return a name for a list: quoted as in SQL unless it is one plain word."""
    text = legible(name)
    return text if _PLAIN_NAME.fullmatch(text) else ident(text)


def warning_of(left: Sequence[str], columns: int, records: int, alone: int, roles: Roles) -> str:
    """One-line warning with the names of the unaudited columns; `alone` records are unique in them."""
    named = [
        f"{_named(name)} ({role.value})" if (role := roles.of(name)) else _named(name)
        for name in left[:COLUMNS_LISTED]
    ]
    if len(left) > COLUMNS_LISTED:
        named.append(f"and {len(left) - COLUMNS_LISTED:,} more")
    is_, it = ("is", "it") if len(left) == 1 else ("are", "them together")
    unique = f"{alone:,} of {records:,} records {'is' if alone == 1 else 'are'} unique on {it}"
    return f"{len(left):,} of {columns:,} released columns {is_} not audited: {', '.join(named)}; {unique}"
