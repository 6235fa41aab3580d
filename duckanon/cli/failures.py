"""Messages and exit codes of errors."""

from __future__ import annotations

import traceback

import duckdb
import typer

from duckanon.cli.codes import ERROR, VIOLATION
from duckanon.cli.output import complain, tell
from duckanon.database import engine
from duckanon.errors import AuditFailure, DuckanonError


def failed(failure: Exception, *, debug: bool) -> int:
    """Print an error on stderr in one or two lines, or with its traceback, and return the exit code."""
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
