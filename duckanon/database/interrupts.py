"""Ctrl-C, and --timeout: both stop the running query, and leave nothing on the connection.

Python runs the handler of SIGINT between any two of its instructions, so an exception may come from anywhere:
behind a BEGIN that nobody has noted yet, or in the middle of a clean-up. Three rules make that harmless:

- what has to be undone is put down before it is done (`cleanup`, `undo`), and what a clean-up did not reach
  is done when the call that the user made ends (`interruptible`);
- Ctrl-C raises once; while something is cleaned up, or is as good as done (`settle`), it waits;
- before anything is cleaned up, Arrow readers that still own the connection are closed (`reading`).

Another thread may call ``con.interrupt()``: the same clean-up follows. Only the main thread gets signals.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import duckdb

from duckanon.database import templates
from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

    import pyarrow as pa

Given = ParamSpec("Given")
Result = TypeVar("Result")

BATCH_ROWS = 131_072
"""Most rows of a record batch that is read from DuckDB."""

CLEAN_UP_SECONDS = 10.0
"""Seconds for which a clean-up is tried again that another thread interrupts again and again."""

TIME_IS_OVER = "stopped after --timeout: nothing was written"
"""What is said when the time is over."""

OVER_AFTER_WRITING = "stopped after --timeout, when its file was written: what it prints is cut off"
"""What is said when the time is over behind the rename of a file."""

TIMEOUT_MAX_SECONDS = 1e8
"""Most seconds of a timeout."""

GRACE_SECONDS = 1.5
"""Seconds for which a clean end is waited for when the time is over."""

STOPPED_EXIT_CODE = 2
"""Exit code of a process that is ended because it does not end itself."""

RINGS_AGAIN_SECONDS = 1.0
"""Seconds after which the clock rings again: Python drops what a signal raises inside a callback."""

DONE_NOTE = "Ctrl-C came when the statement was as good as done: it was done"
"""Note on a KeyboardInterrupt that stopped nothing."""

logger = logging.getLogger("duckanon")

_INTERRUPTED = re.compile(r"INTERRUPT|^Query interrupted$")
_ABORTED = "transaction is aborted"


@dataclass(eq=False)
class _Entry:
    """Something to undo on a connection, or without one."""

    con: duckdb.DuckDBPyConnection | None
    action: Callable[[], object]


@dataclass
class _State(threading.local):
    """What goes on in a thread; `readers` are the open Arrow readers with their connections."""

    depth: int = 0  # calls of `interruptible` functions within each other
    entries: list[_Entry] = field(default_factory=list)  # what has to be undone, in the order it was done
    readers: list[tuple[duckdb.DuckDBPyConnection, pa.RecordBatchReader]] = field(default_factory=list)
    running: list[duckdb.DuckDBPyConnection] = field(default_factory=list)  # connections that work for us
    cleaning: int = 0  # more than 0 while Ctrl-C waits for the end of a clean-up
    settled: bool = False  # Ctrl-C waits for the end of the statement
    written: bool = False  # a file is written, in the call or the last one
    waiting: bool = False  # one is waiting
    raised: BaseException | None = None  # what the first Ctrl-C raised; later ones change nothing
    handler: Any = None  # of SIGINT before ours


_state = _State()


def interruptible(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let Ctrl-C end a function in KeyboardInterrupt, after everything it left open was cleaned up.

    For the functions that users call; they may call each other. A handler of SIGINT that the user has
    installed is asked first: where it does not raise, the work goes on. A transaction of the user that an
    error has aborted is rolled back, and the connection is left in another one that is aborted, too: DuckDB
    lets nobody drop a table or restore a setting in an aborted transaction.
    """

    @functools.wraps(function)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result:
        state, depth, mark = _state, _state.depth, len(_state.entries)
        settled, cleaning, done = state.settled, state.cleaning, False
        try:
            try:
                state.depth = depth + 1
                if depth == 0:
                    _listen(state)
                _deliver(state)
                result = function(*given, **named)
                if state.raised is not None:
                    # Python drops an exception that comes in a destructor.
                    raise state.raised
                done = True
                return result
            finally:
                # From here on a Ctrl-C waits: this line ran, or Ctrl-C has raised just before it.
                state.cleaning = cleaning + 1
        except Exception as failure:
            if state.raised is not None:
                # DuckDB makes an error of its own of what the handler raises while a query runs.
                raise state.raised from failure
            raise
        finally:
            try:
                _undo_all(state, mark)
            finally:
                state.depth, state.settled = depth, settled
                if depth == 0:
                    _leave(state, done=done)
                else:
                    state.cleaning = cleaning

    return guarded


@contextlib.contextmanager
def within(timeout: float | None) -> Iterator[None]:
    """Stop what goes on when its time, in seconds, is over, in the way of Ctrl-C; None is no limit.

    A DuckanonError then; also where this system has no clock that interrupts. For the command line: where
    nothing looks at the clock, as while DuckDB plans a statement, the process ends `GRACE_SECONDS` later.
    """
    if timeout is None:
        yield
        return
    if not hasattr(signal, "SIGALRM") or not 0 < timeout < TIMEOUT_MAX_SECONDS:
        raise DuckanonError(f"--timeout takes a number of seconds, not {timeout}; on Windows there is none")
    state, over = _state, False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal over
        del number, frame
        if not (state.cleaning or state.settled or state.raised is not None):
            over, state.raised = True, KeyboardInterrupt()
            for con in state.running:
                con.interrupt()
            raise state.raised

    ended = threading.Event()
    threading.Thread(
        target=_at_the_latest, args=(vars(state), ended, timeout + GRACE_SECONDS), daemon=True
    ).start()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout, RINGS_AGAIN_SECONDS)
        yield
    except (Exception, KeyboardInterrupt) as failure:
        if not over:
            raise
        state.raised = None
        raise DuckanonError(OVER_AFTER_WRITING if state.written else TIME_IS_OVER) from failure
    finally:
        ended.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if over:
        # Python drops an exception that comes in a destructor.
        state.raised = None
        raise DuckanonError(OVER_AFTER_WRITING if state.written else TIME_IS_OVER)


def _at_the_latest(state: dict[str, Any], ended: threading.Event, seconds: float) -> None:
    """End the process after some seconds, unless the work has ended, or is as good as done.

    `state` is that of the thread that works. Databases in memory need no end; files that were begun do.
    """
    if ended.wait(seconds):
        return
    while state["settled"]:
        if ended.wait(RINGS_AGAIN_SECONDS / 10):
            return
    for entry in reversed(state["entries"][:]):
        if entry.con is None:
            with contextlib.suppress(OSError):
                entry.action()
    _forget_spilled()
    # A terminal that shows progress hides its cursor.
    shown = "\n\x1b[?25h" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{shown}error: {OVER_AFTER_WRITING if state['written'] else TIME_IS_OVER}\n")
    sys.stderr.flush()
    os._exit(STOPPED_EXIT_CODE)


def _forget_spilled() -> None:
    """Remove the files into which DuckDB spills in this process; only Linux tells which they are."""
    for opened in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            file = opened.readlink()
            if file.name.startswith("duckdb_temp_"):
                file.unlink()
                file.parent.rmdir()


@contextlib.contextmanager
def watching(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Stop what runs on a connection when Ctrl-C arrives.

    DuckDB alone looks for signals in the thread that asked, then waits for tasks of its other threads, which
    nobody told: a query over one long range runs to its end.
    """
    state = _state
    if state.raised is not None and not state.cleaning:
        # It was dropped, as Python does in a destructor.
        raise state.raised
    state.running.append(con)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            state.running.remove(con)


@contextlib.contextmanager
def running(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run a query of ours, and turn all that DuckDB makes of an interrupt into KeyboardInterrupt.

    An interrupt is Ctrl-C, or a call of another thread.
    """
    with watching(con):
        before = _state.raised
        try:
            yield
        except Exception as failure:
            # From DuckDB, from Arrow, which reads from DuckDB, or from DuckDB that saw the signal itself.
            told = isinstance(failure, duckdb.InterruptException) or (
                isinstance(failure, OSError | RuntimeError) and _INTERRUPTED.search(str(failure))
            )
            # Where it called Python, as for the schema of a table in memory, any error of its own may be one.
            if told or _state.raised is not before:
                raise _state.raised or KeyboardInterrupt from failure
            raise


@contextlib.contextmanager
def reading(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Read the rows of a query through Arrow, in batches of at most `BATCH_ROWS` rows.

    The connection belongs to the reader until that is closed, at the end of the block at the latest.
    """
    state = _state
    with running(con):
        # In one line: a reader that is only in a local variable would live as long as a traceback.
        state.readers.append((con, con.sql(sql).to_arrow_reader(BATCH_ROWS)))
        reader = state.readers[-1][1]
        try:
            yield reader
        finally:
            _close(state, reader)


class cleanup:  # noqa: N801 - used like a function, as contextlib's are
    """Do something at the end of a block, whatever ends it and whenever Ctrl-C comes.

    It may be done when what it undoes has not happened yet. Open readers of the connection are closed before,
    and an aborted transaction makes it wait for the end of the user's call. A class and not a generator:
    Ctrl-C between the call of ``__exit__`` and its first line leaves the entry on the list, and
    `interruptible` does it.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection | None, action: Callable[[], object]) -> None:
        self._entry = _Entry(con, action)

    def __enter__(self) -> None:
        _state.entries.append(self._entry)

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entry in _state.entries:
            try:
                _clean(_state, self._entry)
            except Exception as left:
                if failure is None:
                    raise
                # Of any kind, for an action may be any. The first error is the cause: an engine that it has
                # ended cannot clean up either.
                if _state.depth == 0:
                    _state.entries.remove(self._entry)
                logger.warning("a clean-up failed, so close the connection: %s", left)
            _deliver(_state)


class undo(cleanup):  # noqa: N801
    """Do something at the end of a block that an exception ends."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._entry in _state.entries:
            _state.entries.remove(self._entry)
        else:
            super().__exit__(kind, failure, trace)


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Let Ctrl-C wait until the end of a block that takes a moment and must not be cut."""
    _state.cleaning += 1
    try:
        yield
    finally:
        _state.cleaning -= 1
    _deliver(_state)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, in an `interruptible` function, do what Ctrl-C does; also where that is ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    state = _state
    state.handler = state.handler or signal.default_int_handler
    before = signal.signal(signal.SIGTERM, _arrived)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def settle() -> None:
    """Let Ctrl-C wait until the statement has ended: what comes now is a COMMIT or a rename.

    A KeyboardInterrupt where one has come before; nothing is committed then.
    """
    _deliver(_state)
    _state.settled = _state.depth > 0


def wrote() -> None:
    """Note that the file that was asked for is written: what ends the call from now on says so."""
    _state.written = True


def written() -> bool:
    """Tell whether the last call of an `interruptible` function wrote the file that was asked for."""
    return _state.written


def abort(con: duckdb.DuckDBPyConnection) -> None:
    """Make it impossible to commit the open transaction."""
    try:
        con.execute(templates.render("catalog/databases.sql.j2:abort"))
    except duckdb.InterruptException:
        raise
    except duckdb.Error as intended:
        logger.debug("%s", intended)


def _listen(state: _State) -> None:
    """Put our handler of SIGINT in place; not in a thread without signals, nor where SIGINT is ignored."""
    state.raised, state.waiting, state.handler, state.cleaning = None, False, None, 0
    state.written = False
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        return
    state.handler = before
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, _arrived)


def _leave(state: _State, *, done: bool) -> None:
    """Put the handler of SIGINT back that was there, and give it a Ctrl-C that has waited.

    Until it is back Ctrl-C waits: raised here, it would leave ours in place.
    """
    state.readers.clear()
    state.running.clear()
    before = state.handler
    if before is not None and signal.getsignal(signal.SIGINT) is _arrived:
        signal.signal(signal.SIGINT, before)
    late = state.waiting and state.raised is None
    state.handler, state.raised, state.cleaning = None, None, 0
    if late and before is not None:
        try:
            before(signal.SIGINT, None)
        except KeyboardInterrupt as interrupt:
            if done:
                interrupt.add_note(DONE_NOTE)
            raise


def _arrived(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: ask the handler of the user, and stop what runs where that raises."""
    state = _state
    if state.cleaning or state.settled or state.raised is not None:
        state.waiting = True
        return
    try:
        state.handler(number, frame)
    except BaseException as interrupt:
        state.raised = interrupt
        for con in state.running:
            con.interrupt()
        raise


def _deliver(state: _State) -> None:
    """Raise for a Ctrl-C that has waited, if it need not wait any longer."""
    if state.waiting and not state.cleaning and not state.settled:
        state.waiting = False
        if state.raised is None:
            _arrived(signal.SIGINT, None)


def _clean(state: _State, entry: _Entry) -> None:
    """Do what an entry says; one that an aborted transaction does not allow stays for the end of the call."""
    state.cleaning += 1
    try:
        if entry.con is not None:
            _close(state, of=entry.con)
        if _possible(entry) or state.depth == 0:
            state.entries.remove(entry)
    finally:
        state.cleaning -= 1


def _undo_all(state: _State, mark: int) -> None:
    """Do what clean-ups did not reach, the latest first, also in a transaction that an error has aborted."""
    left = state.entries[mark:]
    for con, _ in state.readers[:]:
        if state.depth == 1 or any(entry.con is con for entry in left):
            _close(state, of=con)
    aborted: list[duckdb.DuckDBPyConnection] = []
    for entry in reversed(left):
        try:
            if not _possible(entry) and entry.con is not None:
                entry.con.rollback()
                aborted.append(entry.con)
                _possible(entry)
        except (Exception, KeyboardInterrupt) as failure:  # noqa: BLE001 - the others have to be done, too
            logger.warning("a clean-up failed, so close the connection: %s", failure)
    del state.entries[mark:]
    for con in aborted:
        con.begin()
        abort(con)


def _possible(entry: _Entry) -> bool:
    """Do what an entry says; tell whether that was possible, which it is not in an aborted transaction."""
    until = time.monotonic() + CLEAN_UP_SECONDS
    while True:
        try:
            entry.action()
        except (duckdb.InterruptException, KeyboardInterrupt):
            # Another thread interrupts the connection: Ctrl-C itself waits.
            if time.monotonic() < until:
                continue
            raise
        except Exception as failure:
            if any(_ABORTED in str(cause) for cause in (failure, failure.__cause__)):
                return False
            raise
        return True


def _close(
    state: _State, reader: pa.RecordBatchReader | None = None, *, of: duckdb.DuckDBPyConnection | None = None
) -> None:
    """Close a reader, or all readers of a connection."""
    for entry in state.readers[:]:
        if entry[1] is reader or entry[0] is of:
            entry[1].close()
            state.readers.remove(entry)
