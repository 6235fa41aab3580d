"""Ctrl-C on the command line, and --timeout: both stop the running query, too."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import duckdb

_LONGEST = 1e8
_AGAIN = 10.0
"""Seconds."""


@contextlib.contextmanager
def stopping(con: duckdb.DuckDBPyConnection, timeout: float | None = None) -> Iterator[None]:
    """Let Ctrl-C stop what runs on a connection and end in KeyboardInterrupt; so may the clock.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection on which the work is done.
    timeout : float, optional
        Seconds that the work may take.

    Yields
    ------
    None
        While the work goes on.

    Raises
    ------
    KeyboardInterrupt
        SIGINT arrived, whatever error it surfaced as.
    DuckanonError
        The time is over, or this system has no clock that interrupts.

    Notes
    -----
    DuckDB alone looks for signals in the thread that asked, then waits for tasks of its other threads, which
    nobody told: a query over one long range runs to its end. It reports the signal as RuntimeError. The clock
    is a signal, too, so that it stops what Ctrl-C stops: queries and our own loops.
    """
    clock = getattr(signal, "SIGALRM", None)
    if timeout is not None and (clock is None or not 0 < timeout < _LONGEST):
        raise DuckanonError(f"--timeout takes a number of seconds, not {timeout}; on Windows there is none")
    if threading.current_thread() is not threading.main_thread():
        # Python gives signals to the main thread only.
        yield
        return
    arrived = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        del frame
        arrived = number
        con.interrupt()
        raise KeyboardInterrupt

    numbers = [signal.SIGINT] if clock is None else [signal.SIGINT, clock]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        if timeout is not None:
            # Python drops an exception that a signal raises inside a callback, so the clock rings again.
            signal.setitimer(signal.ITIMER_REAL, timeout, _AGAIN)
        yield
    except (Exception, KeyboardInterrupt) as failure:
        if arrived is not None and arrived == clock:
            raise DuckanonError("stopped after --timeout: nothing was written") from failure
        if arrived:
            raise KeyboardInterrupt from failure
        raise
    finally:
        if timeout is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
