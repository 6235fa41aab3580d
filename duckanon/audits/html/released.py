"""Released columns: the role of each, what judges it, and whom those beside quasi-identifiers single out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.html.copies import STAGE
from duckanon.audits.unaudited import unique_records
from duckanon.database import engine, templates
from duckanon.database.relations import named
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.html.copies import Column, Copies
    from duckanon.audits.unaudited import Roles
    from duckanon.policy.bind import Attribute


@dataclass(frozen=True)
class Released:
    """A released column.

    Attributes
    ----------
    column : Column
        The column.
    role : Role or None
        What the policy says of it; None where the policy does not name it.
    attribute : Attribute or None
        What the audit asks of it; None where it is not audited.
    type : str
        As DESCRIBE writes it.
    alone : int
        Records whose value in it no other record has.
    """

    column: Column
    role: Role | None
    attribute: Attribute | None
    type: str
    alone: int

    @property
    def audited(self) -> bool:
        """Whether the audit looks at it."""
        return self.attribute is not None


@dataclass(frozen=True)
class Uniqueness:
    """Records that are unique on columns that are not quasi-identifiers.

    Attributes
    ----------
    unaudited, beside : tuple of str
        Columns that are not audited; those together with the sensitive ones.
    alone_unaudited, alone_beside : int
        Records that are unique on them; 0 where there are no such columns.
    records : int
        All records.
    """

    unaudited: tuple[str, ...]
    alone_unaudited: int
    beside: tuple[str, ...]
    alone_beside: int
    records: int


def released_columns(
    copies: Copies, attributes: Sequence[Attribute], others: Sequence[tuple[str, str]], roles: Roles
) -> list[Released]:
    """All released columns: quasi-identifiers, sensitive columns, then all others.

    Parameters
    ----------
    copies : Copies
        The copies.
    attributes : sequence of Attribute
        What the audit asks.
    others : sequence of (str, str)
        Name and type of the columns that are not audited.
    roles : Roles
        What the policy says of these.

    Returns
    -------
    list of Released
        One query a column.
    """
    audited = zip((*copies.quasi, *copies.sensitive), _in_order(attributes), strict=True)
    return [
        *(Released(column, one.role, one, one.type, _alone(copies, [column])) for column, one in audited),
        *(
            Released(column, roles.of(column.name), None, kind, _alone(copies, [column]))
            for column, (_, kind) in zip(copies.others, others, strict=True)
        ),
    ]


def _in_order(attributes: Sequence[Attribute]) -> list[Attribute]:
    return sorted(attributes, key=lambda one: one.role is not Role.QUASI_IDENTIFIER)


def uniqueness(copies: Copies, records: int) -> Uniqueness:
    """Records that are unique on columns that are not quasi-identifiers.

    Parameters
    ----------
    copies : Copies
        The copies.
    records : int
        All records.

    Returns
    -------
    Uniqueness
        By sql/audit/uniqueness.sql.
    """
    beside = (*copies.sensitive, *copies.others)
    return Uniqueness(
        tuple(column.name for column in copies.others),
        _alone(copies, copies.others),
        tuple(column.name for column in beside),
        _alone(copies, beside),
        records,
    )


def revealed(copies: Copies, column: Column) -> tuple[int, int]:
    """Classes, and their records, in which a sensitive column has one value only.

    Parameters
    ----------
    copies : Copies
        The copies.
    column : Column
        A sensitive column.

    Returns
    -------
    tuple of int
        Classes and records.
    """
    query = templates.render("report/revealed.sql.j2", members=copies.members, column=column)
    classes, records = engine.rows(copies.con, query, STAGE)[0]
    return int(classes), int(records)


def _alone(copies: Copies, columns: Sequence[Column]) -> int:
    if not columns:
        return 0
    relation = named("temp", copies.released)
    places = [column.place for column in columns]
    # The texts of the copy have no collation.
    return unique_records(copies.con, relation, places, texts=(), stage=STAGE)[1]
