"""Exit codes, and what several commands share: options, formats, and where a document goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.errors import DuckanonError
from duckanon.names import suggestion
from duckanon.output import line

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSED, VIOLATION, ERROR = 0, 1, 2
"""Exit codes: done and every check passed; the audit found a violation; an error."""

Database = Annotated[Path | None, typer.Option("--database", "-d", help="DuckDB file; in memory without it")]
Names = Annotated[str | None, typer.Option(help="columns, separated by commas")]
Number = Annotated[str | None, typer.Option(help="a number, or column=number pairs")]
Words = Annotated[str | None, typer.Option(help="a word, or column=word pairs")]
Trees = Annotated[str | None, typer.Option(help="column=file pairs: trees from leaf to root")]
QuasiIdentifiers = Annotated[str | None, typer.Option("--qi", help="quasi-identifiers, separated by commas")]
K = Annotated[int | None, typer.Option("-k", help="smallest equivalence class")]
T = Annotated[str | None, typer.Option("-t", help="largest EMD, or column=number pairs")]
L = Annotated[str | None, typer.Option("-l", help="least diversity, or column=number pairs")]
LDiversity = Annotated[str | None, typer.Option(help="distinct, entropy or recursive")]
Table = Annotated[str, typer.Argument(help="file.csv, file.parquet or file.duckdb:table")]
Form = Annotated[str, typer.Option("--format", help="text or json")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of stdout")]


def known_form(form: str, known: Sequence[str] = ("text", "json")) -> str:
    """Format that was asked for, if there is such a one.

    Parameters
    ----------
    form : str
        As it was written.
    known : sequence of str
        The formats of the command.

    Returns
    -------
    str
        The same.

    Raises
    ------
    DuckanonError
        There is no such format.
    """
    if form not in known:
        hint = suggestion(form, known)
        choice = f"{', '.join(known[:-1])} or {known[-1]}"
        raise DuckanonError(f"unknown format {form!r}{hint or ':'} use {choice}")
    return form


def deliver(text: str, output: Path | None) -> None:
    """Write a document to its file, or to stdout where there is none.

    Parameters
    ----------
    text : str
        The document, without a newline at its end.
    output : Path or None
        The file.
    """
    if output is None:
        line(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
