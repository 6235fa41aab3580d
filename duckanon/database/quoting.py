"""Quoting of identifiers and literals, and properties of types by their text."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from duckanon.errors import SourceError

_GLOB = re.compile(r"[*?\[]")

_FLOATS = re.compile(r'"(?:[^"]|"")*"|\b(?:DOUBLE|FLOAT)\b')
"""Quoted names, and the types whose equal values can differ in bits."""

_TYPES_OF_ONE_FORM = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|DECIMAL\(\d+,\d+\)|BOOLEAN|BLOB|BIT|UUID|DATE"
    r"|TIME(_NS| WITH TIME ZONE)?|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?"
)
"""Types whose equal values are always identical."""


def ident(name: str) -> str:
    """Quoted SQL identifier of a name with any characters.

    >>> print(ident('my "column" x'))
    "my ""column"" x"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | float | Decimal | bool | None) -> str:
    """SQL literal of a plain value: numbers in full digits, NULL for None.

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
    """SQL literal by which DuckDB reads exactly one file; a SourceError if no pattern does that.

    DuckDB reads ``data[1].csv`` as a pattern for ``data1.csv``, a leading ``~`` as the home folder, and
    ``s3:/x.csv`` as a protocol.

    >>> print(file_literal("/data/it's[1].csv"))
    '/data/it''s[[]1].csv'
    """
    text = Path(path).absolute().as_posix()
    if "\\" in text and _GLOB.search(text):
        # In a pattern a backslash separates folders, even where it is an ordinary character of names.
        raise SourceError(f"{str(path)!r} has a backslash and one of [ * ? in its path: rename it")
    return literal(one_file(text))


def one_file(path: str) -> str:
    """Pattern of DuckDB that matches one path and nothing else.

    >>> one_file("data[1].csv")
    'data[[]1].csv'
    """
    return _GLOB.sub(r"[\g<0>]", path)


def plain(type_text: str) -> bool:
    """Whether equal values of a type are identical in any session; false for text and for nested types.

    >>> plain("DECIMAL(9,2)"), plain("DOUBLE"), plain("INTERVAL")
    (True, False, False)
    """
    return _TYPES_OF_ONE_FORM.fullmatch(type_text) is not None


def with_bits(type_text: str) -> str:
    """Type with BIT in place of DOUBLE and FLOAT: a cast to it shows the bits of the numbers.

    >>> with_bits('STRUCT(a DOUBLE, "DOUBLE" FLOAT[])')
    'STRUCT(a BIT, "DOUBLE" BIT[])'
    """
    return _FLOATS.sub(lambda match: match[0] if match[0].startswith('"') else "BIT", type_text)
