"""Kernels compiled in processes beside a command, so that its first release uses two cores for it.

Numba compiles one function at a time in a process, most of that in Python. So where a first release is sure
to need them, one process compiles the exchange of records and another one all the rest, both into numba's
cache on disk, and the command waits for each kernel only when it comes to it. All is compiled once, and what
is missing in the end, for whatever reason, is compiled as if there were no such processes.

Only commands of the command line allow it (`allowed`): a program that imports duckanon never starts one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duckanon.kernels.compiled import compiled_elsewhere, compiling
from duckanon.kernels.exchange.exchange import sweep
from duckanon.kernels.merging.partner import merge_all
from duckanon.kernels.neighbours.kd import kd_order
from duckanon.kernels.plain import preferred, stored

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

EXCHANGE, REST = "exchange", "rest"
"""What a process compiles: kernels of `duckanon.kernels.exchange`, or all others that are needed."""

PAUSE = 0.02
"""Seconds between two looks whether a kernel is there."""

OVER = "the work has ended: nothing more is compiled for it"

ENDING = 1.0
"""Seconds in which a process is to end when nobody waits for it any more."""


@dataclass
class _Allowed:
    """A command that allows processes; `later` are first partitions that it needs after its first release."""

    later: tuple[str, ...]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ended: bool = False


_command: _Allowed | None = None
_ended: ContextVar[threading.Event | None] = ContextVar("_ended", default=None)


@contextlib.contextmanager
def allowed(later: Sequence[str] = (), *, sure: bool = False) -> Iterator[None]:
    """Allow processes that compile; none of them outlives the block.

    Parameters
    ----------
    later : sequence of str
        First partitions under thresholds that will be needed, too, after those of the first release.
    sure : bool
        Whether the command is sure to refine a table of several tiles: the exchange, which takes longest, is
        then compiled from the start on, with what rebuilds neighbourhoods of the worst classes.

    Yields
    ------
    None
        While the command works.
    """
    global _command
    outside, _command = _command, _Allowed(tuple(later))
    try:
        with compiled_elsewhere(_wait):
            if sure and _worth(sweep):
                _begin(EXCHANGE, {"rebuilds": True})
            yield
    finally:
        end()
        _command = outside


def begin(starts: Sequence[str], *, columns: int, limited: bool, rebuilds: bool) -> None:
    """Compile what a release needs, beside it, where that is allowed and both processes have something to do.

    Not on one core, and not where a table is so small that nothing is compiled.

    Parameters
    ----------
    starts : sequence of str
        First partitions of the recipes, which are refined.
    columns : int
        Coordinates of a record.
    limited : bool
        Whether there are thresholds.
    rebuilds : bool
        Whether the refinement rebuilds neighbourhoods.
    """
    if _command is None or REST in _command.processes or _command.ended:
        return
    if not _worth(merge_all if limited else kd_order):
        return
    if EXCHANGE not in _command.processes:
        if not _worth(sweep):
            return
        _begin(EXCHANGE, {"rebuilds": rebuilds})
    asked = {"starts": starts, "columns": columns, "limited": limited, "later": _command.later}
    _begin(REST, asked)


@contextlib.contextmanager
def until(ended: threading.Event) -> Iterator[None]:
    """Compile nothing in this thread, nor in those that it carries, once an event is set.

    Parameters
    ----------
    ended : threading.Event
        Set when nobody waits for the work of the block any more; a kernel that it comes to is an error then.

    Yields
    ------
    None
        While the work goes on.
    """
    outside = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(outside)


def end() -> None:
    """End the processes, and the waiting for them."""
    if _command is None:
        return
    _command.ended = True
    for process in _command.processes.values():
        if process.stdin is not None:
            process.stdin.close()
    for process in _command.processes.values():
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _worth(kernel: Any) -> bool:
    """Tell whether a kernel is to be compiled beside the command: there is a core for it, and no code yet."""
    function = kernel.py_func
    return bool(sys.executable) and _cores() > 1 and not (stored(function) or preferred(function))


def _begin(part: str, told: dict[str, Any]) -> None:
    """Start the process of a part, if the machine lets it."""
    if _command is not None:
        with contextlib.suppress(OSError):
            _command.processes[part] = _process(part, told)


def _process(part: str, told: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a process, which ends when the pipe to it does: also where this one is killed."""
    # Modules come from where this process has them, and never from the folder of the user's data.
    command = [sys.executable, "-P", "-m", "duckanon.release.needed", part, json.dumps(told)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=environment)


def _wait(function: Callable[..., object]) -> None:
    """Wait for a kernel until it is there, or the process that compiles it is gone."""
    module, command = function.__module__, _command
    if command is None or not module.startswith("duckanon.kernels."):
        return
    process = command.processes.get(EXCHANGE if module.startswith("duckanon.kernels.exchange.") else REST)
    gone = process is None or process.poll() is not None
    # Asked only now: work that ends says so before it ends the processes, so one that is gone for that is not
    # taken for one that has done its part.
    ended = _ended.get()
    if ended is not None and ended.is_set():
        raise RuntimeError(OVER)
    if process is None or gone or stored(function):
        return
    with compiling(function):
        while not stored(function) and process.poll() is None:
            time.sleep(PAUSE)
    if command.ended:
        raise RuntimeError(OVER)


def _cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
