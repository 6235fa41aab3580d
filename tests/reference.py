"""Reference data that lies beside the repository, not in it; a test that misses a file skips and says so."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

REPOSITORY = Path(__file__).resolve().parent.parent

EIA_COLUMNS = (
    "UTILITYID",
    "RESREVENUE",
    "RESSALES",
    "COMREVENUE",
    "COMSALES",
    "INDREVENUE",
    "INDSALES",
    "OTHREVENUE",
    "OTHRSALES",
    "TOTREVENUE",
    "TOTSALES",
)
"""The eleven columns of EIA with which the published information losses of MDAV are reproduced."""


def reference_path(name: str) -> Path:
    """Return where a reference file is, if it is there.

    Parameters
    ----------
    name : str
        Path below the reference folder, for example ``"census.csv"`` or ``"adult/adult.csv"``.

    Returns
    -------
    Path
        In the folder that the environment variable DUCKANON_REFERENCE names, else in ``../shared/data``
        beside the repository.
    """
    return Path(os.environ.get("DUCKANON_REFERENCE") or REPOSITORY.parent / "shared" / "data") / name


def reference_file(name: str) -> Path:
    """Return the path of a reference file that is there, or skip the test that asks for it."""
    path = reference_path(name)
    if not path.is_file():
        # Benchmarks read the same files, and need no pytest.
        import pytest

        pytest.skip(
            f"reference file {name!r} is missing: {path} does not exist; "
            f"set DUCKANON_REFERENCE to the folder that holds {name!r}"
        )
    return path


def reference_points(
    name: str, columns: Sequence[str] | None = None
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return numeric columns of a reference CSV file.

    Parameters
    ----------
    name : str
        ``"census.csv"``, ``"tarragona.csv"`` or ``"eia.csv"``.
    columns : sequence of str, optional
        Columns in the order wanted; default: every column whose values are all numbers, in file order.

    Returns
    -------
    names : tuple of str
        The columns.
    points : ndarray of shape (n, len(names)), float64
        C-contiguous, rows in file order.
    """
    with reference_file(name).open(newline="", encoding="utf-8") as lines:
        header, *records = csv.reader(lines)
    table = dict(zip(header, zip(*records, strict=True), strict=True))
    names = tuple(columns) if columns is not None else tuple(c for c in header if _numeric(table[c]))
    points = np.array([[float(text) for text in table[column]] for column in names], dtype=np.float64)
    return names, np.ascontiguousarray(points.T)


def eia_points() -> NDArray[np.float64]:
    """Return EIA as the literature on microaggregation uses it.

    Returns
    -------
    ndarray of shape (4092, 11), float64
        `EIA_COLUMNS`.
    """
    return reference_points("eia.csv", EIA_COLUMNS)[1]


def _numeric(texts: Sequence[str]) -> bool:
    """Tell whether every text is a number."""
    for text in texts:
        try:
            float(text)
        except ValueError:
            return False
    return True
