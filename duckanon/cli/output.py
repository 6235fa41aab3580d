"""Output of the command line, rows on stdout, warnings and errors on stderr; and the exit codes."""

from __future__ import annotations

import sys

from duckanon.audits.legible import legible, legible_lines

PASSED, VIOLATION, ERROR = 0, 1, 2
"""Exit codes: all checks passed; an audit found a violation; an error."""


def line(text: str) -> None:
    """Print lines to stdout, with terminal control characters escaped."""
    sys.stdout.write(legible_lines(text) + "\n")


def complain(text: str) -> None:
    """Print lines to stderr, with terminal control characters escaped."""
    sys.stderr.write(legible_lines(text) + "\n")


def tell(kind: str, text: str) -> None:
    """Print an error or a warning to stderr on one line, even if a name in it has a line break."""
    sys.stderr.write(f"{kind}: {legible(text)}\n")
