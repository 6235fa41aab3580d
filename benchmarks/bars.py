"""Results of a benchmark: printed at once, compared with bars, and kept as JSON lines for the docs.

A run with ``DUCKANON_BENCH_SHRINK=100`` takes a hundredth of the records, to test that a benchmark runs. It
judges no bar and writes into another folder.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from tests.reference import reference_path, reference_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Cell = str | float | None

ROOT = Path(__file__).resolve().parents[1]
MISSING = "not run: reference data missing (DUCKANON_REFERENCE)"
SHRINK = int(os.environ.get("DUCKANON_BENCH_SHRINK") or 1)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Environment of an installed package, whose modules are compiled once and not by each process."""


class Results:
    """Figures and bars of the benchmark `name`, written line by line to ``build/bench/<name>.json``."""

    def __init__(self, name: str) -> None:
        folder = ROOT / "build" / ("bench" if SHRINK == 1 else "bench-small")
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.json"
        self._path.write_text("", encoding="utf-8")
        self._missed = 0
        self._write(kind="run", name=name, date=date.today().isoformat(), shrink=SHRINK, **machine())

    def row(self, table: str, **cells: Cell) -> None:
        """Print and keep one line of a table; the names of the cells are the headings."""
        print("  ".join(f"{name} {shown(cell)}" for name, cell in cells.items()), flush=True)
        self._write(kind="row", table=table, cells=cells)

    def bar(self, text: str, value: float | None, limit: float) -> None:
        """Print and keep whether a value is at most the limit; None stands for a run without result."""
        kept = value is not None and value <= limit
        self._missed += not kept and SHRINK == 1
        verdict = "not judged" if SHRINK > 1 else "kept" if kept else "MISSED"
        print(f"bar: {text}: {shown(value)} (at most {limit:g}) {verdict}", flush=True)
        self._write(kind="bar", text=text, value=value, limit=limit, verdict=verdict)

    def not_run(self, text: str) -> None:
        """Print and keep that bars cannot be judged, since reference data are missing."""
        print(f"{text}: {MISSING}", flush=True)
        self._write(kind="note", text=f"{text}: {MISSING}")

    def exit_code(self) -> int:
        """Return 1 if a bar is missed, else 0."""
        return int(self._missed > 0)

    def _write(self, **entry: object) -> None:
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry, allow_nan=False) + "\n")


def shown(cell: Cell) -> str:
    """Return a cell as text: a number has six significant digits, or all digits before the point."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if float(cell).is_integer() and abs(cell) < 1e15:
        return f"{int(cell):,}"
    return f"{cell:.6g}" if abs(cell) < 1e5 else f"{cell:,.0f}"


def machine() -> dict[str, Cell]:
    """Return the system, cores and versions, on which figures depend."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "duckdb": duckdb.__version__,
    }


def shrunk(n: int, least: int = 1) -> int:
    """Return a number of records, divided in a shrunk run."""
    return max(n // SHRINK, least) if SHRINK > 1 else n


def reference_table(name: str, columns: Sequence[str] | None = None) -> NDArray[np.float64] | None:
    """Return the columns of a reference file as (n, d), or None if it is missing."""
    if not reference_path(name).is_file():
        return None
    points = reference_points(name, columns)[1]
    return points[: shrunk(len(points), 100)]
