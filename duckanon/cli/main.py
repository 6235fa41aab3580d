"""The command line: the commands of `duckanon.cli`, their errors and exit codes.

Exit codes: 0 done and every check passed; 1 an audit found a violation; 2 an error (usage, policy, data,
engine) or Ctrl-C. Errors are one or two lines on stderr.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, TextIO

import duckdb
import typer

from duckanon import __version__
from duckanon.cli.anonymize import anonymize
from duckanon.cli.audit import audit
from duckanon.cli.compare import compare
from duckanon.cli.compare_releases import compare_releases
from duckanon.cli.demo import demo
from duckanon.cli.linkage import linkage
from duckanon.cli.methods import methods
from duckanon.cli.options import ERROR, PASSED, VIOLATION
from duckanon.cli.output import complain, line
from duckanon.cli.parsing import Command, Group
from duckanon.cli.run import run
from duckanon.cli.sql import sql
from duckanon.cli.stream import stream
from duckanon.cli.suggest import suggest
from duckanon.cli.verify import verify
from duckanon.database import engine
from duckanon.database.interrupts import interruptible
from duckanon.errors import AuditFailure, DuckanonError, DuckanonWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INTERRUPTED = 130
"""What typer makes of Ctrl-C in a command; no command of ours returns it."""

app = typer.Typer(
    name="duckanon",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        line(f"duckanon {__version__}")
        raise typer.Exit


@app.callback()
def duckanon(
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Anonymize inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""
    # `main` looks at the flag itself, since an error can happen before this runs.
    del debug, version


# A script is interrupted statement by statement, so that it can tell which.
# A stream tells itself how far it came, so it takes Ctrl-C before it comes here.
_SCRIPTS: tuple[Callable[..., int], ...] = (run, sql, stream)
_OTHERS: tuple[Callable[..., int], ...] = (
    demo, anonymize, audit, verify, compare, compare_releases, linkage, suggest, methods,
)  # fmt: skip
for _command in (*_SCRIPTS, *map(interruptible, _OTHERS)):
    app.command(cls=Command)(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, with the arguments of the process by default, and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _warn
    warnings.simplefilter("always", DuckanonWarning)
    try:
        code = app(given, standalone_mode=False, prog_name="duckanon")
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except AuditFailure as failure:
        complain(failure.report.to_text())
        code = _failed(failure, given, VIOLATION)
    except (DuckanonError, duckdb.Error, typer.TyperException, OSError) as failure:
        code = _failed(failure, given, ERROR)
    except Exception as failure:  # noqa: BLE001 - Python would leave with 1, which means a violation
        code = _failed(_unexpected(failure), given, ERROR)
    if code == _INTERRUPTED:
        complain("interrupted: nothing was released")
        code = ERROR
    sys.exit(code or PASSED)


def _failed(failure: Exception, arguments: Sequence[str], code: int) -> int:
    if "--debug" in arguments and not isinstance(failure, typer.TyperException):
        traceback.print_exception(failure)
        return code
    shown = (
        failure.format_message() if isinstance(failure, typer.TyperException) else engine.described(failure)
    )
    complain(f"error: {shown}")
    return code


def _unexpected(failure: Exception) -> DuckanonError:
    described = DuckanonError(f"unexpected {type(failure).__name__}: {failure}; --debug shows where")
    described.__cause__ = failure
    return described


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    complain(f"warning: {message}")
