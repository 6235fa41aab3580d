"""Every ``tests/sql/**/*.test``, on duckdb in Python and in the stock command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slt import read_blocks, run_in_python, run_in_stock
from tests.sql.stock import stock_command

FILES = sorted(Path(__file__).parent.rglob("*.test"))


def test_there_are_files() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_in_python(path: Path) -> None:
    run_in_python(read_blocks(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_in_the_stock_command_line(path: Path) -> None:
    run_in_stock(read_blocks(path), stock_command())
