"""The command ``demo``: the main job on the bundled data."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from duckanon import progress
from duckanon.commands.options import PASSED
from duckanon.demo import run_demo


def demo(
    to: Annotated[str | None, typer.Option("--export", help="a new .duckdb file for the release")] = None,
) -> int:
    """Release 299,285 real persons, with k alone and with t-closeness, and audit both."""
    with progress.shown(sys.stderr):
        run_demo(to)
    return PASSED
