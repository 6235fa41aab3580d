"""The reference data sets in the folder `DUCKANON_REFERENCE`; a MissingDataError if a file is missing."""

from __future__ import annotations

import csv
import os
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reproduce.rows import MissingDataError

ROOT = Path(__file__).resolve().parents[1]


@cache
def columns(name: str) -> dict[str, NDArray[np.str_]]:
    """Columns of 'census', 'tarragona' or 'eia' as text, by name in the order of the file."""
    folder = Path(os.environ.get("DUCKANON_REFERENCE") or ROOT.parent / "shared" / "data")
    file = folder / f"{name}.csv"
    if not file.exists():
        raise MissingDataError(f"{name}.csv is not in the folder that DUCKANON_REFERENCE names")
    with file.open(newline="", encoding="utf-8") as lines:
        head, *rows = list(csv.reader(lines))
    return {column: np.array(values) for column, values in zip(head, zip(*rows, strict=True), strict=True)}


def matrix(name: str, names: tuple[str, ...] = ()) -> NDArray[np.float64]:
    """Columns of a data set as numbers (n, d); by default all, of 'eia' UTILITYID and the ten numbers."""
    known = columns(name)
    if not names:
        skipped = {"UTILNAME", "STATE", "YEAR", "MONTH"} if name == "eia" else set()
        names = tuple(column for column in known if column not in skipped)
    return np.column_stack([known[column].astype(np.float64) for column in names])
