"""What a first release needs compiled: ``python -m duckanon.release.needed`` does it, for `ahead`.

Kernels are compiled by calling them for a few records in the way in which a release does, so that types of
arrays are those that it will ask for.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import first_partition, merged
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.spanning_tree import forest
from duckanon.kernels.neighbours.centroids import principal
from duckanon.kernels.recipes import EXACT, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECORDS, SIZE, VALUES = 60, 3, 20
"""Records, least class size, and sensitive values of the table for which kernels are called."""

SHARE = 0.001
"""Share of the work of a refinement: a few neighbourhoods are rebuilt."""


def exchange(rebuilds: bool) -> None:
    """Call the kernels of the exchange, and those that rebuild neighbourhoods if asked to."""
    refine(_points(2), np.arange(RECORDS) // SIZE, SIZE, share=SHARE if rebuilds else 0.0)


def rest(starts: Sequence[str], columns: int, limited: bool, later: Sequence[str]) -> None:
    """Call all other kernels: those of a first partition, and of what `duckanon.kernels.compose` does next.

    Those of `later` ones, which have thresholds, come last.
    """
    points = _points(columns)
    for start in starts:
        _start(start, points)
    principal(points, np.arange(RECORDS))
    if limited:
        _merge(points)
    else:
        mdav(points, SIZE)
        forest(points, SIZE, largest=EXACT)
    for start in later:
        _start(start, points)
    if later and not limited:
        _merge(points)


PARTS: dict[str, Callable[..., None]] = {"exchange": exchange, "rest": rest}
"""What one process compiles, by name."""


def _start(start: str, points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Make a first partition, and the other one that `k_alone` is combined with."""
    if start == "k_alone":
        forest(points, SIZE, largest=EXACT)
    codes = np.arange(RECORDS)[None, :] % VALUES
    share = Threshold(
        reference(np.bincount(codes[0]), "ordered"), l=Decimal(1), l_kind="recursive", c=Decimal("0.9")
    )
    first_partition(points, codes, Recipe(start, SIZE), [share])


def _merge(points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Merge classes, of which each has one value only."""
    codes = np.arange(RECORDS)[None, :] // SIZE
    thresholds = [Threshold(reference(np.bincount(codes[0]), "ordered"), t=Decimal("0.3"))]
    merged(points, codes, thresholds, np.arange(RECORDS) // SIZE, "efficient")


def _points(columns: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(1).normal(size=(RECORDS, columns))


def _copy_less() -> None:
    """Let numba share the variables of a spliced function, where it copies them with each block of it.

    They are only read, and a tenth of the time that the exchange takes is spared. Where numba has no such
    thing, nothing is changed. It holds for this process, in which nobody else compiles.
    """
    scope = getattr(importlib.import_module("numba.core.ir"), "Scope", None)
    if scope is not None:
        scope.__deepcopy__ = lambda variables, _: variables


def _end_with_the_command() -> None:
    """End this process when the other end of its standard input is closed, by whatever way it goes.

    Numba writes a file aside and renames it, so that no half of one is ever found.
    """
    while os.read(0, 1):
        pass
    os._exit(0)


def main() -> None:
    """Compile the part that the first argument names, for what the second tells."""
    # Ctrl-C in a terminal is for the command, which then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    _copy_less()
    part, told = sys.argv[1:]
    PARTS[part](**json.loads(told))
    # The thread still reads, and the interpreter would wait for it.
    os._exit(0)


if __name__ == "__main__":
    main()
