"""Ctrl-C and --timeout: both stop the running query and leave nothing on the connection.

Python runs the handler of SIGINT between any two instructions. So an exception may come right after a BEGIN,
or in the middle of a clean-up. Three rules make this harmless:

- Every undo action is recorded before the action it undoes (`cleanup`, `undo`). At the end of the user's call
  all missed actions are run (`interruptible`).
- Ctrl-C raises once. During a clean-up, or when the work is as good as done (`settle`), Ctrl-C waits.
- Before any clean-up, Arrow readers that still own the connection are closed (`reading`).

After ``con.interrupt()`` from another thread the same clean-up follows. Only the main thread gets signals.
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
"""Seconds for which a clean-up is repeated if another thread keeps interrupting it."""

TIME_IS_OVER = "stopped after --timeout: nothing was written"
"""Message after a timeout."""

OVER_AFTER_WRITING = "stopped after --timeout, when its file was written: what it prints is cut off"
"""Message after a timeout that came after the rename of the file."""

TIMEOUT_MAX_SECONDS = 1e8
"""Most seconds of a timeout."""

GRACE_SECONDS = 1.5
"""Seconds after a timeout before the process is ended."""

STOPPED_EXIT_CODE = 2
"""Exit code of a process that had to be ended."""

RINGS_AGAIN_SECONDS = 1.0
"""Seconds between repeated timer signals: Python drops an exception of a signal inside a callback."""

DONE_NOTE = "Ctrl-C came when the statement was as good as done: it was done"
"""Note on a KeyboardInterrupt that stopped nothing."""

logger = logging.getLogger("duckanon")

_INTERRUPTED = re.compile(r"INTERRUPT|^Query interrupted$")
_ABORTED = "transaction is aborted"


@dataclass(eq=False)
class _Entry:
    """An undo action, with its connection if it has one."""

    con: duckdb.DuckDBPyConnection | None
    action: Callable[[], object]


@dataclass
class _State(threading.local):
    """State of a thread; `readers` are the open Arrow readers with their connections."""

    depth: int = 0  # nested calls of `interruptible` functions
    entries: list[_Entry] = field(default_factory=list)  # undo actions, in the order of the actions
    readers: list[tuple[duckdb.DuckDBPyConnection, pa.RecordBatchReader]] = field(default_factory=list)
    running: list[duckdb.DuckDBPyConnection] = field(default_factory=list)  # connections with our queries
    cleaning: int = 0  # more than 0 while Ctrl-C waits for the end of a clean-up
    settled: bool = False  # Ctrl-C waits for the end of the statement
    written: bool = False  # whether this call or the last one wrote its file
    waiting: bool = False  # whether a Ctrl-C is waiting
    raised: BaseException | None = None  # exception of the first Ctrl-C; later ones change nothing
    handler: Any = None  # the handler of SIGINT before ours


_state = _State()


def interruptible(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let Ctrl-C end a function in KeyboardInterrupt, after all clean-up. For functions that users call.

    A user's handler of SIGINT runs first, and may continue the work. In an aborted transaction DuckDB refuses
    the clean-up, so it is rolled back, and a new transaction is left aborted in its place.
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
                    # Python drops an exception that is raised in a destructor.
                    raise state.raised
                done = True
                return result
            finally:
                # From here on Ctrl-C waits. A Ctrl-C before this line has raised.
                state.cleaning = cleaning + 1
        except Exception as failure:
            if state.raised is not None:
                # While a query runs, DuckDB replaces the exception of the handler by its own.
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
    """Stop the work after a time in seconds, as Ctrl-C would, with a DuckanonError; None is no limit.

    For the command line. A DuckanonError also if the system has no interrupting timer. Planning in DuckDB
    ignores the timer, so the process ends `GRACE_SECONDS` later at the latest.
    """
    if timeout is None:
        yield
        return
    if not hasattr(signal, "SIGALRM"):
        raise DuckanonError(
            "--timeout does not work on Windows, which has no interrupting timer: leave it out"
        )
    if not 0 < timeout < TIMEOUT_MAX_SECONDS:
        raise DuckanonError(f"--timeout takes a number of seconds, not {timeout}: above 0, below 100,000,000")
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
        # Python drops an exception that is raised in a destructor.
        state.raised = None
        raise DuckanonError(OVER_AFTER_WRITING if state.written else TIME_IS_OVER)


def _at_the_latest(state: dict[str, Any], ended: threading.Event, seconds: float) -> None:
    """End the process after some seconds, unless the work of the thread with `state` is done, or nearly.

    Databases in memory need no clean-up; unfinished files are removed.
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
    """Remove the temporary files of DuckDB in this process; only Linux lists them."""
    for opened in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            file = opened.readlink()
            if file.name.startswith("duckdb_temp_"):
                file.unlink()
                file.parent.rmdir()


@contextlib.contextmanager
def watching(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Stop the query of a connection when Ctrl-C arrives.

    DuckDB looks for signals in the calling thread only, and then waits for its other threads: a query over
    one long range would run to its end.
    """
    state = _state
    if state.raised is not None and not state.cleaning:
        # Python has dropped the exception, as in a destructor.
        raise state.raised
    state.running.append(con)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            state.running.remove(con)


@contextlib.contextmanager
def running(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run a query of ours, and turn every error that an interrupt causes in DuckDB into KeyboardInterrupt.

    An interrupt is Ctrl-C or ``con.interrupt()`` from another thread.
    """
    with watching(con):
        before = _state.raised
        try:
            yield
        except Exception as failure:
            # The error comes from DuckDB, from Arrow reading from DuckDB, or from DuckDB's own look at the
            # signal.
            told = isinstance(failure, duckdb.InterruptException) or (
                isinstance(failure, OSError | RuntimeError) and _INTERRUPTED.search(str(failure))
            )
            # DuckDB calls Python, for example for the schema of a table in memory: then any error may be the
            # interrupt.
            if told or _state.raised is not before:
                raise _state.raised or KeyboardInterrupt from failure
            raise


@contextlib.contextmanager
def reading(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Read the rows of a query through Arrow, in batches of at most `BATCH_ROWS` rows.

    Nothing else may use the connection until the reader is closed, at the end of the block at the latest.
    """
    state = _state
    with running(con):
        # In one line: a traceback would keep a reader in a local variable alive.
        state.readers.append((con, con.sql(sql).to_arrow_reader(BATCH_ROWS)))
        reader = state.readers[-1][1]
        try:
            yield reader
        finally:
            _close(state, reader)


class cleanup:  # noqa: N801 - used like a function, as contextlib's are
    """Run an action at the end of a block, whatever ends the block and whenever Ctrl-C comes.

    Open readers are closed first. In an aborted transaction the action waits for the end of the user's call.
    A class, because `interruptible` runs the entry of an interrupted ``__exit__``.
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
                # An action may raise any error. The first error is the cause: an engine that has ended cannot
                # clean up either.
                if _state.depth == 0:
                    _state.entries.remove(self._entry)
                logger.warning("a clean-up failed, so close the connection: %s", left)
            _deliver(_state)


class undo(cleanup):  # noqa: N801
    """Run an action at the end of a block that an exception ends."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._entry in _state.entries:
            _state.entries.remove(self._entry)
        else:
            super().__exit__(kind, failure, trace)


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a short block that must not be interrupted."""
    _state.cleaning += 1
    try:
        yield
    finally:
        _state.cleaning -= 1
    _deliver(_state)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM act as Ctrl-C in an `interruptible` function, even if SIGINT is ignored."""
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
    """Let Ctrl-C wait for the end of the statement, because a COMMIT or a rename follows.

    KeyboardInterrupt if Ctrl-C came before; then nothing is committed.
    """
    _deliver(_state)
    _state.settled = _state.depth > 0


def wrote() -> None:
    """Note that the requested file is written: a later interrupt of this call says so."""
    _state.written = True


def written() -> bool:
    """Tell whether the last call of an `interruptible` function wrote the requested file."""
    return _state.written


def abort(con: duckdb.DuckDBPyConnection) -> None:
    """Make a commit of the open transaction impossible."""
    try:
        con.execute(templates.render("catalog/databases.sql.j2:abort"))
    except duckdb.InterruptException:
        raise
    except duckdb.Error as intended:
        logger.debug("%s", intended)


def _listen(state: _State) -> None:
    """Install our handler of SIGINT, unless the thread gets no signals or SIGINT is ignored."""
    state.raised, state.waiting, state.handler, state.cleaning = None, False, None, 0
    state.written = False
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        return
    state.handler = before
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, _arrived)


def _leave(state: _State, *, done: bool) -> None:
    """Restore the earlier handler of SIGINT, and pass a waiting Ctrl-C to it.

    Ctrl-C waits until then: an exception before would leave our handler installed.
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
    """Handle SIGINT: call the user's handler, and stop the work if the handler raises."""
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
    """Raise for a waiting Ctrl-C if nothing makes it wait any longer."""
    if state.waiting and not state.cleaning and not state.settled:
        state.waiting = False
        if state.raised is None:
            _arrived(signal.SIGINT, None)


def _clean(state: _State, entry: _Entry) -> None:
    """Run an action; if an aborted transaction prevents it, keep the action for the end of the call."""
    state.cleaning += 1
    try:
        if entry.con is not None:
            _close(state, of=entry.con)
        if _possible(entry) or state.depth == 0:
            state.entries.remove(entry)
    finally:
        state.cleaning -= 1


def _undo_all(state: _State, mark: int) -> None:
    """Run the missed actions, the latest first, also after an error has aborted the transaction."""
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
    """Run an action; return False if an aborted transaction prevents it."""
    until = time.monotonic() + CLEAN_UP_SECONDS
    while True:
        try:
            entry.action()
        except (duckdb.InterruptException, KeyboardInterrupt):
            # Another thread interrupts the connection, since Ctrl-C waits here.
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
