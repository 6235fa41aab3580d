"""Progress of long work on a terminal: a line for every running step, which disappears when the step ends.

Compilation of kernels is reported on any stream, since it may take a minute without other output.
"""

from __future__ import annotations

import contextlib
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from duckanon.kernels.compiled import COMPILING, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from duckanon.terminal import Display


SILENT_SECONDS = 3.0
"""Seconds of compilation after which it is reported."""


@dataclass(frozen=True)
class Step:
    """A running step; `advance` may be called from any thread."""

    line: tuple[Progress, TaskID] | None = None  # line on the terminal; None if progress is not shown

    def advance(self, count: int = 1) -> None:
        """Add to the done count of the step, in its unit."""
        if self.line is not None:
            progress, task = self.line
            progress.advance(task, count)


class _Compiling:
    """Watcher that shows a step while functions are compiled, by one thread at a time."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._depth = self._done = 0
        self._line: tuple[Progress, TaskID] | None = None

    def __call__(self, name: str, begins: bool) -> None:
        del name
        self._depth += 1 if begins else -1
        if self._line is None:
            self._line = self._display.open(COMPILING, None, "functions")
            self._line[0].advance(self._line[1], self._done)
        if not begins:
            self._done += 1
            self._line[0].advance(self._line[1])
        if not self._depth:
            self._display.close(*self._line)
            self._line = None


class _Told:
    """Watcher that writes one line to a plain stream after `SILENT_SECONDS` of compilation."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._depth, self._begun, self._seconds = 0, 0.0, 0.0

    def __call__(self, name: str, begins: bool) -> None:
        del name
        now = time.monotonic()
        if not self._depth:
            self._begun = now
        self._depth += 1 if begins else -1
        spent = self._seconds + now - self._begun
        if not self._depth:
            self._seconds = spent
        if self._stream is not None and spent >= SILENT_SECONDS:
            self._stream.write(f"{COMPILING} ...\n")
            self._stream.flush()
            self._stream = None


_SILENT = Step()
_log: ContextVar[TextIO | None] = ContextVar("duckanon_step_log", default=None)
_display: ContextVar[Display | None] = ContextVar("duckanon_progress", default=None)


@contextlib.contextmanager
def shown(stream: TextIO, *, log: bool = False) -> Iterator[None]:
    """Show the steps of this thread on a terminal during a block; with `log`, write their seconds instead."""
    # A stream that is no terminal, or cannot move its cursor, gets one plain line if compiling takes some
    # seconds.
    display = None if log else _display_on(stream)
    if display is None:
        writes = _log.set(stream if log else None)
        try:
            with watched(_Told(stream)):
                yield
        finally:
            _log.reset(writes)
        return
    before = _display.set(display)
    try:
        with watched(_Compiling(display)):
            yield
    finally:
        _display.reset(before)
        display.end()


def _display_on(stream: TextIO) -> Display | None:
    """Return the display of a terminal that can move its cursor; None for any other stream."""
    # With FORCE_COLOR, rich takes even a pipe for a terminal, but colours do not make a cursor.
    if not stream.isatty():
        return None
    # Imported here: it takes a fortieth of a second, and most processes show nothing.
    from rich.console import Console

    console = Console(file=stream)
    if not console.is_interactive:
        return None
    from duckanon.terminal import Display

    return Display(console)


@contextlib.contextmanager
def step(name: str, total: int | None = None, unit: str = "") -> Iterator[Step]:
    """Show one step of the work during a block; yield the step, which any thread may advance."""
    # Without a total only the elapsed time is shown. The unit is a plural noun. Cost without a display: a
    # microsecond.
    display = _display.get()
    if display is None:
        log = _log.get()
        begun = 0.0 if log is None else time.monotonic()
        yield _SILENT
        if log is not None:
            log.write(f"{name}: {time.monotonic() - begun:.2f} s\n")
        return
    line = display.open(name, total, unit)
    try:
        yield Step(line)
    finally:
        display.close(*line)
