"""Make the machine code of the package: ``python -m duckanon.release.prepare``.

Each of `PARTS` calls kernels as a release does, for a few records, so that the types of arrays are the same.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.database import templates
from duckanon.kernels.assignment import assignment
from duckanon.kernels.castle import stream as castle_stream
from duckanon.kernels.castle.clusters import open_clusters
from duckanon.kernels.closeness.joint import joint_distance, transport
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold
from duckanon.kernels.compiled import Kernel
from duckanon.kernels.compose import first_partition, merged
from duckanon.kernels.dealing import bounds_of
from duckanon.kernels.dominance import merge_dominated
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.first.mdav import mdav
from duckanon.kernels.first.spanning_tree import forest
from duckanon.kernels.neighbours.boxtree import box_tree_of, nearest_in_order
from duckanon.kernels.neighbours.centroids import DIRECTIONS, principal
from duckanon.kernels.prepared import (
    FILES,
    FOLDER,
    MADE_FILE,
    ROOMS,
    VARIABLE,
    digests,
    here,
    processor_of,
    settings,
    system,
)
from duckanon.kernels.recipes import MDAV_MAX_RECORDS, Recipe
from duckanon.kernels.rollup import (
    DistinctRows,
    Generalized,
    asked_of,
    classes_at,
    kept_records,
    rolled_up,
    values_of,
    violating_rows,
)
from duckanon.kernels.steered import stream
from duckanon.literature.kanonymity_first import kanonymity_first
from duckanon.literature.mondrian_suppressed import Suppression, mondrian_suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


RECORDS, SIZE, VALUES = 60, 3, 20
"""Records, least class size, and sensitive values of the table of the calls."""

STARTS = ("k_alone", "blocks", "mdav", "mdav1", "tcloseness_first", "univariate", "forest", "anatomy")
"""All first partitions of recipes."""

MANY_CLASSES = 2100
"""Violating classes above which merging takes another path, see `duckanon.kernels.merge`."""

REBUILT_SHARE = 0.001
"""Share of a refinement's work with which a few neighbourhoods are rebuilt."""


def prepare(folder: Path) -> int:
    """Compile kernels for the processors of `prepared` into a folder; return the number of signatures.

    Takes one to two minutes of CPU. An existing folder is replaced on success only. From then on this process
    uses the folder's cache of numba.
    """
    if others := settings():
        raise SystemExit(
            f"{others[0]} tells numba how to compile: unset it, machine code is made for others, too"
        )
    if folder.exists() and not (folder / MADE_FILE).is_file():
        raise SystemExit(
            f"{folder} is no folder of machine code, and would be replaced: name a new one in {VARIABLE}"
        )
    # Noted before compiling, because the sources may change meanwhile.
    made_for = here(processor := processor_of(system()))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        cache, made = Path(place) / "cache", Path(place) / "made"
        made.mkdir()
        _compile(cache, processor)
        count = _gather(cache, made)
        templates.write_compiled(made)
        told = {**made_for, FILES: digests(made)}
        (made / MADE_FILE).write_text(json.dumps(told, indent=1) + "\n")
        if folder.exists():
            folder.rename(Path(place) / "before")
        made.rename(folder)
    return count


def _compile(cache: Path, processor: str) -> None:
    """Compile all parts at the same time into a cache of numba."""
    told = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}
    # Subprocesses get our module path without the current folder.
    path = os.pathsep.join(filter(None, sys.path))
    own = {**os.environ, **told, "NUMBA_CACHE_DIR": str(cache), VARIABLE: "", "PYTHONPATH": path}
    command = [sys.executable, "-P", "-m", "duckanon.release.prepare"]
    processes = [subprocess.Popen([*command, part], env=own) for part in PARTS]
    try:
        if any(process.wait() for process in processes):
            raise SystemExit("the kernels were not compiled: see above")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _gather(cache: Path, made: Path) -> int:
    """Keep functions called from Python, which contain functions called by compiled code only."""
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    keep = importlib.import_module("duckanon.kernels.machine_code").keep
    return sum(keep(kernel.py_func, made) for kernel in _called_from_python())


def _called_from_python() -> Iterator[Kernel]:
    for room in ROOMS:
        package = importlib.import_module(f"duckanon.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(found.name)).values():
                if isinstance(value, Kernel) and value.py_func.__module__ == found.name and value.entry:
                    yield value


def main() -> int:
    """Make machine code in the package or in a given folder; with the name of a part, compile this part."""
    if sys.argv[1:]:
        PARTS[sys.argv[1]]()
        return 0
    folder = Path(os.environ.get(VARIABLE) or FOLDER)
    count = prepare(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    sys.stdout.write(f"{count} kernels compiled into {folder}, {size / 1e6:.1f} MB\n")
    return 0


def exchange() -> None:
    """Call the kernels of the exchange, and the kernels that rebuild neighbourhoods."""
    refine(_points(2), np.arange(RECORDS) // SIZE, SIZE, share=REBUILT_SHARE)


def rest() -> None:
    """Call the kernels of each first partition, and the next kernels of `duckanon.kernels.compose`."""
    # With this many columns a search uses only its widest directions.
    points = _points(2 * DIRECTIONS)
    for start in STARTS:
        _start(start, points)
    principal(points, np.arange(RECORDS))
    mdav(points, SIZE)
    _merge(points)


def more() -> None:
    """Call kernels of special releases: many records, p %, a slow method by name, generalization, streams."""
    points = _points(2)
    bounds_of([points[:, 0]], [points[:, 1]], [SIZE])
    dominated = np.tile([100.0, 3, 2, 0, 0, 0], (RECORDS, 1, 1))
    merge_dominated(points, np.full(RECORDS, SIZE), dominated, 10.0)
    _merge(_points(2, MANY_CLASSES * SIZE))
    mondrian_suppressed(points, SIZE, Suppression(SIZE))
    nearest_in_order(box_tree_of(points, RECORDS), points, SIZE)
    assignment(points)
    codes = np.arange(RECORDS) % VALUES
    kanonymity_first(
        points, codes, SIZE, Threshold(reference(np.bincount(codes), "ordered"), t=Decimal("0.1"))
    )
    transport(joint_distance([range(SIZE)], [True], largest=True), [1] * SIZE, [1] * (SIZE - 1) + [0])
    _generalize()
    _stream(points)


PARTS: dict[str, Callable[[], None]] = {"exchange": exchange, "rest": rest, "more": more}
"""Parts of about equal duration, by name."""


def _start(start: str, points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Make a first partition, and the partition that `k_alone` is combined with."""
    if start == "k_alone":
        forest(points, SIZE, largest=MDAV_MAX_RECORDS)
    if start == "univariate":
        points = points[:, :1]
    codes = np.arange(RECORDS)[None, :] % VALUES
    share = Threshold(
        reference(np.bincount(codes[0]), "ordered"), l=Decimal(1), l_kind="recursive", c=Decimal("0.9")
    )
    first_partition(points, codes, Recipe(start, SIZE), [share])


def _merge(points: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Merge classes with a single value each."""
    labels = np.arange(len(points)) // SIZE
    codes = labels[None, :] % VALUES
    thresholds = [Threshold(reference(np.bincount(codes[0]), "ordered"), t=Decimal("0.1"))]
    merged(points, codes, thresholds, labels, "efficient")


def _generalize() -> None:
    """Check a table of two generalizable rows against a threshold, and find what can be kept."""
    numbers = np.arange(RECORDS)
    codes, tree = (numbers % 2).astype(np.int32)[:, None], np.array([[0, 1], [0, 0]])
    values = values_of(numbers, numbers % VALUES, RECORDS)
    rows = DistinctRows(codes, np.ones(RECORDS, np.int64), (Generalized(tree, tree + 1, 2),), (values,))
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


if __name__ == "__main__":
    sys.exit(main())
