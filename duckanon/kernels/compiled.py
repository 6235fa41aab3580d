"""The one place that says how the hot loops are compiled, by one of three decorators.

`compiled` is for functions that Python calls and for functions that make arrays, `inner` for the others,
which only compiled code calls, and `spliced` for the parts of a hot loop. Compiled code releases the
interpreter lock and is cached on disk. Arithmetic keeps the order that is written (no fast-math), so that
equal input gives equal output on every run and every thread.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from duckanon.kernels import prepared

Function = TypeVar("Function", bound=Callable[..., object])

COMPILING = "compiling kernels, each once on this machine (up to two minutes)"
"""What is told where compiled code is not in the cache yet."""

Tell = Callable[[str, bool], None]
"""Takes the name of a function, and True when its compilation begins or False when it is done."""

logger = logging.getLogger("duckanon")
_loading = threading.RLock()
_watching: list[Tell] = []


class Kernel:
    """A function that numba compiles at its first call, when numba itself is imported.

    Numba takes longer to import than all the rest, and to audit or to read a release takes no kernel.
    To compiled code that calls it, a kernel looks like a dispatcher of numba: ``py_func``, ``targetoptions``
    and ``_numba_type_`` are what numba asks for.
    """

    def __init__(self, function: Callable[..., object], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._dispatcher: Any = None
        # _nrt always: a kernel that is compiled because another calls it would take over what that one says.
        # Nobody calls kernels from C, and a way in for that is compiled, too, where it is not declined.
        usual = {"nogil": True, "error_model": "numpy", "_nrt": True, "no_cfunc_wrapper": True}
        self.targetoptions = {**usual, **options}

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        return self.dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's side of the function; one, whichever thread comes first."""
        if self._dispatcher is None:
            with _loading:
                if self._dispatcher is None:
                    dispatcher = _numba().njit(**self.targetoptions)(self.py_func)
                    if self.targetoptions.get("cache"):
                        _attach_cache(dispatcher)
                    _dispatchers.add(dispatcher)
                    self._dispatcher = dispatcher
        return self._dispatcher

    @property
    def entry(self) -> bool:
        """Whether Python may call it."""
        return bool(self.targetoptions.get("cache")) and "no_cpython_wrapper" not in self.targetoptions

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


_dispatchers: set[Any] = set()


def compiled(function: Function) -> Function:
    """Return the function, compiled by numba at its first call.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays.

    Returns
    -------
    callable
        A function of the same signature, for Python and for compiled code.
    """
    return cast("Function", Kernel(function, cache=True))


def inner(function: Function) -> Function:
    """Return the function, compiled for calls from compiled code only, without counting references to arrays.

    Counting is most of the time of a hot loop that hands over named tuples of arrays. Without it, and without
    the way in from Python, a function also compiles faster.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays. It makes no array (that fails to compile),
        returns none, and calls no function that returns one (the memory would never be free again). Views
        for its own use cost nothing.

    Returns
    -------
    callable
        A function of the same signature; a call from Python fails.
    """
    return cast("Function", Kernel(function, cache=True, no_cpython_wrapper=True, _nrt=False))


def spliced(function: Function) -> Function:
    """Return the function, typed and compiled anew inside every function that calls it.

    A function that is compiled on its own is optimised again in every caller, and in their callers, and each
    call hands over every array of its named tuples. So the parts of a hot loop that are called from one or
    two places are spliced. Numba copies the text once for every function around it: splice a long function
    into the function that is compiled, not into one between.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays.

    Returns
    -------
    callable
        A function of the same signature; a call from Python fails.
    """
    return cast("Function", Kernel(function, inline="always"))


@contextlib.contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """Tell when functions are compiled, which happens where the cache does not have them.

    Parameters
    ----------
    tell : callable
        See `Tell`. The compilation of a function lasts until the functions that it calls are compiled. One
        thread compiles at a time.

    Yields
    ------
    None
        While the work goes on.
    """
    _watching.append(tell)
    try:
        yield
    finally:
        _watching.remove(tell)


@functools.cache
def _numba() -> Any:
    """Import numba, and hear from now on what it compiles."""
    numba, event = importlib.import_module("numba"), importlib.import_module("numba.core.event")

    class Listener(event.Listener):  # type: ignore[misc, name-defined]  # numba has no types
        def on_start(self, event: Any) -> None:
            _pass_on(event, begins=True)

        def on_end(self, event: Any) -> None:
            _pass_on(event, begins=False)

    event.register("numba:compile", Listener())
    return numba


def _attach_cache(dispatcher: Any) -> None:
    """Let numba ask for the machine code that came with the package first, where that can be used."""
    folder = prepared.folder() if prepared.has(dispatcher.py_func) else None
    try:
        importlib.import_module("duckanon.kernels.machine_code").attach(dispatcher, folder)
    except Exception as error:  # noqa: BLE001  # private parts of a numba that has others: it is compiled
        logger.info("machine code of %s is left alone: %s", dispatcher.py_func.__qualname__, error)


def _pass_on(event: Any, *, begins: bool) -> None:
    """Tell of our own functions; a process may compile others."""
    dispatcher = event.data["dispatcher"]
    if dispatcher not in _dispatchers:
        return
    name = dispatcher.py_func.__qualname__
    _log(name, begins=begins)
    for tell in tuple(_watching):
        tell(name, begins)


def _log(name: str, *, begins: bool) -> None:
    """Log the first compilation of a process as information, each function for debugging."""
    _log_once()
    if begins:
        logger.debug("compiling %s", name)


@functools.cache
def _log_once() -> None:
    logger.info(COMPILING)
