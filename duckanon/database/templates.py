"""Find and render the SQL files: the only place that knows where they lie, the only use of Jinja for SQL."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from duckanon.database.quoting import file_literal, ident, literal, one_file, plain, with_bits

_INSTALLED = Path(__file__).parents[1] / "sql"
_CHECKOUT = Path(__file__).parents[2] / "sql"


def folder() -> Path:
    """Folder of the SQL files: inside an installed package, or beside it in a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def read(name: str) -> str:
    """Text of one SQL file by its path below ``sql/``, for example ``audit/k_anonymity.sql``."""
    return (folder() / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder()),
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
    """SQL text of a template, a path below ``sql/``; a name in it without a value is an error."""
    return _environment().get_template(name).render(**values)


def macros(name: str, /, **values: object) -> dict[str, jinja2.runtime.Macro]:
    """Macros of a template, by name; they know the values, and their names begin without an underscore."""
    module = _environment().get_template(name).make_module(values)
    return {key: macro for key, macro in vars(module).items() if isinstance(macro, jinja2.runtime.Macro)}
