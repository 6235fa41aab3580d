"""What the command line prints: rows on stdout, warnings and errors on stderr."""

from __future__ import annotations

import sys

from duckanon.audits.legible import legible, legible_lines


def line(text: str) -> None:
    """Print lines to stdout; characters in them that a terminal would act on are escaped."""
    sys.stdout.write(legible_lines(text) + "\n")


def complain(text: str) -> None:
    """Print lines to stderr; characters in them that a terminal would act on are escaped."""
    sys.stderr.write(legible_lines(text) + "\n")


def tell(kind: str, text: str) -> None:
    """Print an error or a warning to stderr on one line, which a name in it cannot break."""
    sys.stderr.write(f"{kind}: {legible(text)}\n")
