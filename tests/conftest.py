"""Settings that hold for every test."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import settings

from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile(
    "default", max_examples=examples(100), deadline=None, derandomize=True, print_blob=True
)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores Ctrl-C for what it starts in the background, and tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fresh_db() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give an empty in-memory database, closed at the end."""
    with duckdb.connect() as connection:
        yield connection
