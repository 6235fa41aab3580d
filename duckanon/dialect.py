"""Quoting of identifiers and literals: the only place where names become SQL text."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from duckanon.errors import SourceError

_GLOB = re.compile(r"[*?\[]")


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


def file_literal(path: str | Path) -> str:
    r"""SQL literal by which DuckDB reads one file, whatever characters its name has.

    DuckDB takes ``data[1].csv`` for a pattern and reads ``data1.csv``, a leading ``~`` for the home of the
    user, and the beginning of ``s3:/x.csv`` for a protocol.

    Parameters
    ----------
    path : str or Path
        A file that exists.

    Returns
    -------
    str
        Its absolute path in single quotes, as a pattern that matches nothing else.

    Raises
    ------
    SourceError
        No pattern matches the name.

    Examples
    --------
    >>> print(file_literal("/data/it's[1].csv"))
    '/data/it''s[[]1].csv'
    """
    text = Path(path).absolute().as_posix()
    if "\\" in text and _GLOB.search(text):
        # In a pattern a backslash parts folders, also where it is an ordinary character in names.
        raise SourceError(f"{str(path)!r} has a backslash and one of [ * ? in its path: rename it")
    return literal(one_file(text))


def one_file(path: str) -> str:
    """Pattern of DuckDB that matches one path and nothing else.

    Parameters
    ----------
    path : str
        A path, or any other text.

    Returns
    -------
    str
        Every ``[``, ``*`` and ``?`` in brackets.

    Examples
    --------
    >>> one_file("data[1].csv")
    'data[[]1].csv'
    """
    return _GLOB.sub(r"[\g<0>]", path)
