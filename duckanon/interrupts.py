"""Ctrl-C on the command line: it stops the running query, too."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import duckdb


@contextlib.contextmanager
def stopping(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C stop what runs on a connection and end in KeyboardInterrupt.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection on which the work is done.

    Yields
    ------
    None
        While the work goes on.

    Raises
    ------
    KeyboardInterrupt
        SIGINT arrived, whatever error it surfaced as.

    Notes
    -----
    DuckDB alone looks for signals in the thread that asked, then waits for tasks of its other threads, which
    nobody told: a query over one long range runs to its end. It reports the signal as RuntimeError.
    """
    if threading.current_thread() is not threading.main_thread():
        # Python gives signals to the main thread only.
        yield
        return
    arrived = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        del number, frame
        arrived = True
        con.interrupt()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception as failure:
        if arrived:
            raise KeyboardInterrupt from failure
        raise
    finally:
        signal.signal(signal.SIGINT, before)
