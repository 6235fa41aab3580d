"""Functions that count no references: none of them is ever given an array that nobody else holds."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numba.core.errors import NumbaError

import duckanon.kernels
from duckanon.kernels.compiled import Kernel, compiled, inner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

NUMBERS = {
    "None",
    "bool",
    "int",
    "float",
    "tuple[float, int]",
    "tuple[int, float]",
    "tuple[float, int, int]",
    "tuple[float, float, float]",
    "tuple[bool, bool, bool, bool]",
}


def kernels() -> Iterator[Kernel]:
    """Give every function that is compiled, of every module of kernels."""
    for module in pkgutil.walk_packages(duckanon.kernels.__path__, "duckanon.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel) and value.py_func.__module__ == module.name:
                yield value


def only_numbers(kernel: Kernel) -> bool:
    """Tell whether a function returns numbers only, alone or in a named tuple."""
    function: Any = kernel.py_func
    returned = function.__annotations__["return"]
    fields = getattr(function.__globals__.get(returned), "__annotations__", {"": "NDArray"})
    return returned in NUMBERS or {getattr(f, "__forward_arg__", f) for f in fields.values()} <= NUMBERS


def called(kernel: Kernel) -> Iterator[Kernel]:
    """Give the compiled functions that a function names, and those named by what is spliced into it."""
    function: Any = kernel.py_func
    for name in function.__code__.co_names:
        other = function.__globals__.get(name)
        if isinstance(other, Kernel):
            yield other
            if other.targetoptions.get("inline"):
                yield from called(other)


def test_no_array_is_returned_to_a_function_that_counts_no_references() -> None:
    """By definition of reference counting: who receives an array that was made for it has to let go of it."""
    without = [kernel for kernel in kernels() if not kernel.targetoptions["_nrt"]]
    assert len(without) > 20
    for kernel in without:
        assert only_numbers(kernel), kernel.py_func
        for other in called(kernel):
            assert only_numbers(other), (kernel.py_func, other.py_func)


def test_an_array_cannot_be_made_there() -> None:
    @inner
    def makes(n: int) -> float:
        return float(np.zeros(n)[0])

    @inner
    def returns(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return numbers

    @compiled
    def calls(n: int) -> float:
        return makes(n)

    assert not only_numbers(returns)  # type: ignore[arg-type]  # to mypy they are plain functions
    with pytest.raises(NumbaError, match="returning of array"):
        calls(3)
