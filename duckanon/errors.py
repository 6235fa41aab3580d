"""Errors of duckanon.

::

    DuckanonError
    ├── PolicyError (also a ValueError)   the policy is wrong: option, role, threshold, type
    ├── SourceError                       the source query or table cannot be read or used
    ├── InfeasibleError                   no release can reach the thresholds; carries .best
    ├── AuditFailure                      an audited relation violates its policy; carries .report
    ├── StatementError                    the statement cannot be read; carries .line and .column
    ├── ReleaseError                      the release cannot be written, found, exported or dropped
    └── MissingExtra (also an ImportError)  an optional package is not installed

    DuckanonWarning (a UserWarning)       a note on a valid release for its owner

Every message says in one or two lines what is wrong, where, and what to do. An error of the engine keeps the
original exception as ``__cause__``, the statement as ``.sql`` and the stage as ``.stage``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from duckanon.audits.report import Report


SOURCE_QUERY = "the source query"
"""Name of the text in a `Place` that is counted from the begin of the source query of CREATE."""


class Place(NamedTuple):
    """Place of an error in a text."""

    line: int  # counted from 1
    column: int | None = None  # counted from 1; None if unknown
    of: str | None = None  # name of a file, or `SOURCE_QUERY`; None for the script

    def __str__(self) -> str:
        """Return the place as text for the end of an error."""
        column = "" if self.column is None else f", column {self.column}"
        return f"line {self.line}{column}" + ("" if self.of is None else f" of {self.of}")


class DuckanonError(Exception):
    """Base of all errors that duckanon raises on purpose.

    Attributes
    ----------
    sql : str or None
        Statement that the engine refused, if an error of the engine is the cause.
    stage : str or None
        Stage of the pipeline with the error.
    places : tuple of Place
        Known places in the script, which end the message.
    """

    sql: str | None = None
    stage: str | None = None
    places: tuple[Place, ...] = ()

    def at(self, line: int, column: int | None = None, of: str | None = None) -> Self:
        """Add a place, and return the error."""
        self.places = (*self.places, Place(line, column, of))
        return self

    def __str__(self) -> str:
        """Return the message and its places."""
        return super().__str__() + "".join(f" ({place})" for place in self.places)


class PolicyError(DuckanonError, ValueError):
    """The policy is wrong: an unknown option or column, a role conflict, a threshold out of range."""


class SourceError(DuckanonError):
    """The source query or table cannot be read, is empty or holds values that cannot be anonymized."""


class InfeasibleError(DuckanonError):
    """No release can reach the thresholds.

    Parameters
    ----------
    message : str
        The threshold that is out of reach, and a threshold that can be reached.
    best : float
        The best value that can be reached.
    """

    def __init__(self, message: str, best: float) -> None:
        super().__init__(message)
        self.best = best


class AuditFailure(DuckanonError):  # noqa: N818 - the name is part of the public contract
    """An audited relation violates its policy.

    Parameters
    ----------
    message : str
        The violated measure and the number of violating classes.
    report : Report
        The full audit.
    """

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class StatementError(DuckanonError):
    """A statement cannot be read.

    Parameters
    ----------
    message : str
        What is wrong.
    line, column : int
        Place in the script, both counted from 1.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.at(line, column)


class ReleaseError(DuckanonError):
    """A release cannot be written, found, exported or dropped."""


class MissingExtra(DuckanonError, ImportError):  # noqa: N818 - the name is part of the public contract
    """An optional package is not installed."""


class DuckanonWarning(UserWarning):
    """A note on a valid release for its owner."""


def tell(text: str) -> None:
    """Warn the owner of a release, at the line of the user's program that called duckanon."""
    level, frame, user = 2, sys._getframe(1), user_frame(sys._getframe(1))
    while frame is not user and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DuckanonWarning, stacklevel=level)


def user_frame(frame: FrameType) -> FrameType:
    """Nearest frame of the user's program above a frame of duckanon."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_between()):
        frame = frame.f_back
    return frame


def _folder(module: ModuleType) -> str:
    return os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep


@functools.cache
def _between() -> tuple[str, ...]:
    """Files and folders whose frames may lie between the user's line and the warning."""
    # Imported here: this module loads without the database, which makes `duckanon --help` three times as
    # fast.
    import duckdb

    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    return own, _folder(duckdb), *(os.path.abspath(str(one.__file__)) for one in (contextlib, functools))
