"""Which machine code of kernels came with the package, so that nobody waits for a compiler.

`duckanon.release.prepare` makes machine code when a checkout is installed or before a wheel is built. It fits
one version of Python and of numba, one system, processors with the features named here, and these very
sources. If one of them differs, and for functions that are missing, kernels are compiled at their first call.
Results are the same, digit for digit: arithmetic keeps the written order on every processor.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER = Path(__file__).parents[1] / "machine_code"
"""Folder of machine code in the package."""

VARIABLE = "DUCKANON_MACHINE_CODE"
"""Environment variable that names another folder of machine code; if empty, everything is compiled."""

ROOMS = ("kernels", "literature")
"""Packages whose functions have machine code, and whose source files are part of the key."""

MADE_FILE = "made.json"
"""File that says what the machine code fits and, under `FILES`, which files were made; written last."""

FILES = "files"
"""SHA-256 of each file: numba reads files unchecked, and a broken file would end a release."""

PROCESSORS = {"x86_64": "x86-64-v3"}
"""Processors that machine code fits, as LLVM names them, by the first word of a system; else any model."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "generic": (),
    "x86-64-v3": (
        *("cmov", "cx8", "fxsr", "mmx", "sse", "sse2"),
        *("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
        *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    ),
}
"""Features of such a processor, as LLVM names them: the levels of the x86-64 psABI, section 3.1.1."""

HARMLESS_SETTINGS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
"""Settings of numba that do not change compiled code; with any other, kernels are compiled anew."""


def place() -> Path | None:
    """Return the folder of the package or of the environment, whatever is in it; None for no folder."""
    told = os.environ.get(VARIABLE)
    return FOLDER if told is None else Path(told) if told else None


def folder() -> Path | None:
    """Return the folder of machine code that this process may run, or None."""
    # The answer is kept for each folder; the first takes a tenth of a second. None if no folder fits this
    # Python, numba, system, processor and these sources, or if the environment tells numba how to compile.
    named = place()
    return named if named is not None and _fits(named) else None


def has(function: Callable[..., object]) -> bool:
    """Tell whether the machine code of a kernel is there, complete and unchanged."""
    fitting = folder()
    return fitting is not None and _whole(fitting, name_of(function))


def name_of(function: Callable[..., object]) -> str:
    """Return the prefix of the files of a kernel."""
    return f"{function.__module__}.{function.__qualname__}"


def here(processor: str) -> dict[str, Any]:
    """Return what machine code made by this process fits: the content of `MADE_FILE` without `FILES`."""
    # `processor` is one of `PROCESSORS`, or 'generic'.
    return {
        "python": _python(),
        "sources": _sources(),
        "numba": numba_version(),
        "system": system(),
        "processor": processor,
    }


def is_current(place: Path) -> bool:
    """Tell whether a folder has machine code of these sources and this Python, for any system."""
    made = _made(place)
    return made.get("sources") == _sources() and made.get("python") == _python()


def digests(place: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its name."""
    return {file.name: _digest(file) for file in sorted(place.iterdir())}


def numba_version() -> str:
    """Return the version of numba without its last number, which does not change machine code."""
    return ".".join(metadata.version("numba").split(".")[:2])


def system() -> str:
    """Return LLVM's name of this kind of machine and its operating system."""
    return str(importlib.import_module("llvmlite.binding").get_process_triple())


def processor_of(system: str) -> str:
    """Return the kind of processor for which machine code of a system is made."""
    return PROCESSORS.get(system.partition("-")[0], "generic")


def settings() -> list[str]:
    """Return the variables of the environment that tell numba how to compile."""
    return sorted(name for name in os.environ if name.startswith("NUMBA_") and name not in HARMLESS_SETTINGS)


@functools.cache
def _fits(place: Path) -> bool:
    """Tell whether this process may run the machine code of a folder."""
    # The most expensive test comes last: it loads LLVM, 150 MB.
    if settings() or not is_current(place):
        return False
    made = {name: value for name, value in _made(place).items() if name != FILES}
    try:
        return made == here(str(made.get("processor"))) and _able(str(made["processor"]))
    except (ImportError, metadata.PackageNotFoundError):
        return False


@functools.cache
def _whole(place: Path, name: str) -> bool:
    """Tell whether all files of a kernel, known by their prefix, are as they were made."""
    files = _made(place).get(FILES)
    if not isinstance(files, dict):
        return False
    own = [(file, digest) for file, digest in files.items() if file.startswith(f"{name}.")]
    try:
        return bool(own) and all(_digest(place / file) == digest for file, digest in own)
    except OSError:
        return False


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _made(place: Path) -> dict[str, Any]:
    """Return the content of `MADE_FILE` in a folder; empty if there is none."""
    try:
        made = json.loads((place / MADE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def _python() -> str:
    """Return the version of Python, as in the names of its compiled files."""
    return f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"


def _able(processor: str) -> bool:
    """Tell whether the processor of this machine is of the given kind."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return processor in FEATURES and all(features.get(name) for name in FEATURES[processor])


@functools.cache
def _sources() -> str:
    """Return the SHA-256 of the names and texts of all source files of `ROOMS`."""
    package = Path(__file__).parents[1]
    told = hashlib.sha256()
    for file in sorted(file for room in ROOMS for file in (package / room).rglob("*.py")):
        text = file.read_bytes()
        told.update(f"{file.relative_to(package).as_posix()} {len(text)}\n".encode())
        told.update(text)
    return told.hexdigest()
