"""Checks that the options of a policy fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from duckanon.errors import PolicyError
from duckanon.names import fold, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.policy import AuditPolicy, Policy


def check_roles(policy: Policy | AuditPolicy, roles: Sequence[str]) -> None:
    """Raise unless there is a quasi-identifier and no column has two roles.

    Parameters
    ----------
    policy : Policy or AuditPolicy
        Its lists of columns are checked one by one already.
    roles : sequence of str
        The options that it has for roles.

    Raises
    ------
    PolicyError
        With the column and its roles.
    """
    if not policy.quasi_identifiers:
        raise PolicyError("quasi_identifiers is empty: name at least one column, as in (age, zip)")
    found: dict[str, str] = {}
    for role in roles:
        columns = getattr(policy, role)
        for column in () if columns == "*" else columns:
            other = found.setdefault(fold(column), role)
            if other != role:
                raise PolicyError(f"column {column!r} is in {other} and in {role}: a column has one role")


def check_sensitive(policy: Policy | AuditPolicy) -> None:
    """Raise unless thresholds, distances and hierarchies fit the sensitive columns and each other.

    Parameters
    ----------
    policy : Policy or AuditPolicy
        Its options are checked one by one already.

    Raises
    ------
    PolicyError
        With the option, and what would fit.
    """
    for option in ("t", "l", "distance", "hierarchies"):
        value = getattr(policy, option)
        if isinstance(value, Mapping):
            check_columns(option, value, "sensitive", policy.sensitive)
        elif value is not None and not policy.sensitive:
            raise PolicyError(f"{option} = {value} needs sensitive columns: add sensitive = (...)")
    _check_hierarchies(policy)
    _check_diversity(policy)


def check_columns(option: str, named: Mapping[str, object], role: str, columns: Sequence[str]) -> None:
    """Raise unless an option has values for columns of one role only.

    Parameters
    ----------
    option : str
        The option.
    named : mapping
        Its values by column.
    role : str
        The option that gives columns the role.
    columns : sequence of str
        The columns that have it.

    Raises
    ------
    PolicyError
        With the first column that is not among them, and the nearest that is.
    """
    known = {fold(column) for column in columns}
    for column in named:
        if fold(column) not in known:
            hint = suggestion(column, columns) or f": add it to {role}"
            raise PolicyError(f"{option} names {column!r}, which is not in {role}{hint}")


def _check_hierarchies(policy: Policy | AuditPolicy) -> None:
    for column, distance in policy.distance.items():
        if distance == "hierarchical" and column not in policy.hierarchies:
            wanted = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"distance of {column!r} is 'hierarchical' and has no tree: add {wanted}")
    for column in policy.hierarchies:
        if policy.distance.get(column) != "hierarchical":
            wanted = f"distance = {{{column}: 'hierarchical'}}"
            raise PolicyError(f"hierarchies of {column!r} is of no use: add {wanted}, or leave it out")


def _check_diversity(policy: Policy | AuditPolicy) -> None:
    recursive = policy.l_diversity == "recursive"
    if policy.c is not None and not recursive:
        raise PolicyError("c belongs to l_diversity = 'recursive': set that, or leave c out")
    if policy.l is None or not recursive:
        return
    if policy.c is None:
        raise PolicyError("recursive l-diversity needs c above 0: add c = 3, or another number")
    for value in policy.l.values() if isinstance(policy.l, Mapping) else [policy.l]:
        if value != int(value):
            raise PolicyError(f"l = {value}: recursive l-diversity counts values, use an integer")
