"""Make the machine code of the package: ``python -m duckanon.release.prepare``."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.database import templates
from duckanon.kernels.compiled import Kernel
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
from duckanon.release.needed import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    command = [sys.executable, "-P", "-m", "duckanon.release.needed"]
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
    """Make machine code in the package, or in the folder given by the environment."""
    folder = Path(os.environ.get(VARIABLE) or FOLDER)
    count = prepare(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    sys.stdout.write(f"{count} kernels compiled into {folder}, {size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
