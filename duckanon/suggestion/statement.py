"""The proposal as a statement that runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from duckanon.database import templates
from duckanon.database.quoting import ident
from duckanon.policy import recodes
from duckanon.policy.bind import Role
from duckanon.policy.kinds import NUMBERS, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.suggestion.model import ColumnSuggestion
    from duckanon.suggestion.profile import Repair

K = 5
"""Size of a class to start from."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED = frozenset(["as", "with", "to", "true", "false", "null", "e", "select", "from"])


def statement_of(
    columns: Sequence[ColumnSuggestion], records: int, view: str, query: str, repairs: Mapping[str, Repair]
) -> tuple[str | None, tuple[str, ...]]:
    """CREATE ANONYMIZED VIEW with the proposed roles.

    Parameters
    ----------
    columns : sequence of ColumnSuggestion
        In the order of the source.
    records : int
        Of the source.
    view : str
        Name of the view.
    query : str
        What stands after AS.
    repairs : mapping of str to Repair
        What some columns need before they have a mean.

    Returns
    -------
    tuple of (str or None) and tuple of str
        The statement; or None, and the reason.
    """
    by_role = {role: [column for column in columns if column.role is role] for role in Role}
    quasi, sensitive = by_role[Role.QUASI_IDENTIFIER], by_role[Role.SENSITIVE]
    if records < 2:
        return None, ("a table of one record cannot be anonymized: there is no statement",)
    if not quasi:
        return None, (
            "no column is left that a class could share: there is no statement; name a quasi-identifier",
        )
    lists = [
        (Role.SENSITIVE, "sensitive"),
        (Role.IDENTIFIER, "identifiers"),
        (Role.INSENSITIVE, "insensitive"),
    ]
    averaged = {column.name for column in quasi if column.recode == "mean"}
    taken = averaged | {column.name for column in quasi if repairs.get(column.name) == "finite"}
    repaired = {name: repair for name, repair in repairs.items() if name in taken}
    text = templates.render(
        "suggest/statement.sql.j2",
        word=word,
        view=view,
        query=query,
        repairs=repaired,
        quasi_identifiers=[column.name for column in quasi],
        lists={option: [column.name for column in by_role[role]] for role, option in lists},
        k=max(2, min(K, records // 3)),
        maps=_maps(quasi, sensitive),
    )
    return text.strip(), ()


def _maps(
    quasi: Sequence[ColumnSuggestion], sensitive: Sequence[ColumnSuggestion]
) -> dict[str, dict[str, object]]:
    """Return the options that hold a value for each column; what is the default anyway is left out."""
    maps: dict[str, dict[str, object]] = {
        "t": {column.name: column.t for column in sensitive if column.t is not None},
        "l": {column.name: column.l for column in sensitive if column.l is not None},
        "distance": {
            column.name: "equal"
            for column in sensitive
            if kind_of(column.type) in NUMBERS and column.distance == "equal"
        },
        "recode": {
            column.name: column.recode
            for column in quasi
            if column.recode != recodes.default(kind_of(column.type))
        },
    }
    return {option: values for option, values in maps.items() if values}


def word(name: str) -> str:
    """Name as a person would write it: in quotes only where it needs them.

    Parameters
    ----------
    name : str
        Of a column or view.

    Returns
    -------
    str
        SQL text.
    """
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else ident(name)
