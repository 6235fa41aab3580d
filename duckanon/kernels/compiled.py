"""The one place that says how the hot loops are compiled, by one of three decorators.

`compiled` is for functions that Python calls and for functions that make arrays. `inner` is for the others,
which only compiled code calls. `spliced` is for the parts of a hot loop. All take a function of arrays,
numbers and named tuples of arrays, and return a function of the same signature. Compiled code releases the
interpreter lock and is cached on disk. Arithmetic keeps the order that is written (no fast-math), so that
equal input gives equal output on every run and every thread.

`inner` functions do not count references to arrays. Counting takes most of the time of a hot loop that hands
over named tuples of arrays. Without it, and without the way in from Python, a function also compiles faster.
An inner function makes no array (that fails to compile), returns none, and calls no function that returns one
(the memory would never be freed). Views for its own use cost nothing.

`spliced` functions are typed and compiled anew inside every caller. Otherwise a function is optimised again
in every caller, and in their callers, and each call hands over every array of its named tuples. So the parts
of a hot loop that are called from one or two places are spliced. Numba copies the text once for every
function around it: splice a long function into the function that is compiled, not into one between.
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
"""Message while code that is not in the cache is compiled."""

Tell = Callable[[str, bool], None]
"""Takes the name of a function, and True when its compilation begins or False when it is done."""

logger = logging.getLogger("duckanon")
_loading = threading.RLock()
_watching: list[Tell] = []


class Kernel:
    """A function that numba compiles at its first call, when numba itself is imported."""

    # Importing numba takes longer than all other imports, and auditing or reading a release needs no kernel.
    # For compiled code that calls it, a kernel looks like a dispatcher of numba: numba asks for ``py_func``,
    # ``targetoptions`` and ``_numba_type_``.

    def __init__(self, function: Callable[..., object], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._dispatcher: Any = None
        # _nrt is always set: otherwise a kernel compiled for a caller would take over the caller's setting.
        # Nobody calls kernels from C; numba compiles an entry for that unless it is declined.
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
    """Return the function, compiled by numba at its first call, for Python and for compiled code."""
    return cast("Function", Kernel(function, cache=True))


def inner(function: Function) -> Function:
    """Return the function, compiled for calls from compiled code only; a call from Python fails."""
    return cast("Function", Kernel(function, cache=True, no_cpython_wrapper=True, _nrt=False))


def spliced(function: Function) -> Function:
    """Return the function, compiled anew inside every function that calls it; a call from Python fails."""
    return cast("Function", Kernel(function, inline="always"))


@contextlib.contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """Call `tell` whenever a function is compiled, which happens if the cache does not have it."""
    # The compilation of a function lasts until the functions that it calls are compiled. One thread compiles
    # at a time.
    _watching.append(tell)
    try:
        yield
    finally:
        _watching.remove(tell)


@functools.cache
def _numba() -> Any:
    """Import numba, and listen to its compilations from now on."""
    numba, event = importlib.import_module("numba"), importlib.import_module("numba.core.event")

    class Listener(event.Listener):  # type: ignore[misc, name-defined]  # numba has no types
        def on_start(self, event: Any) -> None:
            _pass_on(event, begins=True)

        def on_end(self, event: Any) -> None:
            _pass_on(event, begins=False)

    event.register("numba:compile", Listener())
    return numba


def _attach_cache(dispatcher: Any) -> None:
    """Let numba look first for the machine code that came with the package, if it can be used."""
    folder = prepared.folder() if prepared.has(dispatcher.py_func) else None
    try:
        importlib.import_module("duckanon.kernels.machine_code").attach(dispatcher, folder)
    except Exception as error:  # noqa: BLE001  # another numba has other private parts: compile
        logger.info("machine code of %s is left alone: %s", dispatcher.py_func.__qualname__, error)


def _pass_on(event: Any, *, begins: bool) -> None:
    """Report the compilation of our own functions; a process may compile others."""
    dispatcher = event.data["dispatcher"]
    if dispatcher not in _dispatchers:
        return
    name = dispatcher.py_func.__qualname__
    _log_once()
    if begins:
        logger.debug("compiling %s", name)
    for tell in tuple(_watching):
        tell(name, begins)


@functools.cache
def _log_once() -> None:
    """Log the first compilation of a process as information."""
    logger.info(COMPILING)
