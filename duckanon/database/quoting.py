"""Quoting of identifiers and literals, and what types say of their values."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from duckanon.errors import SourceError

_GLOB = re.compile(r"[*?\[]")

_FLOATS = re.compile(r'"(?:[^"]|"")*"|\b(?:DOUBLE|FLOAT)\b')
"""Quoted names, and the types whose equal values can differ in bits."""

_PLAIN = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|DECIMAL\(\d+,\d+\)|BOOLEAN|BLOB|BIT|UUID|DATE"
    r"|TIME(_NS| WITH TIME ZONE)?|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?"
)
"""Types whose equal values are always the same."""


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


def plain(type_text: str) -> bool:
    """Whether equal values of a type are the same value, whatever the session does.

    Parameters
    ----------
    type_text : str
        As DESCRIBE writes it.

    Returns
    -------
    bool
        False for text, which a collation may compare, for nested types and for those that are not known.

    Examples
    --------
    >>> plain("DECIMAL(9,2)"), plain("DOUBLE"), plain("INTERVAL")
    (True, False, False)
    """
    return _PLAIN.fullmatch(type_text) is not None


def with_bits(type_text: str) -> str:
    """Type to which values are cast to see the bits of the floating-point numbers in them.

    Parameters
    ----------
    type_text : str
        As DESCRIBE writes it: a name that is a keyword stands in double quotes.

    Returns
    -------
    str
        BIT in place of every DOUBLE and FLOAT.

    Examples
    --------
    >>> with_bits('STRUCT(a DOUBLE, "DOUBLE" FLOAT[])')
    'STRUCT(a BIT, "DOUBLE" BIT[])'
    """
    return _FLOATS.sub(lambda found: found[0] if found[0].startswith('"') else "BIT", type_text)
