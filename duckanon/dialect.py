"""Quoting of identifiers and literals: the only place where names become SQL text."""

from __future__ import annotations

from decimal import Decimal


def ident(name: str) -> str:
    """Quoted SQL identifier of a name, whatever characters the name has.

    Parameters
    ----------
    name : str
        A column, table, schema or catalog name as the catalog spells it.

    Returns
    -------
    str
        The name in double quotes, inner double quotes doubled.

    Examples
    --------
    >>> print(ident('my "column" x'))
    "my ""column"" x"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | float | Decimal | bool | None) -> str:
    """SQL literal of a plain value.

    Parameters
    ----------
    value : str, int, float, Decimal, bool or None
        What to write.

    Returns
    -------
    str
        Text in single quotes with inner ones doubled; numbers in full digits; NULL for None.

    Examples
    --------
    >>> literal("it's")
    "'it''s'"
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Decimal):
        return format(value, "f")
    return repr(value)
