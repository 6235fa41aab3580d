"""Output of the command line, rows on stdout, warnings and errors on stderr; and the exit codes."""

from __future__ import annotations

import contextlib
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from duckanon.audits.legible import legible, legible_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PASSED, VIOLATION, ERROR = 0, 1, 2
"""Exit codes: all checks passed; an audit found a violation; an error."""


class Voice(NamedTuple):
    """How a command speaks: whether of errors alone, and in which words its warnings stand."""

    quiet: bool = False
    words: Callable[[str], str] = str


_USUAL_VOICE = Voice()
_voice: ContextVar[Voice] = ContextVar("duckanon_voice", default=_USUAL_VOICE)


@contextlib.contextmanager
def speaking(voice: Voice) -> Iterator[None]:
    """Speak in this way during a block."""
    before = _voice.set(voice)
    try:
        yield
    finally:
        _voice.reset(before)


def line(text: str) -> None:
    """Print lines to stdout, with terminal control characters escaped; nothing under --quiet."""
    if not _voice.get().quiet:
        sys.stdout.write(legible_lines(text) + "\n")


def complain(text: str) -> None:
    """Print lines to stderr, with terminal control characters escaped."""
    sys.stderr.write(legible_lines(text) + "\n")


def note(text: str) -> None:
    """Print lines beside a result to stderr; nothing under --quiet."""
    if not _voice.get().quiet:
        complain(text)


def warn(text: str) -> None:
    """Print a warning in the words of the command line; nothing under --quiet."""
    if not _voice.get().quiet:
        tell("warning", _voice.get().words(text))


def tell(kind: str, text: str) -> None:
    """Print an error or a warning to stderr on one line, even if a name in it has a line break."""
    sys.stderr.write(f"{kind}: {legible(text)}\n")
