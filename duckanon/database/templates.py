"""Find and render the SQL files: the only code that knows their folder and uses Jinja for SQL."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import marshal
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from duckanon.database import quoting
from duckanon.database.quoting import file_literal, ident, literal, one_file, plain, with_bits
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
    told = hashlib.sha256(importlib.util.MAGIC_NUMBER + jinja2.__version__.encode() + b"\n")
    for source in (__file__, quoting.__file__):
        told.update(hashlib.sha256(Path(source).read_bytes()).digest())
    told.update(written)
    return told.digest()


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
