"""The methods of Tables VI to VIII, with the scale and the columns that give the printed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.points import Scale
from duckanon.literature.partitions import information_loss, partition
from reproduce.data import matrix

TEN = (
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
"""The revenues and sales of EIA."""
WITH_ID = ("UTILITYID", *TEN)
WITH_MONTH = ("MONTH", *TEN)


@dataclass(frozen=True)
class Run:
    """Method, scale, columns and options that compute a row."""

    method: str  # a name of `duckanon.methods`, or M-d
    scale: Scale = "zscore"  # of distances and of the loss
    eia: tuple[str, ...] = WITH_ID  # columns of EIA; the other data sets use all 13
    options: Mapping[str, Any] = field(default_factory=dict)


RUNS: Mapping[str, Run] = {
    "MDAV-MHM": Run("mhm", options={"order": "mdav"}),
    "MD-MHM": Run("mhm", options={"order": "md"}),
    "CBFS-MHM": Run("mhm", options={"order": "cbfs"}),
    "NPN-MHM": Run("mhm", options={"order": "npn"}),
    "M-d": Run("m_d"),
    "mu-Approx": Run("mu_approx"),
    "TFRP-1": Run("tfrp1", eia=TEN),
    "TFRP-2": Run("tfrp2", eia=TEN),
    "MDAV-1": Run("mdav1"),
    "MDAV-2": Run("mdav2"),
    "DBA-1": Run("dba1"),
    "DBA-2": Run("dba2"),
    "MultiDSort": Run("multidsort_ps", "none", WITH_MONTH),
    "MultiDSort, sorted anew": Run("multidsort_ps", "none", WITH_MONTH, {"resort": True}),
    "Meansort": Run("meansort_ps", "none", WITH_MONTH),
}
"""By the name of the row; one has none."""


@cache
def points(name: str, eia: tuple[str, ...]) -> NDArray[np.float64]:
    """Return a data set (n, d), of 'eia' these columns; the array is shared and must not be changed."""
    return matrix(name, eia if name == "eia" else ())


def loss(name: str, row: str, k: int) -> float:
    """Return the information loss, in per cent, of a row of `RUNS` on a data set."""
    run = RUNS[row]
    return loss_on(name, row, k, run.scale, run.eia)


@cache
def loss_on(name: str, row: str, k: int, scale: Scale, eia: tuple[str, ...] = WITH_ID) -> float:
    """Return the information loss, in per cent, of a row on another scale and with other columns of EIA."""
    table, run = points(name, eia), RUNS[row]
    labels = partition(table, k, run.method, scale=scale, **run.options)
    return information_loss(table, labels, scale)
