"""Columns of an audited table of which no threshold speaks: which they are, and whom they single out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duckanon.audits.legible import legible
from duckanon.database import engine, templates
from duckanon.database.quoting import ident
from duckanon.errors import SourceError
from duckanon.policy.bind import Role
from duckanon.policy.names import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import duckdb

    from duckanon.policy.bind import Attribute

_PLAIN = re.compile(r"[^\s,;:()\"](?:[^,;:()\"]*[^\s,;:()\"])?")

LISTED = 20
"""Columns that a warning names."""


@dataclass(frozen=True)
class Roles:
    """Roles that a policy gives beyond those that an audit looks at.

    Attributes
    ----------
    insensitive : tuple of str or '*'
        Columns that the policy releases as they are.
    identifiers : tuple of str
        Columns that the policy drops.
    """

    insensitive: tuple[str, ...] | Literal["*"] = ()
    identifiers: tuple[str, ...] = ()

    def of(self, column: str) -> Role | None:
        """Return the role of a column that is not audited; None where the policy does not know it."""
        if fold(column) in map(fold, self.identifiers):
            return Role.IDENTIFIER
        if self.insensitive == "*" or fold(column) in map(fold, self.insensitive):
            return Role.INSENSITIVE
        return None


def unaudited(columns: Iterable[str], attributes: Sequence[Attribute]) -> list[str]:
    """Columns that an audit does not look at.

    Parameters
    ----------
    columns : iterable of str
        All columns of the table.
    attributes : sequence of Attribute
        Those that it looks at.

    Returns
    -------
    list of str
        In the order of the table.
    """
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
    """Records, and those of them whose values in some columns no other record has.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation.
    relation : str
        What stands after FROM.
    columns : sequence of str
        One column or more.
    texts : collection of str
        Columns of text.
    stage : str
        For errors.

    Returns
    -------
    tuple of int
        All records, and the unique ones, by sql/audit/uniqueness.sql. O(n) in SQL.
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
    """Warnings of the columns that an audit does not look at.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relation.
    relation : str
        What stands after FROM.
    columns : sequence of (str, str)
        Name and type of all its columns.
    attributes : sequence of Attribute
        Those that the audit looks at.
    roles : Roles
        What the policy says of the others.
    stage : str
        For errors.

    Returns
    -------
    tuple of str
        None where every column is audited.
    """
    left = unaudited([name for name, _ in columns], attributes)
    if not left:
        return ()
    texts = {name for name, kind in columns if kind == "VARCHAR"}
    records, alone = unique_records(con, relation, left, texts=texts, stage=stage)
    found = [told(left, len(columns), records, alone, roles)]
    kept = set(map(fold, left))
    dropped = [name for name in roles.identifiers if fold(name) in kept]
    if dropped:
        found.append(f"the policy drops {', '.join(dropped)}, and the audited table still has it")
    return tuple(found)


def _named(name: str) -> str:
    """Return a name that stays one name in a list: quoted as in SQL where it is not plainly one."""
    text = legible(name)
    return text if _PLAIN.fullmatch(text) else ident(text)


def told(left: Sequence[str], columns: int, records: int, alone: int, roles: Roles) -> str:
    """Warning of columns that are not audited.

    Parameters
    ----------
    left : sequence of str
        These columns.
    columns, records, alone : int
        Columns and records of the table, and records that are unique on those columns.
    roles : Roles
        What the policy says of them.

    Returns
    -------
    str
        One line.
    """
    named = [
        f"{_named(name)} ({role.value})" if (role := roles.of(name)) else _named(name)
        for name in left[:LISTED]
    ]
    if len(left) > LISTED:
        named.append(f"and {len(left) - LISTED:,} more")
    is_, it = ("is", "it") if len(left) == 1 else ("are", "them together")
    unique = f"{alone:,} of {records:,} records {'is' if alone == 1 else 'are'} unique on {it}"
    return f"{len(left):,} of {columns:,} released columns {is_} not audited: {', '.join(named)}; {unique}"
