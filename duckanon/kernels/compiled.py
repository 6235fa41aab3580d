"""The one place that says how the hot loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


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
    return cast("Function", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


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
    return cast("Function", numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))


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
