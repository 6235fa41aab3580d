"""Find and render the SQL files, and quote names and values: the only code that uses Jinja for SQL."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import marshal
import re
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from duckanon.errors import SourceError
from duckanon.kernels import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from jinja2.bccache import Bucket

_INSTALLED = Path(__file__).parents[1] / "sql"
_CHECKOUT = Path(__file__).parents[2] / "sql"

COMPILED_FILE = "templates.bin"
"""File of compiled templates in the folder of machine code."""

_DIGEST_BYTES = 32

_GLOB = re.compile(r"[*?\[]")

_FLOATS = re.compile(r'"(?:[^"]|"")*"|\b(?:DOUBLE|FLOAT)\b')
"""Quoted names, and the types whose equal values can differ in bits."""

_TYPES_OF_ONE_FORM = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|DECIMAL\(\d+,\d+\)|BOOLEAN|BLOB|BIT|UUID|DATE"
    r"|TIME(_NS| WITH TIME ZONE)?|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?"
)
"""Types whose equal values are always identical."""

_HEADER = re.compile(r"^(?:\{#\n)?-- name: (\w+)$", re.MULTILINE)
"""First line of a section; the header of a part of a query is inside a Jinja comment."""


def folder() -> Path:
    """Folder of the SQL files: inside an installed package, or beside the package in a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def read(name: str) -> str:
    """Text of one SQL file by its path below ``sql/``, for example ``audit/k_anonymity.sql``."""
    return (folder() / name).read_text(encoding="utf-8")


class _Sections(jinja2.FileSystemLoader):
    """Loader of ``folder/file.sql.j2``, or of a section of such a file: ``folder/file.sql.j2:name``."""

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """Text of a file or section; a file with sections cannot be loaded as a whole."""
        file, _, name = template.partition(":")
        text, path, fresh = super().get_source(environment, file)
        sections = sections_of(text)
        if bool(name) != bool(sections) or (name and name not in sections):
            raise jinja2.TemplateNotFound(
                template, f"{file} has the sections {', '.join(sections) or 'none'}"
            )
        return sections[name] if name else text, path, fresh


class _Compiled(jinja2.BytecodeCache):
    """Compiled templates that came with the package, each used only for the text of which it was made."""

    def __init__(self, codes: Mapping[str, tuple[str, CodeType]]) -> None:
        self._codes = codes

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Name of the template: the folder of the package differs from machine to machine."""
        del filename
        return name

    def get_source_checksum(self, source: str) -> str:
        """SHA-256 of the text of a template."""
        return hashlib.sha256(source.encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the code of a template, unless its text has changed."""
        checksum, code = self._codes.get(bucket.key, ("", None))
        if checksum == bucket.checksum:
            bucket.code = code

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep nothing: only `write_compiled` writes the file."""


def write_compiled(folder_of_code: Path) -> None:
    """Compile all templates into a folder, for `_compiled`."""
    environment, codes = _environment(), {}
    for file in sorted(folder().rglob("*.sql.j2")):
        name, text = file.relative_to(folder()).as_posix(), file.read_text(encoding="utf-8")
        named = {f"{name}:{section}": part for section, part in sections_of(text).items()} or {name: text}
        for key, part in named.items():
            checksum = hashlib.sha256(part.encode()).hexdigest()
            codes[key] = (checksum, environment.compile(part, key, key))
    written = marshal.dumps(codes)
    (folder_of_code / COMPILED_FILE).write_bytes(_stamp(written) + written)


def _compiled() -> dict[str, tuple[str, CodeType]]:
    """Checksum of the text and code of each template; empty unless this very package wrote the file."""
    place = prepared.place()
    with contextlib.suppress(OSError):
        found = b"" if place is None else (place / COMPILED_FILE).read_bytes()
        stamp, written = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        # marshal must not read what another Python wrote, or what a full disk cut off.
        if stamp == _stamp(written):
            codes: dict[str, tuple[str, CodeType]] = marshal.loads(written)
            return codes
    return {}


def _stamp(written: bytes) -> bytes:
    """SHA-256 of compiled templates and of all that they depend on beside their texts."""
    # Jinja calls filters of constants when it compiles.
    made_by = (importlib.util.MAGIC_NUMBER, jinja2.__version__.encode(), Path(__file__).read_bytes())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in (*made_by, written))).digest()


def sections_of(text: str) -> dict[str, str]:
    """Sections of an SQL file by name, each from its header ``-- name: use`` on; empty for most files."""
    headers = [*_HEADER.finditer(text)]
    edges = [*(header.start() for header in headers), len(text)]
    return {
        header[1]: text[start:end].rstrip("\n") + "\n"
        for header, (start, end) in zip(headers, pairwise(edges), strict=True)
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=_Sections(folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
        bytecode_cache=_Compiled(_compiled()),
    )
    environment.filters["ident"] = ident
    environment.filters["literal"] = literal
    environment.filters["file"] = file_literal
    environment.filters["with_bits"] = with_bits
    environment.tests["plain"] = plain
    environment.filters["pattern"] = one_file
    return environment


def render(name: str, /, **values: object) -> str:
    """SQL text of a template by its path below ``sql/``, with a section if the file has sections.

    An undefined name in the template is an error.
    """
    return _environment().get_template(name).render(**values)


def macros(name: str, /, **values: object) -> dict[str, jinja2.runtime.Macro]:
    """Macros of a template by name, without names that begin with an underscore; they know the values."""
    module = _environment().get_template(name).make_module(values)
    return {key: macro for key, macro in vars(module).items() if isinstance(macro, jinja2.runtime.Macro)}


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
