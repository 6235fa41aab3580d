"""Macros: table functions in SQL that write hierarchies, from ``sql/hierarchy`` as they stand there."""

from __future__ import annotations

from functools import cache

from duckanon.database import templates


@cache
def names() -> tuple[str, ...]:
    """Names of the macros, which are those of their files."""
    return tuple(sorted(path.stem for path in (templates.folder() / "hierarchy").glob("*.sql")))


def statement(name: str) -> str:
    """Statement that makes one of them, in the session alone."""
    return templates.read(f"hierarchy/{name}.sql")
