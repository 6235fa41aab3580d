"""Arguments of functions of Python: an error for another kind of object says what to give instead."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.api.connection import Connection
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.policy import AuditPolicy, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping


def plain(con: object) -> duckdb.DuckDBPyConnection:
    """Connection of DuckDB in a connection of either kind."""
    if isinstance(con, Connection):
        return con.duckdb
    if isinstance(con, duckdb.DuckDBPyConnection):
        return con
    raise SourceError(
        f"the first argument is a connection, not {_kind(con)}: "
        f"give one, as con = duckanon.connect({_path_of(con) or 'hospital.duckdb'!r})"
    )


def check_names(names: Mapping[str, object]) -> None:
    """Raise unless every argument is a text, by the name of the argument."""
    for name, value in names.items():
        if not isinstance(value, str):
            of_frame = "register it, con.duckdb.register('patients', frame), and " if _is_frame(value) else ""
            raise SourceError(
                f"{name} is a name as text, not {_kind(value)}: {of_frame}give {name}='patients'"
            )


def check_policy(policy: object, *, audit: bool = False) -> None:
    """Raise unless a policy is one of a release or, with `audit`, of an audit."""
    if isinstance(policy, Policy) or (audit and isinstance(policy, AuditPolicy)):
        return
    path = _path_of(policy)
    how = "as duckanon.Policy(quasi_identifiers=('age', 'zip'), k=5)"
    if path is not None and path.endswith(".html"):
        how = f"a page is written to path={path!r}"
    elif path is not None:
        how = "as duckanon.Policy.from_toml(text) for the text of a file"
    elif isinstance(policy, dict):
        how = "as duckanon.Policy(**options)"
    raise PolicyError(f"policy is a Policy, not {_kind(policy)}: {how}")


def _is_frame(value: object) -> bool:
    return hasattr(type(value), "columns")


def _path_of(value: object) -> str | None:
    return str(value) if isinstance(value, str | PathLike) else None


def _kind(value: Any) -> str:
    path = _path_of(value)
    return type(value).__name__ if path is None else f"the text {path!r}"
