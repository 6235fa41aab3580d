"""Find and render the SQL files: the only code that knows their folder and uses Jinja for SQL."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from duckanon.database.quoting import file_literal, ident, literal, one_file, plain, with_bits

if TYPE_CHECKING:
    from collections.abc import Callable

_INSTALLED = Path(__file__).parents[1] / "sql"
_CHECKOUT = Path(__file__).parents[2] / "sql"

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
