"""Exit codes, and the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
