"""Which machine code of kernels came with the package, so that nobody waits for a compiler.

`duckanon.release.prepare` makes it, when a checkout is installed or before a wheel is built. It is for one
version of Python and of numba, one system, and processors with the features named here, and of these very
sources. Where one of them differs, and for what is missing, kernels are compiled at their first call.
Results are the same, digit for digit: arithmetic keeps the order that is written on every processor.
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
"""Where machine code lies in the package."""

VARIABLE = "DUCKANON_MACHINE_CODE"
"""Names another folder for it; empty, there is none and all is compiled."""

ROOMS = ("kernels", "literature")
"""The packages whose functions it is of, and every source of which counts."""

MADE_FILE = "made.json"
"""The file that tells what the machine code is for, and under `FILES` what was made; written last."""

FILES = "files"
"""The SHA-256 of each file: numba reads them as they are, and a broken one would end a release."""

PROCESSORS = {"x86_64": "x86-64-v3"}
"""What LLVM calls the processors that it is for, by the first word of a system; else those of all models."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "generic": (),
    "x86-64-v3": (
        *("cmov", "cx8", "fxsr", "mmx", "sse", "sse2"),
        *("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
        *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    ),
}
"""What such a processor has, as LLVM calls it: the levels of the x86-64 psABI, section 3.1.1."""

HARMLESS_SETTINGS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
"""Settings of numba that say nothing of how code is compiled; with any other, code is compiled so."""


def folder() -> Path | None:
    """Return where machine code is that this process may run.

    Returns
    -------
    Path or None
        None where there is none that fits this Python, numba, system, processor and these sources, or where
        the environment tells numba how to compile. Asked once for each folder; where there is one, a tenth
        of a second.
    """
    told = os.environ.get(VARIABLE)
    place = FOLDER if told is None else Path(told) if told else None
    return place if place is not None and _fits(place) else None


def has(function: Callable[..., object]) -> bool:
    """Tell whether there is machine code of a kernel, all of it as it was made."""
    place = folder()
    return place is not None and _whole(place, name_of(function))


def name_of(function: Callable[..., object]) -> str:
    """Return how the files of a kernel begin."""
    return f"{function.__module__}.{function.__qualname__}"


def here(processor: str) -> dict[str, Any]:
    """Return what machine code for a kind of processor is for if it is made by this process.

    Parameters
    ----------
    processor : str
        One of `PROCESSORS`, or ``'generic'``.

    Returns
    -------
    dict
        What `MADE_FILE` has but for `FILES`.
    """
    return {
        "python": _python(),
        "sources": _sources(),
        "numba": numba_version(),
        "system": system(),
        "processor": processor,
    }


def is_current(place: Path) -> bool:
    """Tell whether a folder has machine code of these sources and for this Python; on any system."""
    made = _made(place)
    return made.get("sources") == _sources() and made.get("python") == _python()


def digests(place: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its name."""
    return {file.name: _digest(file) for file in sorted(place.iterdir())}


def numba_version() -> str:
    """Return the version of numba but for its last number, which does not change machine code."""
    return ".".join(metadata.version("numba").split(".")[:2])


def system() -> str:
    """Return what LLVM calls this kind of machine and its operating system."""
    return str(importlib.import_module("llvmlite.binding").get_process_triple())


def processor_of(system: str) -> str:
    """Return the kind of processor that machine code of a system is made for."""
    return PROCESSORS.get(system.partition("-")[0], "generic")


def settings() -> list[str]:
    """Return the variables of the environment that tell numba how to compile."""
    return sorted(name for name in os.environ if name.startswith("NUMBA_") and name not in HARMLESS_SETTINGS)


@functools.cache
def _fits(place: Path) -> bool:
    """Tell whether this process may run the machine code of a folder."""
    # What costs most is asked last: LLVM is 150 MB.
    if settings() or not is_current(place):
        return False
    made = {name: value for name, value in _made(place).items() if name != FILES}
    try:
        return made == here(str(made.get("processor"))) and _able(str(made["processor"]))
    except (ImportError, metadata.PackageNotFoundError):
        return False


@functools.cache
def _whole(place: Path, name: str) -> bool:
    """Tell whether all files whose names begin with that of a kernel are as they were made."""
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
    """Return what is told of the machine code in a folder; nothing where there is none."""
    try:
        made = json.loads((place / MADE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def _python() -> str:
    """Return the version of Python, as its compiled files are named."""
    return f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"


def _able(processor: str) -> bool:
    """Tell whether the processor of this machine is of a kind."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return processor in FEATURES and all(features.get(name) for name in FEATURES[processor])


@functools.cache
def _sources() -> str:
    """Return the SHA-256 of all that is compiled, and of what is around it: names and texts of `ROOMS`."""
    package = Path(__file__).parents[1]
    told = hashlib.sha256()
    for file in sorted(file for room in ROOMS for file in (package / room).rglob("*.py")):
        text = file.read_bytes()
        told.update(f"{file.relative_to(package).as_posix()} {len(text)}\n".encode())
        told.update(text)
    return told.hexdigest()
