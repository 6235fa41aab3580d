"""Table functions in SQL that write hierarchies, made from the texts in ``sql/hierarchy``."""

from __future__ import annotations

from functools import cache

from duckanon.database import templates


@cache
def names() -> tuple[str, ...]:
    """Return the names of the macros, which are the names of their files."""
    return tuple(sorted(path.stem for path in (templates.folder() / "hierarchy").glob("*.sql")))


def statement(name: str) -> str:
    """Return the statement that makes a macro, in the session alone."""
    return templates.read(f"hierarchy/{name}.sql")
