"""The lines of running steps on a terminal, drawn by rich."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Task, TaskID


class Display:
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
