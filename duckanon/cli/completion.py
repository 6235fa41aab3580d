"""Completion by the shell: choices of an option, columns of the file before it, tables of a database."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

import duckdb
import typer  # noqa: TC002 - typer reads the annotations

from duckanon.api import files
from duckanon.cli.parsing import UNCOMPLETED_PART
from duckanon.database.paths import split
from duckanon.errors import DuckanonError
from duckanon.release import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


_SOURCES = ("source", "table", "original", "older")
"""Arguments of commands that name the file whose columns options name."""

_PLAIN_NAME = re.compile(r"[\w.@%+/][\w.@%+/-]*")
"""Names that mean themselves in every shell, which would run what stands in `$(...)` of another."""


def of_option(choices: Sequence[str], form: str | None) -> Callable[..., list[str]]:
    """Completion of the values of an option: words, columns between commas, or pairs of both."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        whole = os.environ.get(UNCOMPLETED_PART, "") + incomplete
        if form is None or "COLUMN" not in form:
            return list(choices)
        done, comma, entry = whole.rpartition(",")
        column, equals, _ = entry.partition("=")
        if equals:
            return _behind([f"{done}{comma}{column}={choice}" for choice in choices])
        end = "=" if "COLUMN=" in form else ""
        return _behind([f"{done}{comma}{name}{end}" for name in _columns(ctx) if _PLAIN_NAME.fullmatch(name)])

    return complete


def of_file(incomplete: str) -> list[str]:
    """Completion of ``file.duckdb:table``; the shell itself completes names of files."""
    name = os.environ.get(UNCOMPLETED_PART, "") + incomplete
    with contextlib.suppress(DuckanonError, duckdb.Error, OSError), _reaching(name) as con:
        begin = f"{split(name)[0]}:"
        return _behind(
            [word for word in files.tables(con, name) if _PLAIN_NAME.fullmatch(word.removeprefix(begin))]
        )
    return []


def _columns(ctx: typer.Context) -> list[str]:
    """Columns of the first file of the command; typer may have left the arguments unread."""
    given = [ctx.params.get(name) for name in _SOURCES] + [word for word in ctx.args if word[:1] != "-"]
    name = next((str(one) for one in given if one), None)
    if name is not None:
        with contextlib.suppress(DuckanonError, duckdb.Error, OSError), _reaching(name) as con:
            return files.columns(con, name)
    return []


def _reaching(name: str) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    """Connection to a plain file: what must be fetched or unpacked first is not read for a completion."""
    return foreign.opened([split(name)[0]])


def _behind(words: Sequence[str]) -> list[str]:
    """The part of each word that the shell completes; typer leaves out words that do not fit."""
    return [word[len(os.environ.get(UNCOMPLETED_PART, "")) :] for word in words]
