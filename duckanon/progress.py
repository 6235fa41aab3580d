"""Progress of long work on a terminal: a line for every running step, gone when the step ends.

That kernels are compiled is told on any stream, since it takes a minute or two where nothing else happens.
"""

from __future__ import annotations

import contextlib
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from duckanon.kernels.compiled import COMPILING, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.progress import Task, TaskID


@dataclass(frozen=True)
class Step:
    """A running step; `advance` may be called from any thread."""

    line: tuple[Progress, TaskID] | None = None  # where it is shown; None where nothing is

    def advance(self, count: int = 1) -> None:
        """Count more of the step as done, in its unit."""
        if self.line is not None:
            progress, task = self.line
            progress.advance(task, count)


class _Display:
    """The lines on one terminal.

    The lines live only while a step runs: between the steps the terminal belongs to what the command prints.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._running = 0
        self._progress: Progress | None = None

    def open(self, name: str, total: int | None, unit: str) -> tuple[Progress, TaskID]:
        """Add the line of a step; the first one starts the display."""
        with self._lock:
            if self._progress is None:
                self._progress = _lines(self._console)
                self._progress.start()
            self._running += 1
            return self._progress, self._progress.add_task(name, total=total, unit=unit)

    def close(self, progress: Progress, task: TaskID) -> None:
        """Take the line of a step away; the last one ends the display."""
        with self._lock:
            self._running -= 1
            if self._running:
                progress.remove_task(task)
            else:
                progress.stop()
                self._progress = None

    def end(self) -> None:
        """Clear the terminal, also of a line that Ctrl-C caught on its way in or out."""
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None


class _Compiling:
    """A step of a display while functions are compiled, the outermost and those that it calls.

    Threads may tell of them at the same time: one compiles, others wait for what another process does.
    """

    def __init__(self, display: _Display) -> None:
        self._display = display
        self._lock = threading.Lock()
        self._depth = self._done = 0
        self._line: tuple[Progress, TaskID] | None = None

    def __call__(self, name: str, begins: bool) -> None:
        del name
        with self._lock:
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
    """One line on a stream that shows no steps, at the first function that is compiled."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def __call__(self, name: str, begins: bool) -> None:
        del name, begins
        if self._stream is not None:
            self._stream.write(f"{COMPILING} ...\n")
            self._stream.flush()
            self._stream = None


_SILENT = Step()
_display: ContextVar[_Display | None] = ContextVar("duckanon_progress", default=None)


@contextlib.contextmanager
def shown(stream: TextIO) -> Iterator[None]:
    """Show the steps of this thread on a terminal while the work goes on; nothing of it is left afterwards.

    On what is no terminal, or has no cursor movement, one plain line is written when kernels have to be
    compiled.
    """
    console = Console(file=stream)
    # rich takes a pipe for a terminal where FORCE_COLOR says so: colour is not what is asked here.
    if not (stream.isatty() and console.is_interactive):
        with watched(_Told(stream)):
            yield
        return
    display = _Display(console)
    before = _display.set(display)
    try:
        with watched(_Compiling(display)):
            yield
    finally:
        _display.reset(before)
        display.end()


@contextlib.contextmanager
def step(name: str, total: int | None = None, unit: str = "") -> Iterator[Step]:
    """Show one step of the work, where progress is shown; give what to advance, in worker threads, too.

    Without a total only the elapsed time is shown; the unit is a plural. A microsecond where nothing is
    shown.
    """
    display = _display.get()
    if display is None:
        yield _SILENT
        return
    line = display.open(name, total, unit)
    try:
        yield Step(line)
    finally:
        display.close(*line)


class _Known(ProgressColumn):
    """A column of steps with a known total; empty for others."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self._column = column

    def render(self, task: Task) -> RenderableType:
        return Text() if task.total is None else self._column(task)


class _Count(ProgressColumn):
    """What is done of a step without a known total; empty until there is something."""

    def render(self, task: Task) -> RenderableType:
        counted = task.total is None and task.completed
        return Text(f"{task.completed:,.0f} {task.fields['unit']}" if counted else "")


class _Rate(ProgressColumn):
    """What is done in a second, over the last half minute."""

    def render(self, task: Task) -> Text:
        unit = task.fields["unit"]
        speed = task.finished_speed or task.speed
        return Text(unit if speed is None else f"{unit} {speed:,.{0 if speed >= 10 else 1}f}/s")


def _lines(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        _Known(BarColumn(bar_width=30)),
        _Known(MofNCompleteColumn()),
        _Known(_Rate()),
        _Count(),
        TimeElapsedColumn(),
        _Known(TimeRemainingColumn()),
        console=console,
        transient=True,
        # With the redirection on, rich would send to this stream what the command prints to stdout.
        redirect_stdout=False,
    )
