"""What the command line prints: rows on stdout, warnings and errors on stderr."""

from __future__ import annotations

import sys

from duckanon.audits.legible import legible


def line(text: str) -> None:
    """Print to stdout."""
    sys.stdout.write(text + "\n")


def complain(text: str) -> None:
    """Print lines to stderr, none of which a name or value in it can turn into something else."""
    sys.stderr.write("\n".join(map(legible, text.split("\n"))) + "\n")
