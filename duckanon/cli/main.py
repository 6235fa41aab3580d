"""The command line: its commands, errors and exit codes.

Exit codes: 0 all checks passed; 1 an audit found a violation; 2 an error (usage, policy, data, engine) or
Ctrl-C. Errors are one or two lines on stderr.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

import duckanon
from duckanon.cli.output import ERROR, PASSED, VIOLATION, complain, line, tell, warn
from duckanon.cli.parsing import BASH, Group, epilog, every_command, join_words
from duckanon.errors import AuditFailure, DuckanonError, DuckanonWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED_CODE = 130
"""Exit code of typer after Ctrl-C; no command of ours returns it."""


class _Commands(Group):
    """All commands."""

    def __init__(self, *, commands: object, **given: Any) -> None:
        del commands
        super().__init__(commands=every_command(), **given)


app = typer.Typer(
    name="duckanon",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=epilog("duckanon demo", "duckanon suggest patients.csv --format toml -o release.toml"),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        line(f"duckanon {duckanon.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Anonymize inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""
    # `main` reads the flag itself, since an error can happen before this function runs.
    del debug, version


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process, and exit with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _start_quickly()
    if os.environ.get(BASH[0]) == BASH[1]:
        join_words(os.environ)
    warnings.showwarning = _warn
    warnings.simplefilter("always", DuckanonWarning)
    try:
        code = _coded(given)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        # Nobody reads the output, as after `| head`. Python would flush once more, and exit with 120.
        code = ERROR
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    sys.exit(code)


def _coded(given: list[str]) -> int:
    """Run a command, print its error, and return its exit code."""
    try:
        code: int | None = app(given, standalone_mode=False, prog_name="duckanon")
    except SystemExit as left:
        # typer ends with 1 if nobody reads the output, and 1 means a violation; a completion ends with 0.
        code = ERROR if left.code else PASSED
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED_CODE
    except Exception as failure:  # noqa: BLE001 - unexpected errors are reported, too
        code = _failed(failure, debug="--debug" in given)
    if code == _INTERRUPTED_CODE:
        # Imported here: Ctrl-C may arrive during this import.
        from duckanon.database import interrupts

        written = interrupts.written()
        complain(f"interrupted: {'its file is written' if written else 'nothing was released'}")
        code = ERROR
    return code or PASSED


def _failed(failure: Exception, *, debug: bool) -> int:
    """Print an error on stderr in one or two lines, or with its traceback, and return the exit code."""
    # Imported here: a list of the commands needs no database.
    import duckdb

    from duckanon.database import engine

    code = ERROR
    if isinstance(failure, AuditFailure):
        complain(failure.report.to_text())
        code = VIOLATION
    elif not isinstance(failure, DuckanonError | duckdb.Error | typer.TyperException | OSError):
        # Python's own exit code would be 1, which means a violation.
        failure = _unexpected(failure)
    if debug and not isinstance(failure, typer.TyperException):
        traceback.print_exception(failure)
        return code
    shown = (
        failure.format_message() if isinstance(failure, typer.TyperException) else engine.described(failure)
    )
    tell("error", shown)
    return code


def _unexpected(failure: Exception) -> DuckanonError:
    described = DuckanonError(f"unexpected {type(failure).__name__}: {failure}; --debug shows where")
    described.__cause__ = failure
    return described


def _start_quickly() -> None:
    """Shorten the start of a process of ours by a quarter."""
    # The search for cycles after every 700 new objects finds none.
    gc.set_threshold(50_000, 50, 100)
    # numpy starts one thread a core for matrix products, which duckanon does not compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Where scipy is installed, numba loads it for matrix products, which no kernel computes.
    sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]  # None means: not installed


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    warn(str(message))
