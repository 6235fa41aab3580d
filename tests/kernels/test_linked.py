"""Kernels that only compiled code calls have no machine code of their own: callers take in their text."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING, cast

import pytest
from numba.core.errors import NumbaWarning

from duckanon.kernels.compiled import Kernel, compiled, inner
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ABSOLUTE = ctypes.CDLL(None).labs
ABSOLUTE.argtypes, ABSOLUTE.restype = [ctypes.c_long], ctypes.c_long

# What a text has to carry: an array made, a loop, another kernel, numbers that are kept in a tuple, an error.
KERNELS = """
import numpy as np
from duckanon.kernels.compiled import compiled, inner, uncounted

@uncounted
def add(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total

@inner
def doubled(numbers):
    if not len(numbers):
        raise ValueError("no numbers")
    made = np.empty(len(numbers))
    for place in range(len(numbers)):
        made[place] = 2.0 * numbers[place]
    return made, add(made)

@compiled
def first(numbers):
    made, total = doubled(numbers)
    return made[-1] + total

@compiled
def second(numbers):
    made, total = doubled(numbers)
    return made[0] - total
"""
# By hand: twice 1, 2, 3 is 2, 4, 6, which add up to 12.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
if "without" in sys.argv:
    import numba.core.codegen
    del numba.core.codegen.JITCodeLibrary
import kernels, numpy
called = getattr(kernels, sys.argv[2])
print(called(numpy.array([1.0, 2.0, 3.0])))
try:
    called(numpy.empty(0))
except ValueError as error:
    print(error)
for kernel in (called, kernels.doubled, kernels.add):
    dispatcher = kernel.dispatcher
    for compiled in dispatcher.overloads.values():
        kind = compiled.library.serialize_using_object_code()[1] if dispatcher.stats.cache_misses else "cached"
        print(kind, sum(dispatcher.stats.cache_hits.values()), sum(dispatcher.stats.cache_misses.values()))
"""


def run(folder: Path, *arguments: str) -> list[str]:
    """Return what a process prints that calls a kernel of the folder; kernels are cached there."""
    # Written once: the cache is for a file as it is.
    if not (folder / "kernels.py").exists():
        (folder / "kernels.py").write_text(KERNELS)
    own = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **own})
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_text_is_all_that_is_compiled_and_a_caller_in_another_process_takes_it_from_the_cache(
    tmp_path: Path,
) -> None:
    values = ["18.0", "no numbers"]
    assert run(tmp_path, "first") == [*values, "object 0 1", "bitcode 0 1", "bitcode 0 1"]
    # All that is needed is cached with the kernel that is called: the text is not even read.
    assert run(tmp_path, "first") == [*values, "cached 1 0"]
    values = ["-10.0", "no numbers"]
    # `add` is in the text of `doubled`, so that nobody looks for it.
    assert run(tmp_path, "second") == [*values, "object 0 1", "cached 1 0"]
    assert run(tmp_path, "second") == [*values, "cached 1 0"]


def test_where_numba_lacks_what_a_text_is_made_of_kernels_are_compiled_as_others_are(tmp_path: Path) -> None:
    """A numba of another build: a class is taken away before it is asked for."""
    values = ["18.0", "no numbers"]
    assert run(tmp_path, "first", "without") == [*values, *["object 0 1"] * 3]


# Too large to be spliced by LLVM, which drops `idle`, and called by somebody else in the same process.
# By hand: part(0) = part(-1) = 1, part(1) = 1 + 1 + 2, part(2) = 4 + 1 + 3, part(3) = 8 + 4 + 4 = 16.
PARTS = """
from duckanon.kernels.compiled import compiled, uncounted

@uncounted
def part(idle, numbers, times):
    if times > 0:
        return part(idle, numbers, times - 1) + part(idle, numbers, times - 2) + numbers[times]
    return numbers[0]

@compiled
def first(idle, numbers, times):
    return part(idle, numbers, times) + 1.0
"""
FOREIGN = """
import sys
sys.path.insert(0, sys.argv[1])
import kernels, numba, numpy
part = kernels.part

@numba.njit
def foreign(idle, numbers, times):
    return part(idle, numbers, times) * 2.0

given = numpy.zeros((2, 3)), numpy.arange(1.0, 5.0), 3
print(kernels.first(*given), foreign(*given), kernels.first(*given))
"""


@pytest.mark.slow
def test_what_a_kernel_takes_in_is_found_by_nobody_else(tmp_path: Path) -> None:
    """The linker of a process takes what has the same name: with an argument less that ended the process."""
    (tmp_path / "kernels.py").write_text(PARTS)
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    for _ in ("compiled", "from the cache"):
        done = subprocess.run(
            [sys.executable, "-c", FOREIGN, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **own},
        )
        assert done.stdout.split() == ["17.0", "32.0", "17.0"]


@inner
def inside(number: int) -> int:
    return int(ABSOLUTE(number))


@compiled
def outside(number: int) -> int:
    return inside(number)


def test_a_text_that_holds_an_address_of_this_process_is_not_cached() -> None:
    """By definition: in another process something else is there, or nothing."""
    with pytest.warns(NumbaWarning, match="as it uses dynamic globals") as told:
        assert outside(-3) == 3
    assert ['"inside"' in str(warning.message) for warning in told] == [True, False]
    (text,) = cast("Kernel", inside).dispatcher.overloads.values()
    assert text.library.has_dynamic_globals
