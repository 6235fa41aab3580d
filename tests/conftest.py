"""Settings that hold for every test."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
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


FIRST = (
    "tests/e2e/release/test_properties.py",
    "tests/literature/test_every_method.py",
    "tests/sql/test_templates.py",
    "tests/engines/test_postgres.py",
    "tests/engines/test_portable.py",
    "tests/statements/test_statements.py",
    "tests/e2e/command_line/test_readme.py",
)
"""On an empty cache the first two compile the kernels, of releases and of the published methods: two workers
share them out and compile none twice. The next need none. The demo is long, and would leave a worker idle at the
end."""


MINUTES, ORDER = os.environ.get("DUCKANON_TESTS_MINUTES"), os.environ.get("DUCKANON_TESTS_ORDER", "")
"""Where minutes are given, tests come in a random order, the same for the same text, and those that have not
begun when they are over are skipped: so a run that has little time tries other long cases for each commit."""

STARTED = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what comes too late."""
    if MINUTES and time.monotonic() - STARTED > 60 * float(MINUTES):
        pytest.skip(f"the {MINUTES} minutes of DUCKANON_TESTS_MINUTES are over: make test-long runs all")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files in the order in which workers take them: those above, then those with the most tests.

    All cases but the first of a test that is `sampled` are slow.
    """
    begun: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("sampled") and name in begun:
            item.add_marker(pytest.mark.slow)
        begun.add(name)
    if MINUTES:
        items.sort(key=lambda item: item.nodeid)
        random.Random(ORDER).shuffle(items)
        return
    files = [item.location[0] for item in items]
    places = {name: place for place, name in enumerate(FIRST)}
    numbers = Counter(files)
    items.sort(key=lambda item: (places.get(item.location[0], len(FIRST)), -numbers[item.location[0]]))


@pytest.fixture
def fresh_db() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give an empty in-memory database, closed at the end."""
    with duckdb.connect() as connection:
        yield connection
