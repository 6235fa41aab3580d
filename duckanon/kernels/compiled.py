"""The one place that says how the hot loops are compiled."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., object])

COMPILING = "compiling kernels, once for this installation (up to half a minute)"
"""What is told where compiled code is not in the cache yet."""

logger = logging.getLogger("duckanon")
_dispatchers: set[Any] = set()


def compiled(function: Function) -> Function:
    """Return the function, compiled by numba at its first call.

    Compiled code is cached on disk and releases the interpreter lock. Arithmetic keeps the order that is
    written (no fast-math), so that equal input gives equal output on every run and every thread.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays.

    Returns
    -------
    callable
        A function of the same signature.
    """
    return _cached(function)


def inner(function: Function) -> Function:
    """Return the function, compiled as `compiled` does, for calls from compiled code only.

    Without the way in from Python it compiles in about half the time.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays.

    Returns
    -------
    callable
        A function of the same signature; a call from Python fails.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _cached(function, **options)


def spliced(function: Function) -> Function:
    """Return the function, typed and compiled anew inside every function that calls it.

    A function that is compiled on its own is optimised again in every caller, and in their callers; and
    a call hands over, and counts the references of, every array of its named tuples. So the parts of a hot
    loop that are called from one or two places are spliced.

    Parameters
    ----------
    function : callable
        A function of arrays, numbers and named tuples of arrays.

    Returns
    -------
    callable
        A function of the same signature; a call from Python fails.
    """
    options: dict[str, Any] = {"inline": "always"}
    return cast("Function", numba.njit(nogil=True, error_model="numpy", **options)(function))


@contextlib.contextmanager
def watched(tell: Callable[[str, bool], None]) -> Iterator[None]:
    """Tell when functions are compiled, which happens where the cache does not have them.

    Parameters
    ----------
    tell : callable
        Takes the name of a function, and True when it begins or False when it is done. A function that calls
        others which are not compiled yet is around them. One thread compiles at a time, whichever it is.

    Yields
    ------
    None
        While the work goes on.
    """
    with event.install_listener("numba:compile", _Listener(tell)):
        yield


class _Listener(event.Listener):
    """Passes on the events of our own functions; a process may compile others."""

    def __init__(self, tell: Callable[[str, bool], None]) -> None:
        self._tell = tell

    def on_start(self, event: Any) -> None:
        self._pass_on(event, begins=True)

    def on_end(self, event: Any) -> None:
        self._pass_on(event, begins=False)

    def _pass_on(self, event: Any, *, begins: bool) -> None:
        dispatcher = event.data["dispatcher"]
        if dispatcher in _dispatchers:
            self._tell(dispatcher.py_func.__qualname__, begins)


class _Log:
    """Logs the first compilation of a process as information, each function for debugging."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, name: str, begins: bool) -> None:
        if not self._told:
            self._told = True
            logger.info(COMPILING)
        if begins:
            logger.debug("compiling %s", name)


event.register("numba:compile", _Listener(_Log()))  # type: ignore[no-untyped-call]  # numba has no types


def _cached(function: Function, **options: Any) -> Function:
    dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    _dispatchers.add(dispatcher)
    return cast("Function", dispatcher)
