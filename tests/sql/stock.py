"""Where the stock DuckDB command line is."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


def stock_command() -> Path:
    """Path of the stock ``duckdb``, or skip."""
    beside = Path(sys.executable).with_name("duckdb")
    found = str(beside) if beside.is_file() else shutil.which("duckdb")
    if found is None:
        pytest.skip("the stock command line is missing: pip install duckdb-cli")
    return Path(found)
