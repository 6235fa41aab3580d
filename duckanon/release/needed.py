"""What releases need compiled: ``python -m duckanon.release.needed`` does it, for `prepare`.

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

from duckanon.kernels.castle import stream as castle_stream
from duckanon.kernels.castle.clusters import open_clusters
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compose import first_partition, merged
from duckanon.kernels.dealing import bounds_of
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.spanning_tree import forest
from duckanon.kernels.merging.dominated import merge_dominated
from duckanon.kernels.neighbours.centroids import principal
from duckanon.kernels.recipes import EXACT, Recipe
from duckanon.kernels.rollup import (
    Generalized,
    Rows,
    asked_of,
    classes_at,
    kept_records,
    rolled_up,
    values_of,
    violating_rows,
)
from duckanon.kernels.steered import stream
from duckanon.literature.mondrian_suppressed import Suppression, mondrian_suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECORDS, SIZE, VALUES = 60, 3, 20
"""Records, least class size, and sensitive values of the table for which kernels are called."""

STARTS = ("k_alone", "blocks", "mdav", "mdav1", "tcloseness_first", "univariate", "forest", "anatomy")
"""All first partitions of recipes."""

MERGED_CLASSES = 2100
"""So many violating classes are merged in another way than few, see `duckanon.kernels.merging.merge`."""

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


def more() -> None:
    """Call what some releases need: of many records, with p % or suppression, generalized, and streams."""
    points = _points(2)
    bounds_of([points[:, 0]], [points[:, 1]], [SIZE])
    dominated = np.tile([100.0, 3, 2, 0, 0, 0], (RECORDS, 1, 1))
    merge_dominated(points, np.full(RECORDS, SIZE), dominated, 10.0)
    _merge(_points(2, MERGED_CLASSES * SIZE))
    mondrian_suppressed(points, SIZE, Suppression(SIZE))
    _generalize()
    _stream(points)


PARTS: dict[str, Callable[..., None]] = {"exchange": exchange, "rest": rest, "more": more}
"""What one process compiles, by name."""


def _start(start: str, points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Make a first partition, and the other one that `k_alone` is combined with."""
    if start == "k_alone":
        forest(points, SIZE, largest=EXACT)
    if start == "univariate":
        points = points[:, :1]
    codes = np.arange(RECORDS)[None, :] % VALUES
    share = Threshold(
        reference(np.bincount(codes[0]), "ordered"), l=Decimal(1), l_kind="recursive", c=Decimal("0.9")
    )
    first_partition(points, codes, Recipe(start, SIZE), [share])


def _merge(points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Merge classes, of which each has one value only."""
    labels = np.arange(len(points)) // SIZE
    codes = labels[None, :] % VALUES
    thresholds = [Threshold(reference(np.bincount(codes[0]), "ordered"), t=Decimal("0.1"))]
    merged(points, codes, thresholds, labels, "efficient")


def _generalize() -> None:
    """Ask of a table in which two rows become one whether it keeps a threshold, and what can be kept."""
    numbers = np.arange(RECORDS)
    codes, tree = (numbers % 2).astype(np.int32)[:, None], np.array([[0, 1], [0, 0]])
    values = values_of(numbers, numbers % VALUES, RECORDS)
    rows = Rows(codes, np.ones(RECORDS, np.int64), (Generalized(tree, tree + 1, 2),), (values,))
    classes = rolled_up(rows, classes_at(rows, [1]))
    limit = Threshold(reference(np.bincount(numbers % VALUES), "ordered"), t=Decimal("0.3"))
    asked, gone = asked_of(limit, np.arange(VALUES)), np.zeros(1, np.bool_)
    violating_rows(classes, 0, asked, gone)
    kept_records(classes, 0, asked, gone)


def _stream(points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Read a stream by each method to its end."""
    buffer = stream.open_buffer(points.shape[1], SIZE, delay=VALUES)
    stream.push(buffer, points)
    stream.finish(buffer)
    castle = open_clusters(points.shape[1], SIZE, delay=VALUES, clusters=SIZE, recent=SIZE, reusable=SIZE)
    castle_stream.push(castle, points)
    castle_stream.finish(castle)


def _points(columns: int, records: int = RECORDS) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(1).normal(size=(records, columns))


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
