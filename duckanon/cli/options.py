"""Options, formats and output files that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.cli.output import line
from duckanon.database import drafts, paths
from duckanon.database.csv_files import Reading
from duckanon.database.interrupts import interruptible, settle, within, wrote
from duckanon.errors import DuckanonError
from duckanon.policy.names import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Database = Annotated[Path | None, typer.Option("--database", "-d", help="DuckDB file; in memory without it")]
Names = Annotated[list[str] | None, typer.Option(metavar="COLUMN,...", help="columns; may be repeated")]
Numbers = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN=NUMBER,...", help="a number by column; may be repeated")
]
Words = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN=WORD,...", help="a word by column; may be repeated")
]
Trees = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=FILE,...", help="trees, columns from leaf to root; may be repeated"),
]
QuasiIdentifiers = Annotated[
    list[str] | None,
    typer.Option(
        "--qi", "--quasi-identifiers", metavar="COLUMN,...", help="quasi-identifiers; may be repeated"
    ),
]
K = Annotated[int | None, typer.Option("-k", help="smallest equivalence class")]
T = Annotated[
    list[str] | None,
    typer.Option(
        "-t", metavar="NUMBER|COLUMN=NUMBER,...", help="largest EMD; with columns it may be repeated"
    ),
]
L = Annotated[
    list[str] | None,
    typer.Option(
        "-l", metavar="NUMBER|COLUMN=NUMBER,...", help="least diversity; with columns it may be repeated"
    ),
]
Number = Annotated[str | None, typer.Option(metavar="NUMBER", help="a number")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="policy file (TOML), - for stdin; flags win over it")
]
LDiversity = Annotated[str | None, typer.Option(help="distinct, entropy or recursive")]
Table = Annotated[str, typer.Argument(help="file.csv, file.parquet or file.duckdb:table")]
Form = Annotated[str, typer.Option("--format", help="text or json")]
ShowEffect = Annotated[
    bool,
    typer.Option("--effect", help="show what a release changed: share of records, mean absolute change"),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="the .duckdb files are yours: let views in them run"),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="stop after so many, with exit code 2"),
]
DateFormat = Annotated[
    str | None,
    typer.Option("--dateformat", metavar="FORMAT", help="of dates in CSV files, as %d/%m/%Y for 31/12/2026"),
]
Nulls = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="TEXT", help="a text that means NULL in CSV files; may be repeated"),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of stdout")]


@dataclass(frozen=True)
class DocumentOptions:
    """Options of a command that reads files and writes a document, see `documenting`."""

    form: str  # of the document, text or json
    output: Path | None  # of the document; None is stdout
    reading: Reading  # of CSV files
    trust: bool  # whether views in a file may run


def timed(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the option --timeout, which limits reading, work and writing together."""

    def ended(*places: object, timeout: float | None = None, **given: object) -> int:
        with within(timeout):
            return command(*places, **given)

    return _with_options(command, ended, timeout=(Timeout, None))


def documenting(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of `DocumentOptions`, as its argument `asked`."""

    def documented(
        *, form: str, output: Path | None, dateformat: str | None, null: Sequence[str] | None, trust: bool,
        **given: object,
    ) -> int:  # fmt: skip
        asked = DocumentOptions(known_form(form), output, reading_of(dateformat, null), trust)
        return command(**given, asked=asked)

    return timed(
        _with_options(
            command,
            documented,
            form=(Form, "text"),
            output=(Output, None),
            dateformat=(DateFormat, None),
            null=(Nulls, None),
            trust=(Trust, False),
        )
    )


def _with_options(
    command: Callable[..., int], calling: Callable[..., int], **options: tuple[object, object]
) -> Callable[..., int]:
    """Function that typer reads as a command with additional options, each with type and default."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "asked"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    functools.update_wrapper(calling, command)
    calling.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    calling.__annotations__ = {}
    return calling


def reading_of(dateformat: str | None, null: Sequence[str] | None) -> Reading:
    """Options --dateformat and --null for the reading of CSV files."""
    return Reading(dateformat, tuple(null or ()))


def known_form(form: str, known: Sequence[str] = ("text", "json")) -> str:
    """Format of a document; a DuckanonError if the command does not know it."""
    if form not in known:
        hint = suggestion(form, known)
        choice = f"{', '.join(known[:-1])} or {known[-1]}"
        raise DuckanonError(f"unknown format {form!r}{hint or ':'} use {choice}")
    return form


def check_output(output: Path | None, *inputs: str | Path | None) -> None:
    """Raise, before long work, unless a document can be written to `output` (None: stdout)."""
    # The file may be no folder and no input file; inputs are named as in `hospital.duckdb:patients`.
    if output is None:
        return
    paths.check_local(output)
    for name in inputs:
        path = None if name is None else paths.split(str(name))[0]
        # The write-ahead log is a part of a database.
        for file in [] if path is None else [path, path.with_name(f"{path.name}.wal")]:
            if file.exists() and output.exists() and output.samefile(file):
                raise DuckanonError(f"-o {str(output)!r} is read by this command: give another file")
    folder = _target(output).parent
    if output.is_dir():
        raise DuckanonError(f"-o {str(output)!r} is a folder: give a file")
    if output.is_socket():
        raise DuckanonError(f"-o {str(output)!r} is a socket: give a file")
    if not folder.is_dir():
        raise DuckanonError(f"cannot write {str(output)!r}: the folder {str(folder)!r} does not exist")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise DuckanonError(f"cannot write {str(output)!r}: permission denied")


def deliver(text: str, output: Path | None) -> None:
    """Write a document and a newline to stdout, or to its file, which afterwards is complete or unchanged."""
    if output is None:
        line(text)
        return
    target = _target(output)
    try:
        if target.exists() and not target.is_file():
            # A pipe or a device is written to directly, since a rename would replace it.
            target.write_text(text + "\n", encoding="utf-8")
        else:
            _replace(target, text + "\n")
    except OSError as unwritten:
        raise DuckanonError(f"cannot write {str(output)!r}: {unwritten.strerror or unwritten}") from unwritten


def _target(output: Path) -> Path:
    """Return the file behind symbolic links, so that a rename replaces the file and not the link."""
    return Path(os.path.realpath(output))


@interruptible
def _replace(target: Path, text: str) -> None:
    """Write a draft in the same folder and rename it, so that the file is never half written."""
    with drafts.draft(target) as draft:
        draft.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, draft)
        settle()
        draft.replace(target)
        wrote()
