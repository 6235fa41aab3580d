"""The first use compiles kernels: that is told once, on any stream, and not again when they are cached."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from duckanon.kernels.compiled import COMPILING
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Two small kernels of a file of its own, and one of somebody else; `outer` makes numba compile `inside`, too.
KERNELS = """
import numba
from duckanon.kernels.compiled import compiled, inner

@numba.njit(cache=True)
def foreign(x):
    return x - 1

@inner
def inside(x):
    return x + 1

@compiled
def outer(x):
    return inside(x) * 2

@compiled
def other(x):
    return x * 3
"""
PROGRAM = """
import io, logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
from duckanon import progress
import kernels

class Terminal(io.StringIO):
    def isatty(self):
        return True

progress.SILENT_SECONDS = float(sys.argv[1])
with progress.shown(sys.stderr):
    assert kernels.foreign(3) == 2
    print("begin", flush=True)
    assert kernels.outer(3) == 8
    assert kernels.other(1.5) == 4.5
terminal = Terminal()
with progress.shown(terminal):
    assert kernels.outer(1.5) == 5
print("terminal", repr(terminal.getvalue()))
"""


def run(folder: Path, silent: float = 0.0) -> tuple[list[str], str]:
    """Give stdout and stderr of a process with the cache of that folder."""
    own = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": f"{ROOT}:{folder}"}
    own |= {"TERM": "xterm", "COLUMNS": "150", "PYTHONDONTWRITEBYTECODE": "1"}
    dropped = {"FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped} | own
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(silent)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
def test_compiling_is_told_once_for_an_installation(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    printed, told = run(tmp_path)
    assert told == f"{COMPILING} ...\n"
    # In Python it is logged; what somebody else compiles before is not ours to tell.
    assert printed[:2] == ["begin", f"INFO {COMPILING}"]
    assert COMPILING in printed[2]
    assert "functions" in printed[2]
    printed, told = run(tmp_path)
    assert (printed[:2], told) == (["begin", "terminal ''"], "")


@pytest.mark.slow
def test_a_compilation_of_a_moment_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    printed, told = run(tmp_path, silent=100.0)
    assert (printed[:2], told) == (["begin", f"INFO {COMPILING}"], "")


TUPLES = """
from typing import NamedTuple
import numpy as np
from duckanon.kernels.compiled import compiled

class {name}(NamedTuple):
    values: np.ndarray

@compiled
def total(given):
    return given.values.sum()

print(total({name}(np.arange(4.0))))
"""


@pytest.mark.slow
def test_a_cache_that_names_types_of_an_older_source_is_made_anew(tmp_path: Path) -> None:
    """Numba reads the types of a cache, which are classes by name, before it compares the source with its own."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
    }
    for name in ("Before", "After", "After"):
        (tmp_path / "tuples.py").write_text(TUPLES.format(name=name))
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import tuples"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "6.0\n", "")
