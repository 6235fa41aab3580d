"""pyCANON (PyPI), the Python auditor most used, in a process of its own.

It pins versions of numpy, pandas and typer that differ from ours, so it is kept out of our environment. Its own
code is enough, beside our pandas; that is in ``<our environment>/pycanon``. ``DUCKANON_PYCANON`` may name
a Python instead that has pyCANON with all that it pins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

MISSING = (
    "pyCANON is missing: .venv/bin/python -m pip install --no-deps --target .venv/pycanon pycanon, "
    "or set DUCKANON_PYCANON to a Python that has it"
)


class Place(NamedTuple):
    """A Python, and a folder that it must look in, or None."""

    python: Path
    folder: Path | None


def find() -> Place | None:
    """Where pyCANON is, or None."""
    named = os.environ.get("DUCKANON_PYCANON")
    if named:
        return Place(Path(named), None) if Path(named).is_file() else None
    folder = Path(sys.prefix) / "pycanon"
    return Place(Path(sys.executable), folder) if (folder / "pycanon").is_dir() else None


class Peer:
    """A running pyCANON; a context manager.

    Parameters
    ----------
    place : Place
        As `find` gives it.
    """

    def __init__(self, place: Place) -> None:
        worker = Path(__file__).with_name("pycanon_worker.py")
        path = {} if place.folder is None else {"PYTHONPATH": str(place.folder)}
        self._process = subprocess.Popen(
            [place.python, worker],
            env={**os.environ, **path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Give ``results`` and ``seconds`` of a request, as ``pycanon_worker`` reads it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"pyCANON did not answer {str(request)[:200]}")
        reply: dict[str, Any] = json.loads(line)
        return reply
