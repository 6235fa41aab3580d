"""Ctrl-C at every line of the code that deals with it: what was there before is there afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.database import interrupts
from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LINES = 150
"""More lines than a call goes through."""


@contextlib.contextmanager
def pressed(at: int) -> Iterator[list[int]]:
    """Press Ctrl-C at that line of interrupts.py, counted as they are gone through; give how many there were."""
    count = [0]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != interrupts.__file__:
            return None
        if event == "line":
            count[0] += 1
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("first", [False, True])
def test_ctrl_c_at_every_line_leaves_the_handler_that_was_there(first: bool) -> None:
    """Where a Ctrl-C has come before, a second one arrives at each line: it ended in a TypeError of our own."""
    begun: list[int] = []
    undone: list[int] = []

    @interrupts.interruptible
    def work() -> str:
        with interrupts.cleanup(None, lambda: undone.append(1)):
            begun.append(1)
            if first:
                os.kill(os.getpid(), signal.SIGINT)
            return "done"

    before = signal.getsignal(signal.SIGINT)
    ended = set()
    for at in range(1, LINES):
        begun.clear()
        undone.clear()
        with pressed(at) as count:
            try:
                ended.add(work())
            except KeyboardInterrupt:
                ended.add("interrupted")
        assert signal.getsignal(signal.SIGINT) is before, at
        assert len(begun) <= len(undone) <= 1, at
        assert (interrupts._state.depth, interrupts._state.entries) == (0, []), at
        # Ctrl-C stops the next call as well.
        with pytest.raises(KeyboardInterrupt):
            interrupts.interruptible(lambda: os.kill(os.getpid(), signal.SIGINT))()
    assert count[0] < LINES
    assert ended == ({"interrupted"} if first else {"interrupted", "done"})


class Struck:
    """A table in memory during whose introduction to DuckDB Ctrl-C comes."""

    def __init__(self) -> None:
        self.table = pa.table({"a": [1]})

    def __arrow_c_stream__(self, requested: object = None) -> object:
        """Give the rows."""
        return self.table.__arrow_c_stream__(requested)

    def __arrow_c_schema__(self) -> object:
        """Give the schema, after a signal."""
        os.kill(os.getpid(), signal.SIGINT)
        return self.table.schema.__arrow_c_schema__()


def test_ctrl_c_while_duckdb_asks_python_is_no_error_of_duckdb() -> None:
    """Who handles it within the call sees KeyboardInterrupt, and not what DuckDB makes of it."""
    seen: list[type[BaseException]] = []

    @interrupts.interruptible
    def read(con: duckdb.DuckDBPyConnection) -> None:
        try:
            with interrupts.running(con):
                con.register("struck", Struck())
                con.execute("FROM struck")
        except BaseException as failure:
            seen.append(type(failure))
            raise

    with duckdb.connect() as con, pytest.raises(KeyboardInterrupt):
        read(con)
    assert seen == [KeyboardInterrupt]


def test_what_a_clean_up_says_does_not_hide_why_it_was_due(caplog: pytest.LogCaptureFixture) -> None:
    """An engine that an error has ended refuses the clean-up, too: the user is told of the first error."""

    def refuse() -> None:
        raise duckdb.FatalException("database has been invalidated")

    with pytest.raises(ValueError, match="the cause"), interrupts.cleanup(None, refuse):
        raise ValueError("the cause")
    assert "a clean-up failed, so close the connection: database has been invalidated" in caplog.text
    with pytest.raises(duckdb.FatalException, match="invalidated"), interrupts.cleanup(None, refuse):
        pass


@interrupts.interruptible
def cleaned_in_vain(tries: list[int]) -> None:
    """Raise, with a clean-up that fails the first time."""

    def refuse_once() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise duckdb.FatalException("not now")

    with interrupts.cleanup(None, refuse_once):
        raise ValueError("the cause")


def test_a_clean_up_that_failed_is_done_at_the_end_of_the_call() -> None:
    tries: list[int] = []
    with pytest.raises(ValueError, match="the cause"):
        cleaned_in_vain(tries)
    assert tries == [1, 1]


def test_without_a_timer_a_timeout_is_an_error_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, which has no SIGALRM."""
    monkeypatch.delattr(signal, "SIGALRM")
    with pytest.raises(DuckanonError, match="--timeout does not work on Windows"), interrupts.within(5):
        raise AssertionError("the work began")
    with interrupts.within(None):
        pass
